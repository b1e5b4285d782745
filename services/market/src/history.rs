//! The orders of a market from its log, which may be in use: a folder next to the book, or the
//! store of several nodes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use cluster::{Etcd, StoreAccess, StoreAddress, StoredHistory};
use ledger::{Folder, OrderRecord};

/// The market after what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryEnd {
    /// The number of the last order.
    pub last: u64,
    /// The amount left of each stock.
    pub lefts: BTreeMap<u32, u64>,
    /// Whether parts of later orders, never acknowledged, follow.
    pub is_torn: bool,
}

/// Visits the orders up to number `to` of the log at `source`, a folder or an address of a store,
/// from the first one that it still has.
///
/// # Errors
/// The disk's or the store's, damage, or no log.
pub fn read(source: &Path, to: u64, mut visit: impl FnMut(&OrderRecord)) -> Result<HistoryEnd> {
    language::debug!("reading {}", source.display());
    let Some(history) = stored(source)? else {
        let read = ledger::replay(&Folder::at(source), to, |_, order| visit(order));
        let read = read.with_context(|| format!("cannot read {}", source.display()));
        let (state, tail) = read?;
        return Ok(HistoryEnd { last: state.last, lefts: state.lefts, is_torn: tail.is_torn });
    };
    let (last, lefts) = (history.base.last, history.base.lefts);
    let mut end = HistoryEnd { last, lefts, is_torn: false };
    for order in history.orders.iter().filter(|order| order.seq <= to) {
        visit(order);
        end.last = order.seq;
        end.lefts.insert(order.stock, order.left);
    }
    Ok(end)
}

/// All orders of a log, and the number of the one before them.
///
/// # Errors
/// Those of [`read`].
pub fn orders(source: &Path) -> Result<(u64, Vec<OrderRecord>)> {
    let mut orders = Vec::new();
    let end = read(source, u64::MAX, |order| orders.push(*order))?;
    Ok((end.last - orders.len() as u64, orders))
}

/// The orders that a store of several nodes remembers, if `path` is its address.
fn stored(path: &Path) -> Result<Option<StoredHistory>> {
    let Some(text) = path.to_str().filter(|text| StoreAddress::looks_like(text)) else {
        return Ok(None);
    };
    let address: StoreAddress = text.parse().map_err(|why: String| anyhow!(why))?;
    let access = StoreAccess::of(&address).map_err(|why| anyhow!(why))?;
    let found = cluster::stored_history(&mut Etcd::new(address.clone(), access));
    let found = found.with_context(|| format!("cannot read {address}"))?;
    found.map(Some).ok_or_else(|| anyhow!("expected a market at {address}, found none"))
}
