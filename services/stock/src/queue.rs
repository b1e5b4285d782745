//! Orders on their way to the log: numbered, executed, and waiting to be durable.
//!
//! With a log, all orders pass one lock, which numbers them; so the log's order is the market's. A
//! committer outside takes them in batches ([`OrderQueue::next`]) and reports each batch that is on
//! the disk ([`OrderQueue::committed`]); meanwhile the sessions wait (`OrderQueue::wait`).
//!
//! A worker can be killed at any instruction. An order is therefore published in the queue before
//! the market changes, with the amount that it leaves, and whoever heals the worker carries the
//! last order out again, which changes nothing if the worker had done so.

use super::Market;
use ledger::{OrderRecord, REQUESTS_KEPT};
use memory::{EventCount, Locked, Padded};
use seam::WorkerId;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// Orders that can wait for the disk; further ones are refused.
pub const ORDERS_WAITING: usize = 1 << 16;
/// Words of an order in a file of words, the checksum included.
pub const WORDS: usize = 5;
const SLOTS: usize = 2 * REQUESTS_KEPT;
/// 2^64 divided by the golden ratio: multiplied by it, close numbers differ in high bits (Knuth,
/// "The Art of Computer Programming", volume 3, section 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Looks, a second apart, before a session stops waiting for the disk.
const LOOKS: u32 = 5;

/// The order as words: number, request, stock and change, amount left.
fn words(order: &OrderRecord) -> [u64; 4] {
    [order.seq, order.request, packed(order.stock, order.change), order.left]
}

pub(super) fn packed(stock: u32, change: i32) -> u64 {
    u64::from(stock) << 32 | u64::from(change as u32)
}

fn record([seq, request, what, left]: [u64; 4]) -> OrderRecord {
    OrderRecord { seq, request, stock: (what >> 32) as u32, change: what as i32, left }
}

/// The order in a file of words, if it is whole there.
pub fn order_in_file([seq, request, what, left, sum]: [u64; WORDS]) -> Option<OrderRecord> {
    let words = [seq, request, what, left];
    (seq > 0 && sum == checksum(words)).then(|| record(words))
}

/// The sum of an order in a file of words, which is read after a kill: that tears no word. Each
/// step is invertible, so no change of one word keeps the sum.
fn checksum(words: [u64; 4]) -> u64 {
    let step = |sum: u64, word: &u64| (sum ^ word).wrapping_mul(SPREAD).rotate_left(23);
    words.iter().fold(SPREAD, step)
}

/// The answer to a session that waited for its orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// They are on the disk.
    Durable,
    /// The disk has not answered in time; they may still become durable.
    Late,
    /// The log has stopped; a restart may find them or not.
    Stopped,
}

/// Why an order was not placed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Unplaced {
    /// The market refuses it.
    #[display("{_0:?}")]
    Market(super::Refusal),
    /// The client's number belongs to another order.
    #[display("expected a new number or the same order, found #{_0} in use")]
    OtherOrder(u64),
    /// Too many orders wait for the disk.
    #[display("{ORDERS_WAITING} orders wait for the disk; try again later")]
    Full,
    /// The disk does not answer.
    #[display("the disk has not answered for {LOOKS} s; try again later")]
    Slow,
    /// The log has stopped.
    #[display("the log has stopped, so orders are refused")]
    Stopped,
}

impl std::error::Error for Unplaced {}

/// Values of `log`; 0 without one.
const OWN: u32 = 1;
const COMMON: u32 = 2;

const FINE: u32 = 0;
const SLOW: u32 = 1;
const STOPPED: u32 = 2;

/// The queue; it is part of a [`Market`]. All-zero bytes are an empty one without a log.
#[repr(C)]
pub struct OrderQueue {
    lock: Padded<memory::Lock>,
    placed: Padded<AtomicU64>,
    durable: Padded<AtomicU64>,
    /// Whose log numbers the orders.
    log: AtomicU32,
    state: AtomicU32,
    batches: AtomicU64,
    came: EventCount,
    done: EventCount,
    orders: [[AtomicU64; 4]; ORDERS_WAITING],
    requests: Requests,
}

