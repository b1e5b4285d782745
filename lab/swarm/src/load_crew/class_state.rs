//! From a pool's harvest to a batch, with the verdict on the generator.

use crate::crew::{Batch, Fault, Health, Row, Times};
use load::faults::{FaultKind, Faults};
use load::health::{Evidence, Health as Judgement, Verdict};
use load::parse::Scheme;
use load::user_pool::{Behaviour, Harvest, KindHarvest, PoolPlan};
use meter::Histogram;
use std::time::Duration;

/// The row of requests whose connection ended before the reply, or failed to open.
const UNANSWERED: &str = "(no reply)";
/// The row of dropped arrivals.
const DROPPED: &str = "(no room)";

/// The minimum time that is judged (ns).
const WINDOW_MIN: u64 = 3_000_000_000;

/// The state of one class of users.
pub(super) struct ClassState {
    pub(super) class: String,
    pub(super) plan: PoolPlan,
    /// The number of users to have.
    pub(super) users: u64,
    method: &'static str,
    watch: Watch,
    /// Kinds of faults of which an example was logged.
    seen: Vec<FaultKind>,
}

/// The evidence for the verdict: sums since the users arrived.
struct Watch {
    tardiness: Histogram,
    response: Histogram,
    stalled_ns: u64,
    stall_ns_max: u64,
    window_ns: u64,
    busy_ns: u64,
    done: u64,
    worst: Verdict,
}

impl ClassState {
    pub(super) fn new(class: &str, plan: PoolPlan) -> Self {
        let method = match plan.target.scheme {
            Scheme::Stock => "STOCK",
            Scheme::Http => "GET",
            Scheme::Echo => "ECHO",
            Scheme::Line => "LINE",
        };
        let watch = Watch {
            tardiness: Histogram::new(),
            response: Histogram::new(),
            stalled_ns: 0,
            stall_ns_max: 0,
            window_ns: 0,
            busy_ns: 0,
            done: 0,
            worst: Verdict::Ok,
        };
        Self { class: class.to_owned(), plan, users: 0, method, watch, seen: Vec::new() }
    }

    /// Makes a batch of a harvest, with `unanswered` requests given up at its end. Also returns log
    /// lines: the first fault of each kind, and a verdict worse than before.
    pub(super) fn batch(&mut self, harvest: Harvest, unanswered: u64) -> (Batch, Vec<String>) {
        let mut doubts = self.examples(&harvest.faults);
        let (mut rows, mut faults) = (Vec::new(), Vec::new());
        for KindHarvest { name, tally } in &harvest.kinds {
            if tally.done + tally.wrong > 0 {
                let times = times(&tally.response);
                let row = self.row(name, tally.done + tally.wrong, tally.wrong);
                rows.push(Row { times, bytes: tally.bytes, ..row });
            }
            faults.extend(self.faults(name, &tally.faults));
        }
        let unexplained = without_kinds(&harvest);
        // One connection may lose many requests; a connect may fail before the first.
        let ends = unexplained.list.iter().filter(|fault| !is_of_reply(fault.kind));
        let lost = harvest.lost.max(ends.map(|fault| fault.count).sum());
        let dropped = harvest.tally.dropped;
        rows.extend((lost > 0).then(|| self.row(UNANSWERED, lost, lost)));
        rows.extend((dropped > 0).then(|| self.row(DROPPED, dropped, dropped)));
        faults.extend(self.faults(UNANSWERED, &unexplained));
        faults.extend((dropped > 0).then(|| {
            Fault {
                method: self.method.to_owned(),
                name: DROPPED.to_owned(),
                error: "arrivals dropped, too many requests are out: the server does not keep up"
                    .to_owned(),
                count: dropped,
            }
        }));
        let (verdict, worse) = self.judge(&harvest);
        doubts.extend(worse);
        let health = self.health(&harvest, unanswered, verdict);
        (Batch { class: self.class.clone(), rows, faults, health }, doubts)
    }

    fn row(&self, name: &str, done: u64, failed: u64) -> Row {
        let (method, name) = (self.method.to_owned(), name.to_owned());
        Row { method, name, done, failed, times: Times::new(), bytes: 0 }
    }

