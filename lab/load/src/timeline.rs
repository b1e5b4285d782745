//! The window in slices of time, to show slow times.
//!
//! A run of any length has at most [`SLICES_MAX`] slices: when there are more, pairs are merged and
//! slices become twice as long. So memory does not grow with time, and the slice length need not be
//! chosen before the length of the run is known. A request belongs to the slice of its reply, not
//! to that of its due time; a stall therefore shows as an empty slice followed by a bad one.

use crate::Instant;
use meter::Spectrum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most slices; runs longer than a second have at least half as many.
pub const SLICES_MAX: usize = 64;
/// The most buckets of a slice in a report.
pub const BUCKETS_MAX: usize = 40;
const SLICE_NS: u64 = 10_000_000;
/// Slices with fewer times than this have no 99th percentile.
const P99_MIN: u64 = 100;

/// One slice, in a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Its start, from the start of the window (ms).
    #[schemars(range(min = 0.0))]
    pub at_ms: f64,
    /// Its length (ms); only the last slice may differ.
    #[schemars(range(min = 0.0))]
    pub for_ms: f64,
    /// Right replies that arrived in it.
    pub requests: u64,
    /// Requests that failed in it: answered wrongly, lost with their connection, or dropped.
    pub errors: u64,
    /// Median of their times (response times; in a closed loop service times) to 2 %; `null`
    /// without replies.
    pub p50_ns: Option<u64>,
    /// 99th percentile to 2 %; `null` where fewer than a hundred times were measured.
    pub p99_ns: Option<u64>,
    /// The longest; `null` without replies.
    pub max_ns: Option<u64>,
    /// The same times on a logarithmic scale, without empty buckets: lower edge (ns) and count. An
    /// octave has 8, 4, 2 or 1 equally wide buckets, the same in all slices of a run.
    #[schemars(length(max = BUCKETS_MAX))]
    pub buckets: Vec<(u64, u64)>,
}

/// A slice during the run.
#[derive(Clone, Debug, Default)]
struct Strip {
    requests: u64,
    errors: u64,
    times: Spectrum,
}

/// The slices of a window in progress.
#[derive(Clone, Debug)]
pub struct Timeline {
    start: Instant,
    slice_ns: u64,
    end: Instant,
    /// Never empty; the last one is the current one.
    strips: Vec<Strip>,
}

impl Timeline {
    /// A window that begins at `start`.
    pub fn new(start: Instant) -> Self {
        let end = Instant::from_ns(start.ns() + SLICE_NS);
        Self { start, slice_ns: SLICE_NS, end, strips: vec![Strip::default()] }
    }

    /// Counts right replies that arrived at `now`, with their time (ns) if measured.
    #[inline]
    pub fn replied(&mut self, now: Instant, count: u64, ns: Option<u64>) {
        let strip = self.at(now);
        strip.requests += count;
        if let Some(ns) = ns {
            strip.times.record(ns, count);
        }
    }

    /// Counts requests that failed about now.
    pub fn failed(&mut self, count: u64) {
        if let Some(strip) = self.strips.last_mut() {
            strip.errors += count;
        }
    }

    /// The slice of a moment; moments never decrease.
    #[inline]
    fn at(&mut self, now: Instant) -> &mut Strip {
        if now >= self.end {
            self.go_on(now);
        }
        self.strips.last_mut().expect("there is always a present")
    }

    #[cold]
    fn go_on(&mut self, now: Instant) {
        let since = now.ns().saturating_sub(self.start.ns());
        while since / self.slice_ns >= SLICES_MAX as u64 {
            self.coarsen();
        }
        let wanted = (since / self.slice_ns) as usize + 1;
        self.strips.resize(wanted, Strip::default());
        self.end = Instant::from_ns(self.start.ns() + wanted as u64 * self.slice_ns);
    }

    /// Merges pairs of slices.
    fn coarsen(&mut self) {
        let mut old = std::mem::take(&mut self.strips).into_iter();
        while let Some(mut first) = old.next() {
            old.next().iter().for_each(|second| first.merge(second));
            self.strips.push(first);
        }
        self.slice_ns *= 2;
    }