/// The last orders with a number of their client, and where each lies: an open hash table.
#[repr(C)]
struct Requests {
    count: AtomicU64,
    recent: [[AtomicU64; 3]; REQUESTS_KEPT],
    /// The place in `recent`, plus 1; 0: free.
    slots: [AtomicU32; SLOTS],
}

/// Access to the queue for the orders of a batch.
pub(super) struct Placing<'a> {
    market: &'a Market,
    _alone: Locked<'a>,
}

impl OrderQueue {
    /// Begins after order `last`, with the requests that are remembered, oldest first; before any
    /// worker exists.
    pub fn begin(&self, last: u64, recent: impl Iterator<Item = OrderRecord>) {
        self.placed.store(last, Relaxed);
        self.durable.store(last, Relaxed);
        recent.for_each(|order| self.requests.remember(&order));
        self.log.store(OWN, Release);
    }

    /// Begins with tickets: the log of several nodes decides the orders. Before any worker exists.
    pub fn begin_tickets(&self) {
        self.log.store(COMMON, Release);
    }

    /// The last order that was placed, and the last durable one.
    pub fn ends(&self) -> (u64, u64) {
        let durable = self.durable.load(Acquire);
        (self.placed.load(Acquire), durable)
    }

    /// The batches that were committed, and whether the log has stopped.
    pub fn commits(&self) -> (u64, bool) {
        (self.batches.load(Relaxed), self.state.load(Acquire) == STOPPED)
    }

    pub(super) fn words(&self) -> &[[AtomicU64; 4]; ORDERS_WAITING] {
        &self.orders
    }

    /// The last order, if there is room for another one.
    pub(super) fn free(&self) -> Result<u64, Unplaced> {
        let last = self.placed.load(Relaxed);
        match self.state.load(Relaxed) {
            STOPPED => Err(Unplaced::Stopped),
            SLOW => Err(Unplaced::Slow),
            _ if last - self.durable.load(Acquire) >= ORDERS_WAITING as u64 => Err(Unplaced::Full),
            _ => Ok(last),
        }
    }

    /// Order `seq`, whose words are in their place, is the last one.
    pub(super) fn publish(&self, seq: u64) {
        self.placed.store(seq, Release);
    }

    fn at(&self, seq: u64) -> OrderRecord {
        let order = &self.orders[(seq % ORDERS_WAITING as u64) as usize];
        record([0, 1, 2, 3].map(|word| order[word].load(Relaxed)))
    }

    // ---- the committer's side

    /// Appends the orders after number `after` to `orders`, once there are any; waits at most for
    /// `timeout`. If `is_lazy`, it waits for more of them, until the queue fills.
    pub fn next(
        &self,
        after: u64,
        timeout: Duration,
        is_lazy: bool,
        orders: &mut Vec<OrderRecord>,
    ) {
        let seen = self.came.read();
        if is_lazy || self.placed.load(Acquire) <= after {
            self.came.wait(seen, timeout);
        }
        for seq in after + 1..=self.placed.load(Acquire) {
            orders.push(self.at(seq));
        }
    }

    /// Orders up to `upto` are as durable as the log makes them.
    pub fn committed(&self, upto: u64) {
        self.batches.fetch_add(1, Relaxed);
        self.durable.fetch_max(upto, Release);
        let _ = self.state.compare_exchange(SLOW, FINE, Release, Relaxed);
        self.done.advance();
    }

    /// The log has failed: no order is acknowledged any more.
    pub fn stop(&self) {
        self.state.store(STOPPED, Release);
        self.done.advance();
    }

    // ---- the workers' side

    /// Waits until orders up to `upto` are durable.
    pub(super) fn wait(&self, upto: u64) -> Settled {
        let (mut looks, mut last) = (0, 0);
        loop {
            let seen = self.done.read();
            let durable = self.durable.load(Acquire);
            match self.state.load(Acquire) {
                _ if durable >= upto => return Settled::Durable,
                STOPPED => return Settled::Stopped,
                SLOW => return Settled::Late,
                _ => {}
            }
            looks = if durable == last { looks + 1 } else { 0 };
            last = durable;
            if looks > LOOKS {
                let _ = self.state.compare_exchange(FINE, SLOW, Release, Relaxed);
            } else {
                self.done.wait(seen, Duration::from_secs(1));
            }
        }
    }

