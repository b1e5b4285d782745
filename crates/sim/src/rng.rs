//! The only source of randomness in a run.

use core::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of choices determined by its seed.
#[derive(Debug)]
pub(crate) struct Rng(Pcg64Mcg);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A number from 0 to `bound` - 1; `bound` is at least 1.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    /// A number from 1 to `max`; `max` 0 counts as 1.
    pub(crate) fn size(&mut self, max: usize) -> usize {
        self.0.random_range(1..=max.max(1))
    }

    /// True with a probability of `percent`.
    pub(crate) fn chance(&mut self, percent: u8) -> bool {
        self.below(100) < usize::from(percent)
    }

    /// True with a probability of one half.
    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// A span of at most `max`.
    pub(crate) fn span(&mut self, max: Duration) -> Duration {
        let ns = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.0.random_range(0..=ns))
    }

    /// A span from a microsecond to a quarter of an hour, each order of magnitude equally likely:
    /// the moment of an event that may happen at any time.
    pub(crate) fn moment(&mut self) -> Duration {
        let bits = 10 + self.below(31);
        Duration::from_nanos(self.0.random_range(0..1_u64 << bits))
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
