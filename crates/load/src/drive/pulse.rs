//! The generator's own delays: when it ran, slept, spun, or was kept from running.
//!
//! No wait of the loop is longer than 10 ms, so one that takes a second was not the server's doing
//! but somebody's who kept this thread from running: a debugger, a neighbour, a host that took the
//! processor away. The same holds for work that takes milliseconds between two looks at the clock.

use crate::tally::nanos;
use seam::Instant;
use std::time::Duration;

/// A wait that was longer than asked for by more than this was a stall.
const OVERSLEPT: Duration = Duration::from_millis(5);
/// Work between two looks at the clock is some microseconds; beyond this it was a stall.
const OVERWORKED: Duration = Duration::from_millis(5);

/// Sums of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Time in which it was kept from running (ns).
    pub stalled_ns: u64,
    /// The longest such time (ns).
    pub stall_ns_max: u64,
    /// How often that happened.
    pub stalls: u64,
    /// Time in which it ran only to wait for an arrival that was near (ns): busy, but not at work.
    pub spun_ns: u64,
    last: Instant,
}

impl Pulse {
    /// A phase begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.last = now;
    }

    /// A wait that began at `before` and was to take `asked` at the most is over. `spun`: nothing
    /// happened, and it did not sleep.
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

    /// A piece of work is done.
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
    pub fn merge(&mut self, other: &Pulse) {
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
        let mut pulse = Pulse::default();
        pulse.begin(at(0));
        pulse.woke(at(0), ms(10), at(11), false);
        pulse.worked(at(12));
        assert_eq!((pulse.stalls, pulse.stalled_ns), (0, 0));
        pulse.woke(at(12), ms(10), at(1022), false);
        pulse.worked(at(1042));
        assert_eq!((pulse.stalls, pulse.stalled_ns, pulse.stall_ns_max), (2, 1020 * MS, 1000 * MS));
        pulse.woke(at(1042), Duration::ZERO, at(1043), true);
        assert_eq!((pulse.stalls, pulse.spun_ns), (2, MS));
        let mut sum = Pulse { stall_ns_max: 5, ..Pulse::default() };
        sum.merge(&pulse);
        assert_eq!((sum.stalls, sum.stall_ns_max), (2, 1000 * MS));
    }
}
