//! The report of the exhibit on three servers.

use super::super::cases::{self, Case, Results, cpu_ms, rps, whole_ms};
use super::super::locust::Swarm;
use super::{
    AS_LISTED, CORRECTED, FLAWS, LISTED, NEVER, OURS, PATIENCE, RATE, SOUND, Terms, cause,
};
use crate::draft::{Draft, Part, one, point};
use crate::stage::WebRun;
use document::{Mark, Series};
use stats::words;

/// The published figures: requests a second, mean in ms, requests before the first failure.
const PUBLISHED: [(&str, f64, f64, u32); 3] = [
    ("one process", 765.7, 83.0, 18_367),
    ("process for each", 768.0, 90.0, 19_221),
    ("thread for each", 554.3, 151.0, 10_727),
];

pub(super) fn draft(results: &Results, swarms: &[(String, Swarm)], terms: &Terms) -> Draft {
    let mut it = Draft::default();
    it.set("rate", RATE);
    it.set("users", words::count(terms.users));
    it.set("descriptors", terms.descriptors);
    it.set("patience", PATIENCE.map(words::span));
    it.set("blocks", terms.blocks);
    sums(&mut it, results);
    for (name, rps, mean, requests) in PUBLISHED {
        let users = f64::from(requests) / rps * f64::from(RATE);
        it.published.row([
            name.to_string(),
            words::number(rps),
            words::number(mean),
            words::count(requests),
            format!("about {}", words::number((users / 10.0).round() * 10.0)),
        ]);
    }
    group(results, LISTED).for_each(|(at, _)| it.flawed.row(row(results, at)));
    growth(&mut it.flawed, results, LISTED);
    let names = CORRECTED.iter().map(|it| it.name).chain(OURS.iter().map(|it| it.0));
    for name in names {
        if let Some(at) = results.find(name, SOUND).filter(|at| results.has(*at)) {
            it.corrected.row(row(results, at));
        }
    }
    swarms.iter().for_each(|(name, swarm)| it.corrected.row(swarm_row(name, swarm)));
    growth(&mut it.corrected, results, SOUND);
    flaws(&mut it, results);
    together(&mut it, results);
    findings(&mut it, results);
    it
}

/// The values in the sentences.
fn sums(it: &mut Draft, results: &Results) {
    let of = |figure: cases::Figure| -> Vec<(f64, &str)> {
        group(results, SOUND)
            .filter_map(|(at, it)| Some((results.median(at, figure)?, it.web.name.as_str())))
            .collect()
    };
    let (rates, costs) = (of(rps), of(cpu_ms));
    let least = costs.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let most = costs.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let best = rates.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    it.set("listed", group(results, LISTED).count());
    it.set("client", failed(results, LISTED, |kind| kind == "no_descriptors"));
    it.set("sound", group(results, SOUND).count());
    it.set("sound_failed", failed(results, SOUND, |kind| !kind.is_empty()));
    it.set("cheapest", least.map(|it| it.1));
    it.set("cheapest_ms", least.map(|it| words::number(it.0)));
    it.set("costliest", most.map(|it| it.1));
    it.set("cost_ratio", most.zip(least).map(|(most, least)| words::ratio(most.0 / least.0)));
    it.set("quickest", best.map(|it| it.1));
    it.set("quickest_rps", best.map(|it| words::number(it.0)));
    let never = results.find(NEVER, LISTED).and_then(|at| results.median(at, answered));
    it.set("never", never.map(words::number));
}

/// Requests answered before the first failure.
fn before(run: &WebRun) -> Option<f64> {
    run.load.first_failure.as_ref().map(|first| first.after_requests as f64)
}

/// Users when it came.
fn users(run: &WebRun) -> Option<f64> {
    run.load.first_failure.as_ref().map(|first| f64::from(first.users))
}

fn malformed(run: &WebRun) -> Option<f64> {
    Some(run.load.malformed as f64)
}

fn answered(run: &WebRun) -> Option<f64> {
    Some(run.load.requests as f64)
}

/// The cases of a group that were run.
fn group<'a>(results: &'a Results, name: &'a str) -> impl Iterator<Item = (usize, &'a Case)> {
    let cases = results.cases.iter().enumerate();
    cases.filter(move |(at, it)| it.group == name && results.of(*at).next().is_some())
}

/// The number of servers in a group with a first failure for which `is` holds in any run.
fn failed(results: &Results, name: &str, is: impl Fn(&str) -> bool) -> usize {
    group(results, name).filter(|(at, _)| results.of(*at).any(|run| is(cause::kind(run)))).count()
}

fn row(results: &Results, at: usize) -> [String; 8] {
    let none = || format!("none in {}", results.shown(at, answered));
    [
        results.cases[at].web.name.clone(),
        results.shown(at, rps),
        results.shown(at, whole_ms),
        results.shown(at, cpu_ms),
        if results.median(at, before).is_some() { results.shown(at, before) } else { none() },
        results.shown(at, users),
        cause::usual(results, at),
        results.shown(at, malformed),
    ]
}

