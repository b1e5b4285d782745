//! The laboratory of senders: each sender runs in a process of its own, in an environment that the
//! laboratory sets up.
//!
//! It separates questions that one number cannot answer: how late packets leave (*pacing*), the
//! cost of a packet (*CPU per packet*), and how pacing changes when other processes compete for the
//! core (*overload*). Each has its own sink, whose name is printed next to the figure.
//!
//! The duration of a session is no such question: a paced stream takes as long as its schedule
//! says, or longer, whatever the cost of a packet.

mod company;
mod sink;
mod soak;
mod trial;

pub use company::Company;
pub use sink::Sink;
pub use soak::{Tick, cost_ns};
pub use trial::{Around, Rank, Sending, Trial};

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The work: equal packets in streams whose beginnings are spread over the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The number of concurrent streams.
    pub streams: u32,
    /// Packets of each stream.
    pub packets: u32,
    /// Microseconds from one packet of a stream to the next; 0: as fast as possible.
    pub gap_us: u64,
    /// Bytes of payload, without the header of 12 bytes.
    pub payload: u32,
    /// Payloads come from a file instead of memory.
    pub file: bool,
}

impl Default for Work {
    /// One packet of 32 bytes from memory.
    fn default() -> Work {
        let (streams, packets, gap_us) = (1, 1, 0);
        Work { streams, packets, gap_us, payload: 32, file: false }
    }
}

impl Work {
    /// The published work: ten sessions that send 32 bytes every 30 ms, for about `time`, from a
    /// file.
    pub fn audio(time: Duration) -> Work {
        let gap = Duration::from_millis(30);
        let packets = (time.as_micros() / gap.as_micros()).max(2) as u32;
        Work { streams: 10, packets, gap_us: 30_000, file: true, ..Work::default() }
    }

    /// The gap.
    pub fn gap(&self) -> Duration {
        Duration::from_micros(self.gap_us)
    }

    /// The duration of the work by its schedule.
    pub fn length(&self) -> Duration {
        self.gap() * self.packets
    }

    /// The work as text, such as `10 streams of 32 B each 30 ms`.
    pub fn words(&self) -> String {
        let streams = match self.streams {
            1 => "1 stream".to_string(),
            many => format!("{many} streams"),
        };
        let from = if self.file { " from a file" } else { "" };
        let payload = self.payload;
        match self.gap_us {
            0 => format!("{streams} of {payload} B{from} as fast as it can"),
            us => {
                let gap = us as f64 / 1e3;
                format!("{streams} of {payload} B{from} each {gap} ms")
            }
        }
    }
}

/// The lateness of packets against their schedule, in nanoseconds; below zero: early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Packets with a known time.
    pub packets: u64,
    /// The median.
    pub p50_ns: i64,
    /// The 90th percentile.
    pub p90_ns: i64,
    /// The 99th percentile.
    pub p99_ns: i64,
    /// The 99.9th percentile.
    pub p999_ns: i64,
    /// The latest.
    pub max_ns: i64,
    /// The growth of lateness in 30 s: the slope of a line through all packets; absent if only the
    /// sender knows when they left.
    pub drift_ns: Option<i64>,
    /// The fraction later than 60 ms, when the buffer of a usual receiver has run dry.
    pub dry: f64,
}

/// A figure over the streams, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The smallest figure of a stream.
    pub least_ns: i64,
    /// The mean over all streams.
    pub mean_ns: i64,
    /// The greatest figure of a stream.
    pub most_ns: i64,
}

impl Extent {
    /// The extent of one figure for each stream; `None` without streams.
    pub fn of(streams: impl Iterator<Item = i64>) -> Option<Extent> {
        let all: Vec<i64> = streams.collect();
        Some(Extent {
            least_ns: *all.iter().min()?,
            mean_ns: (all.iter().map(|it| i128::from(*it)).sum::<i128>() / all.len() as i128)
                as i64,
            most_ns: *all.iter().max()?,
        })
    }
}

/// The growth of one stream's lateness in 30 s, in nanoseconds, from due time and lateness of its
/// packets; `None` without two different due times.
pub fn drift_ns(packets: &[(u64, i64)]) -> Option<i64> {
    slope(packets).map(|slope| (slope * 30e9) as i64)
}

/// Nanoseconds from a stream's first packet to its last; `None` without packets.
pub fn span_ns(packets: &[(u64, i64)]) -> Option<i64> {
    let first = packets.iter().min_by_key(|(due, _)| *due)?;
    let last = packets.iter().max_by_key(|(due, _)| *due)?;
    (last.0 > first.0).then(|| (last.0 - first.0) as i64 + last.1 - first.1)
}

