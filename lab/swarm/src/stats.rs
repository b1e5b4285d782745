//! The statistics since the last report, in the form of Locust's `stats` message.
//!
//! A report holds differences: a master adds up all reports of all workers. So nothing is lost when
//! a report cannot be sent: it becomes part of the next one, and a report whose sending failed is
//! restored from its [`StatsReport`]. Three of Locust's conventions shape the numbers:
//!
//! - A failed request counts as a request and as a failure.
//! - Requests a second are counted by the Unix second of the *worker's* clock.
//! - A failure without a reply has no response time. It is counted separately (`num_none_requests`)
//!   instead of pulling the mean to zero.

use crate::crew::{Batch, Fault, Health, Row, Times};
use crate::key::rounded_ns;
use crate::message::{Users, head_count, map};
use rmpv::Value;
use std::collections::BTreeMap;

/// The maximum number of distinct errors that are reported; the rest are reported as one.
const ERRORS_MAX: usize = 500;

/// Everything to be reported, and the sums of the test.
#[derive(Clone, Debug)]
pub struct StatsLog {
    report: StatsReport,
    sum: Sum,
}

/// The contents of one report.
#[derive(Clone, Debug)]
pub struct StatsReport {
    /// By name and method.
    entries: BTreeMap<(String, String), Entry>,
    total: Entry,
    errors: BTreeMap<(String, String, String), ErrorCount>,
    health: BTreeMap<String, Pulse>,
    /// The start of the counts (Unix seconds).
    since: f64,
}

/// The sums of a test on this worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Sum {
    /// Requests that ended, successfully or not.
    pub requests: u64,
    /// Those that failed.
    pub failures: u64,
    /// Dropped arrivals; they are failures too.
    pub dropped: u64,
    /// The most users present at one time.
    pub users_max: u64,
}

/// Counts of one kind of request since the last report.
#[derive(Clone, Debug, Default)]
struct Entry {
    done: u64,
    untimed: u64,
    failed: u64,
    total_ms: f64,
    least_ns: Option<u64>,
    most_ns: u64,
    bytes: u64,
    /// The count for each rounded time (ns).
    times: BTreeMap<u64, u64>,
    done_by_second: BTreeMap<u64, u64>,
    failed_by_second: BTreeMap<u64, u64>,
    last: Option<f64>,
}

/// The count of an error, with first and last time (Unix seconds).
#[derive(Clone, Copy, Debug)]
struct ErrorCount {
    count: u64,
    first: f64,
    last: f64,
}

/// The health of a class since the last report.
#[derive(Clone, Debug, Default)]
struct Pulse {
    latest: Health,
    done: u64,
    span_s: f64,
    busy_s: f64,
    offered_sum: f64,
    dropped: u64,
    unanswered: u64,
    response: BTreeMap<u64, u64>,
    service: BTreeMap<u64, u64>,
    lateness: BTreeMap<u64, u64>,
    tardiness: BTreeMap<u64, u64>,
}

impl StatsLog {
    /// An empty log, at the Unix time `unix` (s).
    pub fn new(unix: f64) -> Self {
        Self { report: StatsReport::new(unix), sum: Sum::default() }
    }

    /// The sums of the test so far.
    pub fn sum(&self) -> Sum {
        self.sum
    }

    /// Notes the number of users.
    pub fn users(&mut self, count: u64) {
        self.sum.users_max = self.sum.users_max.max(count);
    }

    /// Adds a batch that ended at the Unix time `unix` (s).
    pub fn add(&mut self, batch: &Batch, unix: f64) {
        // The middle of a complete second certainly lies inside it.
        let middle = unix - batch.health.span.as_secs_f64() / 2.0;
        for row in &batch.rows {
            let key = (row.name.clone(), row.method.clone());
            self.report.entries.entry(key).or_default().add(row, middle, unix);
            self.report.total.add(row, middle, unix);
            self.sum.requests += row.done;
            self.sum.failures += row.failed;
        }
        for Fault { method, name, error, count } in &batch.faults {
            let key = (method.clone(), name.clone(), error.clone());
            self.report.err(key, ErrorCount { count: *count, first: unix, last: unix });
        }
        self.sum.dropped += batch.health.dropped;
        self.report.health.entry(batch.class.clone()).or_default().add(batch);
    }

    /// Takes everything since the last report; only the sums are kept.
    pub fn take(&mut self, unix: f64) -> StatsReport {
        std::mem::replace(&mut self.report, StatsReport::new(unix))
    }

