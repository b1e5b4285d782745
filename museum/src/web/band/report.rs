//! The report of the exhibit on bands: churn, its trigger, its cost.

use super::super::cases::{self, Case, Results, churn, cpu_ms, p99_ms, process_churn, rps};
use super::super::servers::Toil;
use super::super::study::{self, SOURCE};
use super::{
    APACHE, DAMPED, Drop, FIXED, GOVERNED, GUESTS, REAL, STAY, STAYING, STEADY, Terms, WIDTHS,
    WOBBLING, group,
};
use crate::draft::{Draft, Part, one, point};
use crate::stage::WebRun;
use document::{Mark, Series};
use stats::words;
use stats::{Comparison, VALUES_MIN};

pub(super) fn draft(results: &Results, drops: &[Drop], terms: &Terms, toil: Toil) -> Draft {
    let mut it = Draft::default();
    let whole = |value: Option<f64>| value.map(|it| words::number(it.round()));
    let [apache, damped, real] =
        [APACHE, DAMPED, REAL].map(|server| churned(results, server, WOBBLING));
    let steady = churned(results, APACHE, STEADY);
    let cost = thread_ms(results);
    it.set("source", SOURCE);
    it.set("work", words::span(terms.work));
    it.set("staying", STAYING);
    it.set("guests", GUESTS);
    it.set("steady_clients", STAYING + GUESTS / 2);
    it.set("most", STAYING + GUESTS);
    it.set("stay", words::span(STAY));
    it.set("blocks", terms.blocks);
    it.set("watched", words::span(terms.watched));
    it.set("real", whole(real));
    it.set("apache", whole(apache));
    it.set("damped", whole(damped));
    it.set("steady", whole(steady));
    it.set("costs", costs(results));
    // A small difference of large numbers: without an interval it would only look like a figure.
    it.set("thread_ms", (cost.len() >= VALUES_MIN).then(|| cases::said(&cost)));
    it.published = study::table(&[study::THREADS, study::PROCESSES]);
    it.flawed = table(results, &[STEADY, WOBBLING], &[1], &[REAL, APACHE, DAMPED, GOVERNED, FIXED]);
    residents(&mut it.flawed, results);
    it.corrected = corrected(results);
    together(&mut it, results);
    it.facts = vec![toil.fact()];
    given_back(&mut it, drops);
    findings(&mut it, results, drops);
    it
}

/// The case of a server under a load, where it was run.
fn at(results: &Results, server: &str, load: &str, width: u32) -> Option<usize> {
    results.find(server, &group(load, width)).filter(|at| results.has(*at))
}

fn churned(results: &Results, server: &str, load: &str) -> Option<f64> {
    results.median(at(results, server, load, 1)?, churn)
}

/// A server against the fixed pool under the wobbling load, block by block.
fn beside(
    results: &Results,
    server: &str,
    width: u32,
    figure: cases::Figure,
) -> Option<Comparison> {
    results.against(at(results, server, WOBBLING, width)?, at(results, FIXED, WOBBLING, 1)?, figure)
}

/// The CPU cost of a thread from its start to its end, milliseconds: the extra CPU of Apache's rule
/// over the fixed pool, divided by the threads that it started (every second one of the churn).
fn thread_ms(results: &Results) -> Vec<f64> {
    let pair = at(results, APACHE, WOBBLING, 1).zip(at(results, FIXED, WOBBLING, 1));
    let Some((a, s)) = pair else { return Vec::new() };
    let cost = |[a, s]: [&WebRun; 2]| {
        let threads = churn(a)? / 2.0;
        (threads > 0.0).then_some((cpu_ms(a)? - cpu_ms(s)?) * rps(a)? * 60.0 / threads)
    };
    results.blockwise([a, s], cost)
}

/// CPU, tail and throughput under Apache's rule against a fixed pool's, in words.
fn costs(results: &Results) -> Vec<String> {
    let all = [("CPU a request", cpu_ms as cases::Figure), ("p99", p99_ms), ("requests/s", rps)];
    let each = all.into_iter().filter_map(|(what, figure)| {
        Some(format!("{what} {}", words::compared(&beside(results, APACHE, 1, figure)?)))
    });
    each.collect()
}

fn row(results: &Results, at: usize) -> [String; 7] {
    let case = &results.cases[at];
    [
        case.group.clone(),
        case.web.name.clone(),
        results.shown(at, churn),
        results.shown(at, process_churn),
        results.shown(at, rps),
        results.shown(at, cpu_ms),
        results.shown(at, p99_ms),
    ]
}

fn table(results: &Results, loads: &[&str], widths: &[u32], servers: &[&str]) -> Part {
    let mut part = Part::default();
    for load in loads {
        for width in widths {
            let all = servers.iter().filter_map(|server| at(results, server, load, *width));
            all.for_each(|at| part.row(row(results, at)));
        }
    }
    part
}

