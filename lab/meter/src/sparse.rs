//! A histogram that is as large as the variety of its values, for hundreds of kinds of requests.
//!
//! [`Histogram`](crate::Histogram) has all its 200 KB from the first value on. This one is a sorted
//! list of the buckets in use, each of 8 bytes. Its buckets are those of a high dynamic range
//! histogram of three significant digits. When there would be more than [`BUCKETS_MAX`] of them,
//! neighbours are merged: the buckets of every octave of time become half as many.

use crate::histogram::{BEYOND_MIN, NS_MAX, Quantiles};

/// The most buckets: 4 KB. Times spread over a factor of 30 are then known to 1 %.
pub const BUCKETS_MAX: usize = 512;
/// Buckets of an octave, as a power of two: 1024 make three significant digits.
const BITS: u32 = 10;

/// Counts of times in nanoseconds, in buckets that are made when they are needed.
#[derive(Clone, Debug, Default)]
pub struct SparseHistogram {
    /// Numbers of buckets and their counts, in ascending order.
    buckets: Vec<(u16, u32)>,
    /// How many of the bits of a bucket were given up.
    coarser: u32,
    count: u64,
    sum: f64,
    max: u64,
}

impl SparseHistogram {
    /// Counts one value (ns); zero counts as 1 ns, too long as [`NS_MAX`].
    pub fn record(&mut self, ns: u64) {
        let ns = ns.clamp(1, NS_MAX);
        self.count += 1;
        self.sum += ns as f64;
        self.max = self.max.max(ns);
        self.add(bucket(ns, BITS - self.coarser), 1);
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Self) {
        while self.coarser < other.coarser {
            self.coarsen();
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        for &(number, times) in &other.buckets {
            let ns = highest(number, BITS - other.coarser);
            self.add(bucket(ns, BITS - self.coarser), times);
        }
    }

    fn add(&mut self, number: u16, times: u32) {
        match self.buckets.binary_search_by_key(&number, |bucket| bucket.0) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(times),
            Err(at) => self.buckets.insert(at, (number, times)),
        }
        while self.buckets.len() > BUCKETS_MAX {
            self.coarsen();
        }
    }

    /// Merges neighbours: half as many buckets in each octave.
    fn coarsen(&mut self) {
        let (fine, coarse) = (BITS - self.coarser, BITS - self.coarser - 1);
        self.coarser += 1;
        for (number, _) in &mut self.buckets {
            *number = bucket(highest(*number, fine), coarse);
        }
        self.buckets.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            is_same
        });
    }

    /// The number of recorded values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Every bucket in use: its highest value (ns), at most the largest recorded one, and its
    /// count, from the smallest on.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let bits = BITS - self.coarser;
        let value = move |number| highest(number, bits).min(self.max);
        self.buckets.iter().map(move |&(number, times)| (value(number), u64::from(times)))
    }

    /// The value (ns) that a share `q` in 0..=1 of all values does not exceed; 0 if empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((q * self.count as f64 - 1e-6).ceil() as u64).max(1);
        let mut passed = 0;
        let mut values = self.counts();
        let reaches = |&(_, times): &(u64, u64)| {
            passed += times;
            passed >= rank
        };
        values.find(reaches).map_or(self.max, |(ns, _)| ns)
    }

    /// The usual figures.
    pub fn quantiles(&self) -> Quantiles {
        let supported =
            |q: f64| (self.count as f64 * (1.0 - q) + 1e-6 >= BEYOND_MIN).then(|| self.quantile(q));
        Quantiles {
            count: self.count,
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: supported(0.99),
            p999_ns: supported(0.999),
            max_ns: self.max,
            mean_ns: if self.count == 0 { 0.0 } else { self.sum / self.count as f64 },
        }
    }
}

/// The number of the bucket of `ns` with `2^bits` buckets in an octave. Below `2^(bits + 1)` ns
/// each value has its own.
fn bucket(ns: u64, bits: u32) -> u16 {
    let octave = ns.ilog2().saturating_sub(bits);
    ((u64::from(octave) << bits) + (ns >> octave)) as u16
}

/// The highest value (ns) of a bucket.
fn highest(number: u16, bits: u32) -> u64 {
    let (number, whole) = (u64::from(number), 1_u64 << bits);
    if number < 2 * whole {
        return number;
    }
    let octave = (number >> bits) - 1;
    let first = (number & (whole - 1)) + whole;
    ((first + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;

    #[test]
    fn buckets_are_contiguous_and_known_to_their_digits() {
        for bits in 1..=BITS {
            let last = bucket(NS_MAX, bits);
            let mut before = 0;
            for number in 1..=last {
                let high = highest(number, bits);
                assert!(high > before, "bucket {number} of {bits} bits");
                assert_eq!((bucket(before + 1, bits), bucket(high, bits)), (number, number));
                before = high;
            }
            assert!(before >= NS_MAX);
        }
    }

    /// The figures agree with those of the large histogram, to `share`.
    fn check(values: impl Iterator<Item = u64>, share: f64) {
        let (mut small, mut parts) = (SparseHistogram::default(), SparseHistogram::default());
        let (mut large, mut half) = (Histogram::new(), SparseHistogram::default());
        for (at, ns) in values.enumerate() {
            small.record(ns);
            if at % 2 == 0 { &mut parts } else { &mut half }.record(ns);
            large.record(ns, 1);
        }
        parts.merge(&half);
        for found in [&small, &parts] {
            assert!(found.buckets.len() <= BUCKETS_MAX);
            assert_eq!(found.counts().map(|it| it.1).sum::<u64>(), large.count());
            for q in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let (found, want) = (found.quantile(q) as f64, large.quantile(q) as f64);
                assert!((found - want).abs() <= want * share + 1.0, "{q}: {found}, {want}");
            }
        }
    }

    #[test]
    fn figures_are_those_of_the_large_histogram() {
        check((1..=400).map(|at| 1_000_000 + at * 1000), 0.001);
        check((0..20_000).map(|at| 300_000 + at * 350), 0.01);
        check((0..40_000_u64).map(|at| at * at * 37), 0.07);
        let mut empty = SparseHistogram::default();
        assert_eq!(empty.quantiles(), Quantiles::default());
        empty.record(0);
        empty.record(u64::MAX);
        assert_eq!((empty.count(), empty.quantile(0.1), empty.quantiles().max_ns), (2, 1, NS_MAX));
    }

    #[test]
    fn memory_grows_with_what_was_seen() {
        let mut few = SparseHistogram::default();
        assert_eq!(few.buckets.capacity(), 0);
        (0..1_000_000_u64).for_each(|_| few.record(5_000_000));
        assert_eq!((few.buckets.len(), few.count()), (1, 1_000_000));
    }
}
