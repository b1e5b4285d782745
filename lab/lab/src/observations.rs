//! The laboratory's own observations in a trial, besides the generator's report.
//!
//! A part is absent if the load point does not ask for it or the machine does not report it.
//! Records of older programs have none of them.

use serde::{Deserialize, Serialize};

/// The laboratory's observations in one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// The sitting of a resumed race, from 0.
    #[serde(default)]
    pub sitting: u32,
    /// Offered rate, requests per second; absent in a closed loop.
    pub offered_rps: Option<f64>,
    /// The resources that the server's process tree used under load, exact where there is a control
    /// group.
    pub cost: Option<TreeLife>,
    /// The 99th percentile of the service time (ns), however few requests support it; only where
    /// servers take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// How long the server was warmed up, milliseconds; only where servers take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmed_ms: Option<u64>,
    /// Silent connections and their cost.
    pub idle: Option<Idle>,
    /// The search for a capacity.
    pub search: Option<Search>,
    /// How an overload went.
    pub recovery: Option<Recovery>,
}

/// The resources that a server's whole process tree used between readiness and the generator's end.
/// Ended processes and threads are included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeLife {
    /// The source of CPU times: `cgroup` (exact, nanoseconds or microseconds) or `ticks` (the times
    /// of children that the kernel adds up, to 10 ms, start and stop included).
    pub source: String,
    /// CPU time in user mode, nanoseconds. The sum of both is exact; the split is sampled at the
    /// tick.
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Their sum for each request of the whole run, warm-up and drain included, nanoseconds.
    pub cpu_ns_per_request: Option<f64>,
    /// Highest memory use, kilobytes, without the page cache where the kernel separates it.
    pub memory_peak_kb: Option<u64>,
    /// Page faults served without a disk, whole life.
    pub faults_minor: Option<u64>,
    /// Page faults that waited for a disk, whole life.
    pub faults_major: Option<u64>,
    /// Sentences to print next to the figures.
    #[serde(default)]
    pub doubts: Vec<String>,
}

/// Silent connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// The number of requested connections.
    pub wanted: u32,
    /// The number of open connections when the load began.
    pub opened: u32,
    /// The number of open connections when the load ended.
    pub kept: u32,
    /// How many of them the server answered once, if each asked once.
    pub answered: Option<u32>,
    /// Memory of the process tree before they were opened, kilobytes.
    pub before_kb: Option<u64>,
    /// Memory of the process tree with them, kilobytes.
    pub after_kb: Option<u64>,
    /// Kernel memory for TCP buffers that they added on the machine, kilobytes
    /// (`/proc/net/sockstat`).
    pub kernel_kb: Option<i64>,
    /// Memory of the process tree for each of them, bytes.
    pub bytes_each: Option<f64>,
    /// The reason why fewer were opened than requested.
    #[serde(default)]
    pub why: String,
}

/// The search for the highest rate at which a promise is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The share of requests that the promise covers.
    pub quantile: f64,
    /// The time within which they must be answered, nanoseconds.
    pub limit_ns: u64,
    /// Every rate that was tried, in order.
    pub probes: Vec<Probe>,
    /// The highest rate that kept it; absent if none did.
    pub capacity_rps: Option<f64>,
    /// Whether the generator, not the server, ended the search.
    #[serde(default)]
    pub generator_limited: bool,
}

/// One rate that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Offered rate, requests per second.
    pub rate_rps: f64,
    /// Answered rate.
    pub achieved_rps: f64,
    /// The promised quantile of the response time, nanoseconds.
    pub latency_ns: Option<f64>,
    /// Whether the promise was kept.
    pub kept: bool,
    /// The reason if it was not kept.
    #[serde(default)]
    pub why: String,
}

/// How an overload went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Offered load as a multiple of capacity.
    pub factor: f64,
    /// The arm's capacity in the pilot, requests per second.
    pub capacity_rps: f64,
    /// Answered requests per second while overloaded.
    pub goodput_rps: Option<f64>,
    /// The goodput as a share of capacity; 1 means that the overload costs nothing.
    pub kept_share: Option<f64>,
    /// Median response time before the overload, nanoseconds.
    pub base_p50_ns: Option<f64>,
    /// The time from the end of the overload until the median response time of a slice is at most
    /// 1.1 times its base (and stays there for one more slice), milliseconds; absent if it never
    /// was.
    pub recovered_ms: Option<f64>,
    /// How long the server was observed, milliseconds.
    #[serde(default)]
    pub watched_ms: f64,
}