/// The result of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// The sender.
    pub sender: String,
    /// Streams.
    pub streams: u32,
    /// Packets that the kernel accepted.
    pub sent: u64,
    /// Packets that it refused.
    pub failed: u64,
    /// Packets that the receiver got; 0 without a receiver.
    pub heard: u64,
    /// System calls that sent (the sender's own count).
    pub calls: u64,
    /// CPU time of the sender's process without its receiver, nanoseconds. The kernel's own work
    /// (timer interrupts, kernel threads) is not included.
    pub cpu_ns: u64,
    /// Voluntary and involuntary context switches of the same threads.
    pub switches: u64,
    /// Growth of the whole machine's kernel memory (slab, stacks, page tables) at half-time, in
    /// bytes. It varies by some hundred kilobytes without any load.
    pub kernel_bytes: i64,
    /// Bytes that calls read from the file per byte of payload. The kernel includes sendfile,
    /// although that copies none, and does not include reads of a ring.
    pub read_copies: f64,
    /// The start of sending on the monotonic clock, nanoseconds.
    pub began_ns: u64,
    /// The time at which the last packet was handed over, or had left.
    pub ended_ns: u64,
    /// The lateness of packets, where it is known.
    pub late: Option<Lateness>,
    /// Drift in 30 s of single streams; absent without a receiver.
    pub drifts: Option<Extent>,
    /// The duration of streams from their first packet to their last.
    pub spans: Option<Extent>,
    /// Network softirqs on that core (sending, receiving, tasklets), whatever caused them: a count,
    /// which does not depend on the tick.
    pub softirqs: Option<u64>,
    /// The packets' destination.
    #[serde(default)]
    pub sink: String,
    /// CPU time of the whole core per packet, by cycle soak, nanoseconds; includes the kernel's own
    /// work.
    pub soak_ns: Option<f64>,
}

impl Reading {
    /// CPU time of a packet, nanoseconds.
    pub fn each_ns(&self) -> f64 {
        self.cpu_ns as f64 / self.sent.max(1) as f64
    }

    /// Packets a second while the trial lasted.
    pub fn rate(&self) -> f64 {
        self.sent as f64 * 1e9 / self.ended_ns.saturating_sub(self.began_ns).max(1) as f64
    }
}

impl Lateness {
    /// The figures from the lateness and the due time of each packet, both in nanoseconds.
    pub fn of(mut packets: Vec<(u64, i64)>) -> Option<Lateness> {
        let drift = drift_ns(&packets);
        packets.sort_unstable_by_key(|(_, late)| *late);
        let count = packets.len();
        let last = count.checked_sub(1)?;
        let at = |share: f64| packets[((count as f64 * share) as usize).min(last)].1;
        let dry = packets.iter().filter(|(_, late)| *late > 60_000_000).count();
        Some(Lateness {
            packets: count as u64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: at(1.0),
            drift_ns: drift,
            dry: dry as f64 / count as f64,
        })
    }
}

/// The slope of the least-squares line; `None` if all moments are equal.
fn slope(packets: &[(u64, i64)]) -> Option<f64> {
    let first = packets.iter().map(|(at, _)| *at).min()?;
    let count = packets.len() as f64;
    let (mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0);
    for (at, late) in packets {
        let (at, late) = ((at - first) as f64, *late as f64);
        x += at;
        y += late;
        xx += at * at;
        xy += at * late;
    }
    let spread = xx - x * x / count;
    (spread > 0.0).then(|| (xy - x * y / count) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_loses_a_thousandth_drifts_by_thirty_milliseconds() {
        let packets = (0..1000_u64).map(|at| (at * 30_000_000, 5_000 + at as i64 * 30_000));
        let found = Lateness::of(packets.collect()).expect("packets");
        let drift = found.drift_ns.expect("moments differ");
        assert!((drift - 30_000_000).abs() < 1_000, "{found:?}");
        assert_eq!((found.p50_ns, found.max_ns), (5_000 + 500 * 30_000, 5_000 + 999 * 30_000));
        assert_eq!((found.packets, found.dry), (1000, 0.0));
    }

    #[test]
    fn nothing_heard_is_no_lateness_and_one_moment_no_drift() {
        assert_eq!(Lateness::of(Vec::new()), None);
        let found = Lateness::of(vec![(7, 1), (7, 61_000_000)]).expect("two packets");
        assert_eq!((found.drift_ns, found.dry), (None, 0.5));
    }

    #[test]
    fn work_says_what_it_is() {
        let audio = Work::audio(Duration::from_secs(3));
        assert_eq!(audio.words(), "10 streams of 32 B from a file each 30 ms");
        assert_eq!((audio.packets, audio.length()), (100, Duration::from_secs(3)));
        let fast = Work { streams: 1, gap_us: 0, file: false, ..audio };
        assert_eq!(fast.words(), "1 stream of 32 B as fast as it can");
    }

    #[test]
    fn streams_drift_each_by_itself() {
        let even: Vec<(u64, i64)> = (0..100).map(|at| (at * 30_000_000, 7)).collect();
        let slow: Vec<(u64, i64)> =
            (0..100_u64).map(|at| (at * 30_000_000, at as i64 * 30_000)).collect();
        let streams = [&even[..], &slow[..], &even[..1]];
        let found = Extent::of(streams.iter().filter_map(|it| drift_ns(it))).expect("two slopes");
        assert_eq!(found.least_ns, 0);
        assert!((found.most_ns - 30_000_000).abs() < 1_000, "{found:?}");
        assert!((found.mean_ns - 15_000_000).abs() < 1_000, "{found:?}");
        let spans: Vec<i64> = streams.iter().filter_map(|it| span_ns(it)).collect();
        assert_eq!(spans, [99 * 30_000_000, 99 * 30_000_000 + 99 * 30_000]);
        assert_eq!(Extent::of(std::iter::empty()), None);
    }
}
