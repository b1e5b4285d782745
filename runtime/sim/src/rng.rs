//! The only source of randomness in a run, and the choices that a simulated network makes.

use core::time::Duration;

pub(crate) use stats::Rng;

/// Choices next to those of every stream of numbers.
pub(crate) trait Choices {
    /// A number from 1 to `max`; `max` 0 counts as 1.
    fn size(&mut self, max: usize) -> usize;
    /// True with a probability of `percent`.
    fn chance(&mut self, percent: u8) -> bool;
    /// True with a probability of one half.
    fn coin(&mut self) -> bool;
    /// A span of at most `max`.
    fn span(&mut self, max: Duration) -> Duration;
    /// A span from a microsecond to a quarter of an hour, each order of magnitude equally likely:
    /// the moment of an event that may happen at any time.
    fn moment(&mut self) -> Duration;
}

impl Choices for Rng {
    fn size(&mut self, max: usize) -> usize {
        1 + self.below(max.max(1))
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.below(100) < usize::from(percent)
    }

    fn coin(&mut self) -> bool {
        self.once_in(2)
    }

    fn span(&mut self, max: Duration) -> Duration {
        let ns = usize::try_from(max.as_nanos()).unwrap_or(usize::MAX);
        Duration::from_nanos(self.below(ns.saturating_add(1)) as u64)
    }

    fn moment(&mut self) -> Duration {
        let bits = 10 + self.below(31);
        Duration::from_nanos(self.below(1 << bits) as u64)
    }
}
