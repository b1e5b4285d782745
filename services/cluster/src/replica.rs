//! The market after a batch: what an order does, alike on every node, and the snapshot of it.
//!
//! A replica is a deterministic state machine: the same batches in the same order give the same
//! bytes on every node, so it reads no clock and draws no number. It remembers three things: the
//! amounts left, the outcome of each recent order that carries a number of its client, and the last
//! ticket of each node. The second makes an order that is sent again harmless, the third a batch
//! that arrives twice. The number of remembered orders is bounded, so an order held for longer than
//! half of them is refused as lost instead of being executed a second time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ledger::OrderRecord;

use crate::batch::{self, PlacedOrder, opened, seal, u64_at};

/// The clients' numbers that a replicated market remembers: an order that is sent again within half
/// as many decided ones is recognised. A node may hold an order as long again before the log has
/// it; the log refuses an older one, whose number may be forgotten.
pub const REQUESTS_REMEMBERED: usize = if cfg!(test) { 32 } else { 1 << 20 };
/// Numbered orders that may be decided while a node holds one.
pub(crate) const HELD_MAX: u64 = REQUESTS_REMEMBERED as u64 / 2;
/// Nodes whose last ticket is remembered.
const NODES: usize = 64;
/// More shares of a stock than this are refused; [`i64::MAX`], as on one machine.
const LEFT_MAX: u64 = i64::MAX as u64;
const MAGIC: &[u8; 8] = b"rhrepl02";

/// The outcome of an order, the same on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOutcome {
    /// It is executed, or was before; its number among all that were.
    Placed(u64),
    /// Fewer shares are left than it wants.
    NotEnough,
    /// More shares would be left than the market can count.
    TooMany,
    /// The client's number belongs to another order.
    OtherOrder,
    /// It was a read.
    Read,
    /// This node cannot know: the log was compacted meanwhile; or it held the order for so long
    /// that another node may have executed it, and did not.
    Lost,
}

/// The market after some batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// The number of the batch.
    pub batch: u64,
    /// The number of the last order that was executed.
    pub last: u64,
    /// The number left of each stock.
    pub lefts: BTreeMap<u32, u64>,
    /// The numbered orders that were decided, executed or refused.
    pub decided: u64,
    /// The last [`REQUESTS_REMEMBERED`] of them, oldest first.
    recent: VecDeque<u64>,
    /// The order under each number, and the word of its outcome.
    requests: HashMap<u64, (u64, u64)>,
    /// The last ticket of each node, the node that wrote last at the end.
    tickets: Vec<(u64, u64)>,
}

/// Orders of one batch, executed.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub node: u64,
    pub first: u64,
    pub outcomes: Vec<OrderOutcome>,
    /// The orders that were executed by this batch, for the first time.
    pub records: Vec<OrderRecord>,
}

impl Replica {
    /// The market before the first batch.
    pub fn new(lefts: BTreeMap<u32, u64>) -> Replica {
        Replica { lefts, ..Replica::default() }
    }

    /// The last ticket of node `id` that is applied; 0: none that is remembered.
    pub(crate) fn ticket(&self, id: u64) -> u64 {
        self.tickets.iter().find(|(node, _)| *node == id).map_or(0, |(_, ticket)| *ticket)
    }

    /// Carries out batch `number`, which must be the next one.
    ///
    /// A batch whose tickets were applied before changes nothing. The fence of the store prevents
    /// such a batch; this does so a second time.
    ///
    /// # Errors
    /// It is not the next one, or no batch, in words.
    pub(crate) fn apply(&mut self, number: u64, bytes: &[u8]) -> Result<Applied, String> {
        if number != self.batch + 1 {
            return Err(format!("expected batch {}, found {number}", self.batch + 1));
        }
        let found = batch::decode(bytes);
        let batch = found.ok_or_else(|| format!("expected a whole batch {number}"))?;
        self.batch = number;
        let mut applied = Applied { node: batch.node, first: batch.first, ..Applied::default() };
        if batch.first <= self.ticket(batch.node) {
            return Ok(applied);
        }
        for order in &batch.orders {
            let outcome = self.carry_out(*order, &mut applied.records);
            applied.outcomes.push(outcome);
        }
        self.tickets.retain(|(node, _)| *node != batch.node);
        self.tickets.push((batch.node, batch.first + batch.orders.len() as u64 - 1));
        if self.tickets.len() > NODES {
            self.tickets.remove(0);
        }
        Ok(applied)
    }

