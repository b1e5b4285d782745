//! The report of a run: one JSON document, or a few lines of text.
//!
//! The JSON of `load` is a [`Report`] (schema `roundhouse.load/1`), that of turns a [`TurnsReport`]
//! (schema `roundhouse.turns/1`). Fields may be added under the same schema name; none is renamed,
//! removed or given another unit. All times are integer nanoseconds unless the field says
//! otherwise; `null` means that the value is unknown.
//!
//! Two numbers look alike and differ. `requests` counts the replies that arrived inside the window;
//! they make the throughput. `service.count` also includes those of the drain, because a fair
//! histogram must not lose a request that was sent in the window and answered late.

mod text;

use crate::censor::Percentile;
use crate::drive::{Counts, FirstFailure, StressCounts};
use crate::faults::{FaultKind, Faults};
use crate::health::Health;
use crate::parse::Target;
use crate::run::Plan;
use crate::slo::Outcome;
use crate::tally;
use crate::timeline::{SLICES_MAX, Slice};
use crate::tls::Handshakes;
use crate::work::{Think, Work};
use meter::Quantiles;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The name and version of [`Report`].
pub const SCHEMA: &str = "roundhouse.load/1";
/// The name and version of [`TurnsReport`].
pub const TURNS_SCHEMA: &str = "roundhouse.turns/1";

/// The JSON Schema (draft 2020-12) of [`Report`], as text.
///
/// # Errors
/// Never: a schema is text, numbers and lists.
pub fn json_schema() -> Result<String, serde_json::Error> {
    let rules = SchemaSettings::draft2020_12().for_serialize();
    let schema = rules.into_generator().into_root_schema_for::<Report>();
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

/// One run against one server, as `roundhouse load --json` prints it. Times are nanoseconds unless
/// the name says otherwise; null stands for what cannot be known. Fields may be added, none is
/// renamed, removed or given another unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "roundhouse.load/1", extend("$id" = "urn:roundhouse:load:1"))]
#[schemars(transform = allow_older)]
pub struct Report {
    /// The name and version of this document.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The server as given: `stock://127.0.0.1:6000`.
    pub target: String,
    /// `closed`: latencies are service times. `open`, `sessions`: there is a schedule, and
    /// latencies are response times.
    #[schemars(extend("enum" = ["closed", "open", "sessions"]))]
    pub model: String,
    /// Connections at a time.
    pub connections: usize,
    /// Requests per connection in one write, before it waits for all replies; in the open model the
    /// number that may be outstanding.
    pub depth: u32,
    /// Generators, each a thread.
    pub threads: usize,
    /// The seed of the requests.
    pub seed: u64,
    /// Requests after which a connection was replaced, or `null` if it was kept.
    pub requests_per_connection: Option<u64>,
    /// Planned arrivals a second: requests, or sessions; `null` without a schedule.
    pub offered_rps: Option<f64>,
    /// The stages of users, or of the rate, whose mean is `offered_rps`; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<String>,
    /// Length of the measured window.
    pub window_ns: u64,
    /// Right replies in the window.
    pub requests: u64,
    /// Replies in warm-up, window and drain, including wrong ones and refusals: comparable with the
    /// server's own counter.
    pub requests_total: u64,
    /// Wrong replies of the whole run.
    pub wrong: u64,
    /// Requests of the whole run that the overloaded server refused in the words of its protocol,
    /// such as 503 with Retry-After; they are not errors.
    #[serde(default)]
    pub refused: u64,
    /// Right replies a second in the window.
    #[schemars(range(min = 0.0))]
    pub throughput_rps: f64,
    /// Bytes received in the window.
    pub bytes_in: u64,
    /// Bytes sent in the window.
    pub bytes_out: u64,
    /// Arrivals in the window: users, requests, or sessions.
    pub arrived: u64,
    /// Arrivals in the window that were dropped because too many requests were outstanding.
    pub dropped: u64,
    /// Measured requests without a time: dropped, wrong, refused, or lost with their connection.
    /// With `response.count` and the measured part of `censored` they are all that was due.
    pub failed: u64,
    /// From sent to done: service times.
    pub service: Quantiles,
    /// From due to done: response times.
    pub response: Quantiles,
    /// From due to sent.
    pub lateness: Quantiles,
    /// Percentiles of the response time (closed: of the service time) over all requests that were
    /// due, including failed and unanswered ones.
    pub percentiles: Vec<Percentile>,
    /// The window in slices of time; their `requests` add up to `requests`.
    #[serde(default)]
    #[schemars(length(max = SLICES_MAX))]
    pub timeline: Vec<Slice>,
    /// By kind of request, where kinds are counted separately; else empty.
    pub kinds: Vec<KindReport>,
    /// Faults by kind, of the whole run: `kind`, `count`, `example`.
    pub errors: Faults,
    /// Of HTTP: the replies of the whole run by status.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statuses: BTreeMap<u16, u64>,
    /// Requests whose connection ended before the reply arrived.
    pub lost: u64,
    /// Requests sent again on a new connection, because the server had announced the end of the
    /// previous one.
    pub repeated: u64,
    /// Right replies in the window with an incomplete head, or a body shorter than announced, if
    /// such replies are taken.
    #[serde(default)]
    pub malformed: u64,
    /// The times of connecting, if it is timed apart: then `service` leaves it out, and `response`
    /// includes it.
    #[serde(default)]
    pub connect: Option<Quantiles>,
    /// Connections tried again because the server's kernel had not answered in time.
    #[serde(default)]
    pub retries: u64,
    /// The first failure with its circumstances, if anything failed.
    #[serde(default)]
    pub first_failure: Option<FirstFailure>,
    /// The counts of a stress client, if windows were topped up.
    pub stress: Option<StressReport>,
    /// Encryption, if there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsReport>,
    /// Idle connections still up at the end.
    pub idle: usize,
    /// Idle connections that the server closed.
    pub idle_closed: u64,
    /// Requests still unanswered at the end of the drain.
    pub censored: u64,
    /// Whether the replies were right as a whole.
    pub check: Check,
    /// Whether each goal of the objective was met, if there was one.
    pub slo: Vec<Outcome>,
    /// The generator's resource use in the window.
    pub generator: Generator,
    /// The verdict on the generator.
    pub health: Health,
    /// Always `null`: a run by precision, which had half the width of its interval here, is gone.
    pub precision: Option<f64>,
    /// The server's resource use in the window, if it was watched.
    pub server: Option<Server>,
    /// The beginning of the window, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Reasons to distrust the figures.
    pub doubts: Vec<String>,
}

/// The settings of the stress client, and the counts of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StressReport {
    /// Packets that each connection may have outstanding.
    pub window: u32,
    /// The least pause between two sends on a connection (ns); `null` where pauses vary.
    pub delay_ns: Option<u64>,
    /// The time between two connections that a thread closed and reopened (ns); `null`: none.
    pub reconnect_ns: Option<u64>,
    /// The counts.
    #[serde(flatten)]
    pub counts: StressCounts,
}