    /// Wakes the committer.
    pub fn wake(&self) {
        self.came.advance();
    }

    fn last(&self) -> Option<OrderRecord> {
        let seq = self.placed.load(Acquire);
        Some(self.at(seq)).filter(|order| order.seq == seq && seq > 0)
    }

    /// Completes what `dead` had begun, and releases what it held.
    pub(super) fn heal(market: &Market, dead: WorkerId) {
        let queue = market.orders();
        // With tickets nothing is executed before it is in the log.
        if queue.lock.is_held_by(dead) && queue.log.load(Relaxed) != COMMON {
            queue.requests.rebuild();
            if let Some(order) = queue.last()
                && let Some(row) = market.find(order.stock)
            {
                market.set_left(row, order.left);
                if order.request != 0 && queue.requests.find(order.request).is_none() {
                    queue.requests.remember(&order);
                }
            }
        }
        queue.lock.force_release(dead);
    }
}

impl<'a> Placing<'a> {
    /// Enters the queue, after waiting for the batch of another worker. The caller has not entered
    /// the market's gate yet.
    pub fn enter(market: &'a Market, me: WorkerId) -> Placing<'a> {
        Placing { market, _alone: market.orders().lock.lock(me) }
    }

    pub(super) fn market(&self) -> &'a Market {
        self.market
    }

    /// Places an order of `change` shares of `stock` in `row`, or finds it placed before by its
    /// `request`; returns its number. The caller has entered the market's gate. `file` is the file
    /// of words in which it must lie before it counts.
    pub fn place(
        &self,
        (row, stock): (u32, u32),
        change: i32,
        request: u64,
        file: Option<&[AtomicU64]>,
    ) -> Result<u64, Unplaced> {
        let queue = self.market.orders();
        let last = queue.placed.load(Relaxed);
        let mut order = OrderRecord { seq: last + 1, request, stock, change, left: 0 };
        if let Some([_, seq, what]) = queue.requests.find(request) {
            return if what == packed(order.stock, order.change) {
                Ok(seq)
            } else {
                Err(Unplaced::OtherOrder(request))
            };
        }
        queue.free()?;
        order.left = self.market.left_after(row, change).map_err(Unplaced::Market)?;
        let (words, index) = (words(&order), (order.seq % ORDERS_WAITING as u64) as usize);
        if let Some(file) = file.and_then(|file| file.get(index * WORDS..index * WORDS + WORDS)) {
            let sum = checksum(words);
            file.iter().zip(words.into_iter().chain([sum])).for_each(|(to, word)| {
                to.store(word, Relaxed);
            });
        }
        queue.orders[index].iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        queue.publish(order.seq);
        self.market.set_left(row, order.left);
        if request != 0 {
            queue.requests.remember(&order);
        }
        Ok(order.seq)
    }
}

impl Requests {
    fn home(request: u64) -> usize {
        (request.wrapping_mul(SPREAD) >> 43) as usize % SLOTS
    }

    fn at(&self, place: usize) -> u64 {
        self.recent[place][0].load(Relaxed)
    }

    fn in_slot(&self, slot: usize) -> Option<(usize, u64)> {
        let place = self.slots[slot].load(Relaxed).checked_sub(1)? as usize;
        Some((place, self.at(place)))
    }

