//! Counts of all clients, in memory that they share, so that the work of a killed client counts
//! too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seam::Share;

use super::check::NetOrders;

/// The width of a step of [`Tally::connects`].
const CONNECT_STEP: Duration = Duration::from_millis(50);
/// The number of steps: together 12 s, which covers the first retransmissions of a SYN; the last
/// step holds everything above.
const CONNECT_STEPS: usize = 240;

/// The counts. All begin at zero and only grow.
pub struct Tally {
    /// Clients that are or were connected.
    pub connected: AtomicU64,
    /// When the last of them connected, in nanoseconds since the start.
    connected_ns_max: AtomicU64,
    /// The number of clients by how long connect(2) took.
    connects: [AtomicU64; CONNECT_STEPS],
    /// Replies by their meaning.
    pub shown: AtomicU64,
    pub bought: AtomicU64,
    pub sold: AtomicU64,
    pub short_of_stock: AtomicU64,
    /// Other replies.
    pub other: AtomicU64,
    /// Clients that could not continue.
    pub failed: AtomicU64,
    /// Clients that have waited long for a reply.
    pub slow: AtomicU64,
    /// The orders' effects on the book.
    pub effects: NetOrders,
}

// SAFETY: nothing but atomic numbers, which are valid when they are zero.
unsafe impl Share for Tally {}

impl Tally {
    /// Counts a connected client: `after` the start of the run, `knocked` after it called
    /// connect(2).
    pub fn came_in(&self, after: Duration, knocked: Duration) {
        let step = usize::try_from(knocked.as_nanos() / CONNECT_STEP.as_nanos());
        let step = step.unwrap_or(CONNECT_STEPS).min(CONNECT_STEPS - 1);
        self.connects[step].fetch_add(1, Ordering::Relaxed);
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.connected_ns_max.fetch_max(after_ns, Ordering::Relaxed);
        self.connected.fetch_add(1, Ordering::Relaxed);
    }

    /// When the last client connected.
    pub fn all_in(&self) -> Duration {
        Duration::from_nanos(read(&self.connected_ns_max))
    }

    /// Clients by how long connecting took, in steps of [`CONNECT_STEP`], up to the last that any
    /// client reached.
    pub fn connects(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.connects.iter().map(read).collect();
        all.truncate(all.iter().rposition(|clients| *clients > 0).map_or(0, |last| last + 1));
        all
    }

    /// Counts a reply by its text. The rows of `show` begin with a number. A refusal is compared
    /// without the last letter of "stocks", which half of the course's servers omit.
    pub fn answered(&self, text: &[u8]) {
        let count = match text {
            _ if text.starts_with(b"[buy] success") => &self.bought,
            _ if text.starts_with(b"[sell] success") => &self.sold,
            _ if text.starts_with(b"Not enough left stock") => &self.short_of_stock,
            [b'0'..=b'9', ..] => &self.shown,
            _ => &self.other,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// All replies.
    pub fn replies(&self) -> u64 {
        let all = [&self.shown, &self.bought, &self.sold, &self.short_of_stock, &self.other];
        all.into_iter().map(read).sum()
    }
}

/// The present value of a count. It is exact once its writers have ended.
pub fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An initial tally: zero.
    fn tally() -> memory::Region<Tally> {
        let mut tally: memory::Region<Tally> =
            memory::Region::place(memory::Placement::Private).expect("a page of memory");
        tally.init(&[]).expect("a tally needs no seed");
        tally
    }

    #[test]
    fn replies_are_told_apart_by_their_text() {
        let tally = tally();
        for text in [
            "1 7 1000\n5 3 3700\n",
            "[buy] success\n",
            "[sell] success\n",
            "[sell] success\n",
            "Not enough left stocks\n",
            "Not enough left stock\n",
            "error: expected the ID of a stock, found 11\n",
            "",
        ] {
            tally.answered(text.as_bytes());
        }
        let counts =
            [&tally.shown, &tally.bought, &tally.sold, &tally.short_of_stock, &tally.other];
        assert_eq!(counts.map(read), [1, 1, 2, 2, 2]);
        assert_eq!(tally.replies(), 8);
    }

    #[test]
    fn the_last_one_in_is_the_latest() {
        let tally = tally();
        for ms in [3, 9, 4] {
            tally.came_in(Duration::from_millis(ms), Duration::from_millis(10 * ms));
        }
        assert_eq!((tally.all_in(), read(&tally.connected)), (Duration::from_millis(9), 3));
        assert_eq!(tally.connects(), [2, 1], "30 and 40 ms, 90 ms");
        tally.came_in(Duration::from_secs(70), Duration::from_secs(70));
        assert_eq!(tally.connects().len(), CONNECT_STEPS);
    }
}