impl StressReport {
    /// The report on `counts`; what can be told from the kinds of faults comes from these.
    pub(crate) fn of(plan: &Plan, counts: &Counts) -> Option<StressReport> {
        let ns = |time: std::time::Duration| time.as_nanos() as u64;
        let delay_ns = match plan.model.work() {
            Work::Own { think: Think::None, .. } => Some(0),
            Work::Own { think: Think::Fixed(pause), .. } => Some(ns(pause)),
            _ => None,
        };
        let of = |kind| counts.faults.of(kind);
        use FaultKind::{NoDescriptors, NoPorts, Overlong, Refused, UnaskedBytes, WrongReply};
        let unasked = of(UnaskedBytes).saturating_sub(counts.stress.logins_twice);
        plan.settings.tops_up.then(|| StressReport {
            window: plan.model.depth(),
            delay_ns,
            reconnect_ns: plan.settings.renew.map(ns),
            counts: StressCounts {
                connect_failed: of(Refused) + of(NoPorts) + of(NoDescriptors),
                invalid: of(WrongReply) + of(Overlong) + unasked,
                ..counts.stress
            },
        })
    }
}

/// The connections over TLS of the whole run. Their times are in no request's service time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsReport {
    /// The version that was agreed on, such as `TLS 1.3`; empty without a handshake.
    pub version: String,
    /// Whether the server's certificate was checked.
    pub checked: bool,
    /// Handshakes that resumed a session; `handshake.count` are all.
    pub resumed: u64,
    /// From the start of a connection until the server's kernel had answered.
    pub connect: Quantiles,
    /// From then until the keys were agreed.
    pub handshake: Quantiles,
}

