//! An eventcount (Reed and Kanodia, "Synchronization with eventcounts and sequencers", 1979):
//! threads of any process sleep until a number moves.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use seam::Share;
use sys::futex::{self, Scope};

/// A number that only grows, and its sleepers. All-zero bytes are a count that never moved.
#[derive(Debug, Default)]
#[repr(C)]
pub struct EventCount {
    count: AtomicU32,
    /// How many wait; a killed sleeper stays counted, which costs a call at each advance.
    sleepers: AtomicU32,
}

// SAFETY: two atomic numbers, for which zero is a value.
unsafe impl Share for EventCount {}

impl EventCount {
    /// The number now, for [`EventCount::wait`]. Read it before the condition to wait for.
    #[must_use]
    pub fn read(&self) -> u32 {
        self.count.load(SeqCst)
    }

    /// Moves the number and wakes all that wait.
    pub fn advance(&self) {
        self.count.fetch_add(1, SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            futex::wake(&self.count, u32::MAX, Scope::Shared);
        }
    }

    /// Sleeps while the number is `seen`, at most for `timeout`; it may also wake early.
    pub fn wait(&self, seen: u32, timeout: Duration) {
        // In this order, and the reverse of `advance`, so that one sees the other.
        self.sleepers.fetch_add(1, SeqCst);
        futex::wait(&self.count, seen, Some(timeout), Scope::Shared);
        self.sleepers.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn no_move_is_slept_through() {
        const TURNS: u64 = 20_000;
        let (moved, turn) = (EventCount::default(), AtomicU64::new(0));
        // Both wait for their turn, one for the even and one for the odd ones.
        let play = |mine: u64| {
            while turn.load(SeqCst) < TURNS {
                let seen = moved.read();
                if turn.load(SeqCst) % 2 == mine {
                    turn.fetch_add(1, SeqCst);
                    moved.advance();
                } else if turn.load(SeqCst) < TURNS {
                    moved.wait(seen, LONG);
                }
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(|| play(0));
            play(1);
        });
        let before = moved.read();
        moved.wait(before, Duration::from_millis(1));
        assert_eq!(moved.read(), before, "nothing has moved, and the wait ended");
    }
}
