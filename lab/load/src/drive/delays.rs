//! The generator's own delays: when its thread ran, slept, spun, or was not scheduled.
//!
//! No wait of the loop is longer than 10 ms. If a wait takes a second, the server is not the cause:
//! a debugger, another process or the host kept this thread from running. The same holds for work
//! that takes milliseconds between two clock reads.

use crate::Instant;
use crate::tally::nanos;
use std::time::Duration;

/// A wait longer than requested by more than this is a stall.
const OVERSLEPT: Duration = Duration::from_millis(5);
/// Work between two clock reads takes microseconds; beyond this it is a stall.
const OVERWORKED: Duration = Duration::from_millis(5);

/// Sums of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Time during which the thread was kept from running (ns).
    pub stalled_ns: u64,
    /// The longest such time (ns).
    pub stall_ns_max: u64,
    /// The number of such times.
    pub stalls: u64,
    /// Time spent spinning for an arrival that was near (ns): CPU time, but no work.
    pub spun_ns: u64,
    last: Instant,
}

impl Delays {
    pub(super) fn begin(&mut self, now: Instant) {
        self.last = now;
    }

    /// Ends a wait that began at `before` and should have taken at most `asked`. `spun`: no event
    /// arrived and the thread did not sleep.
    pub(super) fn woke(&mut self, before: Instant, asked: Duration, now: Instant, spun: bool) {
        let waited = nanos(before, now);
        let over = waited.saturating_sub(asked.as_nanos() as u64);
        if over > OVERSLEPT.as_nanos() as u64 {
            self.stalled(over);
        } else if spun {
            self.spun_ns += waited;
        }
        self.last = now;
    }

    pub(super) fn worked(&mut self, now: Instant) {
        let took = nanos(self.last, now);
        if took > OVERWORKED.as_nanos() as u64 {
            self.stalled(took);
        }
        self.last = now;
    }

    fn stalled(&mut self, ns: u64) {
        self.stalled_ns += ns;
        self.stall_ns_max = self.stall_ns_max.max(ns);
        self.stalls += 1;
    }

    /// Adds the sums of another thread.
    pub fn merge(&mut self, other: &Delays) {
        self.stalled_ns += other.stalled_ns;
        self.stall_ns_max = self.stall_ns_max.max(other.stall_ns_max);
        self.stalls += other.stalls;
        self.spun_ns += other.spun_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_what_nobody_asked_for_is_a_stall() {
        let at = |ms: u64| Instant::from_ns(ms * MS);
        let ms = Duration::from_millis;
        let mut delays = Delays::default();
        delays.begin(at(0));
        delays.woke(at(0), ms(10), at(11), false);
        delays.worked(at(12));
        assert_eq!((delays.stalls, delays.stalled_ns), (0, 0));
        delays.woke(at(12), ms(10), at(1022), false);
        delays.worked(at(1042));
        assert_eq!(
            (delays.stalls, delays.stalled_ns, delays.stall_ns_max),
            (2, 1020 * MS, 1000 * MS)
        );
        delays.woke(at(1042), Duration::ZERO, at(1043), true);
        assert_eq!((delays.stalls, delays.spun_ns), (2, MS));
        let mut sum = Delays { stall_ns_max: 5, ..Delays::default() };
        sum.merge(&delays);
        assert_eq!((sum.stalls, sum.stall_ns_max), (2, 1000 * MS));
    }
}
