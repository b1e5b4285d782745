//! Times in nanoseconds in few bytes: the form for a slice of a run, or a kind of requests.
//!
//! Where a [`Histogram`](crate::Histogram) has three digits and some 200 KB, a spectrum has 64
//! buckets an octave, at most 16 KB and an error of at most 1.6 %: 8 bytes for each bucket up to
//! the longest time, and an empty one takes no memory at all. A run can keep hundreds of them, and
//! a measuring thread can hand one out ten times a second. Times below 64 ns count as 64 ns,
//! because nothing that crosses a socket is as short.

use crate::histogram::{NS_MAX, Quantiles};

/// Buckets of an octave, as a power of two.
const BITS: u32 = 6;
/// The shortest distinct time (ns): here a bucket is one nanosecond wide.
const NS_MIN: u64 = 1 << BITS;

/// Counts of times on a logarithmic scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spectrum {
    /// Up to the longest time.
    counts: Vec<u64>,
    count: u64,
    sum: f64,
    max: u64,
}

impl Spectrum {
    /// Counts `times` values of `ns` each.
    #[inline]
    pub fn record(&mut self, ns: u64, times: u64) {
        let at = bucket(ns);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += times;
        self.count += times;
        self.sum += ns as f64 * times as f64;
        self.max = self.max.max(ns);
    }

    /// The number of recorded values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value, exactly (ns); 0 if empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Spectrum) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// A time (ns) that a share `q` in 0..=1 of all values does not exceed, at most 1.6 % too
    /// long; `None` if empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = ((self.count as f64 * q).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let at = self.counts.iter().position(|&count| {
            seen += count;
            seen >= rank
        })?;
        Some((edge(at + 1) - 1).min(self.max))
    }

    /// The usual figures; percentiles are up to 1.6 % too long.
    pub fn quantiles(&self) -> Quantiles {
        let mean = self.sum / self.count.max(1) as f64;
        Quantiles::of(self.count, self.max, mean, |q| self.quantile(q).unwrap_or(0))
    }

    /// The counts in buckets, `2^bits` (at most 64) an octave, without the empty ones: the lower
    /// edge (ns) and the count. Edges do not depend on the recorded values.
    pub fn buckets(&self, bits: u32) -> Vec<(u64, u64)> {
        let shift = BITS.saturating_sub(bits);
        let each = self.counts.chunks(1 << shift).map(|chunk| chunk.iter().sum::<u64>());
        let buckets = each.enumerate().filter(|&(_, count)| count > 0);
        buckets.map(|(at, count)| (edge(at << shift), count)).collect()
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.clamp(NS_MIN, NS_MAX);
    let octave = ns.ilog2() - BITS;
    ((octave as usize) << BITS) + ((ns >> octave) - NS_MIN) as usize
}

/// The lower edge of a bucket (ns).
fn edge(at: usize) -> u64 {
    (NS_MIN + (at as u64 & (NS_MIN - 1))) << (at >> BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_bucket_around_it() {
        let mut ns = 1u64;
        while ns < 2 * NS_MAX {
            let (at, inside) = (bucket(ns), ns.clamp(NS_MIN, NS_MAX));
            assert!(edge(at) <= inside && inside < edge(at + 1), "{ns} in {at}");
            assert!((edge(at + 1) - edge(at)) as f64 <= edge(at) as f64 / 64.0, "{ns} in {at}");
            ns += 1 + ns / 97;
        }
        assert!(bucket(u64::MAX) < 2_048);
    }

    #[test]
    fn quantiles_are_those_of_the_exact_histogram() {
        let (mut few, mut exact) = (Spectrum::default(), crate::Histogram::new());
        assert_eq!((few.quantile(0.5), few.max(), few.count()), (None, 0, 0));
        for i in 1..20_000u64 {
            let ns = 500 + i * i;
            few.record(ns, 1);
            exact.record(ns, 1);
        }
        for q in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let (found, wanted) = (few.quantile(q).unwrap() as f64, exact.quantile(q) as f64);
            assert!((found / wanted - 1.0).abs() < 0.018, "{q}: {found} for {wanted}");
        }
        assert_eq!(few.max(), 500 + 19_999 * 19_999);
    }

    #[test]
    fn merging_is_recording_in_one() {
        let (mut one, mut two) = (Spectrum::default(), Spectrum::default());
        let mut both = Spectrum::default();
        for i in 0..1000u64 {
            if i % 3 == 0 { &mut one } else { &mut two }.record(i * i * i, 2);
            both.record(i * i * i, 2);
        }
        one.merge(&Spectrum::default());
        one.merge(&two);
        assert_eq!(one, both);
        let mut none = Spectrum::default();
        none.merge(&one);
        assert_eq!(none, one);
    }

    #[test]
    fn coarse_buckets_hold_the_same() {
        let mut few = Spectrum::default();
        for (ns, times) in [(64, 1), (127, 1), (128, 2), (191, 1), (192, 4), (1 << 30, 3)] {
            few.record(ns, times);
        }
        assert_eq!(few.buckets(0), [(64, 2), (128, 7), (1 << 30, 3)]);
        assert_eq!(few.buckets(1), [(64, 1), (96, 1), (128, 3), (192, 4), (1 << 30, 3)]);
        let all: u64 = few.buckets(9).iter().map(|&(_, count)| count).sum();
        assert_eq!(all, few.count());
        assert!(Spectrum::default().buckets(2).is_empty());
    }
}