    /// Restores a report that was not received.
    pub fn restore(&mut self, earlier: StatsReport) {
        let later = std::mem::replace(&mut self.report, earlier);
        self.report.merge(later);
    }
}

impl StatsReport {
    fn new(unix: f64) -> Self {
        Self {
            entries: BTreeMap::new(),
            total: Entry::default(),
            errors: BTreeMap::new(),
            health: BTreeMap::new(),
            since: unix,
        }
    }

    fn err(&mut self, key: (String, String, String), seen: ErrorCount) {
        let mut key = key;
        if self.errors.len() >= ERRORS_MAX && !self.errors.contains_key(&key) {
            key.2 = "many other errors".to_owned();
        }
        let known = self.errors.entry(key).or_insert(ErrorCount { count: 0, ..seen });
        known.count += seen.count;
        known.last = known.last.max(seen.last);
    }

    /// Merges a later report.
    fn merge(&mut self, later: StatsReport) {
        for (key, entry) in later.entries {
            self.entries.entry(key).or_default().merge(entry);
        }
        self.total.merge(later.total);
        for (key, seen) in later.errors {
            self.err(key, seen);
        }
        for (class, pulse) in later.health {
            self.health.entry(class).or_default().merge(pulse);
        }
    }

    /// The report, with `users` there now.
    pub fn value(&self, users: &Users) -> Value {
        let entries = self.entries.iter().filter(|(_, entry)| entry.done > 0);
        let stats = entries.map(|((name, method), entry)| entry.value(name, method, self.since));
        let errors = self.errors.iter().map(|((method, name, error), seen)| {
            // Equal errors must have equal keys on the master, whichever worker sent them.
            let key = Value::from(format!("{method}.{name}.{error}"));
            (key, seen.value(method, name, error))
        });
        let pulses = self.health.iter();
        let health = pulses.map(|(class, pulse)| (Value::from(class.as_str()), pulse.value()));
        let fields = [
            ("stats", stats.collect()),
            ("stats_total", self.total.value("Aggregated", "", self.since)),
            ("errors", Value::Map(errors.collect())),
            ("roundhouse", Value::Map(health.collect())),
        ];
        let fields = fields.into_iter().map(|(key, value)| (Value::from(key), value));
        Value::Map(fields.chain(head_count(users)).collect())
    }
}

impl Entry {
    /// Adds requests that ended around `middle` and before `unix` (Unix seconds).
    fn add(&mut self, row: &Row, middle: f64, unix: f64) {
        if row.done == 0 {
            return;
        }
        let mut timed = 0;
        for &(ns, count) in &row.times {
            *self.times.entry(rounded_ns(ns)).or_default() += count;
            self.total_ms += ns as f64 / 1e6 * count as f64;
            self.least_ns = Some(self.least_ns.map_or(ns, |least| least.min(ns)));
            self.most_ns = self.most_ns.max(ns);
            timed += count;
        }
        self.done += row.done;
        self.untimed += row.done.saturating_sub(timed);
        self.failed += row.failed;
        self.bytes += row.bytes;
        let second = middle as u64;
        *self.done_by_second.entry(second).or_default() += row.done;
        if row.failed > 0 {
            *self.failed_by_second.entry(second).or_default() += row.failed;
        }
        self.last = Some(unix);
    }

    fn merge(&mut self, later: Entry) {
        self.done += later.done;
        self.untimed += later.untimed;
        self.failed += later.failed;
        self.total_ms += later.total_ms;
        self.least_ns = [self.least_ns, later.least_ns].into_iter().flatten().min();
        self.most_ns = self.most_ns.max(later.most_ns);
        self.bytes += later.bytes;
        sum_up(&mut self.times, &later.times);
        sum_up(&mut self.done_by_second, &later.done_by_second);
        sum_up(&mut self.failed_by_second, &later.failed_by_second);
        self.last = later.last.or(self.last);
    }

    /// The map read by `StatsEntry.unserialize`.
    fn value(&self, name: &str, method: &str, since: f64) -> Value {
        map([
            ("name", Value::from(name)),
            ("method", Value::from(method)),
            ("last_request_timestamp", self.last.map_or(Value::Nil, Value::from)),
            ("start_time", Value::from(since)),
            ("num_requests", Value::from(self.done)),
            ("num_none_requests", Value::from(self.untimed)),
            ("num_failures", Value::from(self.failed)),
            ("total_response_time", Value::from(self.total_ms)),
            ("max_response_time", Value::from(self.most_ns as f64 / 1e6)),
            ("min_response_time", self.least_ns.map_or(Value::Nil, |ns| (ns as f64 / 1e6).into())),
            ("total_content_length", Value::from(self.bytes)),
            ("response_times", keys(&self.times)),
            ("num_reqs_per_sec", seconds(&self.done_by_second)),
            ("num_fail_per_sec", seconds(&self.failed_by_second)),
        ])
    }
}

