//! What the clients have done so far, in memory that all of them share: also one that is killed
//! has counted what it did.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seam::{BadSeed, Share};

/// The counts. All begin at zero and only grow.
#[derive(Default)]
pub struct Tally {
    /// Clients that have a connection, or had one.
    pub connected: AtomicU64,
    /// When the last of them came in, in nanoseconds since the beginning.
    connected_ns_max: AtomicU64,
    /// Replies by what they say.
    pub shown: AtomicU64,
    pub bought: AtomicU64,
    pub sold: AtomicU64,
    pub short_of_stock: AtomicU64,
    /// Replies that say anything else.
    pub other: AtomicU64,
    /// Clients that could not go on.
    pub failed: AtomicU64,
    /// Clients that have waited long for a reply.
    pub slow: AtomicU64,
}

// SAFETY: nothing but atomic numbers, which are valid and mean nothing done when they are zero.
unsafe impl Share for Tally {
    fn found(&mut self, _seed: &[u8]) -> Result<(), BadSeed> {
        Ok(())
    }
}

impl Tally {
    /// A client has its connection, so long after the beginning.
    pub fn came_in(&self, after: Duration) {
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.connected_ns_max.fetch_max(after_ns, Ordering::Relaxed);
        self.connected.fetch_add(1, Ordering::Relaxed);
    }

    /// When the last client came in.
    pub fn all_in(&self) -> Duration {
        Duration::from_nanos(read(&self.connected_ns_max))
    }

    /// Counts a reply by its text. The rows of `show` begin with a number; "stock" without its
    /// last letter is what half of the course's servers say.
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

/// The present count. Exact when its writers have ended.
pub fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_apart_by_their_text() {
        let tally = Tally::default();
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
        let tally = Tally::default();
        for ms in [3, 9, 4] {
            tally.came_in(Duration::from_millis(ms));
        }
        assert_eq!((tally.all_in(), read(&tally.connected)), (Duration::from_millis(9), 3));
    }
}
