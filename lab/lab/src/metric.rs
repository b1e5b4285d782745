//! The compared metrics: one number of a trial, by name, and which direction is better.

use crate::load::Load;
use crate::trial::{Ending, Trial};
use serde::{Deserialize, Serialize};
use stats::Better;

/// The metric of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Answered requests per second; under overload: goodput.
    Throughput,
    /// Server CPU nanoseconds per request.
    Cpu,
    /// Median latency, nanoseconds: response time at open load points, service time at closed ones.
    P50,
    /// The 99th percentile of the latency, nanoseconds.
    P99,
    /// The 99.9th percentile of the latency, nanoseconds.
    P999,
    /// Context switches per request.
    Switches,
    /// Memory of the server's process tree, kilobytes: shared pages divided, those of files left
    /// out.
    Memory,
    /// Memory that each idle connection costs, bytes (points with idle connections).
    ConnectionMemory,
    /// The highest rate at which the promise was kept, requests per second (capacity points).
    Capacity,
    /// From the end of an overload until latency is near its base again, milliseconds.
    Recovery,
    /// The mean latency, nanoseconds.
    Mean,
    /// The longest latency, nanoseconds.
    Max,
}

/// The words for a difference: (better, worse).
type Words = (&'static str, &'static str);

const SPEED: Words = ("faster", "slower");
const WEIGHT: Words = ("leaner", "heavier");

/// The metrics in the order of tables: key, name, and words.
const ROWS: [(Metric, &str, &str, Words); 12] = [
    (Metric::Throughput, "throughput", "requests/s", SPEED),
    (Metric::Cpu, "cpu", "CPU per request", ("cheaper", "costlier")),
    (Metric::P50, "p50", "median latency", SPEED),
    (Metric::P99, "p99", "p99 latency", SPEED),
    (Metric::P999, "p999", "p99.9 latency", SPEED),
    (Metric::Switches, "switches", "context switches per request", ("calmer", "busier")),
    (Metric::Memory, "memory", "memory", WEIGHT),
    (Metric::ConnectionMemory, "connection_memory", "memory per idle connection", WEIGHT),
    (Metric::Capacity, "capacity", "capacity within the promise", ("larger", "smaller")),
    (Metric::Recovery, "recovery", "recovery time", SPEED),
    (Metric::Mean, "mean", "mean latency", SPEED),
    (Metric::Max, "max", "longest latency", SPEED),
];

impl Metric {
    /// All metrics.
    pub const EVERY: [Metric; ROWS.len()] = {
        let (mut all, mut at) = ([Metric::Throughput; ROWS.len()], 0);
        while at < all.len() {
            all[at] = ROWS[at].0;
            at += 1;
        }
        all
    };

    /// Its name in plans, conditions and file formats.
    pub fn key(self) -> &'static str {
        ROWS[self as usize].1
    }

    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        ROWS[self as usize].2
    }

    /// The metric with this [`Metric::key`]; conditions call two of them `rate` and `p99.9`.
    pub fn by_key(key: &str) -> Option<Metric> {
        match key {
            "rate" | "rps" | "requests/s" => Some(Metric::Throughput),
            "p99.9" => Some(Metric::P999),
            _ => Metric::EVERY.into_iter().find(|metric| metric.key() == key),
        }
    }

    /// The metric's value in one generator's report.
    pub fn of(self, load: &Load) -> Option<f64> {
        let server = || load.server.as_ref();
        match self {
            Metric::Throughput => Some(load.throughput_rps),
            Metric::Cpu => server()?.cpu_ns_per_request,
            Metric::P50 => load.latency().p50_ns,
            Metric::P99 => load.latency().p99_ns,
            Metric::P999 => load.latency().p999_ns,
            Metric::Mean => load.latency().mean_ns,
            Metric::Max => load.latency().max_ns,
            Metric::Switches => server()?.switches_per_request,
            Metric::Memory => load.memory_kb().map(|kb| kb as f64),
            Metric::ConnectionMemory | Metric::Capacity | Metric::Recovery => None,
        }
    }

    /// The metric's value in one trial.
    pub fn in_trial(self, trial: &Trial) -> Option<f64> {
        match self {
            Metric::ConnectionMemory => trial.seen.idle.as_ref()?.bytes_each,
            Metric::Capacity => trial.seen.search.as_ref()?.capacity_rps,
            Metric::Recovery => trial.seen.recovery.as_ref()?.recovered_ms,
            _ => match &trial.ending {
                Ending::Measured { load } => self.of(load),
                Ending::Unavailable { .. } | Ending::Failed { .. } => None,
            },
        }
    }

    /// The better direction.
    pub fn better(self) -> Better {
        match self {
            Metric::Throughput | Metric::Capacity => Better::More,
            _ => Better::Less,
        }
    }

    /// Whether a busy generator invalidates it. Metrics counted on the server remain valid.
    pub fn needs_generator(self) -> bool {
        !matches!(self, Metric::Cpu | Metric::Switches | Metric::Memory | Metric::ConnectionMemory)
    }

    /// The words for a difference in the metric: (better, worse).
    pub fn words(self) -> (&'static str, &'static str) {
        ROWS[self as usize].3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_found_by_its_key() {
        for (at, metric) in Metric::EVERY.into_iter().enumerate() {
            assert_eq!((metric as usize, Metric::by_key(metric.key())), (at, Some(metric)));
        }
        assert_eq!(Metric::by_key("rps"), Some(Metric::Throughput));
        assert_eq!(Metric::by_key("speed"), None);
    }
}
