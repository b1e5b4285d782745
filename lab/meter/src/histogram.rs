//! A histogram of times in nanoseconds: recording takes a few nanoseconds, and no value is kept.
//!
//! A high dynamic range histogram (G. Tene) of 1 ns to 100 s with three significant digits: some
//! 200 KB, whatever the number of values. Histograms are merged by adding counts, because a mean of
//! percentiles means nothing. By the rule of [`Histogram::supported`], a percentile with fewer than
//! a hundred values beyond it is not reported, because it would say more about luck than about the
//! server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest distinct time; longer times count as this one (ns).
pub const NS_MAX: u64 = 100_000_000_000;

/// The number of values that must lie beyond a percentile before it is worth printing.
pub const BEYOND_MIN: f64 = 100.0;

/// Counts of times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
}

/// The usual figures of a histogram, all in nanoseconds, exact to three digits. A figure is null if
/// there was nothing to count, and a high percentile if fewer than a hundred values lie beyond it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// The number of recorded values.
    pub count: u64,
    /// Median.
    #[serde(with = "null_for_zero")]
    #[schemars(with = "Option<u64>")]
    pub p50_ns: u64,
    /// 90th percentile.
    #[serde(with = "null_for_zero")]
    #[schemars(with = "Option<u64>")]
    pub p90_ns: u64,
    /// 99th percentile: needs 10,000 values.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile: needs 100,000 values.
    pub p999_ns: Option<u64>,
    /// Largest value; never compare two of these.
    #[serde(with = "null_for_zero")]
    #[schemars(with = "Option<u64>")]
    pub max_ns: u64,
    /// Arithmetic mean.
    #[serde(with = "null_for_zero")]
    #[schemars(with = "Option<f64>", range(min = 0.0))]
    pub mean_ns: f64,
}

/// Times in JSON, for serde's `with`: none is zero, so zero stands for one of which nothing is
/// known, and is `null`.
pub mod null_for_zero {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a time.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T, S>(time: &T, out: S) -> Result<S::Ok, S::Error>
    where
        T: Default + PartialEq + Serialize,
        S: Serializer,
    {
        Some(time).filter(|time| **time != T::default()).serialize(out)
    }

    /// Reads a time.
    ///
    /// # Errors
    /// It is neither a number nor `null`.
    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: Default + Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Option::deserialize(from).map(Option::unwrap_or_default)
    }
}

impl Quantiles {
    /// Those of `count` values, of which a share does not exceed what `at` says.
    pub(crate) fn of(count: u64, max_ns: u64, mean_ns: f64, at: impl Fn(f64) -> u64) -> Self {
        let supported = |q: f64| is_supported(count, q).then(|| at(q));
        let (p99_ns, p999_ns) = (supported(0.99), supported(0.999));
        Self { count, p50_ns: at(0.5), p90_ns: at(0.9), p99_ns, p999_ns, max_ns, mean_ns }
    }
}

