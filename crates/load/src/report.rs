//! What a run says about itself: one JSON document, or a few lines of text.
//!
//! The JSON of `load` is a [`Report`] (schema `roundhouse.load/1`), that of a duet a
//! [`DuetReport`] (schema `roundhouse.duet/1`). Fields may be added under the same name of the
//! schema; none is renamed, removed or given another unit. All times are nanoseconds and integers
//! unless the field says otherwise; `null` stands for "cannot be known here".
//!
//! Two numbers look alike and are not: `requests` are the replies that came inside the window
//! (they make the throughput); `service.count` also holds those of the drain behind it, because a
//! request that was asked in the window and answered late is exactly the one that a fair
//! histogram must not lose.

mod stress;
mod text;

pub use stress::Stress;
pub use text::time;

use crate::censor::Percentile;
use crate::faults::Faults;
use crate::health::Health;
use crate::slo::Outcome;
use crate::tally;
use crate::timeline::Slice;
use meter::Quantiles;
use serde::{Deserialize, Serialize};

/// The name and version of [`Report`].
pub const SCHEMA: &str = "roundhouse.load/1";
/// The JSON Schema (draft 2020-12) of [`Report`].
pub const JSON_SCHEMA: &str = include_str!("report/schema.json");
/// The name and version of [`DuetReport`].
pub const DUET_SCHEMA: &str = "roundhouse.duet/1";

/// One run against one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The server, as it was written: `stock://127.0.0.1:6000`.
    pub target: String,
    /// `closed`: the latencies are service times. `open`, `sessions`: there is a schedule, and they
    /// are response times.
    pub model: String,
    /// Connections at a time, at most.
    pub connections: usize,
    /// Requests a connection sends in one write before it waits for all the replies; in the open
    /// model those that it may have outstanding.
    pub depth: u32,
    /// Generators, each a thread.
    pub threads: usize,
    /// What the requests were drawn from.
    pub seed: u64,
    /// Requests after which a connection was replaced, or `null` if it was kept.
    pub requests_per_connection: Option<u64>,
    /// Arrivals a second that were planned: requests, or sessions; `null` where none were.
    pub offered_rps: Option<f64>,
    /// Length of the measured window.
    pub window_ns: u64,
    /// Right replies in the window.
    pub requests: u64,
    /// Replies in warm-up, window and drain, wrong ones too: what the server's own counter says.
    pub requests_total: u64,
    /// Wrong replies of the whole run.
    pub wrong: u64,
    /// `requests` a second of the window.
    pub throughput_rps: f64,
    /// Bytes received in the window.
    pub bytes_in: u64,
    /// Bytes sent in the window.
    pub bytes_out: u64,
    /// Those who arrived in the window: users, requests, or sessions.
    pub arrived: u64,
    /// Arrivals of the window that found too many outstanding and were given up.
    pub dropped: u64,
    /// Measured requests that have no time: dropped, wrong, or lost with their connection. With
    /// `response.count` and the measured part of `censored` they are all that was due.
    pub failed: u64,
    /// From sent to done.
    pub service: Quantiles,
    /// From due to done.
    pub response: Quantiles,
    /// From due to sent.
    pub lateness: Quantiles,
    /// Percentiles of the response time (closed: of the service time) over all requests that were
    /// due, those too that failed or were not answered.
    pub percentiles: Vec<Percentile>,
    /// The window in slices of time, at most [`SLICES_MAX`](crate::timeline::SLICES_MAX) of them;
    /// their `requests` add up to `requests`.
    #[serde(default)]
    pub timeline: Vec<Slice>,
    /// By kind of request, where kinds are told apart; else empty.
    pub kinds: Vec<KindReport>,
    /// Faults by kind, of the whole run: `kind`, `count`, `example`.
    pub errors: Faults,
    /// Requests whose connection ended before the reply came.
    pub lost: u64,
    /// Requests that were asked once more on a new connection, because the server had announced
    /// the end of the one before.
    pub repeated: u64,
    /// What a stress client counts, if windows were topped up.
    #[serde(default)]
    pub stress: Option<Stress>,
    /// Idle connections that were up at the end.
    pub idle: usize,
    /// Idle connections that the server closed.
    pub idle_closed: u64,
    /// Requests that were still unanswered when the drain's patience ended.
    pub censored: u64,
    /// Whether the replies were right as a whole.
    pub check: Check,
    /// What became of the objective, if there was one.
    pub slo: Vec<Outcome>,
    /// What the generator used in the window.
    pub generator: Generator,
    /// Whether the figures are the server's.
    pub health: Health,
    /// Half the width of the 95 % interval of the number that was to be known, as a share of it.
    pub precision: Option<f64>,
    /// What the server used in the window, if it was watched.
    pub server: Option<Server>,
    /// When the window began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Sentences to be printed beside the figures.
    pub doubts: Vec<String>,
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindReport {
    /// Its name: a command, or a path.
    pub name: String,
    /// Right replies.
    pub requests: u64,
    /// Wrong replies.
    pub wrong: u64,
    /// From sent to done.
    pub service: Quantiles,
    /// From due to done.
    pub response: Quantiles,
}

