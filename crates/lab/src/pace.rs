//! The laboratory of senders: ways to send by the clock, each in a process of its own, in
//! surroundings that the laboratory makes.
//!
//! Four questions are kept apart that are easily answered by one wrong number: how late packets
//! leave (*pacing*), what one costs (*CPU per packet*), how many sessions a core carries before
//! they are late (*sessions per core*), and what becomes of the first when the processor is wanted
//! by others (*overload*). Each has a sink of its own, and its name stands beside the figure.
//!
//! The surprising thing is the question that is not here: how long a session takes. A paced stream
//! takes as long as its schedule says, or longer, whatever a packet costs.

mod company;
mod search;
mod sink;
mod soak;
mod trial;

pub use company::Company;
pub use search::{Knee, Step, knee};
pub use sink::Sink;
pub use soak::{Tick, cost_ns};
pub use trial::{Around, Rank, Trial};

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is cast: constant packets in streams whose beats are spread over the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Streams at one time.
    pub streams: u32,
    /// Packets of each.
    pub packets: u32,
    /// From one beat to the next, in microseconds; 0: as fast as it can.
    pub gap_us: u64,
    /// Packets at each beat.
    pub burst: u32,
    /// Bytes of payload; the header of 12 bytes comes on top.
    pub payload: u32,
    /// Payloads come from a file instead of memory.
    pub file: bool,
}

impl Work {
    /// The published one: ten sessions of 32 bytes each 30 ms, for about `time`, from a file.
    pub fn audio(time: Duration) -> Work {
        let gap = Duration::from_millis(30);
        let packets = (time.as_micros() / gap.as_micros()).max(2) as u32;
        Work { streams: 10, packets, gap_us: 30_000, burst: 1, payload: 32, file: true }
    }

    /// The gap.
    pub fn gap(&self) -> Duration {
        Duration::from_micros(self.gap_us)
    }

    /// How long it takes by its schedule.
    pub fn length(&self) -> Duration {
        self.gap() * self.packets.div_ceil(self.burst.max(1))
    }

    /// As a reader says it: `10 streams of 32 B each 30 ms`.
    pub fn words(&self) -> String {
        let streams = match self.streams {
            1 => "1 stream".to_string(),
            many => format!("{many} streams"),
        };
        let from = if self.file { " from a file" } else { "" };
        let burst = if self.burst > 1 { format!("{} x ", self.burst) } else { String::new() };
        match self.gap_us {
            0 => format!("{streams} of {} B{from} as fast as it can", self.payload),
            us => {
                format!("{streams} of {burst}{} B{from} each {} ms", self.payload, us as f64 / 1e3)
            }
        }
    }

    /// As words of the command line of the process that casts, ours or the bare one.
    pub fn arguments(&self) -> Vec<String> {
        let Work { streams, packets, gap_us, burst, payload, file } = self;
        vec![
            format!("casts={streams}"),
            format!("packets={packets}"),
            format!("gap_us={gap_us}"),
            format!("burst={burst}"),
            format!("payload={payload}"),
            format!("file={}", u8::from(*file)),
        ]
    }
}

/// How late packets were by their schedule, in nanoseconds; below zero: early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Packets whose time is known.
    pub packets: u64,
    /// Half were not later.
    pub p50_ns: i64,
    /// Of ten, nine were not later.
    pub p90_ns: i64,
    /// Of a hundred, 99 were not later.
    pub p99_ns: i64,
    /// Of a thousand, 999 were not later.
    pub p999_ns: i64,
    /// The latest.
    pub max_ns: i64,
    /// By how much lateness grows in 30 s: the slope of a line through all packets; absent where
    /// only the sender knows when they left.
    pub drift_ns: Option<i64>,
    /// The share that was later than 60 ms, when a usual receiver's buffer has run dry.
    pub dry: f64,
}

/// What came of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// The sender.
    pub sender: String,
    /// Streams.
    pub streams: u32,
    /// Packets that the kernel took.
    pub sent: u64,
    /// Packets that it refused.
    pub failed: u64,
    /// Packets that the receiver got; 0 where nobody listened.
    pub heard: u64,
    /// System calls that sent (the sender's own count).
    pub calls: u64,
    /// CPU time of the sender's process without its receiver, nanoseconds. What the kernel does on
    /// its own account (a timer's interrupt, a thread of its own) is not in it.
    pub cpu_ns: u64,
    /// Changes of context, wanted and unwanted, of the same threads.
    pub switches: u64,
    /// Kernel memory (slab, stacks, page tables) of the whole machine at half-time, above what it
    /// was before, bytes. It moves by some hundred kilobytes by itself.
    pub kernel_bytes: i64,
    /// Bytes that read calls copied to the sender for each byte of payload.
    pub read_copies: f64,
    /// When casting began on the monotonic clock, nanoseconds.
    pub began_ns: u64,
    /// When the last packet was handed over, or had left.
    pub ended_ns: u64,
    /// How late packets were; absent where nobody knows.
    pub late: Option<Lateness>,
    /// Where packets went.
    #[serde(default)]
    pub sink: String,
    /// CPU time of the whole core per packet by cycle soak, nanoseconds: the kernel's own work is
    /// in it.
    #[serde(default)]
    pub soak_ns: Option<f64>,
}

impl Reading {
    /// CPU time of a packet, nanoseconds.
    pub fn each_ns(&self) -> f64 {
        self.cpu_ns as f64 / self.sent.max(1) as f64
    }

    /// The share of a core that it used.
    pub fn share(&self) -> f64 {
        self.cpu_ns as f64 / self.ended_ns.saturating_sub(self.began_ns).max(1) as f64
    }

    /// Packets a second while it lasted.
    pub fn rate(&self) -> f64 {
        self.sent as f64 * 1e9 / self.ended_ns.saturating_sub(self.began_ns).max(1) as f64
    }

    /// The 99.9th percentile of lateness in milliseconds, if it is known.
    pub fn late_ms(&self) -> Option<f64> {
        self.late.map(|late| late.p999_ns as f64 / 1e6)
    }
}

impl Lateness {
    /// From the lateness of each packet and its moment, both in nanoseconds.
    pub fn of(mut packets: Vec<(u64, i64)>) -> Option<Lateness> {
        let drift = slope(&packets);
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
            drift_ns: drift.map(|slope| (slope * 30e9) as i64),
            dry: dry as f64 / count as f64,
        })
    }
}

/// The slope of the line of least squares; `None` if all moments are one.
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
        assert!(fast.arguments().contains(&"gap_us=0".to_string()));
    }
}