fn swarm_row(name: &str, it: &Swarm) -> [String; 8] {
    let first = it.first.as_ref();
    let none = || format!("none in {}", words::count(it.requests));
    [
        format!("{name}, by Locust"),
        words::number(it.rps),
        words::number(it.mean_ms),
        words::NONE.to_string(),
        first.map_or_else(none, |first| words::count(first.after_requests)),
        words::or_none(first.map(|first| first.users as f64), words::number),
        first.map_or("nothing failed".to_string(), |first| first.words.clone()),
        words::NONE.to_string(),
    ]
}

/// Each flaw by itself, against the same server without it.
fn flaws(it: &mut Draft, results: &Results) {
    let mut part = Part::default();
    let mut points = Vec::new();
    let mut names = Vec::new();
    for it in FLAWS {
        let pair = results.find(it.name, it.flags).zip(results.find(it.name, SOUND));
        let Some((with, without)) = pair.filter(|(with, _)| results.has(*with)) else { continue };
        let [rate, cost] = [rps, cpu_ms].map(|figure| results.against(with, without, figure));
        let compared =
            |it: &Option<_>| it.as_ref().map_or(words::NONE.to_string(), words::compared);
        names.push(format!("{} {}", it.name, it.flags));
        points.extend(rate.iter().map(|found| point(names.len() as f64, found)));
        part.row([
            format!("{} {}", it.name, it.flags),
            results.shown(with, rps),
            compared(&rate),
            compared(&cost),
            results.shown(with, malformed),
        ]);
    }
    it.set("flaws", names.len());
    if !names.is_empty() {
        part.series(one("no flaw", [0.5, names.len() as f64 + 0.5]));
        part.series(Series::measured("one flaw", points).drawn_as(Mark::Point));
    }
    part.named(names);
    it.room("flaws", part);
}

/// The maximum number of points of a line over time: more of them show the noise.
const POINTS: usize = 12;

/// Requests a second over time in the first run of each server.
fn growth(part: &mut Part, results: &Results, name: &str) {
    for (at, it) in group(results, name) {
        let Some(run) = results.of(at).find(|run| run.load.requests > 0) else { continue };
        let each = run.load.stretches.len().div_ceil(POINTS).max(1);
        let points = run.load.stretches.chunks(each).map(|all| {
            let long: f64 = all.iter().map(|it| it.for_s).sum();
            let requests: u64 = all.iter().map(|it| it.requests).sum();
            (all[0].at_s + long / 2.0, requests as f64 / long.max(1e-9))
        });
        // A logarithmic axis has no place for 0.
        let points = points.filter(|(_, rate)| *rate > 0.0);
        part.series(Series::measured(it.web.name.clone(), points));
    }
}

/// Requests a second of all servers, as listed and corrected, beside the published.
fn together(it: &mut Draft, results: &Results) {
    let mut unique: Vec<&str> = Vec::new();
    let listed = AS_LISTED.iter().chain(&CORRECTED).map(|it| it.name);
    for name in listed.chain(OURS.map(|it| it.0)) {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    let published = PUBLISHED.iter().filter_map(|(server, rps, ..)| {
        let x = unique.iter().position(|it| it == server)? + 1;
        Some((x as f64, *rps))
    });
    it.together.series(Series::published("published", published).drawn_as(Mark::Bar));
    for name in [LISTED, SOUND] {
        let points = unique.iter().zip(1..).filter_map(|(server, x)| {
            Some((f64::from(x), results.median(results.find(server, name)?, rps)?))
        });
        it.together.series(Series::measured(name, points).drawn_as(Mark::Bar));
    }
    it.together.named(unique);
}

fn findings(it: &mut Draft, results: &Results) {
    let sum = |name: &str, figure: cases::Figure| -> f64 {
        group(results, name).flat_map(|(at, _)| results.of(at).filter_map(figure)).sum()
    };
    if group(results, LISTED).count() > 0 {
        it.expect("client-limit", failed(results, LISTED, |kind| kind == "no_descriptors") as f64);
        let (invalid, answered) = (sum(LISTED, malformed), sum(LISTED, answered));
        it.claim("invalid", invalid == answered && answered > 0.0, invalid);
    }
    if let Some(at) = results.find(NEVER, LISTED).filter(|at| results.has(*at)) {
        it.expect("never-ends", results.of(at).filter_map(answered).sum::<f64>());
    }
    if group(results, SOUND).count() > 0 {
        it.expect("sound", failed(results, SOUND, |kind| !kind.is_empty()) as f64);
    }
    let joined =
        results.find("thread for each", "--join").zip(results.find("thread for each", SOUND));
    let joined = joined.and_then(|(with, without)| results.against(with, without, rps));
    it.expect("join", joined.map(|it| it.ratio));
}