impl ErrorCount {
    fn value(&self, method: &str, name: &str, error: &str) -> Value {
        map([
            ("name", Value::from(name)),
            ("method", Value::from(method)),
            ("error", Value::from(error)),
            ("occurrences", Value::from(self.count)),
            ("first_seen", Value::from(self.first)),
            ("last_seen", Value::from(self.last)),
        ])
    }
}

impl Pulse {
    fn add(&mut self, batch: &Batch) {
        let (health, span_s) = (&batch.health, batch.health.span.as_secs_f64());
        for row in &batch.rows {
            self.done += row.done;
            gather(&mut self.response, &row.times);
        }
        gather(&mut self.service, &health.service);
        gather(&mut self.lateness, &health.lateness);
        gather(&mut self.tardiness, &health.tardiness);
        self.span_s += span_s;
        self.busy_s += health.busy.as_secs_f64();
        self.offered_sum += health.offered * span_s;
        self.dropped += health.dropped;
        self.unanswered += health.unanswered;
        let none = Times::new;
        self.latest =
            Health { service: none(), lateness: none(), tardiness: none(), ..health.clone() };
    }

    fn merge(&mut self, later: Pulse) {
        self.done += later.done;
        self.span_s += later.span_s;
        self.busy_s += later.busy_s;
        self.offered_sum += later.offered_sum;
        self.dropped += later.dropped;
        self.unanswered += later.unanswered;
        for (mine, theirs) in [
            (&mut self.response, &later.response),
            (&mut self.service, &later.service),
            (&mut self.lateness, &later.lateness),
            (&mut self.tardiness, &later.tardiness),
        ] {
            sum_up(mine, theirs);
        }
        self.latest = later.latest;
    }

    /// The data for the tabs of our locustfile.
    fn value(&self) -> Value {
        map([
            ("model", Value::from(self.latest.model.as_str())),
            ("verdict", Value::from(self.latest.verdict.as_str())),
            ("users", Value::from(self.latest.users)),
            ("outstanding", Value::from(self.latest.outstanding)),
            ("span_s", Value::from(self.span_s)),
            ("busy_s", Value::from(self.busy_s)),
            ("offered", Value::from(self.offered_sum)),
            ("done", Value::from(self.done)),
            ("dropped", Value::from(self.dropped)),
            ("unanswered", Value::from(self.unanswered)),
            ("response", keys(&self.response)),
            ("service", keys(&self.service)),
            ("lateness", keys(&self.lateness)),
            ("tardiness", keys(&self.tardiness)),
        ])
    }
}

fn sum_up(into: &mut BTreeMap<u64, u64>, later: &BTreeMap<u64, u64>) {
    for (&key, &count) in later {
        *into.entry(key).or_default() += count;
    }
}

fn gather(into: &mut BTreeMap<u64, u64>, times: &Times) {
    for &(ns, count) in times {
        *into.entry(rounded_ns(ns)).or_default() += count;
    }
}

/// Rounded times as Locust's keys, in milliseconds.
fn keys(times: &BTreeMap<u64, u64>) -> Value {
    let pairs = times.iter().map(|(&ns, &count)| (Value::from(ns as f64 / 1e6), count.into()));
    Value::Map(pairs.collect())
}