    fn faults(&self, name: &str, faults: &Faults) -> Vec<Fault> {
        let fault = |fault: &load::Fault| Fault {
            method: self.method.to_owned(),
            name: name.to_owned(),
            // Examples differ between workers. This text does not, so that the master can add up
            // counts.
            error: format!("{}: {}", fault.kind, fault.kind.remedy()),
            count: fault.count,
        };
        faults.list.iter().map(fault).collect()
    }

    /// The first example of each kind of fault.
    fn examples(&mut self, faults: &Faults) -> Vec<String> {
        let mut fresh = Vec::new();
        for fault in &faults.list {
            if !self.seen.contains(&fault.kind) {
                self.seen.push(fault.kind);
                let (class, kind, example) = (&self.class, fault.kind, &fault.example);
                fresh.push(format!("{class}: {kind}, for example: {example}"));
            }
        }
        fresh
    }

    /// The verdict on the generator since the users arrived; and its reasons, when it is worse than
    /// ever before.
    fn judge(&mut self, harvest: &Harvest) -> (Verdict, Option<String>) {
        let (watch, tally) = (&mut self.watch, &harvest.tally);
        watch.tardiness.merge(&tally.tardiness);
        watch.response.merge(&tally.response);
        watch.stalled_ns += harvest.delays.stalled_ns;
        watch.stall_ns_max = watch.stall_ns_max.max(harvest.delays.stall_ns_max);
        watch.window_ns += harvest.span_ns;
        watch.busy_ns += harvest.cpu_ns.saturating_sub(harvest.delays.spun_ns);
        watch.done += tally.done;
        // Within a second, any hiccup of the machine is a large fraction.
        if watch.window_ns < WINDOW_MIN {
            return (watch.worst, None);
        }
        let window_ns = watch.window_ns;
        let judged = Judgement::judge(&Evidence {
            scheduled: self.plan.behaviour.is_scheduled(),
            window_ns,
            threads: 1,
            busy: watch.busy_ns as f64 / window_ns as f64,
            stalled_ns: (watch.stalled_ns, watch.stall_ns_max),
            achieved_rps: watch.done as f64 / (window_ns as f64 / 1e9),
            tardiness: watch.tardiness.quantiles(),
            response: &watch.response.quantiles(),
            baseline: None,
        });
        if judged.verdict <= watch.worst {
            return (judged.verdict, None);
        }
        watch.worst = judged.verdict;
        let reasons = judged.reasons.join("; ");
        (judged.verdict, Some(format!("{}: {}: {reasons}", self.class, judged.verdict)))
    }

    fn health(&self, harvest: &Harvest, unanswered: u64, verdict: Verdict) -> Health {
        let (model, rate) = match self.plan.behaviour {
            Behaviour::Closed { .. } => ("closed", 0.0),
            Behaviour::Open { rate_per_user, .. } => ("open", rate_per_user),
            // The rate is in requests, as in the other models, not in sessions.
            Behaviour::Sessions { rate_per_user, rounds, depth, .. } => {
                ("sessions", rate_per_user * rounds as f64 * f64::from(depth))
            }
        };
        Health {
            model: model.to_owned(),
            verdict: verdict.to_string(),
            users: self.users,
            offered: self.users as f64 * rate,
            span: Duration::from_nanos(harvest.span_ns),
            busy: Duration::from_nanos(harvest.cpu_ns.saturating_sub(harvest.delays.spun_ns)),
            service: times(&harvest.tally.service),
            lateness: times(&harvest.tally.lateness),
            tardiness: times(&harvest.tally.tardiness),
            dropped: harvest.tally.dropped,
            unanswered,
            outstanding: harvest.outstanding,
        }
    }
}

/// Faults that belong to no kind of request.
fn without_kinds(harvest: &Harvest) -> Faults {
    let rest = |fault: &load::Fault| {
        let kinds = harvest.kinds.iter().map(|kind| kind.tally.faults.of(fault.kind));
        let count = fault.count.saturating_sub(kinds.sum());
        (count > 0).then(|| load::Fault { count, ..fault.clone() })
    };
    Faults { list: harvest.faults.list.iter().filter_map(rest).collect() }
}

/// Whether a fault belongs to a received reply.
fn is_of_reply(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::WrongReply | FaultKind::UnaskedBytes | FaultKind::Overlong)
}

fn times(histogram: &Histogram) -> Times {
    histogram.counts().collect()
}
