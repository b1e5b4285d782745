//! A market that several nodes serve: orders wait for the common log, which decides them.
//!
//! A worker does not carry an order out. It draws a ticket and leaves the order in the queue; the
//! committer brings it into the log, and reports the outcome under the ticket when it has carried
//! out all orders before it. The amounts of the market are the committer's to change.

use super::Refusal;
use super::queue::{ORDERS_WAITING, OrderQueue, Placing, Unplaced, packed};
use seam::Instant;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

const UNKNOWN: u64 = 0;
const NOT_ENOUGH: u64 = 1;
const TOO_MANY: u64 = 2;
const OTHER_ORDER: u64 = 3;
const READ: u64 = 4;
const PLACED: u64 = 16;
/// Marks a word that is no outcome yet: the orders that were decided when the ticket was drawn.
const OPEN: u64 = 1 << 63;

/// How many numbered orders were decided when the order with this word in the queue was taken.
pub fn since(word: u64) -> u64 {
    word & !OPEN
}

/// The log's decision on a ticket; [`None`]: this node cannot know.
pub type TicketOutcome = Option<Result<u64, Unplaced>>;

/// The market of all nodes, as this one knows it.
pub trait NodeView: Send + Sync {
    /// The numbered orders that are decided here.
    fn decided(&self) -> u64;

    /// The last order that is executed here.
    fn last(&self) -> u64;

    /// The time since nothing in the log was missing here, in milliseconds.
    fn age_ms(&self, now: Instant) -> u64;
}

impl Placing<'_> {
    /// Draws a ticket for an order of `change` shares of `stock`, or for a read with stock 0;
    /// `decided` numbered orders are decided now.
    pub fn ticket(
        &self,
        (stock, change): (u32, i32),
        request: u64,
        decided: u64,
    ) -> Result<u64, Unplaced> {
        let queue = self.market().orders();
        let open = OPEN | decided;
        let last = queue.free()?;
        let ticket = last + 1;
        let slot = queue.slot(ticket);
        slot[0].store(ticket, Relaxed);
        // A session that finds one of these words finds the ticket above too, and so looks again.
        fence(Release);
        for (word, to) in [request, packed(stock, change), open].into_iter().zip(&slot[1..]) {
            to.store(word, Relaxed);
        }
        queue.publish(ticket);
        Ok(ticket)
    }
}

impl OrderQueue {
    /// Keeps the outcome of `ticket` for its session. [`OrderQueue::committed`] tells it.
    pub fn decide(&self, ticket: u64, outcome: TicketOutcome) {
        let word = match outcome {
            Some(Ok(0)) => READ,
            Some(Ok(number)) => PLACED + number,
            Some(Err(Unplaced::Market(Refusal::NotEnough))) => NOT_ENOUGH,
            Some(Err(Unplaced::Market(Refusal::TooMany))) => TOO_MANY,
            Some(Err(Unplaced::OtherOrder(_))) => OTHER_ORDER,
            Some(Err(_)) | None => UNKNOWN,
        };
        self.slot(ticket)[3].store(word, Relaxed);
    }

    /// The outcome of `ticket`, which [`OrderQueue::wait`] has found settled: the number of the
    /// order, or 0 of a read. It is unknown if later orders have taken the ticket's place.
    pub(super) fn outcome(&self, ticket: u64) -> TicketOutcome {
        let slot = self.slot(ticket);
        let (request, outcome) = (slot[1].load(Relaxed), slot[3].load(Relaxed));
        fence(Acquire);
        if slot[0].load(Relaxed) != ticket {
            return None;
        }
        Some(match outcome {
            UNKNOWN | OPEN.. => return None,
            NOT_ENOUGH => Err(Unplaced::Market(Refusal::NotEnough)),
            TOO_MANY => Err(Unplaced::Market(Refusal::TooMany)),
            OTHER_ORDER => Err(Unplaced::OtherOrder(request)),
            READ => Ok(0),
            number => Ok(number - PLACED),
        })
    }

