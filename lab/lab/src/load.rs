//! The load generator's report, as far as the laboratory reads it (schema `roundhouse.load/1`).
//!
//! Only fields that are judged or shown have names here. Fields added by a later generator are
//! ignored; fields that a foreign generator lacks stay absent rather than zero.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema that [`Load::parse`] accepts.
pub const SCHEMA: &str = "roundhouse.load/1";

/// One run of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// `roundhouse.load/1`.
    pub schema: String,
    /// Length of the recorded window, nanoseconds.
    #[serde(default)]
    pub window_ns: u64,
    /// Requests answered inside the window.
    pub requests: u64,
    /// Requests answered in the whole run, warm-up included.
    #[serde(default)]
    pub requests_total: u64,
    /// Answered requests per second of the window.
    pub throughput_rps: f64,
    /// `closed`, `open` or `sessions`; empty from generators that know only one.
    #[serde(default)]
    pub model: String,
    /// Connections at a time; absent from generators that do not tell.
    pub connections: Option<u64>,
    /// Requests in flight on each of them (closed).
    pub depth: Option<u64>,
    /// Requests that were due in the window (open).
    pub arrived: Option<u64>,
    /// Requests of the window that never got a right reply.
    pub failed: Option<u64>,
    /// Time from sending to the complete reply: service time.
    pub service: Times,
    /// Time from the intended moment of sending to the complete reply: response time.
    #[serde(default)]
    pub response: Times,
    /// Time from the intended moment of sending to sending.
    #[serde(default)]
    pub lateness: Times,
    /// Intended requests per second of an open run.
    pub offered_rps: Option<f64>,
    /// Arrivals that found no room at the generator: failures.
    #[serde(default)]
    pub dropped: u64,
    /// The window in slices, or the phases of an overload, in order. A trial without an overload
    /// keeps none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Slice>,
    /// Kinds of errors.
    #[serde(default)]
    pub errors: Vec<Fault>,
    /// Of HTTP: the replies of the whole run by status; empty in records of earlier versions. Keys
    /// are texts, because an enum with an internal tag is read through texts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statuses: BTreeMap<String, u64>,
    /// Requests whose connection ended before the reply came.
    #[serde(default)]
    pub lost: u64,
    /// Requests without a reply at the end.
    #[serde(default)]
    pub censored: u64,
    /// The generator's own doubts about its figures.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// Whether the server's books agree with the replies it gave.
    pub check: Option<Check>,
    /// The goals of the run's objective, if it had one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slo: Vec<Goal>,
    /// The generator's verdict on itself.
    pub health: Option<Health>,
    /// The start of the window, milliseconds since 1970.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// The generator's own effort.
    pub generator: Option<Effort>,
    /// The resources that the server's process tree used in the window.
    pub server: Option<Usage>,
}

/// One slice of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its beginning, from the beginning of the window, milliseconds.
    pub at_ms: f64,
    /// Its length, milliseconds.
    pub for_ms: f64,
    /// Requests answered in it.
    pub requests: u64,
    /// Median latency of those, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<f64>,
}

/// A distribution of times in nanoseconds. A percentile that too few requests support is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The number of times.
    #[serde(default)]
    pub count: u64,
    /// The median.
    pub p50_ns: Option<f64>,
    /// 90 % of the times are shorter.
    pub p90_ns: Option<f64>,
    /// 99 % of the times are shorter; absent below 10,000 requests.
    pub p99_ns: Option<f64>,
    /// 99.9 % of the times are shorter; absent below 100,000 requests.
    pub p999_ns: Option<f64>,
    /// The longest.
    pub max_ns: Option<f64>,
    /// Their sum divided by their number.
    pub mean_ns: Option<f64>,
}

/// One kind of error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Its name.
    pub kind: String,
    /// Their number.
    pub count: u64,
    /// One of the mismatches in full.
    #[serde(default)]
    pub example: String,
}

/// The outcome of a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// The goal, such as `p99 < 5ms`.
    pub goal: String,
    /// The share of the due requests that were answered within it, 0 to 1.
    pub found: f64,
}

/// A comparison of the server's state with the acknowledged replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The kind of comparison; `none` if there was none.
    #[serde(default)]
    pub kind: String,
    /// Whether the two agree.
    pub ok: bool,
    /// The compared bytes, or the place where they differ.
    #[serde(default)]
    pub detail: String,
}

