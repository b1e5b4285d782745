//! Figures of sent streams: packets, calls, failures, and the lateness of each packet.
//!
//! The lateness of a packet is the time from its due time to the return of the call that sent it.
//! The schedule is fixed beforehand, so a worker that is held up is charged for every packet that
//! it owes, not only for the packet it was sending.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seam::{PacketClass, Share};

/// Buckets for each doubling; the error is at most an eighth.
const PER_DOUBLING: u32 = 8;
/// Doublings from 1 ns to 18 minutes.
const DOUBLINGS: u32 = 40;
const BUCKETS: usize = (PER_DOUBLING * DOUBLINGS) as usize;
const CLASSES: usize = PacketClass::ALL.len();
/// A packet later than this counts as late: a third of the usual 30 ms of audio.
pub const LATE: Duration = Duration::from_millis(10);

/// The figures of all streaming workers of a server; readable while it runs.
#[derive(Debug)]
#[repr(C)]
pub struct StreamStats {
    /// Packets that the kernel accepted.
    pub packets: Counter,
    /// System calls that sent them.
    pub calls: Counter,
    /// Packets that could not leave because a buffer was full or the packet was refused.
    pub failed: Counter,
    /// Packets that left later than [`LATE`].
    pub late: Counter,
    /// Calls of streams that were late and continued at twice their rate.
    pub caught_up: Counter,
    /// Streams started.
    pub started: Counter,
    /// Streams closed.
    pub closed: Counter,
    /// Datagrams received.
    pub received: Counter,
    /// Packets of each class that were too late for it and were not sent.
    pub dropped: [Counter; CLASSES],
    lateness: [[AtomicU64; BUCKETS]; CLASSES],
}

/// A counter that several workers add to.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Its value.
    #[inline]
    #[must_use]
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

// SAFETY: atomics only, for which zero is a value.
unsafe impl Share for StreamStats {}

impl Default for StreamStats {
    fn default() -> StreamStats {
        StreamStats {
            packets: Counter::default(),
            calls: Counter::default(),
            failed: Counter::default(),
            late: Counter::default(),
            caught_up: Counter::default(),
            started: Counter::default(),
            closed: Counter::default(),
            received: Counter::default(),
            dropped: Default::default(),
            lateness: [const { [const { AtomicU64::new(0) }; BUCKETS] }; CLASSES],
        }
    }
}

impl StreamStats {
    /// Records the lateness of `packets` packets of a class.
    #[inline]
    pub fn note(&self, class: PacketClass, lateness: Duration, packets: u64) {
        let ns = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        self.lateness[class as usize][bucket(ns)].fetch_add(packets, Ordering::Relaxed);
        if lateness > LATE {
            self.late.add(packets);
        }
    }

    /// The lateness that a fraction `share` of the packets (0.0 to 1.0) did not exceed, within an
    /// eighth; `None` before the first.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        self.quantile_of(&PacketClass::ALL, share)
    }

    fn quantile_of(&self, classes: &[PacketClass], share: f64) -> Option<Duration> {
        let of = |class: &PacketClass| &self.lateness[*class as usize];
        let count = |at: usize| {
            classes.iter().map(|class| of(class)[at].load(Ordering::Relaxed)).sum::<u64>()
        };
        let counts: Vec<u64> = (0..BUCKETS).map(count).collect();
        let all: u64 = counts.iter().sum();
        let rank = ((all as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        let at = counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(Duration::from_nanos(upper(at)))
    }

    /// The number of packets whose lateness is known.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.lateness.iter().flatten().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Streams running now.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.started.read().saturating_sub(self.closed.read())
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(u64::from(PER_DOUBLING));
    let doubling = ns.ilog2();
    // The three bits after the first one.
    let part = (ns >> (doubling - 3)) & u64::from(PER_DOUBLING - 1);
    (((doubling - 3) * PER_DOUBLING) as usize + part as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let (doubling, part) = (bucket as u32 / PER_DOUBLING, bucket as u64 % 8);
    ((8 + part + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_it_says_to_an_eighth() {
        for ns in (0..60).flat_map(|bit| [1_u64 << bit, (1 << bit) + 1, (3 << bit) / 2]) {
            let upper = upper(bucket(ns));
            if ns < 1 << 42 {
                assert!(ns <= upper && upper <= ns.max(8) * 9 / 8, "{ns}: {upper}");
            }
        }
    }

    #[test]
    fn quantiles_count_every_packet() {
        let stats = StreamStats::default();
        assert_eq!(stats.quantile(0.5), None);
        stats.note(PacketClass::Audio, Duration::from_micros(100), 989);
        stats.note(PacketClass::Video, Duration::from_millis(20), 11);
        let us = |share| stats.quantile(share).map(|span| span.as_micros() as u64 / 12);
        assert_eq!((us(0.5), us(0.98)), (Some(8), Some(8)));
        let audio = stats.quantile_of(&[PacketClass::Audio], 1.0);
        assert_eq!(
            (audio, stats.quantile_of(&[PacketClass::Bulk], 1.0)),
            (stats.quantile(0.5), None)
        );
        assert!(stats.quantile(0.99).is_some_and(|span| span >= Duration::from_millis(20)));
        assert_eq!((stats.late.read(), stats.running()), (11, 0));
    }
}