/// Threads over time in the first run of each server under the wobbling load.
fn residents(part: &mut Part, results: &Results) {
    for server in [APACHE, DAMPED, GOVERNED, FIXED, REAL] {
        let run = at(results, server, WOBBLING, 1).and_then(|at| results.of(at).next());
        let looks = run.iter().flat_map(|run| &run.churn.looks);
        let points = looks.map(|(at, _, threads)| (*at, f64::from(*threads)));
        part.series(Series::measured(server, points));
    }
}

fn corrected(results: &Results) -> Part {
    let mut part = table(results, &[WOBBLING], &WIDTHS, &[APACHE, DAMPED]);
    part.named(WIDTHS.map(|it| it.to_string()));
    for (server, what, figure) in [
        (APACHE, "CPU / request", cpu_ms as cases::Figure),
        (DAMPED, "CPU / request", cpu_ms),
        (APACHE, "p99", p99_ms),
        (DAMPED, "p99", p99_ms),
    ] {
        let points = WIDTHS.iter().filter_map(|&width| {
            Some(point(f64::from(width), &beside(results, server, width, figure)?))
        });
        part.series(Series::measured(format!("{server}: {what}"), points));
    }
    part.series(one("a fixed pool", WIDTHS.map(f64::from)));
    part
}

/// The workers that stay when a hundred clients leave at once.
fn given_back(it: &mut Draft, drops: &[Drop]) {
    let mut part = Part::default();
    let mut left = Vec::new();
    for drop in drops {
        let (at, last) = drop.looks.last().copied().unwrap_or_default();
        left.push(format!("{}: {last} idle workers after {at:.0} s", drop.server));
        let [last, most] = [last, drop.spare_max].map(words::count);
        part.row([drop.server.clone(), last, words::number(at.round()), most]);
        let points = drop.looks.iter().map(|(at, idle)| (*at, f64::from(*idle)));
        part.series(Series::measured(drop.server.clone(), points));
    }
    let ends = drops.iter().flat_map(|it| it.looks.iter().map(|look| look.0));
    let end = ends.fold(0.0, f64::max);
    let limit = drops.first().map(|it| f64::from(it.spare_max));
    let limit = limit.iter().flat_map(|most| [0.0, end].map(|x| (x, *most)));
    part.series(Series::published("the most spare", limit));
    it.set("left", left);
    it.room("given-back", part);
}

fn together(it: &mut Draft, results: &Results) {
    it.together.named(WIDTHS.map(|it| it.to_string()));
    for (load, servers) in [
        (WOBBLING, [APACHE, DAMPED, GOVERNED, FIXED, REAL].as_slice()),
        (STEADY, [APACHE, DAMPED, REAL].as_slice()),
    ] {
        for server in servers {
            let line = results.line(server, churn, |case: &Case| case.group.starts_with(load));
            let mark = if line.points.len() == 1 { Mark::Point } else { Mark::Line };
            it.together.series(Series { name: format!("{server}, {load}"), mark, ..line });
        }
    }
}

/// A figure of one server as a share of another's, block by block: 0 where the other has none.
fn share(results: &Results, one: (&str, &str), other: (&str, &str)) -> Vec<f64> {
    let pair = at(results, one.0, one.1, 1).zip(at(results, other.0, other.1, 1));
    let Some((one, other)) = pair else { return Vec::new() };
    results.blockwise([one, other], |[one, other]| {
        let (one, other) = (churn(one)?, churn(other)?);
        Some(if one == 0.0 { 0.0 } else { one / other.max(1e-9) })
    })
}

fn findings(it: &mut Draft, results: &Results, drops: &[Drop]) {
    let real = at(results, REAL, WOBBLING, 1).or(at(results, APACHE, WOBBLING, 1));
    let counts = real.map(|at| results.values(at, churn)).unwrap_or_default();
    it.expect_median("apache-churns", &counts);
    let rule = if at(results, REAL, WOBBLING, 1).is_some() { REAL } else { APACHE };
    it.expect_median("wobble-triggers", &share(results, (rule, STEADY), (rule, WOBBLING)));
    it.expect_ratio("churn-is-cheap", beside(results, APACHE, 1, rps).as_ref());
    it.expect_median("same-rule", &share(results, (APACHE, WOBBLING), (REAL, WOBBLING)));
    it.expect_median("damped-churn", &share(results, (DAMPED, WOBBLING), (APACHE, WOBBLING)));
    it.expect_ratio("damped-throughput", beside(results, DAMPED, 1, rps).as_ref());
    it.expect_ratio("governed-throughput", beside(results, GOVERNED, 1, rps).as_ref());
    if let Some(drop) = drops.iter().find(|it| it.server == DAMPED) {
        let left = drop.looks.last().map_or(0, |it| it.1);
        it.claim("damped-gives-back", left <= drop.spare_max, f64::from(left));
    }
}