    fn carry_out(&mut self, order: PlacedOrder, records: &mut Vec<OrderRecord>) -> OrderOutcome {
        let PlacedOrder { request, stock, change, since } = order;
        if stock == 0 {
            return OrderOutcome::Read;
        }
        let wanted = u64::from(stock) << 32 | u64::from(change as u32);
        match self.requests.get(&request) {
            Some((found, outcome)) if *found == wanted => return outcome_of(*outcome),
            Some(_) => return OrderOutcome::OtherOrder,
            None if request != 0 && self.decided.saturating_sub(since) >= HELD_MAX => {
                return OrderOutcome::Lost;
            }
            None => {}
        }
        let outcome = self.trade(stock, change);
        if let OrderOutcome::Placed(seq) = outcome {
            let left = self.lefts[&stock];
            records.push(OrderRecord { seq, request, stock, change, left });
        }
        if request != 0 {
            self.decided += 1;
            self.remember(request, wanted, word_of(outcome));
        }
        outcome
    }

    fn trade(&mut self, stock: u32, change: i32) -> OrderOutcome {
        // A node sends orders of its book only, which is the book of all.
        let Some(left) = self.lefts.get_mut(&stock) else { return OrderOutcome::NotEnough };
        match left.checked_add_signed(change.into()) {
            None => OrderOutcome::NotEnough,
            Some(after) if after > LEFT_MAX => OrderOutcome::TooMany,
            Some(after) => {
                *left = after;
                self.last += 1;
                OrderOutcome::Placed(self.last)
            }
        }
    }

    /// A refusal is remembered too: a copy of the order that comes later must not be executed.
    fn remember(&mut self, request: u64, wanted: u64, outcome: u64) {
        self.requests.insert(request, (wanted, outcome));
        self.recent.push_back(request);
        if self.recent.len() > REQUESTS_REMEMBERED
            && let Some(oldest) = self.recent.pop_front()
        {
            self.requests.remove(&oldest);
        }
    }

    /// The snapshot: five numbers, then stocks, nodes and orders, two or three numbers each.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let mut put = |numbers: &[u64]| {
            numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        };
        let (stocks, nodes) = (self.lefts.len() as u64, self.tickets.len() as u64);
        put(&[self.batch, self.last, self.decided, stocks, nodes]);
        self.lefts.iter().for_each(|(stock, left)| put(&[u64::from(*stock), *left]));
        self.tickets.iter().for_each(|(node, ticket)| put(&[*node, *ticket]));
        for request in &self.recent {
            let (wanted, outcome) = self.requests[request];
            put(&[*request, wanted, outcome]);
        }
        seal(&mut out);
        out
    }

    /// The market in a snapshot, if it is whole.
    pub fn decode(bytes: &[u8]) -> Option<Replica> {
        let body = opened(bytes)?.strip_prefix(MAGIC)?;
        let numbers: Vec<u64> = body.chunks_exact(8).map(|number| u64_at(number, 0)).collect();
        let (&[batch, last, decided, stocks, nodes], rest) = numbers.split_first_chunk()?;
        let twice = |count: u64| usize::try_from(count).ok()?.checked_mul(2);
        let (lefts, rest) = rest.split_at_checked(twice(stocks)?)?;
        let (tickets, recent) = rest.split_at_checked(twice(nodes)?)?;
        let mut replica = Replica { batch, last, decided, ..Replica::default() };
        replica.lefts = lefts.chunks_exact(2).map(|row| (row[0] as u32, row[1])).collect();
        replica.tickets = tickets.chunks_exact(2).map(|row| (row[0], row[1])).collect();
        recent.chunks_exact(3).for_each(|row| replica.remember(row[0], row[1], row[2]));
        Some(replica)
    }
}

/// The outcome of a decided order in one word: its number, or a refusal.
fn word_of(outcome: OrderOutcome) -> u64 {
    match outcome {
        OrderOutcome::Placed(seq) => seq,
        OrderOutcome::TooMany => u64::MAX,
        _ => 0,
    }
}