/// Whether at least [`BEYOND_MIN`] of `count` values lie beyond the share `q`.
fn is_supported(count: u64, q: f64) -> bool {
    // Rounding a hair upwards keeps 10,000 values enough for the 99th percentile.
    count as f64 * (1.0 - q) + 1e-6 >= BEYOND_MIN
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, NS_MAX, 3)
            .expect("1 ns to 100 s with three digits is a valid range");
        Self { counts }
    }

    /// Counts `times` values of `ns` each; zero counts as 1 ns, too long as [`NS_MAX`].
    pub fn record(&mut self, ns: u64, times: u64) {
        self.counts.saturating_record_n(ns.max(1), times);
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count() > 0 {
            self.counts.add(&other.counts).expect("all histograms have the same range");
        }
    }

    /// Forgets every value and keeps the memory.
    pub fn clear(&mut self) {
        if self.count() > 0 {
            self.counts.reset();
        }
    }

    /// The number of recorded values.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The value (ns) that a share `q` in 0..=1 of all values does not exceed; 0 if empty.
    pub fn quantile(&self, q: f64) -> u64 {
        self.counts.value_at_quantile(q)
    }

    /// The number of values of at most `ns`, to three digits.
    pub fn count_within(&self, ns: u64) -> u64 {
        if ns == 0 { 0 } else { self.counts.count_between(0, ns.min(NS_MAX)) }
    }

    /// Every value that was recorded (ns, to three digits) with its count, from the smallest on.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// As [`Histogram::quantile`], but only if at least [`BEYOND_MIN`] values lie beyond it.
    pub fn supported(&self, q: f64) -> Option<u64> {
        is_supported(self.count(), q).then(|| self.quantile(q))
    }

    /// Arithmetic mean (ns); 0 if empty.
    pub fn mean(&self) -> f64 {
        self.counts.mean()
    }

    /// Largest value (ns), to three digits; 0 if empty.
    pub fn max(&self) -> u64 {
        self.counts.max()
    }

    /// The usual figures.
    pub fn quantiles(&self) -> Quantiles {
        Quantiles::of(self.count(), self.max(), self.mean(), |q| self.quantile(q))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: u64, expected: u64) {
        let error = found.abs_diff(expected) as f64 / expected as f64;
        assert!(error <= 0.001, "found {found}, expected {expected} to three digits");
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut ramp = Histogram::new();
        (1..=100_000).for_each(|i| ramp.record(i * 1000, 1));
        let found = ramp.quantiles();
        assert_eq!(found.count, 100_000);
        check(found.p50_ns, 50_000_000);
        check(found.p90_ns, 90_000_000);
        check(found.p99_ns.expect("1000 values lie beyond"), 99_000_000);
        check(found.p999_ns.expect("100 values lie beyond"), 99_900_000);
        check(found.max_ns, 100_000_000);
        check(found.mean_ns as u64, 50_000_500);
    }

    #[test]
    fn a_percentile_needs_a_hundred_values_beyond_it() {
        let mut few = Histogram::new();
        few.record(5, 9_999);
        assert_eq!(few.supported(0.99), None);
        few.record(5, 1);
        assert_eq!(few.supported(0.99), Some(5));
        assert_eq!(few.supported(0.999), None);
        assert_eq!(few.quantiles().p50_ns, 5);
    }

    #[test]
    fn merging_is_recording_in_one() {
        let (mut one, mut two, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for i in 0..5_000u64 {
            let ns = i * i * 37;
            both.record(ns, 2);
            if i % 3 == 0 { &mut one } else { &mut two }.record(ns, 2);
        }
        one.merge(&two);
        assert_eq!(one.quantiles(), both.quantiles());
    }

    #[test]
    fn values_within_a_time() {
        let mut few = Histogram::new();
        few.record(1000, 3);
        few.record(2_000_000, 4);
        let within =
            [0, 1, 999, 1000, 1_999_000, 2_000_000, u64::MAX].map(|ns| few.count_within(ns));
        assert_eq!(within, [0, 0, 0, 3, 3, 7, 7]);
        let counts: Vec<(u64, u64)> = few.counts().collect();
        let [(short, 3), (long, 4)] = counts[..] else { panic!("two values: {counts:?}") };
        check(short, 1000);
        check(long, 2_000_000);
    }

    #[test]
    fn what_was_not_counted_is_null() {
        let none = serde_json::to_value(Quantiles::default()).expect("plain data");
        for name in ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns", "mean_ns"] {
            assert!(none[name].is_null(), "{none}");
        }
        assert_eq!(none["count"], 0);
        let mut few = Histogram::new();
        few.record(5, 3);
        for found in [Quantiles::default(), few.quantiles()] {
            let text = serde_json::to_string(&found).expect("plain data");
            assert_eq!(serde_json::from_str::<Quantiles>(&text).expect("its own"), found);
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        let mut ends = Histogram::new();
        assert_eq!(ends.quantiles(), Quantiles::default());
        ends.record(0, 1);
        assert_eq!(ends.max(), 1);
        ends.record(u64::MAX, 1);
        check(ends.max(), NS_MAX);
        ends.clear();
        assert_eq!(ends.count(), 0);
    }
}