impl TlsReport {
    pub(crate) fn of(target: &Target, sums: Option<&Handshakes>) -> Option<Self> {
        let options = target.tls.as_ref()?;
        let sums = sums.cloned().unwrap_or_default();
        Some(Self {
            version: sums.version.to_owned(),
            checked: !options.is_insecure,
            resumed: sums.resumed,
            connect: sums.connect.quantiles(),
            handshake: sums.handshake.quantiles(),
        })
    }
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindReport {
    /// Its name: a command, or a path.
    pub name: String,
    /// Right replies.
    pub requests: u64,
    /// Wrong replies.
    pub wrong: u64,
    /// The first of them, described.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// From sent to done.
    pub service: Quantiles,
    /// From due to done.
    pub response: Quantiles,
}

/// The verdict on the replies as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// `conservation`: the market's books balance. `http`: status and length. `flow`: what each
    /// step expects. `echo`: every byte. `prefix`: each reply begins as expected. `receipts`: each
    /// order has one. `none`: not checked.
    pub kind: String,
    /// Whether no error was found.
    pub ok: bool,
    /// The compared values, or the first error with both numbers.
    pub detail: String,
}

/// The generator's resource use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// CPU time of its threads in the window.
    pub cpu_ns: u64,
    /// The part spent spinning for an arrival (wall time; ns).
    pub spun_ns: u64,
    /// The fraction of the window during which the busiest thread was working, 0 to 1; spinning is
    /// not work. Near 1 the generator was the limit.
    #[schemars(range(min = 0.0))]
    pub busy: f64,
}

/// The resource use of the server's process tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = allow_older)]
pub struct Server {
    /// Root of the tree.
    pub pid: u32,
    /// CPU time, user and system, of all processes.
    pub cpu_ns: u64,
    /// CPU time per request (ns), of turns with three windows or more the median of their windows;
    /// `null` without requests.
    pub cpu_ns_per_request: Option<f64>,
    /// Context switches per request, voluntary or not; `null` without requests, and where threads
    /// or processes ended meanwhile, because theirs are lost.
    pub switches_per_request: Option<f64>,
    /// Time per request that threads were ready to run and waited for a core (ns); `null` where the
    /// switches are.
    #[serde(default)]
    pub delay_ns_per_request: Option<f64>,
    /// Resident memory at the end of the window, shared pages counted by each process (kB).
    pub rss_kb: u64,
    /// Resident memory at the end of the window, shared pages divided (kB).
    pub pss_kb: Option<u64>,
    /// The same without pages of files, which copies of one program share (kB).
    #[serde(default)]
    pub own_kb: Option<u64>,
    /// Sum of the peaks of resident memory of the living processes (kB).
    pub peak_kb: u64,
    /// Threads at the end of the window.
    pub threads: usize,
    /// Processes at the end of the window.
    pub processes: usize,
}

/// Servers that took turns under one generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnsReport {
    /// [`TURNS_SCHEMA`].
    pub schema: String,
    /// Windows on each server.
    pub windows: u32,
    /// Intended length of a window, without its drain.
    pub window_ns: u64,
    /// The servers, in the order of the plan.
    pub turns: Vec<TurnReport>,
}

/// One server, summed over its windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnReport {
    /// Its report. The window is that of all windows, each with its drain, so that `requests` and
    /// the server's CPU time are exact.
    pub report: Option<Box<Report>>,
    /// The 99th percentile of the service time (ns), however few requests support it; 0 without
    /// any.
    pub p99_ns: u64,
    /// How long the server was loaded before its first window (ns): longer than the plan says if it
    /// grew cheaper.
    #[serde(default)]
    pub warmed_ns: u64,
    /// The reason why there is no report: the server failed and left the rounds.
    pub failure: Option<String>,
}

/// The fields that came after the first published version: earlier documents lack them.
const ADDED: [&str; 8] = [
    "stress",
    "delay_ns_per_request",
    "own_kb",
    "refused",
    "malformed",
    "connect",
    "retries",
    "first_failure",
];

/// Lets a document without the fields of [`ADDED`] fit.
fn allow_older(schema: &mut Schema) {
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| ADDED.iter().all(|added| name != added));
    }
}

impl Report {
    /// Whether every request was answered correctly.
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

pub(crate) fn kinds(names: &[String], kinds: &[tally::KindTally]) -> Vec<KindReport> {
    let report = |(name, kind): (&String, &tally::KindTally)| KindReport {
        name: name.clone(),
        requests: kind.done,
        wrong: kind.wrong,
        error: kind.faults.list.first().map(|fault| fault.example.clone()),
        service: kind.service.quantiles(),
        response: kind.response.quantiles(),
    };
    names.iter().zip(kinds).map(report).collect()
}

impl TurnsReport {
    /// Whether every server answered everything correctly.
    pub fn is_right(&self) -> bool {
        self.turns.iter().all(|turn| turn.report.as_ref().is_some_and(|report| report.is_right()))
    }
}