fn outcome_of(word: u64) -> OrderOutcome {
    match word {
        0 => OrderOutcome::NotEnough,
        u64::MAX => OrderOutcome::TooMany,
        seq => OrderOutcome::Placed(seq),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(replica: &mut Replica, order: (u64, u32, i32), expected: OrderOutcome) {
        let (request, stock, change) = order;
        let (number, ticket, since) = (replica.batch + 1, replica.ticket(5) + 1, replica.decided);
        let bytes = batch::encode(5, ticket, &[PlacedOrder { request, stock, change, since }]);
        let applied = replica.apply(number, &bytes).expect("the next batch");
        assert_eq!(applied.outcomes, [expected], "{order:?}");
        let again = replica.apply(number + 1, &bytes).expect("the next batch");
        assert_eq!(again.outcomes, [], "its ticket was used");
        let copy = Replica::decode(&replica.encode()).expect("a whole snapshot");
        assert_eq!(copy, *replica);
        assert!(replica.apply(number, &bytes).is_err(), "it was applied before");
    }

    #[test]
    fn an_order_has_one_outcome_and_a_snapshot_has_everything() {
        let mut replica = Replica::new([(1, 10), (2, LEFT_MAX)].into());
        check(&mut replica, (0, 1, -3), OrderOutcome::Placed(1));
        check(&mut replica, (77, 1, -3), OrderOutcome::Placed(2));
        check(&mut replica, (77, 1, -3), OrderOutcome::Placed(2));
        check(&mut replica, (77, 1, -4), OrderOutcome::OtherOrder);
        check(&mut replica, (78, 1, -5), OrderOutcome::NotEnough);
        check(&mut replica, (0, 1, 9), OrderOutcome::Placed(3));
        check(&mut replica, (78, 1, -5), OrderOutcome::NotEnough);
        check(&mut replica, (79, 2, 1), OrderOutcome::TooMany);
        check(&mut replica, (79, 2, 1), OrderOutcome::TooMany);
        check(&mut replica, (0, 0, 0), OrderOutcome::Read);
        check(&mut replica, (0, 9, 1), OrderOutcome::NotEnough);
        assert_eq!((replica.lefts[&1], replica.decided), (13, 3));
        let mut bytes = replica.encode();
        bytes[20] ^= 1;
        assert_eq!(Replica::decode(&bytes), None);
    }

    #[test]
    fn an_order_that_was_held_for_too_long_is_not_carried_out() {
        let mut replica = Replica::new([(1, 0)].into());
        let order = |request, since| PlacedOrder { request, stock: 1, change: 1, since };
        let mut send = |ticket, order: PlacedOrder| {
            let bytes = batch::encode(5, ticket, &[order]);
            replica.apply(replica.batch + 1, &bytes).expect("the next batch").outcomes[0]
        };
        for request in 1..=HELD_MAX {
            assert_eq!(send(request, order(request, 0)), OrderOutcome::Placed(request));
        }
        let (ticket, request) = (HELD_MAX + 1, HELD_MAX + 1);
        assert_eq!(send(ticket, order(request, 0)), OrderOutcome::Lost);
        assert_eq!(send(ticket + 1, order(1, 0)), OrderOutcome::Placed(1), "still remembered");
        assert_eq!(send(ticket + 2, order(0, 0)), OrderOutcome::Placed(HELD_MAX + 1), "unnumbered");
        assert_eq!(send(ticket + 3, order(request, 1)), OrderOutcome::Placed(HELD_MAX + 2));
    }

    #[test]
    fn the_oldest_requests_and_nodes_are_forgotten() {
        let mut replica = Replica::new([(1, 0)].into());
        let order = |request| PlacedOrder { request, stock: 1, change: 1, since: request };
        for request in 1..=REQUESTS_REMEMBERED as u64 + 2 {
            let bytes = batch::encode(5, request, &[order(request)]);
            replica.apply(request, &bytes).expect("the next batch");
        }
        let kept = (replica.recent.len(), replica.requests.len());
        assert_eq!(kept, (REQUESTS_REMEMBERED, REQUESTS_REMEMBERED));
        assert!(!replica.requests.contains_key(&2) && replica.requests.contains_key(&3));
        for node in 100..100 + NODES as u64 {
            replica.apply(replica.batch + 1, &batch::encode(node, 1, &[order(0)])).expect("next");
        }
        assert_eq!((replica.ticket(5), replica.ticket(100)), (0, 1));
    }
}
