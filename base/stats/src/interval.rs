//! Medians and their intervals, without the assumption of a normal distribution.
//!
//! The interval is made of two of the observed values, whose ranks come from the binomial
//! distribution (Hahn and Meeker, *Statistical Intervals*, section 5.2). It is exact for every
//! continuous distribution; run-to-run times are seldom normal (Maricq et al., OSDI 2018).

use crate::CONFIDENCE;
use serde::{Deserialize, Serialize};

/// An interval, in the unit of the values it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The probability that such an interval holds the true value, 0 to 1.
    pub cover: f64,
}

impl Interval {
    /// Both ends through `exp`: from log-ratios to ratios.
    pub fn exp(&self) -> Interval {
        Interval { low: self.low.exp(), high: self.high.exp(), cover: self.cover }
    }
}

/// The median; the mean of the two in the middle when the count is even. `None` for no value.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Ranks (from 1) of the narrowest symmetric pair of order statistics that covers the median of `n`
/// values with at least 95 %, and the actual coverage. `None` below six values.
pub fn median_ranks(n: usize) -> Option<(usize, usize, f64)> {
    // P(fewer than k of n fair coins show heads), summed until a tail would exceed 2.5 %.
    let tail_max = (1.0 - CONFIDENCE) / 2.0;
    let mut term = 0.5_f64.powi(i32::try_from(n).ok()?);
    let (mut tail, mut low) = (0.0, 0);
    while low < n && tail + term <= tail_max {
        tail += term;
        low += 1;
        term *= (n - low + 1) as f64 / low as f64;
    }
    (low > 0).then(|| (low, n + 1 - low, 1.0 - 2.0 * tail))
}

/// The exact order-statistic interval of the median. `None` below six values.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let (low, high, cover) = median_ranks(values.len())?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(Interval { low: sorted[low - 1], high: sorted[high - 1], cover })
}

/// Standard deviation of a normal distribution whose median distance from the median is that of
/// `values`: 1.4826 times it (Huber and Ronchetti, *Robust Statistics*, section 5.1). `None` below
/// two values.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values).filter(|_| values.len() >= 2)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances).map(|distance| 1.4826 * distance)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn ranks_are_those_of_the_binomial() {
        fn check(n: usize, want: Option<(usize, usize, f64)>) {
            let found = median_ranks(n);
            let same = match (found, want) {
                (None, None) => true,
                (Some(f), Some(w)) => (f.0, f.1) == (w.0, w.1) && (f.2 - w.2).abs() < 0.0006,
                _ => false,
            };
            assert!(same, "n {n}: expected {want:?}, found {found:?}");
        }
        check(0, None);
        check(5, None);
        check(6, Some((1, 6, 0.969)));
        check(8, Some((1, 8, 0.992)));
        check(9, Some((2, 8, 0.961)));
        check(10, Some((2, 9, 0.979)));
        check(12, Some((3, 10, 0.961)));
        check(15, Some((4, 12, 0.965)));
        check(20, Some((6, 15, 0.959)));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    /// A standard normal value (Box and Muller).
    pub(crate) fn normal(rng: &mut Rng) -> f64 {
        let (u, v): (f64, f64) = (1.0 - rng.unit(), rng.unit());
        (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
    }

    /// Distributions with median 0, like those of single trials, from well-behaved to difficult.
    pub(crate) fn draw(kind: &str, rng: &mut Rng) -> f64 {
        match kind {
            "normal" => normal(rng),
            "log-normal" => normal(rng).exp() - 1.0,
            // Within a block the machine slows down; a coin decides which arm came first.
            "drifting" if rng.unit() < 0.5 => 1.5 + normal(rng),
            "drifting" => -1.5 + normal(rng),
            "contaminated" if rng.unit() < 0.1 => 10.0 * normal(rng),
            _ => normal(rng),
        }
    }

    #[test]
    fn the_exact_interval_covers_what_it_says() {
        let kinds = ["normal", "log-normal", "contaminated", "drifting"];
        for (at, kind) in kinds.into_iter().enumerate() {
            for n in [6, 10, 12, 20] {
                let seed = 100 * at as u64 + n as u64;
                let mut rng = Rng::new(seed);
                let rounds = 10_000;
                let held = (0..rounds)
                    .filter(|_| {
                        let values: Vec<f64> = (0..n).map(|_| draw(kind, &mut rng)).collect();
                        let it = median_interval(&values).expect("six values or more");
                        it.low <= 0.0 && 0.0 <= it.high
                    })
                    .count();
                let cover = held as f64 / f64::from(rounds);
                assert!((0.93..=0.985).contains(&cover), "{kind} n {n} seed {seed}: {cover}");
            }
        }
    }
}
