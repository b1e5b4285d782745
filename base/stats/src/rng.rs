//! Seeded pseudo-random numbers: the same seed gives the same numbers on every machine.
//!
//! A thin wrapper around `rand_pcg`'s MCG (O'Neill, "PCG: A Family of Simple Fast Space-Efficient
//! Statistically Good Algorithms for Random Number Generation", 2014), whose algorithm is fixed.
//! Fuzzers, workloads and block orders draw from it; secrets must not.

use rand::seq::SliceRandom;
use rand::{Rng as _, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// The stream of `seed`; every seed is good, zero included.
    pub fn new(seed: u64) -> Rng {
        Rng(Pcg64Mcg::seed_from_u64(seed))
    }

    /// The next 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "expected a bound above 0");
        self.0.random_range(0..bound)
    }

    /// True once in `times` draws.
    ///
    /// # Panics
    /// If `times` is 0.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If `choices` is empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Puts `items` into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        items.shuffle(&mut self.0);
    }

    /// The numbers `0..count` in random order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.shuffle(&mut order);
        order
    }
}

/// SplitMix64's finishing function (Steele, Lea and Flood, OOPSLA 2014): every bit of the result
/// depends on every bit of `word`. For hashes and for numbers that must be a function of an index.
pub const fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut rng = Rng::new(0);
        let found: Vec<u64> = (0..3).map(|_| rng.roll()).collect();
        let want = [0x5603_f242_407d_eca2, 0xd684_5f75_e9e2_1acd, 0x5a22_d8b7_6f39_f418];
        assert_eq!(found, want);
        // As in the reference implementation of SplitMix64 by Vigna: the first output of seed 0.
        assert_eq!(mixed(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Rng::new(7);
        let mut reached = [false; 10];
        for _ in 0..1000 {
            reached[rng.below(10)] = true;
        }
        assert_eq!(reached, [true; 10]);
        assert!((0..1000).map(|_| rng.unit()).all(|it| (0.0..1.0).contains(&it)));
    }

    #[test]
    fn every_number_comes_once_in_an_order() {
        for seed in 0..20 {
            let mut order = Rng::new(seed).order(17);
            order.sort_unstable();
            assert_eq!(order, (0..17).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
