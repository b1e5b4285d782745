//! Static and dynamic documents: the origin of the counted context switches, and their cost.
//!
//! The study begins with a table of another paper: context switches of Apache 1.3 (processes) and
//! 2.0 (processes of threads) from all documents dynamic to all static, and the *equivalence
//! ratio*. This is the cost of a thread's switch, as a share of a process's switch, at which both
//! servers spend the same on switching. But a dynamic document was a program, started for each
//! request, so most of the "processes" in the table belong to neither server.

use super::cases::{self, Case, Results, cpu_ms, response_ms, rps};
use super::servers::{self, apache_lacks};
use super::study::{self, equivalence};
use crate::draft::{Draft, Part};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Clients, Settings, Stage, Web, WebRun};
use document::{Point, Series};
use stats::words;
use stats::{median, median_interval};
use std::time::Duration;

/// Shares of dynamic documents, per cent.
const SHARES: [u32; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// Clients.
const CLIENTS: u32 = 10;
/// Workers of every server.
const WORKERS: u32 = 20;
/// The static document, the dynamic one as a program, and as a part of the server.
const STATIC: &str = "/index.html";
const PROGRAM: &str = "/cgi/page";
const INSIDE: &str = "/dynamic";
/// Pairs of servers: processes, and processes of threads.
const REAL: [&str; 2] = ["Apache, prefork", "Apache, worker"];
const OURS: [&str; 2] = ["ours, prefork", "ours, worker"];
/// The rule of the study: a thread's switch costs 0.7 of a process's.
const RULE: f64 = 0.7;

/// The exhibit.
pub struct Mixes;

struct Terms {
    shares: &'static [u32],
    span: Duration,
    blocks: u32,
    quick: bool,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let ms = Duration::from_millis;
        Terms {
            shares: if settings.quick { &[0, 100] } else { &SHARES },
            span: match (settings.full, settings.quick) {
                (true, _) => ms(30_000),
                (_, true) => ms(250),
                _ => ms(700),
            },
            blocks: cases::blocks(settings),
            quick: settings.quick,
        }
    }
}

impl Exhibit for Mixes {
    fn name(&self) -> &'static str {
        "mixes"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let lines = if terms.quick { 4 } else { 6 };
        cases::effort(lines * terms.shares.len() as u32, terms.span, terms.blocks)
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let terms = Terms::of(stage.settings());
        let mut all = Vec::new();
        let mut add = |web: &Web, dynamic: &str| {
            for &share in terms.shares {
                let mix = [(STATIC, 100 - share), (dynamic, share)];
                let mix: Vec<String> =
                    mix.iter().map(|(path, weight)| format!("{path}={weight}")).collect();
                let clients = Clients::new(STATIC, CLIENTS, terms.span);
                all.push(Case {
                    web: web.clone(),
                    clients: Clients { mix: Some(mix.join(",")), ..clients },
                    x: f64::from(share),
                    group: group(dynamic, share),
                });
            }
        };
        let hybrid = WORKERS / 2;
        for (name, flags) in OURS.into_iter().zip([
            format!("--engine prefork --workers {WORKERS}"),
            format!("--engine worker --policy static --threads {hybrid} --workers {WORKERS}"),
        ]) {
            add(&servers::ours(stage, name, &flags), INSIDE);
        }
        match apache_lacks() {
            Some(why) => stage.doubt(why),
            None => {
                for (name, module) in REAL.into_iter().zip(["prefork", "worker"]) {
                    let web = servers::fixed(name, module, WORKERS)?;
                    add(&web, PROGRAM);
                    if !terms.quick {
                        add(&web, INSIDE);
                    }
                }
            }
        }
        let results = cases::play(stage, all, terms.blocks)?;
        Ok(draft(&results, &terms))
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        draft(&Results::default(), &Terms::of(settings))
    }
}

fn how(dynamic: &str) -> &'static str {
    if dynamic == PROGRAM { "by a program" } else { "in the server" }
}

