//! Percentiles of times, where some times are only known to be at least a value.
//!
//! A request still unanswered at the end of the run took at least that long. A request that was
//! dropped, lost or answered wrongly has no time at all and sorts after every number. Without both,
//! only the latency of lucky requests would be reported. Here they keep their rank, and a
//! percentile that falls on one of them is reported as "more than" a value.

use meter::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentile {
    /// The percentile, in percent: 50, 90, 95, 99, 99.9.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub percent: f64,
    /// The time (ns); null if nothing at all is known of it.
    #[serde(with = "meter::histogram::null_for_zero")]
    #[schemars(with = "Option<u64>")]
    pub ns: u64,
    /// The time is more than `ns`, and how much more is unknown.
    pub beyond: bool,
}

/// The usual percentiles.
pub const USUAL: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// The percentiles of `known` times, of censored times that are at least `least`, and of `failed`
/// requests that count as longer than any number. A percentile with fewer than a hundred requests
/// beyond it is left out, except for the median.
pub fn percentiles(known: &Histogram, least: &Histogram, failed: u64) -> Vec<Percentile> {
    let mut lower = known.clone();
    lower.merge(least);
    let all = lower.count() + failed;
    let supported = |percent: f64| {
        let beyond = all as f64 * (1.0 - percent / 100.0) + 1e-6;
        all > 0 && (percent <= 50.0 || beyond >= meter::histogram::BEYOND_MIN)
    };
    let percentile = |percent: f64| {
        let rank = ((all as f64 * percent / 100.0 - 1e-6).ceil() as u64).clamp(1, all);
        let at = |times: &Histogram| {
            (rank <= times.count()).then(|| times.quantile(rank as f64 / times.count() as f64))
        };
        // If every censored time were infinite, the percentile would be `upper`; if each were as
        // short as possible, it would be `lower`. If both agree, that is the percentile.
        let (least, most) = (at(&lower).unwrap_or(lower.max()), at(known));
        Percentile { percent, ns: least, beyond: most != Some(least) }
    };
    USUAL.into_iter().filter(|&percent| supported(percent)).map(percentile).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(list: &[(u64, u64)]) -> Histogram {
        let mut times = Histogram::new();
        list.iter().for_each(|&(ns, count)| times.record(ns, count));
        times
    }

    fn check(known: &[(u64, u64)], least: &[(u64, u64)], failed: u64, expected: &[(u64, bool)]) {
        let found = percentiles(&times(known), &times(least), failed);
        let found: Vec<_> = found.iter().map(|it| (it.ns, it.beyond)).collect();
        assert_eq!(found, expected, "{known:?} {least:?} {failed}");
    }

    #[test]
    fn without_censored_times_they_are_the_histograms_own() {
        let expected = [(100, false), (100, false), (1000, false), (1000, false)];
        check(&[(100, 9000), (1000, 1000)], &[], 0, &expected);
        check(&[(100, 10)], &[], 0, &[(100, false)]);
        check(&[], &[], 0, &[]);
    }

    #[test]
    fn a_percentile_in_censored_mass_is_more_than() {
        // 2 % were unanswered for at least 500, so the 99th percentile falls on one of them.
        let expected = [(100, false), (100, false), (100, false), (500, true)];
        check(&[(100, 9800)], &[(500, 200)], 0, &expected);
        // The unanswered requests have waited only 50, so even the median may be larger than it
        // seems.
        check(&[(10, 100), (100, 100)], &[(50, 100)], 0, &[(50, true)]);
        let expected = [(100, false), (100, false), (100, false), (100, true)];
        check(&[(100, 9800)], &[], 200, &expected);
        check(&[], &[], 1000, &[(0, true), (0, true)]);
    }
}