    fn slot(&self, ticket: u64) -> &[AtomicU64; 4] {
        &self.words()[(ticket % ORDERS_WAITING as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::step;
    use crate::{Durability, Market, Options, Reads, Stock};
    use memory::Region;
    use seam::{Event, Service};
    use std::sync::Arc;
    use std::time::Duration;

    fn market() -> Region<Market> {
        let market = Region::<Market>::alone(b"1 10 100\n2 5 200\n");
        market.orders().begin_tickets();
        market
    }

    /// A view that has the first 17 orders, of 4 ms after the start.
    struct View;

    impl NodeView for View {
        fn decided(&self) -> u64 {
            9
        }

        fn last(&self) -> u64 {
            17
        }

        fn age_ms(&self, now: Instant) -> u64 {
            now.ns() / 1_000_000 - 4
        }
    }

    fn stock(reads: Reads) -> Stock {
        let options = Options { durability: Durability::Sync, ..Options::default() };
        Stock::new(options).with_nodes(reads, Arc::new(View))
    }

    #[test]
    fn the_log_decides_and_the_replies_follow_it() {
        let (market, stock) = (market(), stock(Reads::Strict));
        let input = "buy 1 3 #7\nbuy 9 1\nsell 2 1\nbuy 1 99\nbuy 1 1 #8\nshow\nshow\n";
        let (used, now, held) = step(&stock, &market, Event::Bytes(input.as_bytes()));
        assert_eq!((used, &*now), (input.len() - 10, ""), "`show` waits for its turn");
        let mut orders = Vec::new();
        market.orders().next(0, Duration::ZERO, false, &mut orders);
        assert!(orders.iter().all(|order| since(order.left) == 9), "{orders:?}");
        let orders: Vec<_> = orders.iter().map(|it| (it.request, it.stock, it.change)).collect();
        assert_eq!(orders, [(7, 1, -3), (0, 2, 1), (0, 1, -99), (8, 1, -1)]);
        assert_eq!(market.entry(0).left, 10, "nothing is executed yet");
        let none = Err(Unplaced::Market(Refusal::NotEnough));
        let outcomes = [Ok(41), Ok(42), none, Err(Unplaced::OtherOrder(8))];
        for (ticket, outcome) in (1..).zip(outcomes) {
            market.orders().decide(ticket, Some(outcome));
        }
        market.orders().committed(4);
        let outcome = stock.work(&market, held.expect("replies that wait"));
        let (_, said, _) = step(&stock, &market, Event::Outcome(outcome));
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "[buy] success @41");
        assert!(lines[1].starts_with("error: expected the ID of a stock"), "{said}");
        assert_eq!(lines[2..4], ["[sell] success", "Not enough left stocks"]);
        assert!(lines[4].contains("found #8 in use"), "{said}");
    }

    #[test]
    fn a_strict_show_has_a_ticket_and_a_local_one_an_age() {
        let (market, strict) = (market(), stock(Reads::Strict));
        let (used, now, held) = step(&strict, &market, Event::Bytes(b"show\nshow\n"));
        assert_eq!((used, &*now), (5, ""), "one at a time");
        market.set_left(0, 4);
        market.orders().decide(1, Some(Ok(0)));
        market.orders().committed(1);
        let outcome = strict.work(&market, held.expect("a read that waits"));
        let (_, said, _) = step(&strict, &market, Event::Outcome(outcome));
        assert_eq!(said, "1 4 100\n2 5 200\n\n");
        let (_, said, held) = step(&stock(Reads::Local), &market, Event::Bytes(b"show\n"));
        assert_eq!((&*said, held.is_none()), ("1 4 100\n2 5 200\n@17 5 ms\n\n", true));
    }

    #[test]
    fn an_outcome_that_was_overwritten_is_unknown() {
        let (market, stock) = (market(), stock(Reads::Strict));
        let (_, _, held) = step(&stock, &market, Event::Bytes(b"buy 1 1\n"));
        market.orders().decide(1, Some(Ok(1)));
        market.orders().committed(1);
        let more = "sell 1 1\n".repeat(64);
        for _ in 0..ORDERS_WAITING / 64 {
            step(&stock, &market, Event::Bytes(more.as_bytes()));
        }
        let (_, full, _) = step(&stock, &market, Event::Bytes(b"sell 1 1\n"));
        assert_eq!(full, "BUSY\n", "refused by a word");
        assert_eq!(market.orders().outcome(1), None);
        let outcome = stock.work(&market, held.expect("a reply that waits"));
        let (_, said, _) = step(&stock, &market, Event::Outcome(outcome));
        assert!(said.starts_with("error: the store has not answered"), "{said}");
    }
}
