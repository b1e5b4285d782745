//! Slices of a run: latency over time, small enough to be kept with every trial.
//!
//! The generator reports up to 64 slices with some twenty buckets each; two hundred trials would
//! make a raw file of many megabytes. So the laboratory keeps at most [`KEPT_MAX`] slices and two
//! buckets for each octave, about 3 kB a trial. Percentiles of joined slices are computed before
//! the buckets are merged, so they are as exact as the generator's own.

use meter::histogram::NS_MAX;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The maximum number of slices that are kept of a window.
pub const KEPT_MAX: usize = 24;
/// With fewer replies than this there is no 99th percentile worth drawing.
const P99_MIN: u64 = 100;

/// One slice of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its beginning, from the beginning of the window, milliseconds.
    pub at_ms: f64,
    /// Its length, milliseconds.
    pub for_ms: f64,
    /// Requests answered in it.
    pub requests: u64,
    /// Requests that failed in it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errors: u64,
    /// Median latency of those, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<f64>,
    /// 99th percentile; absent if there are too few requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<f64>,
    /// The longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<f64>,
    /// The same latencies as a histogram: lower edge in nanoseconds and count, in order, empty
    /// buckets left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded")]
    pub buckets: Vec<(u64, u64)>,
}

/// Buckets of latencies that a generator can measure, with counts that a float holds exactly.
fn bounded<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<(u64, u64)>, D::Error> {
    let buckets = Vec::<(u64, u64)>::deserialize(source)?;
    match buckets.iter().find(|(ns, count)| *ns > 2 * NS_MAX || *count > 1 << 53) {
        None => Ok(buckets),
        Some((ns, count)) => Err(D::Error::custom(format!(
            "expected latencies below {} ns, each at most 2^53 times, found {ns} ns {count} times",
            2 * NS_MAX
        ))),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Slice {
    /// Joins neighbours to one slice. Without any bucket its percentiles are absent. Replies of
    /// unknown latency, such as those to requests from before the window, only count.
    pub fn joined(slices: &[Slice]) -> Slice {
        let [first, rest @ ..] = slices else { return Slice::default() };
        if rest.is_empty() {
            return first.clone();
        }
        let last = rest.last().unwrap_or(first);
        let buckets = sum(slices.iter().flat_map(|it| &it.buckets).copied());
        let counted = total(buckets.iter().map(|it| it.1));
        Slice {
            at_ms: first.at_ms,
            for_ms: last.at_ms + last.for_ms - first.at_ms,
            requests: total(slices.iter().map(|it| it.requests)),
            errors: total(slices.iter().map(|it| it.errors)),
            p50_ns: quantile(&buckets, 0.5),
            p99_ns: quantile(&buckets, 0.99).filter(|_| counted >= P99_MIN),
            max_ns: slices.iter().filter_map(|it| it.max_ns).max_by(f64::total_cmp),
            buckets,
        }
    }
}

/// A sum that foreign numbers cannot overflow.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// The slices to keep: at most [`KEPT_MAX`], with neighbours joined if there are more, and buckets
/// of half an octave. If no slice has buckets, nothing can be joined.
pub fn condensed(slices: Vec<Slice>) -> Vec<Slice> {
    let told = slices.iter().any(|it| !it.buckets.is_empty());
    let each = if told { slices.len().div_ceil(KEPT_MAX).max(1) } else { 1 };
    let mut kept: Vec<Slice> = slices.chunks(each).map(Slice::joined).collect();
    // A window ends a little after its last whole slice; the remainder becomes part of that slice.
    if let [.., whole, sliver] = kept.as_slice()
        && told
        && sliver.for_ms < whole.for_ms / 2.0
    {
        let joined = Slice::joined(&[whole.clone(), sliver.clone()]);
        kept.truncate(kept.len() - 2);
        kept.push(joined);
    }
    for slice in &mut kept {
        slice.buckets = sum(slice.buckets.iter().map(|&(ns, count)| (half_octave(ns), count)));
    }
    kept
}

/// The lower edge of the half octave that holds a time: 2^k or 1.5 times that.
pub fn half_octave(ns: u64) -> u64 {
    let octave = 1_u64 << ns.max(1).ilog2();
    let middle = octave + octave / 2;
    if ns >= middle { middle } else { octave }
}

/// Adds up the counts of equal edges, in order.
pub fn sum(buckets: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut found = std::collections::BTreeMap::<u64, u64>::new();
    for (ns, count) in buckets {
        let known = found.entry(ns).or_default();
        *known = known.saturating_add(count);
    }
    found.into_iter().collect()
}

/// A quantile of a histogram, nanoseconds: the middle, by ratio, of the bucket that holds it. The
/// next edge of the scale ends a bucket; after the last known edge it is half an octave.
pub fn quantile(buckets: &[(u64, u64)], share: f64) -> Option<f64> {
    let all = total(buckets.iter().map(|it| it.1));
    let wanted = (all as f64 * share).ceil().max(1.0);
    let mut seen = 0.0;
    for (at, &(ns, count)) in buckets.iter().enumerate() {
        seen += count as f64;
        if seen >= wanted {
            let (low, wide) = (ns.max(1) as f64, half_octave(ns) as f64 * 0.5);
            let next = buckets.get(at + 1).map_or(low + wide, |it| it.0 as f64);
            return Some((low * next.min(low + wide)).sqrt());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(at: u64, buckets: &[(u64, u64)]) -> Slice {
        Slice {
            at_ms: at as f64 * 10.0,
            for_ms: 10.0,
            requests: buckets.iter().map(|it| it.1).sum(),
            max_ns: buckets.last().map(|it| it.0 as f64),
            buckets: buckets.to_vec(),
            ..Slice::default()
        }
    }

    #[test]
    fn many_slices_become_few_and_lose_no_request() {
        for count in [0, 1, 23, 24, 25, 48, 49, 64] {
            let many: Vec<Slice> =
                (0..count).map(|at| slice(at, &[(1_100, 90), (9_000 + at, 10)])).collect();
            let few = condensed(many);
            assert!(few.len() <= KEPT_MAX, "{count}: {}", few.len());
            assert_eq!(few.iter().map(|it| it.requests).sum::<u64>(), count * 100);
            assert!(
                (few.iter().map(|it| it.for_ms).sum::<f64>() - count as f64 * 10.0).abs() < 1e-9
            );
            let sliver = few.last().is_some_and(|it| it.for_ms < few[0].for_ms / 2.0);
            assert!(!sliver, "{count}");
            for slice in &few {
                let edges: Vec<u64> = slice.buckets.iter().map(|it| it.0).collect();
                assert_eq!(edges, [1_024, 8_192], "half octaves");
                let text = serde_json::to_string(slice).expect("numbers");
                assert!(text.len() < 150 && !text.contains("errors"), "{text}");
                assert_eq!(&serde_json::from_str::<Slice>(&text).expect("ours"), slice);
            }
        }
    }

    #[test]
    fn joined_percentiles_come_from_the_buckets() {
        let found =
            Slice::joined(&[slice(0, &[(1_000, 99)]), slice(1, &[(4_000, 1), (64_000, 2)])]);
        let near =
            |found: Option<f64>, want: f64| found.is_some_and(|it| (it / want - 1.0).abs() < 0.3);
        assert!(near(found.p50_ns, 1_000.0) && near(found.p99_ns, 64_000.0), "{found:?}");
        assert_eq!((found.requests, found.max_ns, found.for_ms), (102, Some(64_000.0), 20.0));
        // Foreign slices without buckets are left as they are.
        let bare = |at: u64| Slice {
            requests: 5,
            p50_ns: Some(7.0),
            buckets: Vec::new(),
            ..slice(at, &[])
        };
        let kept = condensed((0..60).map(bare).collect());
        assert_eq!((kept.len(), kept[0].p50_ns), (60, Some(7.0)));
        assert_eq!(Slice::joined(&[bare(0), bare(1)]).p50_ns, None);
        assert_eq!(quantile(&[], 0.5), None);
        // The first replies of a window answer requests from before it: they have no time.
        let first = Slice { requests: 8, ..slice(0, &[]) };
        let both = Slice::joined(&[first, slice(1, &[(1_000, 200)])]);
        assert!(both.requests == 208 && near(both.p99_ns, 1_000.0), "{both:?}");
    }

    #[test]
    fn edges_are_half_octaves() {
        fn check(ns: u64, want: u64) {
            assert_eq!(half_octave(ns), want);
        }
        check(0, 1);
        check(1, 1);
        check(2, 2);
        check(3, 3);
        check(1_023, 768);
        check(1_024, 1_024);
        check(u64::MAX, 3 << 62);
    }
}
