//! Time as a value: nanoseconds since boot in a `u64`, comparable across processes.
//!
//! Nothing here reads a clock: `sys::clock` does, in the crates that may call the kernel.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment of the monotonic clock, in nanoseconds since boot (`clock_gettime(2)`,
/// `CLOCK_MONOTONIC`).
///
/// The clock is the same for all processes of a machine, so an `Instant` may lie in shared memory.
/// Sums saturate: a deadline beyond the 584 years that fit means "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The moment at which the clock started.
    pub const ZERO: Instant = Instant(0);
    /// Later than every moment that is reached.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The moment `ns` nanoseconds after boot.
    pub const fn from_ns(ns: u64) -> Instant {
        Instant(ns)
    }

    /// Nanoseconds since boot.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, span: Duration) -> Instant {
        let ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(ns))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

/// The wall clock of a service, which says what time of the day a moment was.
#[derive(Clone, Copy, Debug)]
pub enum WallClock {
    /// A moment and its nanoseconds since 1970; from there it runs with the monotonic clock. For
    /// tests and simulations, where nobody sets a clock.
    Fixed(Instant, u64),
    /// Asks the machine for the nanoseconds since 1970 at a moment. A machine's clock is set, and
    /// the monotonic clock stands still while the machine sleeps, so the difference of the two
    /// changes.
    Asked(fn(Instant) -> u64),
}

impl WallClock {
    /// Nanoseconds since 1970 at a moment.
    pub fn ns_at(self, at: Instant) -> u64 {
        match self {
            WallClock::Fixed(moment, ns) => ns.saturating_add(at.ns()).saturating_sub(moment.ns()),
            WallClock::Asked(ask) => ask(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate_and_differences_never_go_below_zero() {
        assert_eq!(Instant::from_ns(5) + Duration::from_nanos(7), Instant::from_ns(12));
        assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::NEVER);
        assert_eq!(Instant::from_ns(3) - Instant::from_ns(9), Duration::ZERO);
    }
}
