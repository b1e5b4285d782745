//! From what the threads counted to one report.

use super::shift::Shift;
use super::{Plan, Recorded, talk};
use crate::censor;
use crate::drive::{Pulse, Strain};
use crate::faults::Faults;
use crate::health::{Evidence, Health};
use crate::report::{self, Generator, Report};
use crate::tally::Tally;
use crate::timeline::Slice;
use meter::Histogram;

/// Sums of all threads.
#[derive(Default)]
struct Sums {
    warm: Tally,
    window: Tally,
    late: Tally,
    censored: Histogram,
    unanswered: u64,
    lost: u64,
    repeated: u64,
    strain: Strain,
    idle: (usize, u64),
    faults: Faults,
    pulse: Pulse,
    cpu_ns: u64,
    busy: f64,
    window_ns: u64,
}

impl Sums {
    fn of(shifts: &[Shift]) -> Self {
        let mut sums = Self::default();
        for shift in shifts {
            sums.warm.merge(&shift.warm);
            sums.window.merge(&shift.window);
            sums.late.merge(&shift.late);
            sums.censored.merge(&shift.censored);
            sums.unanswered += shift.unanswered;
            sums.lost += shift.drive.lost;
            sums.repeated += shift.drive.repeated;
            sums.strain.merge(&shift.drive.strain);
            sums.idle = (sums.idle.0 + shift.idle.0, sums.idle.1 + shift.idle.1);
            sums.faults.merge(&shift.drive.faults);
            sums.pulse.merge(&shift.pulse);
            sums.cpu_ns += shift.cpu_ns;
            sums.busy = sums.busy.max(shift.busy());
            sums.window_ns = sums.window_ns.max(shift.window_ns);
        }
        sums
    }
}

/// The time lines of all threads as one.
fn timeline(shifts: &mut [Shift], window_ns: u64) -> Vec<Slice> {
    let mut lines = shifts.iter_mut().filter_map(|shift| shift.timeline.take());
    let Some(mut all) = lines.next() else { return Vec::new() };
    lines.for_each(|line| all.merge(line));
    all.slices(window_ns)
}

/// The throughput of the window.
fn per_second(count: u64, window_ns: u64) -> f64 {
    count as f64 * 1e9 / window_ns.max(1) as f64
}

/// Puts everything together; connections are closed already.
pub(super) fn report(
    plan: &Plan,
    shifts: &mut [Shift],
    started_unix_ms: u64,
) -> (Report, Recorded) {
    let sums = Sums::of(shifts);
    let timeline = timeline(shifts, sums.window_ns);
    let accounts: Vec<_> = shifts[1..].iter().map(|it| it.drive.script().account()).collect();
    let script = shifts[0].drive.script();
    let (names, check) = (script.kinds(), talk::audit_all(&plan.target, script, &accounts));
    let mut all = sums.window.clone();
    all.merge(&sums.late);
    all.settle();
    let health = health(plan, &sums, &all);
    let mut doubts = health.reasons.clone();
    let (reading, reached) = (shifts[0].reading.take(), shifts[0].reached);
    let server = reading.and_then(|reading| reading.report(sums.window.done, &mut doubts));
    doubts.extend(reached.and_then(|reached| reached.doubt()));
    let times = if plan.model.is_scheduled() { &all.response } else { &all.service };
    let without = all.failed + sums.censored.count();
    let total = |of: fn(&Tally) -> u64| of(&sums.warm) + of(&all);
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
        window_ns: sums.window_ns,
        requests: sums.window.done,
        requests_total: total(|tally| tally.done + tally.wrong),
        wrong: total(|tally| tally.wrong),
        throughput_rps: per_second(sums.window.done, sums.window_ns),
        bytes_in: sums.window.bytes_in,
        bytes_out: sums.window.bytes_out,
        arrived: all.arrived,
        dropped: all.dropped,
        failed: all.failed,
        lost: sums.lost,
        censored: sums.unanswered,
        repeated: sums.repeated,
        stress: plan
            .settings
            .stress
            .map(|stress| report::Stress::of(plan, stress, &sums.strain, &sums.faults)),
        idle: sums.idle.0,
        idle_closed: sums.idle.1,
        service: all.service.quantiles(),
        response: all.response.quantiles(),
        lateness: all.lateness.quantiles(),
        percentiles: censor::percentiles(times, &sums.censored, all.failed),
        timeline,
        kinds: report::kinds(&names, &all.kinds),
        check,
        slo: plan.slo.as_ref().map(|slo| slo.judge(times, without)).unwrap_or_default(),
        generator: Generator { cpu_ns: sums.cpu_ns, spun_ns: sums.pulse.spun_ns, busy: sums.busy },
        health,
        precision: reached.and_then(|reached| reached.share),
        server,
        started_unix_ms,
        doubts,
        errors: sums.faults,
    };
    let Tally { response, service, lateness, .. } = all;
    (report, Recorded { response, service, lateness })
}

fn health(plan: &Plan, sums: &Sums, all: &Tally) -> Health {
    Health::judge(&Evidence {
        scheduled: plan.model.is_scheduled(),
        window_ns: sums.window_ns,
        threads: plan.threads,
        busy: sums.busy,
        stalled_ns: (sums.pulse.stalled_ns, sums.pulse.stall_ns_max),
        achieved_rps: per_second(sums.window.done, sums.window_ns),
        tardiness: all.tardiness.quantiles(),
        response: &all.response.quantiles(),
        baseline: plan.baseline,
    })
}