fn group(dynamic: &str, share: u32) -> String {
    format!("{share} % dynamic, {}", how(dynamic))
}

fn each(run: &WebRun, count: u64) -> Option<f64> {
    let all = run.load.requests_total;
    (all > 0).then(|| count as f64 / all as f64)
}

/// Context switches of the server's processes a request.
fn processes(run: &WebRun) -> Option<f64> {
    each(run, run.switches.processes)
}

/// Of its further threads.
fn threads(run: &WebRun) -> Option<f64> {
    each(run, run.switches.threads)
}

/// Of the rest of the machine: the programs, and whatever else ran.
fn rest(run: &WebRun) -> Option<f64> {
    each(run, run.rest_switches)
}

/// The ratio for a pair of servers at one share, block by block. The programs' switches count as
/// processes' switches, as in the published counts. A block in which the threads' server had more
/// process switches has no ratio.
fn ratios(results: &Results, pair: [&str; 2], dynamic: &str, share: u32) -> Vec<f64> {
    let group = group(dynamic, share);
    let [Some(one), Some(two)] = pair.map(|name| results.find(name, &group)) else {
        return Vec::new();
    };
    let sum = |run: &WebRun| {
        let others = if dynamic == PROGRAM { rest(run)? } else { 0.0 };
        Some(processes(run)? + others)
    };
    results.blockwise([one, two], |[one, two]| equivalence(sum(one)?, sum(two)?, threads(two)?))
}

/// The same as a point of a chart.
fn ratio_at(results: &Results, pair: [&str; 2], dynamic: &str, share: u32) -> Option<Point> {
    let values = ratios(results, pair, dynamic, share);
    let range = median_interval(&values).map(|it| (it.low, it.high));
    Some(Point { x: f64::from(share), y: median(&values)?, range })
}

fn draft(results: &Results, terms: &Terms) -> Draft {
    let mut it = Draft::default();
    let most = terms.shares.iter().copied().max().unwrap_or(0);
    let of = |name: &str, dynamic: &str, share: u32, figure: cases::Figure| {
        results.find(name, &group(dynamic, share)).and_then(|at| results.median(at, figure))
    };
    let rest_of = |share: u32| of(REAL[1], PROGRAM, share, rest);
    let own = [of(OURS[1], INSIDE, 0, threads), of(OURS[0], INSIDE, 0, processes)];
    it.set("study", study::SOURCE);
    it.set("clients", CLIENTS);
    it.set("workers", WORKERS);
    it.set("blocks", terms.blocks);
    it.set("apache_threads", of(REAL[1], PROGRAM, most, threads).map(words::number));
    it.set("apache_rest", rest_of(most).map(words::number));
    it.set("own_threads", own[0].map(words::number));
    it.set("own_processes", own[1].map(words::number));
    for (dynamic, one, two, threads, ratio) in study::SWITCHES {
        it.published.row([
            dynamic.to_string(),
            words::count(one),
            words::count(two),
            words::count(threads),
            ratio.map_or("--".to_string(), |it| format!("{it:.2}")),
        ]);
    }
    let programs = side(results, terms, PROGRAM, &[REAL]);
    let inside = side(results, terms, INSIDE, &[REAL, OURS]);
    it.set("ratios_program", programs.1);
    it.set("ratios_inside", inside.1);
    (it.flawed, it.corrected) = (programs.0, inside.0);
    together(&mut it, results, terms);
    it.room("response", answered(results, terms));
    let both =
        |dynamic: &str, share: u32, server: &str| results.find(server, &group(dynamic, share));
    if let (Some(all), Some(none)) = (both(PROGRAM, most, REAL[1]), both(PROGRAM, 0, REAL[1])) {
        let more = |[all, none]: [&WebRun; 2]| Some(rest(all)? - rest(none)?);
        it.expect_median("programs-switch", &results.blockwise([all, none], more));
    }
    if let [Some(one), Some(two)] = REAL.map(|server| both(PROGRAM, 0, server)) {
        let ratio =
            |[one, two]: [&WebRun; 2]| Some((processes(two)? + threads(two)?) / processes(one)?);
        it.expect_median("more-switches", &results.blockwise([one, two], ratio));
    }
    it.expect("ours-processes", own[1]);
    it.expect("ours-threads", own[0]);
    it
}

