//! The market after a batch: what an order does, alike on every node, and the snapshot of it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ledger::OrderRecord;

use crate::batch::{self, PlacedOrder, opened, seal, u64_at};

/// The clients' numbers that a replicated market remembers: an order that is sent again is
/// recognised among this many later ones that carry a number.
pub const REQUESTS_REMEMBERED: usize = 1 << 18;
/// Nodes whose last ticket is remembered.
const NODES: usize = 64;
/// More shares of a stock than this are refused; [`i64::MAX`], as on one machine.
const LEFT_MAX: u64 = i64::MAX as u64;
const MAGIC: &[u8; 8] = b"rhrepl01";

/// The outcome of an order, the same on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOutcome {
    /// It is carried out, or was before; its number among all that were.
    Placed(u64),
    /// Fewer shares are left than it wants.
    NotEnough,
    /// More shares would be left than the market can count.
    TooMany,
    /// The client's number belongs to another order.
    OtherOrder,
    /// It was a read.
    Read,
    /// The log was compacted before this node learned the outcome.
    Lost,
}

/// The market after some batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// The number of the batch.
    pub batch: u64,
    /// The number of the last order that was carried out.
    pub last: u64,
    /// The number left of each stock.
    pub lefts: BTreeMap<u32, u64>,
    /// The last [`REQUESTS_REMEMBERED`] orders that carry a number, oldest first.
    recent: VecDeque<(u64, PlacedOrder)>,
    requests: HashMap<u64, u64>,
    /// The last ticket of each node, the node that wrote last at the end.
    tickets: Vec<(u64, u64)>,
}

/// Orders of one batch, carried out.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub node: u64,
    pub first: u64,
    pub outcomes: Vec<OrderOutcome>,
    /// The orders that were carried out by this batch, for the first time.
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
        let PlacedOrder { request, stock, change } = order;
        if stock == 0 {
            return OrderOutcome::Read;
        }
        if let Some(seq) = self.requests.get(&request) {
            let first = self.recent.partition_point(|(at, _)| at < seq);
            let is_same = self.recent.get(first).is_some_and(|(_, found)| *found == order);
            return if is_same { OrderOutcome::Placed(*seq) } else { OrderOutcome::OtherOrder };
        }
        // A node sends orders of its book only, which is the book of all.
        let Some(left) = self.lefts.get_mut(&stock) else { return OrderOutcome::NotEnough };
        let Some(after) = left.checked_add_signed(change.into()) else {
            return OrderOutcome::NotEnough;
        };
        if after > LEFT_MAX {
            return OrderOutcome::TooMany;
        }
        *left = after;
        self.last += 1;
        if request != 0 {
            self.remember(self.last, order);
        }
        records.push(OrderRecord { seq: self.last, request, stock, change, left: after });
        OrderOutcome::Placed(self.last)
    }

    fn remember(&mut self, seq: u64, order: PlacedOrder) {
        self.requests.insert(order.request, seq);
        self.recent.push_back((seq, order));
        if self.recent.len() > REQUESTS_REMEMBERED
            && let Some((_, oldest)) = self.recent.pop_front()
        {
            self.requests.remove(&oldest.request);
        }
    }

    /// The snapshot: four numbers, then stocks, nodes and orders, two or three numbers each.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let mut put = |numbers: &[u64]| {
            numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        };
        let (stocks, nodes) = (self.lefts.len() as u64, self.tickets.len() as u64);
        put(&[self.batch, self.last, stocks, nodes]);
        self.lefts.iter().for_each(|(stock, left)| put(&[u64::from(*stock), *left]));
        self.tickets.iter().for_each(|(node, ticket)| put(&[*node, *ticket]));
        for (seq, PlacedOrder { request, stock, change }) in &self.recent {
            put(&[*seq, *request, u64::from(*stock) << 32 | u64::from(*change as u32)]);
        }
        seal(&mut out);
        out
    }

    /// The market in a snapshot, if it is whole.
    pub fn decode(bytes: &[u8]) -> Option<Replica> {
        let body = opened(bytes)?.strip_prefix(MAGIC)?;
        let numbers: Vec<u64> = body.chunks_exact(8).map(|number| u64_at(number, 0)).collect();
        let (&[batch, last, stocks, nodes], rest) = numbers.split_first_chunk()?;
        let twice = |count: u64| usize::try_from(count).ok()?.checked_mul(2);
        let (lefts, rest) = rest.split_at_checked(twice(stocks)?)?;
        let (tickets, recent) = rest.split_at_checked(twice(nodes)?)?;
        let mut replica = Replica { batch, last, ..Replica::default() };
        replica.lefts = lefts.chunks_exact(2).map(|row| (row[0] as u32, row[1])).collect();
        replica.tickets = tickets.chunks_exact(2).map(|row| (row[0], row[1])).collect();
        for row in recent.chunks_exact(3) {
            let (stock, change) = ((row[2] >> 32) as u32, row[2] as i32);
            replica.remember(row[0], PlacedOrder { request: row[1], stock, change });
        }
        Some(replica)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(replica: &mut Replica, order: (u64, u32, i32), expected: OrderOutcome) {
        let (request, stock, change) = order;
        let (number, ticket) = (replica.batch + 1, replica.ticket(5) + 1);
        let bytes = batch::encode(5, ticket, &[PlacedOrder { request, stock, change }]);
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
        check(&mut replica, (78, 1, -4), OrderOutcome::Placed(3));
        check(&mut replica, (79, 2, 1), OrderOutcome::TooMany);
        check(&mut replica, (0, 0, 0), OrderOutcome::Read);
        check(&mut replica, (0, 9, 1), OrderOutcome::NotEnough);
        assert_eq!(replica.lefts[&1], 0);
        let mut bytes = replica.encode();
        bytes[20] ^= 1;
        assert_eq!(Replica::decode(&bytes), None);
    }

    #[test]
    fn the_oldest_requests_and_nodes_are_forgotten() {
        let mut replica = Replica::new([(1, 0)].into());
        let order = |request| PlacedOrder { request, stock: 1, change: 1 };
        let orders: Vec<PlacedOrder> = (1..=REQUESTS_REMEMBERED as u64 + 2).map(order).collect();
        replica.apply(1, &batch::encode(5, 1, &orders)).expect("the next batch");
        assert_eq!((replica.recent.len(), replica.requests.len()), (1 << 18, 1 << 18));
        assert!(!replica.requests.contains_key(&2) && replica.requests.contains_key(&3));
        for node in 100..100 + NODES as u64 {
            replica.apply(replica.batch + 1, &batch::encode(node, 1, &[order(0)])).expect("next");
        }
        assert_eq!((replica.ticket(5), replica.ticket(100)), (0, 1));
    }
}