/// The verdict on the replies as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// `conservation`: the market's books balance. `http`: status and length. `echo`: every byte.
    /// `prefix`: each reply begins as expected. `none`: nobody looked.
    pub kind: String,
    /// Whether nothing was found wrong.
    pub ok: bool,
    /// What was compared, or the first thing that is wrong with both numbers.
    pub detail: String,
}

/// What the generator used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time of its threads in the window.
    pub cpu_ns: u64,
    /// The part of it that went into waiting actively for an arrival (wall time; ns).
    pub spun_ns: u64,
    /// The share of the window in which the busiest thread was at work, 0 to 1; waiting actively
    /// for an arrival is no work. Near 1 the generator was the limit.
    pub busy: f64,
}

/// What the server's process tree used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Root of the tree.
    pub pid: u32,
    /// CPU time, user and system, of all processes.
    pub cpu_ns: u64,
    /// The same for each request (ns); `null` if there was none.
    pub cpu_ns_per_request: Option<f64>,
    /// Context switches, voluntary or not, for each request; `null` if there was none.
    pub switches_per_request: Option<f64>,
    /// Resident memory at the end of the window, shared pages counted by each process (kB).
    pub rss_kb: u64,
    /// Resident memory at the end of the window, shared pages divided (kB).
    pub pss_kb: Option<u64>,
    /// Sum of the peaks of resident memory of the living processes (kB).
    pub peak_kb: u64,
    /// Threads at the end of the window.
    pub threads: usize,
    /// Processes at the end of the window.
    pub processes: usize,
}

/// Two servers that took turns under one generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DuetReport {
    /// [`DUET_SCHEMA`].
    pub schema: String,
    /// Connections to each server.
    pub connections: usize,
    /// Requests a connection sends in one write.
    pub depth: u32,
    /// What requests and the order in each pair were drawn from.
    pub seed: u64,
    /// Requests after which a connection was replaced, or `null` if it was kept.
    pub requests_per_connection: Option<u64>,
    /// Intended length of a window; the drain comes on top.
    pub window_ns: u64,
    /// The first server.
    pub a: DuetArm,
    /// The second server.
    pub b: DuetArm,
    /// CPU time per request of `a` divided by that of `b`, from the sums.
    pub ratio: f64,
    /// Natural logarithm of `ratio`; negative where `a` is cheaper.
    pub log_ratio: f64,
    /// Every measured window, in order.
    pub windows: Vec<DuetWindow>,
    /// When the first window began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Sentences to be printed beside the figures.
    pub doubts: Vec<String>,
}

/// One server of a duet, summed over its windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DuetArm {
    /// The server, as it was written.
    pub target: String,
    /// Root of its process tree.
    pub pid: u32,
    /// Replies in measured windows and their drains.
    pub requests: u64,
    /// CPU time of the tree between the drained ends of those windows.
    pub cpu_ns: u64,
    /// The quotient (ns).
    pub cpu_ns_per_request: f64,
    /// Context switches for each request.
    pub switches_per_request: f64,
    /// The time from sent to done that one reply of a hundred exceeds, over all windows.
    #[serde(default)]
    pub p99_ns: u64,
    /// Faults by kind.
    pub errors: Faults,
    /// Whether the replies were right as a whole.
    pub check: Check,
}

/// One window of a duet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DuetWindow {
    /// Which pair, from zero.
    pub pair: u32,
    /// `a` or `b`.
    pub arm: String,
    /// Replies, those of the drain included.
    pub requests: u64,
    /// CPU time of the server's tree.
    pub cpu_ns: u64,
    /// From the first request to the last reply.
    pub elapsed_ns: u64,
}

impl Report {
    /// Whether everything that was asked was answered, and rightly.
    pub fn is_right(&self) -> bool {
        let clean = self.stress.as_ref().is_none_or(|stress| stress.counts.is_clean());
        clean
            && self.check.ok
            && self.errors.is_empty()
            && self.dropped == 0
            && self.requests_total > 0
    }

    /// Whether every goal of the objective was met.
    pub fn meets_slo(&self) -> bool {
        self.slo.iter().all(|outcome| outcome.met)
    }
}

/// The report on each kind of request.
pub(crate) fn kinds(names: &[String], kinds: &[tally::Kind]) -> Vec<KindReport> {
    let report = |(name, kind): (&String, &tally::Kind)| KindReport {
        name: name.clone(),
        requests: kind.done,
        wrong: kind.wrong,
        service: kind.service.quantiles(),
        response: kind.response.quantiles(),
    };
    names.iter().zip(kinds).map(report).collect()
}

impl DuetReport {
    /// Whether both servers answered everything rightly.
    pub fn is_right(&self) -> bool {
        [&self.a, &self.b].iter().all(|arm| arm.check.ok && arm.errors.is_empty())
    }
}