/// Rows and series of one kind of dynamic document, and the equivalence ratios in words.
fn side(
    results: &Results,
    terms: &Terms,
    dynamic: &str,
    pairs: &[[&str; 2]],
) -> (Part, Vec<String>) {
    let (mut part, mut all) = (Part::default(), Vec::new());
    for &share in terms.shares.iter().rev() {
        for pair in pairs {
            let ratios = ratios(results, *pair, dynamic, share);
            if !ratios.is_empty() {
                let server = if *pair == OURS { "ours" } else { "Apache" };
                all.push(format!("{server} {share} %: {}", cases::said(&ratios)));
            }
            for name in pair {
                let Some(at) = results.find(name, &group(dynamic, share)) else { continue };
                let mine: &[f64] = if *name == pair[1] { &ratios } else { &[] };
                part.row([
                    share.to_string(),
                    (*name).to_string(),
                    results.shown(at, processes),
                    results.shown(at, threads),
                    results.shown(at, rest),
                    cases::said(mine),
                    results.shown(at, rps),
                    results.shown(at, response_ms),
                    results.shown(at, cpu_ms),
                ]);
            }
        }
    }
    let keep = |case: &Case| case.group.ends_with(how(dynamic));
    for name in pairs.iter().flatten() {
        for (what, figure) in [("processes", processes as cases::Figure), ("threads", threads)] {
            let line = results.line(name, figure, keep);
            if line.points.iter().any(|it| it.y > 0.01) {
                part.series(Series { name: format!("{name}: {what}"), ..line });
            }
        }
    }
    (part, all)
}

/// The first figure of the study: response times at each share of dynamic documents.
fn answered(results: &Results, terms: &Terms) -> Part {
    let lines = [(PROGRAM, REAL), (INSIDE, REAL), (INSIDE, OURS)];
    let servers: Vec<(&str, &str)> = lines
        .into_iter()
        .flat_map(|(dynamic, pair)| pair.map(|server| (dynamic, server)))
        .collect();
    let named = |(dynamic, server): (&str, &str)| format!("{server}, {}", how(dynamic));
    let mut part = Part { head: servers.iter().map(|it| named(*it)).collect(), ..Part::default() };
    for share in terms.shares {
        let cells = servers.iter().map(|(dynamic, server)| {
            let at = results.find(server, &group(dynamic, *share));
            at.map_or(words::NONE.to_string(), |at| results.shown(at, response_ms))
        });
        part.rows.push([share.to_string()].into_iter().chain(cells).collect());
    }
    for (dynamic, server) in servers {
        let keep = |case: &Case| case.group.ends_with(how(dynamic));
        let line = results.line(server, response_ms, keep);
        part.series(Series { name: named((dynamic, server)), ..line });
    }
    part
}

fn together(it: &mut Draft, results: &Results, terms: &Terms) {
    let printed = study::SWITCHES.iter().filter_map(|it| Some((f64::from(it.0), it.4?)));
    it.together.series(Series::published("table 1", printed));
    it.together.series(Series::published("0.7, the study's rule", [(0.0, RULE), (100.0, RULE)]));
    for (pair, dynamic, name) in [
        (REAL, PROGRAM, "Apache, programs"),
        (REAL, INSIDE, "Apache, in the server"),
        (OURS, INSIDE, "ours, in the server"),
    ] {
        let points = terms.shares.iter().filter_map(|&it| ratio_at(results, pair, dynamic, it));
        it.together.series(Series::measured(name, points));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_full_size_it_is_as_published() {
        let full = Settings { full: true, ..Settings::default() };
        assert_eq!(Terms::of(&full).shares, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    }
}
