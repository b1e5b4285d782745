//! The knee: the highest rate that keeps the objective; the tail below it, and the conduct above.

use std::time::{Duration, Instant};

use lab::machine::Hiccups;
use load::model::{Arrivals, Model};
use load::{Report, search};
use meter::TreeCost;
use stats::words;

use super::Finding;
use crate::stand::{STARVED, Stand};

/// Connections of an open load.
const POOL: usize = 32;
/// A pause: this many times the median, and at least this long; more of them than an accident
/// makes; and alike, so that it is a sleep and no noise.
const PAUSE_TIMES: u32 = 20;
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSES_MIN: usize = 5;
const ALIKE: f64 = 1.5;
/// Of a request that takes so long, the time is left out in which threads waited for a core: a
/// server that waits for a core does not sleep.
const LONG: Duration = Duration::from_millis(1);
/// Goodput at twice the knee that is well kept.
const KEPT: f64 = 0.5;
const RECOVERS: Duration = Duration::from_secs(5);

/// The time for which the server's threads and this one waited for a core so far (ns).
fn queued(stand: &Stand) -> u64 {
    let own = sys::clock::thread_wait_ns().unwrap_or(0);
    let tree = stand.life.pid().and_then(|pid| TreeCost::read(pid).ok()).unwrap_or_default();
    own + tree.since(&TreeCost::default()).delay_ns
}

/// The times of one client that is alone.
pub(super) fn pauses(stand: &mut Stand) -> Result<Finding, String> {
    let broken = |why: std::io::Error| format!("no reply: {why}");
    let (end, watch) = (Instant::now() + stand.span(4.0), Hiccups::start());
    let mut client = stand.connect().map_err(broken)?;
    let (mut times, mut long) = (Vec::new(), Vec::new());
    let before = queued(stand);
    let mut seen = before;
    while Instant::now() < end {
        let begun = Instant::now();
        let reply = client.ask(&stand.speech, STARVED).map_err(broken)?;
        let time = begun.elapsed();
        times.push(time);
        if time >= LONG {
            let now = queued(stand);
            long.push(time.saturating_sub(Duration::from_nanos(now.saturating_sub(seen))));
            seen = now;
        }
        if reply.closes || !stand.speech.stays {
            client = stand.connect().map_err(broken)?;
        }
    }
    let (late, queued) = (watch.stop(), seen.saturating_sub(before));
    times.sort();
    long.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (median, count) = (at(0.5), times.len());
    let is_pause = |time: &&Duration| **time >= (PAUSE_TIMES * median).max(PAUSE_MIN);
    let pauses: Vec<Duration> = long.iter().filter(is_pause).copied().collect();
    let quarter = |share: f64| pauses[((pauses.len() - 1) as f64 * share) as usize].as_secs_f64();
    let (found, total) = (times.iter().filter(is_pause).count(), pauses.iter().sum::<Duration>());
    let is_noise = 2 * late > total || (pauses.len() < found && pauses.len() < PAUSES_MIN);
    let are_alike = pauses.len() >= PAUSES_MIN && quarter(0.75) <= ALIKE * quarter(0.25);
    let evidence = format!(
        "{count} requests of one client: median {}, p99.9 {}, longest {}",
        words::span(median),
        words::span(at(0.999)),
        words::span(at(1.0))
    );
    let finding = if is_noise && found > 0 {
        let queued = words::time(queued as f64);
        Finding::good(format!("{evidence}; threads waited {queued} for a core of this machine"))
    } else if are_alike {
        let (each, number) = (count / pauses.len(), pauses.len());
        let length = words::span(pauses[number / 2]);
        let evidence = format!("{evidence}; {number} of them, 1 in {each}, take {length} alike");
        Finding::fault(evidence, "clients of a server at rest wait for no reason that they know")
    } else if pauses.len() >= PAUSES_MIN {
        let reason = format!("long pauses; the machine itself paused for {}", words::span(late));
        Finding::attention(evidence, &reason)
    } else {
        Finding::good(evidence)
    };
    Ok(finding
        .measured("p50_ns", median.as_nanos() as f64)
        .measured("p999_ns", at(0.999).as_nanos() as f64))
}

/// The knee, searched once.
fn searched(stand: &mut Stand) -> Result<f64, String> {
    if let Some(known) = &stand.knee {
        return known.clone();
    }
    let knee = search_knee(stand);
    stand.knee = Some(knee.clone());
    knee
}