/// The generator's verdict on itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// `ok`, `generator-limited` (the server may be faster) or `invalid`.
    pub verdict: String,
    /// The reason why it is not `ok`.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// The delay from due to noticed: the generator's own part of a response time.
    #[serde(default)]
    pub tardiness: Times,
}

/// The generator's own effort.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// CPU time in the window, nanoseconds.
    #[serde(default)]
    pub cpu_ns: u64,
    /// The share of the window in which it was busy, 0 to 1.
    pub busy: f64,
}

/// The resources that the server's whole process tree used in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time, user and system, nanoseconds.
    #[serde(default)]
    pub cpu_ns: u64,
    /// CPU time per answered request, nanoseconds.
    pub cpu_ns_per_request: Option<f64>,
    /// Context switches per answered request.
    pub switches_per_request: Option<f64>,
    /// Time that threads were ready and waited for a core, per answered request, nanoseconds.
    #[serde(default)]
    pub delay_ns_per_request: Option<f64>,
    /// Resident memory, kilobytes; shared pages count once per process.
    pub rss_kb: Option<u64>,
    /// Proportional memory, kilobytes; shared pages count once.
    pub pss_kb: Option<u64>,
    /// The same without pages of files, kilobytes.
    #[serde(default)]
    pub own_kb: Option<u64>,
    /// Threads in the tree.
    pub threads: Option<u64>,
    /// Processes in the tree.
    pub processes: Option<u64>,
}

impl Load {
    /// Finds the report in a generator's output: the last line that is a JSON object.
    ///
    /// # Errors
    /// The expected and the actual output.
    pub fn parse(output: &str) -> Result<Load, String> {
        let line =
            output.lines().rev().find(|line| line.starts_with('{')).ok_or_else(|| {
                "expected a line of JSON from the generator, found none".to_string()
            })?;
        let mut load: Load = serde_json::from_str(line)
            .map_err(|why| format!("the generator's report cannot be read: {why}"))?;
        load.timeline = Vec::new();
        if load.schema == SCHEMA {
            Ok(load)
        } else {
            Err(format!("expected schema `{SCHEMA}`, found `{}`", load.schema))
        }
    }

    /// The comparison of books and replies, if there was one.
    pub fn checked(&self) -> Option<&Check> {
        self.check.as_ref().filter(|check| !check.ok || check.kind != "none")
    }

    /// The times that a client feels: response times of an open run, service times of a closed one.
    pub fn latency(&self) -> &Times {
        match self.model.as_str() {
            "open" | "sessions" => &self.response,
            _ => &self.service,
        }
    }

    /// Whether the generator reports that it, not the server, limited the figures.
    pub fn is_late(&self) -> bool {
        self.health.as_ref().is_some_and(|health| health.verdict != "ok")
    }

    /// The reason why the figures describe the machine and not the server: the generator's verdict
    /// on itself, which does not depend on the server's answers. `None` if they are valid.
    pub fn invalid(&self) -> Option<String> {
        let health = self.health.as_ref().filter(|health| health.verdict == "invalid")?;
        Some(health.reasons.join("; "))
    }

    /// Errors of all kinds.
    pub fn faults(&self) -> u64 {
        self.errors.iter().map(|fault| fault.count).sum()
    }

    /// Memory of its own if known, else with pages of files, else resident memory, kilobytes. Pages
    /// of files are left out: an old build and its twin share them, and a new build pays alone.
    pub fn memory_kb(&self) -> Option<u64> {
        self.server.as_ref().and_then(|server| server.own_kb.or(server.pss_kb).or(server.rss_kb))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_the_last_line_of_json() {
        let text = "hello\n{\"a\":1}\n{\"schema\":\"roundhouse.load/1\",\"requests\":10,\
            \"throughput_rps\":5.5,\"service\":{\"count\":10,\"p50_ns\":7,\"p99_ns\":null},\
            \"later\":true}\n";
        let load = Load::parse(text).expect("well formed");
        assert_eq!((load.requests, load.service.p50_ns), (10, Some(7.0)));
        assert_eq!((load.service.p99_ns, load.faults(), load.server), (None, 0, None));
    }

    #[test]
    fn other_output_is_refused_with_a_reason() {
        fn check(text: &str, want: &str) {
            let found = Load::parse(text).expect_err("it is not a report");
            assert!(found.contains(want), "{found}");
        }
        check("", "found none");
        check("{\"schema\":\"roundhouse.load/1\"}", "cannot be read");
        let other = "{\"schema\":\"x\",\"requests\":1,\"throughput_rps\":1,\"service\":{}}";
        check(other, "found `x`");
    }
}
