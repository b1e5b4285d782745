//! The budget of memory for connections, over all workers.
//!
//! Every worker counts the bytes that its connections hold. Above the budget memory is *short*:
//! connections that hold much receive no more, and those of least use are closed. Their use is
//! judged by bytes held, times the time in which none moved. All workers compare it with one bound,
//! which starts where only the worst lies above it and halves every [`HALVING_NS`], so the least
//! useful connection of the whole server goes first, whichever worker has it.

use std::sync::atomic::Ordering;

use super::Board;

/// The time in which the bound halves. All blocked workers wake before it has fallen to connections
/// that moved a moment ago.
const HALVING_NS: u64 = 50_000_000;
/// The first bound is the use of a connection that holds the whole budget for this long.
const STILL_MAX_MS: u64 = 60_000;

impl Board {
    /// The bytes that all connections hold.
    #[must_use]
    pub fn held_total(&self) -> u64 {
        // A slot alone may be below zero: its worker freed what another had counted.
        let sum = self.slots().fold(0_u64, |sum, slot| sum.wrapping_add(slot.held.read()));
        if sum > i64::MAX as u64 { 0 } else { sum }
    }

    /// Compares what is held with the budget. A shortage ends when an eighth of it is free.
    pub fn judge_memory(&self, now_ns: u64) {
        let (held, most) = (self.held_total(), self.settings.memory_max());
        let since = &self.word.short_since_ns;
        if most > 0 && held > most {
            let _ = since.compare_exchange(0, now_ns, Ordering::AcqRel, Ordering::Relaxed);
        } else if most == 0 || held <= most - most / 8 {
            since.store(0, Ordering::Release);
        }
    }

    /// Whether memory is short.
    #[inline]
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.word.short_since_ns.load(Ordering::Relaxed) != 0
    }

    /// Whether connections hold so much more than the budget that none may receive until some are
    /// closed.
    #[must_use]
    pub fn is_dire(&self) -> bool {
        let most = self.settings.memory_max();
        self.is_short() && self.held_total() > most + most / 2
    }

    /// Whether a connection that holds `held` bytes, none of which moved for `still_ms`, is now
    /// among those to close.
    #[must_use]
    pub fn is_least_useful(&self, held: usize, still_ms: u64, now_ns: u64) -> bool {
        let since = self.word.short_since_ns.load(Ordering::Acquire);
        if since == 0 {
            return false;
        }
        let first = u128::from(self.settings.memory_max()) * u128::from(STILL_MAX_MS);
        let halvings = (now_ns.saturating_sub(since) / HALVING_NS).min(127);
        held as u128 * u128::from(still_ms.max(1)) >= first >> halvings
    }
}

#[cfg(test)]
mod tests {
    use seam::WorkerId;

    use crate::region::Region;

    use super::*;

    #[test]
    fn a_shortage_begins_above_the_budget_and_ends_an_eighth_below() {
        let board = Region::<Board>::alone(&[]);
        board.settings().set_memory_max(800);
        let slot = |index| board.sit(WorkerId::new(index, 1), sys::process::this());
        let (one, other) = (slot(0), slot(3));
        let short = |held: u64| {
            one.held.set(held);
            board.judge_memory(5);
            board.is_short()
        };
        assert_eq!(
            [800, 801, 800, 701, 700, 800].map(short),
            [false, true, true, true, false, false]
        );
        // The other worker freed 500 bytes that the first had counted.
        other.held.sub(500);
        assert_eq!((board.held_total(), short(1301), short(1200)), (300, true, false));
        assert_eq!([1701, 1700].map(|held| short(held) && board.is_dire()), [true, false]);
        assert!(short(9000));
        board.settings().set_memory_max(0);
        assert!(!short(9000), "no budget");
    }

    #[test]
    fn the_least_useful_go_first() {
        let board = Region::<Board>::alone(&[]);
        board.settings().set_memory_max(1 << 20);
        board.sit(WorkerId::new(0, 1), sys::process::this()).held.set(2 << 20);
        assert!(!board.is_least_useful(1 << 20, 60_000, 9));
        board.judge_memory(9);
        let first = |held, still_ms| {
            let at = |step: &u64| board.is_least_useful(held, still_ms, 9 + step * HALVING_NS);
            (0..64).find(at).expect("every one in the end")
        };
        assert_eq!(first(1 << 20, 60_000), 0);
        assert!(first(1 << 20, 1000) < first(1 << 20, 10));
        assert!(first(1 << 20, 1000) < first(1 << 16, 1000));
        assert!(first(1 << 14, 0) < 30, "in 1.5 s");
    }
}
