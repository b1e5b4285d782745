//! The memory of a store: the orders since the older of its two snapshots.

use ledger::OrderRecord;

use crate::{BatchStore, Replica, StoreFault};

/// The orders that a store remembers, one after another.
#[derive(Debug)]
pub struct StoredHistory {
    /// The market before them.
    pub base: Replica,
    /// The orders that were executed since.
    pub orders: Vec<OrderRecord>,
    /// The market after them.
    pub end: Replica,
}

/// Reads the history in `store`; `None` if there is no market.
///
/// # Errors
/// The store's, and damage.
pub fn stored_history(store: &mut dyn BatchStore) -> Result<Option<StoredHistory>, StoreFault> {
    let Some((number, bytes)) = store.snapshot(false)? else { return Ok(None) };
    let damaged = || StoreFault::Damaged(format!("expected a whole snapshot {number}"));
    let base = Replica::decode(&bytes).ok_or_else(damaged)?;
    let (mut end, mut orders) = (base.clone(), Vec::new());
    loop {
        let (head, batches) = store.read(end.batch)?;
        for (number, bytes) in batches {
            orders.append(&mut end.apply(number, &bytes).map_err(StoreFault::Damaged)?.records);
        }
        if end.batch >= head {
            return Ok(Some(StoredHistory { base, orders, end }));
        }
    }
}