fn seconds(counts: &BTreeMap<u64, u64>) -> Value {
    Value::Map(counts.iter().map(|(&second, &count)| (second.into(), count.into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: f64 = 1_700_000_000.25;

    fn row(done: u64, failed: u64, times: &[(u64, u64)]) -> Row {
        let (method, name) = ("STOCK".to_owned(), "buy".to_owned());
        Row { method, name, done, failed, times: times.to_vec(), bytes: done * 7 }
    }

    fn batch(row: Row) -> Batch {
        let fault = Fault {
            method: row.method.clone(),
            name: row.name.clone(),
            error: "closed early".to_owned(),
            count: row.failed,
        };
        let faults = if row.failed > 0 { vec![fault] } else { vec![] };
        Batch { class: "StockUser".to_owned(), rows: vec![row], faults, ..Batch::default() }
    }

    fn field<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
        path.iter().fold(value, |value, name| match name.parse::<usize>() {
            Ok(at) => &value.as_array().expect("an array")[at],
            Err(_) => {
                let pairs = value.as_map().expect("a map");
                let found = pairs.iter().find(|(key, _)| key.as_str() == Some(name));
                &found.unwrap_or_else(|| panic!("no {name} in {value}")).1
            }
        })
    }

    fn check(report: &Value, path: &[&str], expected: &str) {
        assert_eq!(field(report, path).to_string(), expected, "{path:?} of {report}");
    }

    #[test]
    fn a_report_has_the_fields_of_locust() {
        let mut stats = StatsLog::new(AT);
        stats.add(&batch(row(3, 1, &[(43_217, 1), (43_211, 1)])), AT + 1.0);
        stats.add(&batch(row(1, 0, &[(2_500_000, 1)])), AT + 2.0);
        let users = Users::from([("StockUser".to_owned(), 5)]);
        let report = stats.take(AT + 3.0).value(&users);
        for at in [&["stats", "0"][..], &["stats_total"][..]] {
            let check =
                |name: &str, expected: &str| check(&report, &[at, &[name]].concat(), expected);
            check("num_requests", "4");
            check("num_failures", "1");
            check("num_none_requests", "1");
            check("response_times", "{0.0432: 2, 2.5: 1}");
            check("total_response_time", "2.586428");
            check("min_response_time", "0.043211");
            check("max_response_time", "2.5");
            check("total_content_length", "28");
            check("num_reqs_per_sec", "{1700000001: 3, 1700000002: 1}");
            check("num_fail_per_sec", "{1700000001: 1}");
            check("start_time", "1700000000.25");
            check("last_request_timestamp", "1700000002.25");
        }
        check(&report, &["stats", "0", "name"], "\"buy\"");
        check(&report, &["stats", "0", "method"], "\"STOCK\"");
        check(&report, &["stats_total", "name"], "\"Aggregated\"");
        check(&report, &["errors", "STOCK.buy.closed early", "occurrences"], "1");
        check(&report, &["errors", "STOCK.buy.closed early", "error"], "\"closed early\"");
        check(&report, &["user_count"], "5");
        check(&report, &["user_classes_count"], "{\"StockUser\": 5}");
        check(&report, &["roundhouse", "StockUser", "response"], "{0.0432: 2, 2.5: 1}");
    }

    #[test]
    fn what_was_told_is_not_told_again_but_summed() {
        let mut stats = StatsLog::new(AT);
        stats.add(&batch(row(3, 1, &[(5, 2)])), AT);
        stats.users(7);
        stats.users(2);
        let _ = stats.take(AT + 3.0);
        let second = stats.take(AT + 6.0).value(&Users::new());
        check(&second, &["stats"], "[]");
        check(&second, &["stats_total", "num_requests"], "0");
        check(&second, &["stats_total", "min_response_time"], "nil");
        check(&second, &["stats_total", "last_request_timestamp"], "nil");
        check(&second, &["stats_total", "start_time"], "1700000003.25");
        check(&second, &["errors"], "{}");
        let sum = Sum { requests: 3, failures: 1, dropped: 0, users_max: 7 };
        assert_eq!(stats.sum(), sum);
    }

    #[test]
    fn what_nobody_has_heard_is_told_as_if_it_were_new() {
        let (mut lost, mut whole) = (StatsLog::new(AT), StatsLog::new(AT));
        let first = batch(row(3, 1, &[(43_217, 1), (50_000, 1)]));
        let second = batch(row(2, 2, &[(43_217, 1)]));
        lost.add(&first, AT + 1.0);
        let report = lost.take(AT + 3.0);
        lost.add(&second, AT + 4.0);
        lost.restore(report);
        whole.add(&first, AT + 1.0);
        whole.add(&second, AT + 4.0);
        let users = Users::new();
        assert_eq!(lost.take(AT + 6.0).value(&users), whole.take(AT + 6.0).value(&users));
        assert_eq!(lost.sum(), whole.sum());
    }

    #[test]
    fn errors_have_a_bound() {
        let mut stats = StatsLog::new(AT);
        for at in 0..2_000 {
            let mut batch = batch(row(1, 1, &[]));
            batch.faults[0].error = format!("error {at}");
            stats.add(&batch, AT);
        }
        let report = stats.take(AT).value(&Users::new());
        let errors = field(&report, &["errors"]).as_map().expect("a map");
        assert_eq!(errors.len(), ERRORS_MAX + 1);
        check(&report, &["errors", "STOCK.buy.many other errors", "occurrences"], "1500");
    }
}
