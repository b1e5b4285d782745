//! The other store: the state after the last order, in the tables of redb, a library.
//!
//! Every batch is one transaction, synced before [`OrderSink::commit`] returns. Beside the log it
//! shows what a ready-made store costs: it keeps amounts and requests, but no history.

use std::path::Path;

use redb::{Database, Durability, Error, ReadableDatabase, ReadableTable, TableDefinition};

use crate::{LedgerFault, LedgerState, OrderRecord, OrderSink, REQUESTS_KEPT};

/// The file in the store's folder.
const FILE: &str = "orders.redb";
/// Shares left, by stock.
const LEFTS: TableDefinition<'_, u32, u64> = TableDefinition::new("lefts");
/// Orders with a number of their client: request, stock, change and amount left, by number.
const RECENT: TableDefinition<'_, u64, (u64, u32, i32, u64)> = TableDefinition::new("recent");
/// The last order, under the key 0.
const LAST: TableDefinition<'_, u32, u64> = TableDefinition::new("last");

/// A store that this process alone has open.
pub struct TableStore {
    tables: Database,
    last: u64,
    /// Orders that are remembered for their numbers.
    kept: u64,
    stopped: Option<String>,
}

fn on<T>(act: &'static str, done: Result<T, impl Into<Error>>) -> Result<T, LedgerFault> {
    let fault = |error: Error| LedgerFault::Disk {
        act,
        name: FILE.to_owned(),
        error: std::io::Error::other(error),
    };
    done.map_err(|error| fault(error.into()))
}

impl TableStore {
    /// Opens the store in `folder`, which is made empty if it is not there.
    ///
    /// # Errors
    /// The disk's, damage, or another process that has it open.
    pub fn open(folder: &Path) -> Result<TableStore, LedgerFault> {
        let tables = on("open", Database::create(folder.join(FILE)))?;
        let mut store = TableStore { tables, last: 0, kept: 0, stopped: None };
        if let Some(state) = store.state()? {
            (store.last, store.kept) = (state.last, state.recent.len() as u64);
        }
        Ok(store)
    }

    /// The state after the last order; `None` before [`TableStore::found`].
    ///
    /// # Errors
    /// The disk's, and damage.
    pub fn state(&self) -> Result<Option<LedgerState>, LedgerFault> {
        let mut state = LedgerState::default();
        let found = self.read(&mut state);
        match on("read", found.map(|last| state.last = last)) {
            Ok(()) => Ok(Some(state)),
            Err(_) if self.is_empty() => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    fn is_empty(&self) -> bool {
        let tables = self.tables.begin_read().map_err(Error::from);
        let last = tables.and_then(|tables| Ok(tables.open_table(LAST)?));
        matches!(last, Err(Error::TableDoesNotExist(_)))
    }

    fn read(&self, state: &mut LedgerState) -> Result<u64, Error> {
        let tables = self.tables.begin_read()?;
        let last = tables.open_table(LAST)?.get(0)?.map_or(0, |last| last.value());
        for row in tables.open_table(LEFTS)?.iter()? {
            let (stock, left) = row?;
            state.lefts.insert(stock.value(), left.value());
        }
        for row in tables.open_table(RECENT)?.iter()? {
            let (seq, order) = row?;
            let (request, stock, change, left) = order.value();
            state.remember(OrderRecord { seq: seq.value(), request, stock, change, left });
        }
        Ok(last)
    }

    /// Puts a state in place of what is there.
    ///
    /// # Errors
    /// The disk's; then nothing has changed.
    pub fn found(&mut self, state: &LedgerState) -> Result<(), LedgerFault> {
        on("write", self.replace(state))?;
        (self.last, self.kept) = (state.last, state.recent.len() as u64);
        Ok(())
    }

    fn replace(&self, state: &LedgerState) -> Result<(), Error> {
        let tables = self.tables.begin_write()?;
        tables.delete_table(LEFTS)?;
        tables.delete_table(RECENT)?;
        {
            let (mut lefts, mut recent) = (tables.open_table(LEFTS)?, tables.open_table(RECENT)?);
            for (stock, left) in &state.lefts {
                lefts.insert(stock, left)?;
            }
            for order in &state.recent {
                recent.insert(order.seq, words(order))?;
            }
            tables.open_table(LAST)?.insert(0, state.last)?;
        }
        Ok(tables.commit()?)
    }

    fn write(&mut self, orders: &[OrderRecord]) -> Result<(), Error> {
        let mut tables = self.tables.begin_write()?;
        tables.set_durability(Durability::Immediate)?;
        {
            let (mut lefts, mut recent) = (tables.open_table(LEFTS)?, tables.open_table(RECENT)?);
            for order in orders {
                assert_eq!(order.seq, self.last + 1, "orders are numbered without gaps");
                lefts.insert(order.stock, order.left)?;
                if order.request != 0 {
                    recent.insert(order.seq, words(order))?;
                    self.kept += 1;
                }
                self.last = order.seq;
            }
            while self.kept > REQUESTS_KEPT as u64 && recent.pop_first()?.is_some() {
                self.kept -= 1;
            }
            tables.open_table(LAST)?.insert(0, self.last)?;
        }
        Ok(tables.commit()?)
    }
}

fn words(order: &OrderRecord) -> (u64, u32, i32, u64) {
    (order.request, order.stock, order.change, order.left)
}

impl OrderSink for TableStore {
    fn last(&self) -> u64 {
        self.last
    }

    fn commit(&mut self, orders: &[OrderRecord]) -> Result<(), LedgerFault> {
        if let Some(why) = &self.stopped {
            return Err(LedgerFault::Stopped(why.clone()));
        }
        let written = self.write(orders);
        on("write", written).inspect_err(|fault| self.stopped = Some(fault.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_every_committed_order_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = TableStore::open(folder.path()).expect("a new store");
        assert_eq!(store.state().expect("readable"), None);
        let mut state = LedgerState::new([(1, 100), (2, 7)].into());
        store.found(&state).expect("founded");
        assert_eq!(store.state().expect("readable"), Some(state.clone()));
        let order =
            |seq, request, stock, change, left| OrderRecord { seq, request, stock, change, left };
        let orders = [order(1, 0, 1, -40, 60), order(2, 9, 2, 3, 10), order(3, 8, 1, 1, 61)];
        store.commit(&orders[..2]).expect("committed");
        store.commit(&orders[2..]).expect("committed");
        orders.iter().for_each(|order| state.apply(order).expect("possible"));
        drop(store);
        let store = TableStore::open(folder.path()).expect("the same store");
        assert_eq!((store.last(), store.state().expect("readable")), (3, Some(state)));
        let second = TableStore::open(folder.path()).err().expect("it is open already");
        assert!(second.to_string().contains("orders.redb"), "{second}");
    }

    #[test]
    #[should_panic(expected = "without gaps")]
    fn a_gap_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = TableStore::open(folder.path()).expect("a new store");
        let order = OrderRecord { seq: 5, request: 0, stock: 1, change: 1, left: 1 };
        _ = store.commit(&[order]);
    }
}