    /// Adds the slices of another thread with the same window.
    pub fn merge(&mut self, mut other: Timeline) {
        while self.slice_ns < other.slice_ns {
            self.coarsen();
        }
        while other.slice_ns < self.slice_ns {
            other.coarsen();
        }
        let length = self.strips.len().max(other.strips.len());
        self.strips.resize(length, Strip::default());
        self.end = self.end.max(other.end);
        self.strips.iter_mut().zip(&other.strips).for_each(|(mine, it)| mine.merge(it));
    }

    /// The slices of a window of this length (ns).
    pub fn slices(mut self, window_ns: u64) -> Vec<Slice> {
        let last = Instant::from_ns(self.start.ns() + window_ns.saturating_sub(1));
        // The window may end without replies.
        self.at(last);
        let bits = self.bits();
        let (each, count) = (self.slice_ns, self.strips.len() as u64);
        let ms = |ns: u64| ns as f64 / 1e6;
        let slices = self.strips.iter().zip(0..).map(|(strip, at)| {
            let end = if at + 1 == count { window_ns.max(at * each) } else { (at + 1) * each };
            strip.report(ms(at * each), ms(end - at * each), bits)
        });
        slices.collect()
    }

    /// The finest scale on which no slice has too many buckets.
    fn bits(&self) -> u32 {
        let most = |bits| self.strips.iter().map(|it| it.times.buckets(bits).len()).max();
        let fits = |bits: &u32| most(*bits).unwrap_or(0) <= BUCKETS_MAX;
        (0..=3).rev().find(fits).unwrap_or(0)
    }
}

impl Strip {
    fn merge(&mut self, other: &Strip) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.times.merge(&other.times);
    }

    fn report(&self, at_ms: f64, for_ms: f64, bits: u32) -> Slice {
        let times = &self.times;
        let (some, many) = (times.count() > 0, times.count() >= P99_MIN);
        Slice {
            at_ms,
            for_ms,
            requests: self.requests,
            errors: self.errors,
            p50_ns: times.quantile(0.5),
            p99_ns: many.then(|| times.quantile(0.99)).flatten(),
            max_ns: some.then(|| times.max()),
            buckets: times.buckets(bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * MS)
    }

    /// A window from 100 ms on, with a reply each millisecond whose time equals the window's age.
    fn ramp(ms: u64) -> Timeline {
        let mut timeline = Timeline::new(at(100));
        (0..ms).for_each(|it| timeline.replied(at(100 + it), 1, Some((it + 1) * MS)));
        timeline
    }

    fn sum(slices: &[Slice]) -> u64 {
        slices.iter().map(|it| it.requests).sum()
    }

    #[test]
    fn a_stall_is_empty_slices() {
        let mut timeline = ramp(10);
        timeline.replied(at(150), 150, None);
        timeline.replied(at(150), 150, Some(40 * MS));
        timeline.failed(7);
        let slices = timeline.slices(100 * MS);
        let found: Vec<_> = slices.iter().map(|it| (it.requests, it.errors)).collect();
        let mut wanted = vec![(0, 0); 10];
        (wanted[0], wanted[5]) = ((10, 0), (300, 7));
        assert_eq!(found, wanted);
        let (first, stall, bad) = (&slices[0], &slices[1], &slices[5]);
        assert_eq!((first.p99_ns, first.p50_ns.is_some()), (None, true));
        assert_eq!((stall.p50_ns, stall.max_ns, stall.buckets.len()), (None, None, 0));
        assert_eq!((bad.p99_ns, bad.max_ns), (Some(40 * MS), Some(40 * MS)));
    }

    #[test]
    fn threads_add_up_whatever_their_slices() {
        let mut short = ramp(30);
        short.merge(ramp(2_000));
        assert_eq!(short.slice_ns, 40 * MS);
        let mut long = ramp(2_000);
        long.merge(ramp(30));
        let (short, long) = (short.slices(2_000 * MS), long.slices(2_000 * MS));
        assert_eq!(sum(&short), 2_030);
        assert_eq!(short, long);
    }

    #[test]
    fn buckets_are_the_same_in_all_slices_and_never_too_many() {
        let mut timeline = Timeline::new(at(0));
        (0..740).for_each(|it| timeline.replied(at(1), 1, Some((16 + it % 20) << (it / 20))));
        timeline.replied(at(15), 1, Some(5_000));
        let slices = timeline.slices(20 * MS);
        assert!(slices[0].buckets.len() <= BUCKETS_MAX && slices[0].buckets.len() > 25);
        assert_eq!(slices[1].buckets, [(4096, 1)]);
    }
}
