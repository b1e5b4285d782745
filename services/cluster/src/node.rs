//! One node: appends its orders, applies the batches of all, and reports what became of its own.
//!
//! The committer of a market calls `turn` with the orders that wait. With orders to append, a turn
//! tries one append after the last batch that the node knows. The store accepts it only if no other
//! node was first; otherwise it returns the missing batches, the node applies them, and the orders
//! stay for the next turn. An answer of the store may be lost although the append took effect; the
//! next turn then finds the batch in the log and recognises its orders by the node's id and their
//! tickets. A node that was away for too long reloads the snapshot, and reports its orders of the
//! gap as lost.

use std::collections::BTreeMap;

use ledger::OrderRecord;

use crate::batch;
use crate::{Appended, BatchStore, Batches, OrderOutcome, PlacedOrder, Replica, StoreFault};

/// Orders in one batch at most, so that its bytes stay below the 1.5 MiB that etcd takes.
const ORDERS: usize = 1 << 14;

/// Faults without a batch between them after which a node that joins gives up.
const FAULTS: u32 = 3;

/// A node and the market as it knows it.
#[derive(Debug)]
pub struct ClusterNode {
    id: u64,
    replica: Replica,
    settled: u64,
    #[cfg(test)]
    pub(crate) mutant: Option<tests::Mutant>,
}

/// News of one turn.
#[derive(Debug, Default)]
pub struct Settlement {
    /// The outcomes of own orders, with their tickets, ascending.
    pub outcomes: Vec<(u64, OrderOutcome)>,
    /// The orders of all nodes that were executed.
    pub records: Vec<OrderRecord>,
    /// The market was read from a snapshot: all amounts may differ.
    pub is_reloaded: bool,
    /// Nothing in the log was missing when the turn began.
    pub is_current: bool,
    /// Whether an own batch is in it, for which this node may write the snapshot.
    pub is_writer: bool,
}

impl ClusterNode {
    /// Joins the market in `store` as node `id`, whose orders up to ticket `settled` have been
    /// answered. If there is no market, founds one with `lefts`.
    ///
    /// # Errors
    /// The store's.
    pub fn join(
        store: &mut dyn BatchStore,
        id: u64,
        settled: u64,
        lefts: &BTreeMap<u32, u64>,
    ) -> Result<(ClusterNode, Settlement), StoreFault> {
        if store.snapshot(true)?.is_none() {
            store.save(0, &Replica::new(lefts.clone()).encode())?;
        }
        let mut news = Settlement { is_reloaded: true, ..Settlement::default() };
        let mut node = ClusterNode {
            id,
            replica: Replica::default(),
            settled,
            #[cfg(test)]
            mutant: None,
        };
        node.reload(store, &mut news)?;
        // A long log takes many reads: a fault of one loses none of those before it.
        let mut faults = 0;
        loop {
            let before = node.replica.batch;
            let caught_up = node.catch_up(store, &mut news);
            news.records.clear();
            faults = if node.replica.batch > before { 0 } else { faults + 1 };
            match caught_up {
                Ok(()) => return Ok((node, news)),
                Err(StoreFault::Silent { .. }) if faults < FAULTS => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    /// The market after the last batch that this node has applied.
    pub fn market(&self) -> &Replica {
        &self.replica
    }

    /// The last own ticket whose outcome was reported.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Brings `orders`, those after ticket [`ClusterNode::settled`], into the log, and applies what
    /// is new there. If other nodes came first, the orders stay for the next turn. Without orders,
    /// or with reads alone, it reads all that was in the log when the turn began.
    ///
    /// # Errors
    /// The store's. After [`StoreFault::Silent`] the next turn tells what became of the orders, and
    /// news so far are in `news`.
    pub fn turn(
        &mut self,
        store: &mut dyn BatchStore,
        orders: &[PlacedOrder],
        news: &mut Settlement,
    ) -> Result<(), StoreFault> {
        let orders = &orders[..orders.len().min(ORDERS)];
        if orders.iter().all(|order| order.stock == 0) {
            let before = self.settled;
            self.catch_up(store, news)?;
            // These batches may hold earlier tickets of this node, if it was started again.
            if self.settled == before {
                self.settled += orders.len() as u64;
                let reads = before + 1..=self.settled;
                news.outcomes.extend(reads.map(|ticket| (ticket, OrderOutcome::Read)));
            }
            return Ok(());
        }
        let bytes = batch::encode(self.id, self.settled + 1, orders);
        let number = self.replica.batch;
        #[cfg(test)]
        self.acknowledge_early(orders, news);
        match store.append(number, &bytes)? {
            Appended::Done => {
                self.apply(store, vec![(number + 1, bytes)], news)?;
                news.is_current = true;
                Ok(())
            }
            Appended::Behind(batches) => self.apply(store, batches, news),
        }
    }

    /// Applies all batches that are in the log now.
    fn catch_up(
        &mut self,
        store: &mut dyn BatchStore,
        news: &mut Settlement,
    ) -> Result<(), StoreFault> {
        let mut wanted = None;
        loop {
            let (head, batches) = store.read(self.replica.batch)?;
            self.apply(store, batches, news)?;
            if head < self.replica.batch {
                let found = format!("expected batch {} or more, found {head}", self.replica.batch);
                return Err(StoreFault::Damaged(found));
            }
            if self.replica.batch >= *wanted.get_or_insert(head) {
                news.is_current = true;
                return Ok(());
            }
        }
    }

    fn apply(
        &mut self,
        store: &mut dyn BatchStore,
        batches: Batches,
        news: &mut Settlement,
    ) -> Result<(), StoreFault> {
        for (number, bytes) in batches {
            if number <= self.replica.batch {
                continue;
            }
            if number > self.replica.batch + 1 {
                // Others have compacted what this node has not seen.
                return self.reload(store, news);
            }
            let applied = self.replica.apply(number, &bytes).map_err(StoreFault::Damaged)?;
            news.records.extend(&applied.records);
            #[cfg(test)]
            self.apply_twice(&bytes);
            if applied.node != self.id {
                continue;
            }
            news.is_writer = true;
            for (ticket, outcome) in (applied.first..).zip(applied.outcomes) {
                if ticket > self.settled {
                    news.outcomes.push((ticket, outcome));
                    self.settled = ticket;
                }
            }
        }
        Ok(())
    }

    /// Reads the newest snapshot in place of the market that this node knows.
    fn reload(
        &mut self,
        store: &mut dyn BatchStore,
        news: &mut Settlement,
    ) -> Result<(), StoreFault> {
        let found = store.snapshot(true)?;
        let (number, bytes) =
            found.ok_or_else(|| StoreFault::Damaged("expected a snapshot, found none".into()))?;
        let replica = Replica::decode(&bytes).filter(|replica| replica.batch == number);
        let damaged = || StoreFault::Damaged(format!("expected a whole snapshot {number}"));
        let replica = replica.ok_or_else(damaged)?;
        if replica.batch < self.replica.batch {
            let found = format!("expected batch {}, found {number}", self.replica.batch);
            return Err(StoreFault::Damaged(found));
        }
        self.replica = replica;
        news.is_reloaded = true;
        for ticket in self.settled + 1..=self.replica.ticket(self.id) {
            news.outcomes.push((ticket, OrderOutcome::Lost));
            self.settled = ticket;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