fn search_knee(stand: &Stand) -> Result<f64, String> {
    let mut plan = stand.plan(POOL, stand.span(0.8)).ok_or("no protocol is known")?;
    plan.settings.drain = Duration::from_millis(100);
    plan.warmup = Duration::from_millis(50);
    plan.watch = None;
    let capacity = search::capacity(&plan, &stand.options.slo, |probe| language::debug!("{probe}"));
    let capacity = capacity.map_err(|why| why.to_string())?;
    match capacity.confirmed {
        true => Ok(capacity.capacity_rps),
        false => Err(format!("no rate keeps {} for certain on this machine", capacity.slo)),
    }
}

pub(super) fn knee(stand: &mut Stand) -> Result<Finding, String> {
    let rate = searched(stand)?;
    let evidence = format!("{} requests/s keep {}", words::grouped(rate), stand.options.slo);
    Ok(Finding::good(evidence).measured("rate", rate))
}

/// An open load at a share of the knee.
fn open(stand: &Stand, rate: f64, window: Duration, drain: Duration) -> Result<Report, String> {
    let mut plan = stand.plan(POOL, window).ok_or("no protocol is known")?;
    plan.model = Model::Open { rate, arrivals: Arrivals::Poisson, depth: 1 };
    plan.settings.drain = drain;
    plan.watch = None;
    plan.slo = Some(stand.options.slo.clone());
    stand.load(&plan)
}

/// A percentile of the response time (ns), with unanswered requests among them.
fn percentile(report: &Report, percent: f64) -> f64 {
    let row = report.percentiles.iter().find(|it| (it.percent - percent).abs() < 0.01);
    row.map_or(report.response.max_ns as f64, |it| it.ns as f64)
}

pub(super) fn tail(stand: &mut Stand) -> Result<Finding, String> {
    const NAMES: [[&str; 3]; 2] = [
        ["half_p50_ns", "half_p99_ns", "half_p999_ns"],
        ["most_p50_ns", "most_p99_ns", "most_p999_ns"],
    ];
    let rate = searched(stand)?;
    let (mut parts, mut finding, mut lost, mut holds) = (Vec::new(), Finding::default(), 0, true);
    for (share, names) in [0.5, 0.8].into_iter().zip(NAMES) {
        let report = open(stand, rate * share, stand.span(3.0), STARVED)?;
        lost += report.failed + report.censored;
        holds &= report.meets_slo() || share > 0.5;
        let times = [50.0, 99.0, 99.9].map(|percent| percentile(&report, percent));
        let [p50, p99, p999] = times.map(words::time);
        parts.push(format!("at {share} of the knee p50 {p50}, p99 {p99}, p99.9 {p999}"));
        for (name, time) in names.into_iter().zip(times) {
            finding = finding.measured(name, time);
        }
    }
    let judged = match lost {
        0 if !holds => {
            let reason = "the objective is missed at half the knee: noise, or rare long requests";
            Finding::attention(parts.join("; "), reason)
        }
        0 => Finding::good(parts.join("; ")),
        _ => {
            let evidence = format!("{}; {lost} requests without a reply", parts.join("; "));
            Finding::attention(evidence, "requests are lost below the knee")
        }
    };
    Ok(Finding { measured: finding.measured, ..judged })
}

pub(super) fn overload(stand: &mut Stand) -> Result<Finding, String> {
    let rate = searched(stand)?;
    let report = open(stand, 2.0 * rate, stand.span(3.0), Duration::from_millis(100))?;
    let kept = report.throughput_rps / rate;
    let p99 = percentile(&report, 99.0);
    let refused = report.refused;
    let begun = Instant::now();
    // Each look is a short load at half the knee, which a server that has recovered answers.
    let recovery = loop {
        let calm = open(stand, rate / 2.0, Duration::from_millis(200), Duration::from_millis(200))?;
        if calm.failed + calm.censored == 0 {
            break Some(begun.elapsed());
        }
        if begun.elapsed() > RECOVERS || stand.left().is_zero() {
            break None;
        }
    };
    let after = match recovery {
        Some(time) => format!("half the rate is served again after {}", words::span(time)),
        None => format!("half the rate is not served for {} afterwards", words::span(RECOVERS)),
    };
    let evidence = format!(
        "{} of the goodput is kept at twice the knee, p99 {}; {refused} refused in words, {} \
         without a reply; {after}",
        words::percent(kept.min(1.0)),
        words::time(p99),
        report.failed - refused.min(report.failed) + report.censored,
    );
    let finding = match recovery {
        None => Finding::fault(evidence, "clients after an overload are starved"),
        Some(_) if kept < KEPT => {
            Finding::attention(evidence, "an overload costs more than half of the goodput")
        }
        Some(_) => Finding::good(evidence),
    };
    Ok(finding.measured("kept", kept).measured("p99_ns", p99))
}
