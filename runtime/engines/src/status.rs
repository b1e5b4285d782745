//! A server's report about itself: one sample, in which every count was read at one instant.
//!
//! The supervisor's thread reads the scoreboard in one pass, which takes some tens of nanoseconds a
//! slot; the sample includes the duration of this pass. Rates are differences of two samples and
//! describe only the time between them.

use serde::{Deserialize, Serialize};

/// The layout of [`Sample`]; a reader of another version must not guess.
pub const SCHEMA: u32 = 3;

/// A server at one instant. Times are in nanoseconds, sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The time of the sample, on the machine's monotonic clock.
    pub at_ns: u64,
    /// The time that reading the scoreboard took.
    pub taken_ns: u64,
    /// The age of the server.
    pub age_ns: u64,
    /// The supervisor.
    pub pid: i32,
    /// starting, ready, leaving, draining, forced, done.
    pub phase: String,
    /// The architecture.
    pub shape: ShapeFacts,
    /// The address that peers connect to.
    pub listening: String,
    /// Further addresses.
    #[serde(default)]
    pub also: Vec<String>,
    /// The limits in force.
    pub limits: Limits,
    /// Sums over all workers since the start.
    pub totals: Totals,
    /// Rates by the supervisor's own windows.
    pub rates: Rates,
    /// Connections that wait to be accepted.
    pub queue: Queue,
    /// Slots that were ever taken.
    pub workers: Vec<Worker>,
    /// The number of workers started, by reason.
    pub spawned: Vec<(String, u64)>,
    /// The number of workers ended, by reason.
    pub exited: Vec<(String, u64)>,
    /// Counts of deadlines by the delay with which they were noticed, in buckets below
    /// [`memory::LATE_EDGES_NS`].
    pub late: Vec<u64>,
    /// The sum of those delays.
    pub late_ns: u64,
    /// The last events, oldest first.
    pub events: Vec<Happening>,
    /// Figures of the service and its store: pools, sessions, logs.
    pub gauges: Vec<Gauge>,
    /// The governor, if there is one.
    #[serde(default)]
    pub governor: Option<GovernorFacts>,
}

/// A point of the space of architectures, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the axes carry the words")]
pub struct ShapeFacts {
    pub engine: Option<String>,
    pub container: String,
    pub accept: String,
    pub wait: String,
}

/// The limits in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Connections at once.
    pub connections: u64,
    /// Workers at once; 0 where each connection has its own.
    pub workers: usize,
    /// Workers in each process of a hybrid; 1 elsewhere.
    pub threads: usize,
    /// The policy that decides how many processes there are, where workers are processes.
    pub policy: Option<String>,
    /// The least and the most idle workers, where processes come and go.
    pub spare: Option<(usize, usize)>,
    /// The settings that a reload changes, by the names of their flags; without a value: unset.
    pub settings: Vec<(String, Option<String>)>,
    /// The number of changes of the settings.
    pub edition: u32,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Connections open now.
    pub open: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Requests answered, as the service defines them.
    pub answered: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes that the kernel took for sending.
    pub bytes_out: u64,
    /// Turns of loops.
    pub turns: u64,
    /// Connections that were not served, by reason.
    pub refused: Vec<(String, u64)>,
    /// Receives that found no buffer in a ring.
    pub enobufs: u64,
    /// Sends of which the kernel took only a part.
    pub short_sends: u64,
    /// Switches from a loop's stack to a coroutine's and back.
    #[serde(default)]
    pub stack_switches: u64,
    /// Pushes to sessions that were gone or full.
    pub pushes_dropped: u64,
}

/// Rates a second, over the last whole window, and the highest that any window has had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The length of the window; 0 before the first one is over.
    pub window_ns: u64,
    /// Connections accepted.
    pub accepted: f64,
    /// Requests answered.
    pub answered: f64,
    /// Bytes received.
    pub bytes_in: f64,
    /// Bytes sent.
    pub bytes_out: f64,
    /// The most connections accepted in a second.
    pub accepted_max: f64,
    /// The most requests answered in a second.
    pub answered_max: f64,
    /// The highest number of connections at the end of a window.
    pub open_max: u64,
}

/// Connections that wait to be accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// In the kernel, over all listeners.
    pub length: u64,
    /// The room there.
    pub limit: u64,
    /// In the buffers between an acceptor and its workers, where the supervisor can see them: the
    /// number of waiting connections, and the room for them.
    pub handoff: Option<(u64, u64)>,
}

/// One slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number.
    pub slot: usize,
    /// The letter of its state (`memory::Slot::letter`).
    pub letter: char,
    /// worker, listener, acceptor or reception.
    pub role: String,
    /// How often the slot was taken; the generation of its present worker.
    pub generation: u32,
    /// The process.
    pub pid: i32,
    /// The time that the present worker has had the slot.
    pub age_ns: u64,
    /// The time since it began its last turn; `None`: never.
    pub beat_ago_ns: Option<u64>,
    /// Connections open now.
    pub open: u64,
    /// Since the start, by all workers of the slot.
    pub accepted: u64,
    /// Since the start.
    pub answered: u64,
    /// Since the start.
    pub bytes_in: u64,
    /// Since the start.
    pub bytes_out: u64,
    /// Since the start.
    pub turns: u64,
    /// Since the start.
    pub refused: u64,
}

/// An event of the workers or of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// How long ago it happened.
    pub ago_ns: u64,
    /// Its kind: spawned, exited, phase, reload, spare, governor.
    pub what: String,
    /// The number of the worker, or of its process, where it concerns one.
    pub worker: Option<usize>,
    /// The process, where it concerns one.
    pub pid: Option<i32>,
    /// The reason as text.
    pub why: String,
    /// Whether it is a fault.
    pub is_fault: bool,
}

/// The governor at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GovernorFacts {
    /// advise or on.
    pub mode: String,
    /// Requests that may be executed at once.
    pub limit: u64,
    /// The most that the limit can become.
    pub ceiling: u64,
    /// The mean wait of requests, as measured last.
    pub wait_ns: u64,
    /// The wait that the governor aims at.
    pub target_ns: u64,
    /// Requests refused since the start.
    pub refused: u64,
    /// The last changes of the limit, oldest first.
    pub decisions: Vec<GovernorDecision>,
}

/// A change of the governor's limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GovernorDecision {
    /// How long ago it was made.
    pub ago_ns: u64,
    /// shrink, grow or ceiling.
    pub rule: String,
    /// The limit before.
    pub before: u64,
    /// The limit after.
    pub after: u64,
    /// The mean wait of requests.
    pub wait_ns: u64,
    /// The reason as text.
    pub why: String,
}

impl Gauge {
    /// A number that can rise and fall.
    pub fn now(name: &str, help: &str, value: f64) -> Gauge {
        Gauge { name: name.to_owned(), help: help.to_owned(), value, ..Gauge::default() }
    }

    /// A number that only grows; `_total` is appended to the name of the metric.
    pub fn total(name: &str, help: &str, value: f64) -> Gauge {
        Gauge { is_total: true, ..Gauge::now(name, help, value) }
    }

    /// The gauge with a label.
    #[must_use]
    pub fn with(mut self, label: &str, value: &str) -> Gauge {
        self.labels.push((label.to_owned(), value.to_owned()));
        self
    }
}

/// A number that a service reports, with its labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// Its name as a metric, without a prefix.
    pub name: String,
    /// A short description.
    pub help: String,
    /// Names and values.
    pub labels: Vec<(String, String)>,
    /// The number.
    pub value: f64,
    /// Whether it only grows.
    pub is_total: bool,
}
