//! The exact cost of a path: a straight step costs 1, a diagonal step the square root of two.
//!
//! A cost is the integer `a * Q + b * P` for `a` straight and `b` diagonal steps, where `P / Q` is
//! a convergent of the continued fraction of the root: `P * P - 2 * Q * Q = 1`. Two costs compare
//! as the true lengths do while their numbers of diagonal steps differ by less than `Q`. If the
//! order of `a - c` and `(d - b) * root` differed from that of `a - c` and `(d - b) * P / Q`, the
//! fraction `(a - c) / (d - b)` would lie between a convergent and the root, or be the convergent.
//! No fraction with a denominator below `Q` does (Hardy and Wright, *An Introduction to the Theory
//! of Numbers*, theorem 182).
//!
//! A grid has at most 4096 times 4096 cells. Of four cells in a square a shortest path visits at
//! most three, because its first and last cell there are never more than two steps apart. So a path
//! has fewer than 3/4 of 2^24 steps and an estimate on top of it fewer than 2^13. Both bounds hold:
//! `Q` is larger than the sum of the steps, and the weight of the sum fits 49 bits. Because `P` and
//! `Q` have no common divisor, the two numbers of steps can be read back from the integer.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Weight of a straight step: the 20th of the Pell numbers.
const Q: u64 = 15_994_428;
/// Weight of a diagonal step: `P / Q` is the root of two to 1.4e-15.
const P: u64 = 22_619_537;
/// `P` times this is 1 modulo `Q`.
const P_INVERSE: u64 = inverse(P, Q);

/// The width of the largest sum of a cost and an estimate, in bits.
pub(crate) const BITS: u32 = 49;

/// The cost of a path.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// The cost of an empty path.
    pub const ZERO: Cost = Cost(0);
    /// One step to a neighbour that shares a side.
    pub const STRAIGHT: Cost = Cost(Q);
    /// One step to a neighbour that shares only a corner.
    pub const DIAGONAL: Cost = Cost(P);

    /// The cost of `straight` and `diagonal` steps. Exact where both counts are below 12 million.
    pub const fn of(straight: u32, diagonal: u32) -> Cost {
        Cost(straight as u64 * Q + diagonal as u64 * P)
    }

    /// The numbers of straight and of diagonal steps.
    pub fn steps(self) -> (u32, u32) {
        let diagonal = (self.0 % Q) * P_INVERSE % Q;
        (((self.0 - diagonal * P) / Q) as u32, diagonal as u32)
    }

    /// The length, in sides of a cell. Only for display: it is rounded, costs are not.
    pub fn length(self) -> f64 {
        let (straight, diagonal) = self.steps();
        f64::from(straight) + f64::from(diagonal) * std::f64::consts::SQRT_2
    }

    /// The integer: below `2^49` for every sum in a search.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_word(word: u64) -> Cost {
        Cost(word)
    }
}

impl fmt::Debug for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (straight, diagonal) = self.steps();
        write!(f, "Cost({straight} + {diagonal} diagonal)")
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost(self.0 + other.0)
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.0 += other.0;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::ZERO, Add::add)
    }
}

/// The inverse of `number` modulo `modulus`, by Euclid's algorithm.
const fn inverse(number: u64, modulus: u64) -> u64 {
    let (mut old, mut new) = ((modulus as i64, 0i64), ((number % modulus) as i64, 1i64));
    while new.0 != 0 {
        let times = old.0 / new.0;
        (old, new) = (new, (old.0 - times * new.0, old.1 - times * new.1));
    }
    old.1.rem_euclid(modulus as i64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Pair;
    use stats::Rng;

    /// The steps of the longest path plus those of an estimate.
    const STEPS_MAX: u32 = 3 * (1 << 22) + (1 << 13);

    #[test]
    fn the_weights_are_a_convergent_and_fit() {
        assert_eq!(i128::from(P * P) - 2 * i128::from(Q * Q), 1);
        assert_eq!(P * P_INVERSE % Q, 1);
        assert!(u64::from(STEPS_MAX) < Q, "numbers of diagonal steps differ by less than Q");
        assert!(Cost::of(0, STEPS_MAX).word() < 1 << BITS);
    }

    #[test]
    fn costs_compare_as_the_true_lengths_do() {
        let mut rng = Rng::new(7);
        for _ in 0..20_000 {
            let limit = 1 << (1 + rng.below(23));
            let mut pair = || Pair {
                straight: rng.below(limit).min(STEPS_MAX as usize) as u32,
                diagonal: rng.below(limit).min(STEPS_MAX as usize) as u32,
            };
            let (one, two) = (pair(), pair());
            let (left, right) =
                (Cost::of(one.straight, one.diagonal), Cost::of(two.straight, two.diagonal));
            assert_eq!(left.cmp(&right), one.cmp(&two), "{one:?} {two:?}");
            assert_eq!(left.steps(), (one.straight, one.diagonal));
        }
    }

    #[test]
    fn the_nearest_misses_are_told_apart() {
        // Earlier convergents: sums that differ by less than one part in 10^14.
        for (p, q) in [(7, 5), (17, 12), (99, 70), (8_119, 5_741), (9_369_319, 6_625_109)] {
            let (straight, diagonal) = (Cost::of(p, 0), Cost::of(0, q));
            let exact = (u64::from(p) * u64::from(p)).cmp(&(2 * u64::from(q) * u64::from(q)));
            assert_eq!(straight.cmp(&diagonal), exact, "{p} / {q}");
        }
    }
}
