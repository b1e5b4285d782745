//! Paired comparisons: one log-ratio for each block, their median and its intervals.
//!
//! The state of a block (caches, clock speed, neighbours) affects both arms, so it cancels in the
//! ratio.

use crate::{Interval, bootstrap_t, median, median_interval};
use serde::{Deserialize, Serialize};

/// A paired comparison of one metric: arm against baseline, block by block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// `ln(arm / baseline)` of each block in which both were measured.
    pub log_ratios: Vec<f64>,
    /// Median ratio arm / baseline.
    pub ratio: f64,
    /// The exact interval of the ratio; absent below six blocks.
    pub interval: Option<Interval>,
    /// The bootstrap interval of the geometric mean ratio; absent below six blocks.
    pub bootstrap: Option<Interval>,
}

/// Compares pairs of positive values (arm, baseline). `None` when no pair is usable. The bootstrap
/// is left out for 0 resamples.
pub fn compare(pairs: &[(f64, f64)], resamples: usize, seed: u64) -> Option<Comparison> {
    let usable = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0);
    let log_ratios: Vec<f64> = usable.map(|(a, b)| (a / b).ln()).collect();
    let ratio = median(&log_ratios)?.exp();
    let interval = median_interval(&log_ratios).map(|it| it.exp());
    let bootstrap = bootstrap_t(&log_ratios, resamples, seed).map(|it| it.exp());
    Some(Comparison { log_ratios, ratio, interval, bootstrap })
}

impl Comparison {
    /// The noise floor that this comparison of a baseline with its twin (A/A) shows: the log-ratio
    /// of the interval's end that is farther from 1, or of the ratio where there is no interval.
    pub fn floor(&self) -> f64 {
        match &self.interval {
            Some(it) => it.low.ln().abs().max(it.high.ln().abs()),
            None => self.ratio.ln().abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_a_ratio_with_an_interval() {
        let pairs: Vec<(f64, f64)> = (0..6).map(|b| (2.0, 1.0 + 0.01 * f64::from(b))).collect();
        let found = compare(&pairs, 400, 1).expect("six pairs");
        assert!((found.ratio - 2.0 / 1.025).abs() < 0.001, "{found:?}");
        let interval = found.interval.expect("six pairs");
        assert!((interval.high - 2.0).abs() < 1e-9, "{interval:?}");
        assert!((interval.low - 2.0 / 1.05).abs() < 1e-9, "{interval:?}");
        assert_eq!(compare(&pairs[..5], 400, 1).expect("five pairs").interval, None);
        assert_eq!(compare(&[(0.0, 1.0)], 400, 1), None);
    }
}
