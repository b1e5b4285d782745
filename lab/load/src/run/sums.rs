//! Adds up the counts of the threads into one report.

use super::thread::RunThread;
use super::{Plan, workload};
use crate::censor;
use crate::drive::{Counts, Delays};
use crate::health::Health;
use crate::report::{self, Generator, Report};
use crate::script::Script;
use crate::tally::Tally;
use crate::timeline::Slice;
use meter::Histogram;

/// Sums of a thread, of all threads, or of all windows of a server that takes turns.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) warm: Tally,
    pub(crate) window: Tally,
    pub(crate) late: Tally,
    /// Lower bounds for the times of measured requests that are unanswered.
    pub(crate) censored: Histogram,
    pub(crate) unanswered: u64,
    pub(crate) counts: Counts,
    pub(crate) idle: (usize, u64),
    pub(crate) delays: Delays,
    pub(crate) cpu_ns: u64,
    /// The fraction of the window during which the busiest thread was working.
    pub(crate) busy: f64,
    pub(crate) window_ns: u64,
}

impl Sums {
    fn of(threads: &[RunThread]) -> Self {
        let mut sums = Self::default();
        for RunThread { drive, sums: own, .. } in threads {
            sums.warm.merge(&own.warm);
            sums.window.merge(&own.window);
            sums.late.merge(&own.late);
            sums.censored.merge(&own.censored);
            sums.unanswered += own.unanswered;
            sums.counts.merge(&drive.counts);
            sums.idle = (sums.idle.0 + own.idle.0, sums.idle.1 + own.idle.1);
            sums.delays.merge(&own.delays);
            sums.cpu_ns += own.cpu_ns;
            sums.busy = sums.busy.max(own.busy);
            sums.window_ns = sums.window_ns.max(own.window_ns);
        }
        sums
    }
}

fn timeline(threads: &mut [RunThread], window_ns: u64) -> Vec<Slice> {
    let mut lines = threads.iter_mut().filter_map(|thread| thread.timeline.take());
    let Some(mut all) = lines.next() else { return Vec::new() };
    lines.for_each(|line| all.merge(line));
    all.slices(window_ns)
}

fn per_second(count: u64, window_ns: u64) -> f64 {
    count as f64 * 1e9 / window_ns.max(1) as f64
}

/// Builds the report; connections are already closed.
pub(super) fn report(plan: &Plan, threads: &mut [RunThread], started_unix_ms: u64) -> Report {
    let sums = Sums::of(threads);
    let timeline = timeline(threads, sums.window_ns);
    let totals: Vec<_> = threads[1..].iter().map(|it| it.drive.script().totals()).collect();
    let reading = threads[0].reading.take();
    let script = threads[0].drive.script();
    let (mut report, _) = sums.report(plan, script, &totals, started_unix_ms);
    for thread in &threads[1..] {
        for (status, count) in thread.drive.script().statuses() {
            *report.statuses.entry(status).or_default() += count;
        }
    }
    report.timeline = timeline;
    match reading {
        Some(Ok(reading)) => {
            report.server = Some(reading.report(report.requests, &mut report.doubts));
        }
        // A server that has ended by now is a doubt, not a failure.
        Some(Err(error)) => report.doubts.push(error.to_string()),
        None => {}
    }
    report
}

impl Sums {
    /// The report without timeline and the server's resource use; `totals` are those of
    /// further threads. The histogram has the service times (ns).
    pub(crate) fn report(
        self,
        plan: &Plan,
        script: &dyn Script,
        totals: &[Vec<u64>],
        started_unix_ms: u64,
    ) -> (Report, Histogram) {
        let mut all = self.window.clone();
        all.merge(&self.late);
        all.settle();
        let health = health(plan, &self, &all);
        let times = if plan.model.is_scheduled() { &all.response } else { &all.service };
        let without = all.failed + self.censored.count();
        let rate = per_second(self.window.done, self.window_ns);
        let total = |of: fn(&Tally) -> u64| of(&self.warm) + of(&all);
        let report = Report {
            schema: report::SCHEMA.to_owned(),
            target: plan.target.to_string(),
            model: plan.model.name().to_owned(),
            connections: plan.settings.connections,
            depth: plan.model.depth(),
            threads: plan.threads,
            seed: plan.seed,
            requests_per_connection: plan.settings.requests_per_connection,
            offered_rps: plan.model.rate(),
            stages: plan.stages.as_ref().map(ToString::to_string),
            window_ns: self.window_ns,
            requests: self.window.done,
            requests_total: total(|tally| tally.done + tally.wrong + tally.refused),
            wrong: total(|tally| tally.wrong),
            refused: total(|tally| tally.refused),
            throughput_rps: rate,
            bytes_in: self.window.bytes_in,
            bytes_out: self.window.bytes_out,
            arrived: all.arrived,
            dropped: all.dropped,
            failed: all.failed,
            malformed: self.window.malformed,
            statuses: script.statuses(),
            lost: self.counts.lost,
            censored: self.unanswered,
            repeated: self.counts.repeated,
            retries: self.counts.retries,
            connect: plan.settings.connect_apart.then(|| self.counts.connect.quantiles()),
            first_failure: self.counts.first_failure.clone(),
            stress: report::StressReport::of(plan, &self.counts),
            tls: report::TlsReport::of(&plan.target, self.counts.handshakes.as_ref()),
            idle: self.idle.0,
            idle_closed: self.idle.1,
            service: all.service.quantiles(),
            response: all.response.quantiles(),
            lateness: all.lateness.quantiles(),
            percentiles: censor::percentiles(times, &self.censored, all.failed),
            kinds: report::kinds(&script.kinds(), &all.kinds),
            check: workload::audit(&plan.target, script, totals),
            slo: plan.slo.as_ref().map(|it| it.judge(times, without, rate)).unwrap_or_default(),
            generator: Generator {
                cpu_ns: self.cpu_ns,
                spun_ns: self.delays.spun_ns,
                busy: self.busy,
            },
            doubts: health.reasons.clone(),
            health,
            started_unix_ms,
            errors: self.counts.faults,
            ..Report::default()
        };
        (report, all.service)
    }
}

fn health(plan: &Plan, sums: &Sums, all: &Tally) -> Health {
    let health = Health {
        busy: sums.busy,
        stalled_ns: sums.delays.stalled_ns,
        stall_ns_max: sums.delays.stall_ns_max,
        tardiness: all.tardiness.quantiles(),
        ..Health::default()
    };
    let window_ns = sums.window_ns * plan.threads as u64;
    let response = all.response.quantiles();
    health.judged(plan.model.is_scheduled(), window_ns, sums.counts.behind_ns, &response)
}
