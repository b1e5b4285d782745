//! Evidence: paired comparisons with one log-ratio for each block, an estimate and its interval.
//!
//! The state of a block (caches, clock speed, neighbours) affects both arms, so it cancels in the
//! ratio. One comparison has the interval of the signed-rank test. Comparisons that are made
//! together have wider ones: of equal arms, any interval excludes 1 in one race of twenty, so a
//! claim about the best of many needs no second test next to its interval.

use crate::family::family;
use crate::{Interval, hodges_lehmann, signed_rank_interval};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A paired comparison of one metric: arm against baseline, block by block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// `ln(arm / baseline)` of each block in which both were measured.
    pub log_ratios: Vec<f64>,
    /// The ratio arm / baseline by the Hodges-Lehmann estimate.
    pub ratio: f64,
    /// The interval of the ratio; absent below six blocks.
    pub interval: Option<Interval>,
}

/// Compares pairs of positive values (arm, baseline). `None` when no pair is usable.
pub fn compare(pairs: &[(f64, f64)]) -> Option<Comparison> {
    let usable = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0);
    Comparison::of(usable.map(|(a, b)| (a / b).ln()).collect())
}

/// Compares many pairs of arms at once: each has its kind (the same metric at the same load point)
/// and its log-ratio in each block, `None` where it has none. Comparisons of one kind have a
/// similar noise.
pub fn compare_all(all: &[(usize, Vec<Option<f64>>)], seed: u64) -> Vec<Option<Comparison>> {
    let alone =
        all.iter().map(|(_, logs)| Comparison::of(logs.iter().copied().flatten().collect()));
    let mut found: Vec<Option<Comparison>> = alone.collect();
    if all.len() < 2 {
        return found;
    }
    for (it, joint) in found.iter_mut().zip(family(all, seed)) {
        if let (Some(interval), Some((low, high))) =
            (it.as_mut().and_then(|it| it.interval.as_mut()), joint)
        {
            interval.low = interval.low.min(low.exp());
            interval.high = interval.high.max(high.exp());
        }
    }
    found
}

impl Comparison {
    /// The comparison by these log-ratios; `None` without one.
    pub fn of(log_ratios: Vec<f64>) -> Option<Comparison> {
        let ratio = hodges_lehmann(&log_ratios)?.exp();
        let interval = signed_rank_interval(&log_ratios).map(|it| it.exp());
        Some(Comparison { log_ratios, ratio, interval })
    }

    /// The baseline against the arm.
    pub fn inverse(&self) -> Comparison {
        let turned = |it: Interval| Interval { low: 1.0 / it.high, high: 1.0 / it.low, ..it };
        Comparison {
            log_ratios: self.log_ratios.iter().map(|log| -log).collect(),
            ratio: 1.0 / self.ratio,
            interval: self.interval.map(turned),
        }
    }

    /// The noise floor that this comparison of a baseline with its twin (A/A) shows: how far apart
    /// the two look, as a log-ratio.
    pub fn floor(&self) -> f64 {
        self.ratio.ln().abs()
    }

    /// The side of `bound` (a ratio) on which the arm lies: the whole interval must, and the
    /// estimate must be farther from 1 than `floor`. `None` where neither side is proved.
    pub fn beyond(&self, bound: f64, floor: f64) -> Option<Ordering> {
        self.interval?.side(bound).filter(|_| self.floor() > floor)
    }

    /// The ratio and both ends of its interval; the ratio three times where it has none.
    pub fn triple(&self) -> (f64, f64, f64) {
        let (low, high) = self.interval.map_or((self.ratio, self.ratio), |it| (it.low, it.high));
        (self.ratio, low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_a_ratio_with_an_interval() {
        let pairs: Vec<(f64, f64)> = (0..6).map(|b| (2.0, 1.0 + 0.01 * f64::from(b))).collect();
        let found = compare(&pairs).expect("six pairs");
        assert!((found.ratio - 2.0 / 1.025).abs() < 0.001, "{found:?}");
        let interval = found.interval.expect("six pairs");
        assert!((interval.high - 2.0).abs() < 1e-9, "{interval:?}");
        assert!((interval.low - 2.0 / 1.05).abs() < 1e-9, "{interval:?}");
        assert_eq!(compare(&pairs[..5]).expect("five pairs").interval, None);
        assert_eq!(compare(&[(0.0, 1.0)]), None);
        let turned = found.inverse();
        assert!((turned.ratio * found.ratio - 1.0).abs() < 1e-12, "{turned:?}");
        assert_eq!(found.beyond(1.0, 0.1), Some(Ordering::Greater));
        assert_eq!(turned.beyond(1.0, 0.1), Some(Ordering::Less));
        assert_eq!((found.beyond(1.0, 0.9), found.beyond(1.95, 0.1)), (None, None));
    }
}