    fn find(&self, request: u64) -> Option<[u64; 3]> {
        let mut slot = Requests::home(request);
        // Half of the slots are free.
        while let Some((place, found)) = self.in_slot(slot).filter(|_| request != 0) {
            if found == request {
                return Some([0, 1, 2].map(|word| self.recent[place][word].load(Relaxed)));
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }

    /// Remembers an order in place of the oldest one.
    fn remember(&self, order: &OrderRecord) {
        let count = self.count.load(Relaxed);
        let place = (count % REQUESTS_KEPT as u64) as usize;
        if count >= REQUESTS_KEPT as u64 {
            self.forget(self.at(place));
        }
        let words = [order.request, order.seq, packed(order.stock, order.change)];
        self.recent[place].iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        self.link(place);
        self.count.store(count + 1, Release);
    }

    fn link(&self, place: usize) {
        let mut slot = Requests::home(self.at(place));
        while self.slots[slot].load(Relaxed) != 0 {
            slot = (slot + 1) % SLOTS;
        }
        self.slots[slot].store(place as u32 + 1, Relaxed);
    }

    /// Frees the slot of `request`, and moves those that follow into the gap (Knuth, "The Art of
    /// Computer Programming", volume 3, algorithm 6.4R).
    fn forget(&self, request: u64) {
        let mut gap = Requests::home(request);
        while self.in_slot(gap).is_some_and(|(_, found)| found != request) {
            gap = (gap + 1) % SLOTS;
        }
        let mut slot = gap;
        loop {
            slot = (slot + 1) % SLOTS;
            let Some((_, found)) = self.in_slot(slot) else { break };
            let home = Requests::home(found);
            let distance = |from: usize| (slot + SLOTS - from) % SLOTS;
            if distance(home) >= distance(gap) {
                self.slots[gap].store(self.slots[slot].load(Relaxed), Relaxed);
                gap = slot;
            }
        }
        self.slots[gap].store(0, Relaxed);
    }

    /// Makes the table again after a worker died, perhaps in the middle of a change.
    fn rebuild(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Relaxed));
        let count = self.count.load(Relaxed);
        // The oldest one may be half overwritten.
        let oldest = (count + 1).saturating_sub(REQUESTS_KEPT as u64);
        (oldest..count).for_each(|at| self.link((at % REQUESTS_KEPT as u64) as usize));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::book::Entry;
    use crate::{Durability, HeldReplies, Options, Stock};
    use memory::Region;
    use seam::{Cx, Effects, Event, Instant, Out, Service, SessionId, Step, Then};

    const ME: WorkerId = WorkerId::new(0, 1);

    fn market() -> Region<Market> {
        let market = Region::<Market>::alone(b"1 10 100\n2 5 200\n");
        market.orders().begin(0, std::iter::empty());
        market
    }

    /// Steps the service; the bytes that it used, the text that leaves, and what is held.
    pub(crate) fn step(
        stock: &Stock,
        market: &Market,
        event: Event<'_, (Settled, HeldReplies)>,
    ) -> (usize, String, Option<HeldReplies>) {
        let effects = Effects::new(false, false);
        let now = Instant::from_ns(9_000_000);
        let cx = Cx::new(now, SessionId::NONE, ME, market, &effects);
        let mut out = Out::new(&Options::default().limits);
        let Step { used, then, .. } = stock.step(&cx, &mut (), event, &mut out);
        let held = if let Then::Offload(held) = then { Some(held) } else { None };
        (used, String::from_utf8_lossy(out.bytes()).into_owned(), held)
    }

    /// The replies to `input` that leave at once, and those that are held.
    fn say(market: &Market, input: &str) -> (String, Option<HeldReplies>) {
        let stock = Stock::new(Options { durability: Durability::Sync, ..Options::default() });
        let (used, now, held) = step(&stock, market, Event::Bytes(input.as_bytes()));
        assert!(used > 0, "{input}");
        (now, held)
    }

    /// Steps the service, commits, and returns the replies.
    fn settled(market: &Market, input: &str) -> String {
        let (now, held) = say(market, input);
        let held = held.expect("replies that wait");
        market.orders().committed(market.orders().ends().0);
        let stock = Stock::new(Options::default());
        let (settled, held) = stock.work(market, held);
        assert_eq!((now.as_str(), settled), ("", Settled::Durable));
        String::from_utf8(held.replies).expect("text")
    }

    #[test]
    fn receipts_name_each_order_once() {
        let market = market();
        let replies = settled(&market, "buy 1 3 #7\nsell 2 4\nbuy 2 99\nbuy 1 3 #7\nshow\n");
        let expected = "[buy] success @1\n[sell] success\nNot enough left stocks\n\
                        [buy] success @1\n";
        assert_eq!(replies, expected, "`show` begins the next batch");
        assert_eq!(say(&market, "show\n").0, "1 7 100\n2 9 200\n\n");
        assert_eq!(
            settled(&market, "sell 1 1 #9\nbuy 1 3 #7\n"),
            "[sell] success @3\n[buy] success @1\n"
        );
        for (line, objection) in [
            ("buy 1 4 #7\n", "expected a new number or the same order"),
            ("buy 1 4 #0\n", "error: "),
            ("show #8\n", "error: "),
            ("buy 3 4 #8\n", "expected the ID of a stock"),
        ] {
            let (reply, held) = say(&market, line);
            assert!(reply.contains(objection) && held.is_none(), "{line}: {reply}");
        }
        assert_eq!(market.orders().ends(), (3, 3));
        market.orders().stop();
        assert!(say(&market, "buy 1 1\n").0.contains("the log has stopped"));
        assert_eq!(say(&market, "show\n").0, "1 8 100\n2 9 200\n\n");
    }

    #[test]
    fn a_full_queue_and_a_silent_disk_are_told() {
        let market = market();
        let batch = "sell 1 1\n".repeat(64);
        for _ in 0..ORDERS_WAITING / 64 {
            assert!(say(&market, &batch).1.is_some());
        }
        assert!(say(&market, "sell 1 1\n").0.contains("65536 orders wait"));
        market.orders().committed(1);
        let (_, held) = say(&market, "sell 1 1\n");
        let stock = Stock::new(Options::default());
        let waited = stock.work(&market, held.expect("room for one"));
        assert_eq!(waited.0, Settled::Late, "nothing commits");
        market.orders().committed(2);
        assert!(say(&market, "sell 1 1\n").1.is_some(), "the disk answers again");
        let mut orders = Vec::new();
        market.orders().next(2, Duration::ZERO, false, &mut orders);
        assert_eq!((orders[0].seq, orders.len()), (3, ORDERS_WAITING));
    }

    /// A worker that dies after it has published an order, at the worst instant.
    #[test]
    fn an_order_that_a_killed_worker_began_is_completed() {
        let market = market();
        let queue = market.orders();
        std::mem::forget(queue.lock.lock(ME));
        let order = OrderRecord { seq: 1, request: 5, stock: 2, change: -4, left: 1 };
        queue.orders[1].iter().zip(words(&order)).for_each(|(to, word)| to.store(word, Relaxed));
        queue.placed.store(1, Release);
        market.heal(ME);
        assert_eq!(market.entry(1), Entry { id: 2, left: 1, price: 200 });
        assert_eq!(queue.requests.find(5), Some([5, 1, packed(order.stock, order.change)]));
        assert_eq!(settled(&market, "buy 2 4 #5\n"), "[buy] success @1\n");
    }

    #[test]
    fn an_order_in_a_file_is_whole_or_none() {
        let order = OrderRecord { seq: 1, request: 5, stock: 2, change: -4, left: 1 << 62 };
        let [seq, request, what, left] = words(&order);
        let mut words = [seq, request, what, left, checksum(words(&order))];
        assert_eq!(order_in_file(words), Some(order));
        for bit in 0..64 * WORDS {
            words[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(order_in_file(words), None, "bit {bit}");
            words[bit / 64] ^= 1 << (bit % 64);
        }
        assert_eq!(order_in_file([0; WORDS]), None);
    }

    #[test]
    fn the_oldest_requests_are_forgotten() {
        let market = market();
        let requests = &market.orders().requests;
        let (kept, more) = (REQUESTS_KEPT as u64, 100_000);
        let request = |seq: u64| seq.wrapping_mul(0x1234_5678_9abc_def1);
        for seq in 1..=kept + more {
            let order = OrderRecord { seq, request: request(seq), stock: 1, change: 1, left: 0 };
            requests.remember(&order);
        }
        let check = |oldest| {
            for seq in (1..=kept + more).step_by(97) {
                let found = requests.find(request(seq)).map(|found| found[1]);
                assert_eq!(found, (seq > oldest).then_some(seq), "{seq}");
            }
        };
        check(more);
        requests.rebuild();
        check(more + 1);
    }
}
