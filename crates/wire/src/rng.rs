//! Seeded pseudo-random numbers for fuzzers: the same seed, the same rolls, on every machine.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
//! 2014): eight lines, no dependency, every seed good, zero included. Not for secrets and not for
//! statistics.

/// A stream of rolls that its seed determines.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The stream that belongs to `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// The next 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`; `bound` is at least 1. The bias of the remainder is harmless here.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a roll below zero has no outcome");
        (self.roll() % bound as u64) as usize
    }

    /// True once in `times` rolls.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of `choices`, which is not empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_stream_is_splitmix64() {
        // First outputs for seed 0, as in the reference implementation by Vigna.
        let mut rng = Rng::new(0);
        assert_eq!(rng.roll(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.roll(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[rng.below(10)] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
