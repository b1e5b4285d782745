//! Static and dynamic documents: who switches, and what a switch may cost.
//!
//! The study begins with a table of another: context switches of Apache 1.3 (processes) and 2.0
//! (processes of threads) from all documents dynamic to all static, and the *equivalence ratio*,
//! the share of a process's switch that a thread's may cost if both servers are to spend the same
//! on switching. The surprising thing is what the table counts: a dynamic document was a program,
//! started for each request, so most of its "processes" are neither server's.

use super::cases::{self, Case, Met, cpu_ms, rps};
use super::servers::{self, apache_lacks};
use super::study::{self, equivalence};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::showing::{Axis, Finding, Grid, Place, Plot, Published, Series, Showing, Side};
use crate::stage::{Clients, Settings, Stage, Web, WebRun};
use crate::words;
use lab::stats::{median, median_interval};
use std::time::Duration;

/// Shares of dynamic documents, per cent.
const SHARES: [u32; 6] = [0, 20, 40, 60, 80, 100];
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
            span: ms(if settings.quick { 250 } else { 700 }),
            blocks: cases::blocks(settings),
            quick: settings.quick,
        }
    }
}

impl Exhibit for Mixes {
    fn name(&self) -> &'static str {
        "mixes"
    }

    fn title(&self) -> &'static str {
        "Static and dynamic documents"
    }

    fn about(&self) -> &'static str {
        "context switches of processes and threads, and the ratio at which they cost the same"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let lines = if terms.quick { 4 } else { 6 };
        cases::effort(lines * terms.shares.len() as u32, terms.span, terms.blocks)
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
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
        let met = cases::play(stage, all, terms.blocks)?;
        Ok(told(&met, &terms))
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

/// The ratio for a pair of servers at one share, block by block, with the programs' switches among
/// the processes' as the published counts had them. A block in which the threads' server had more
/// switches of processes alone has none.
fn ratios(met: &Met, pair: [&str; 2], dynamic: &str, share: u32) -> Vec<f64> {
    let group = group(dynamic, share);
    let [Some(one), Some(two)] = pair.map(|name| met.find(name, &group)) else { return Vec::new() };
    let sum = |run: &WebRun| {
        let others = if dynamic == PROGRAM { rest(run)? } else { 0.0 };
        Some(processes(run)? + others)
    };
    met.blockwise([one, two], |[one, two]| equivalence(sum(one)?, sum(two)?, threads(two)?))
}

/// The same as a place of a chart.
fn ratio_at(met: &Met, pair: [&str; 2], dynamic: &str, share: u32) -> Option<Place> {
    let values = ratios(met, pair, dynamic, share);
    let range = median_interval(&values).map(|it| (it.low, it.high));
    Some(Place { x: f64::from(share), y: median(&values)?, range })
}

fn told(met: &Met, terms: &Terms) -> Showing {
    let most = terms.shares.iter().copied().max().unwrap_or(0);
    let of = |name: &str, dynamic: &str, share: u32, figure: cases::Figure| {
        met.find(name, &group(dynamic, share)).and_then(|at| met.median(at, figure))
    };
    let programs = of(REAL[1], PROGRAM, most, rest).zip(of(REAL[1], PROGRAM, most, threads));
    let own = of(OURS[1], INSIDE, 0, threads).zip(of(OURS[0], INSIDE, 0, processes));
    let mut words_all = Vec::new();
    if let Some((rest, threads)) = programs {
        words_all.push(format!(
            "With every document a program, Apache's threads are switched {} times a request and \
             the programs and the rest of the machine {} times: the published column of processes \
             counts what the server starts, not what it is",
            words::number(threads),
            words::number(rest)
        ));
    }
    if let Some((threads, processes)) = own {
        words_all.push(format!(
            "with static documents ours are switched {} times a request as threads and {} as \
             processes",
            words::number(threads),
            words::number(processes)
        ));
    }
    Showing {
        headline: match words_all.is_empty() {
            true => "Stopped before a server had been asked.".to_string(),
            false => format!("{}.", words_all.join("; ")),
        },
        published: published(),
        flawed: side(
            met,
            terms,
            PROGRAM,
            &[REAL],
            "Apache with a fixed number of workers; a dynamic document is a program (CGI, by \
             mod_cgi and mod_cgid), as in the years of the table. Which switches the table calls \
             a process's is not said; here the programs are counted with the rest of the machine.",
        ),
        corrected: side(
            met,
            terms,
            INSIDE,
            &[REAL, OURS],
            "The same page built inside the server: by mod_lua in Apache, by the service in ours. \
             What is left are the switches of the servers themselves.",
        ),
        why: why(),
        lesson: "Ask whose switches were counted before asking what one costs.".to_string(),
        together: Some(together(met, terms)),
        findings: findings(met, terms),
        facts: vec![
            ("Clients".into(), format!("{CLIENTS}, a connection for each request")),
            ("Workers".into(), format!("{WORKERS}, in two processes where they are threads")),
            ("Blocks".into(), terms.blocks.to_string()),
        ],
        doubts: vec![
            "Switches of the rest of the machine are whatever else ran; on a quiet machine they \
             are the programs'."
                .to_string(),
            "CPU of a request is the server's; that of the programs is in it only where the server \
             waited for them itself."
                .to_string(),
            "Threads that ended during a run take their counts with them; here none should."
                .to_string(),
        ],
    }
}

fn published() -> Published {
    let mut numbers =
        Grid::new(&["dynamic, %", "1.3, processes", "2.0, processes", "2.0, threads", "ratio"]);
    for (dynamic, one, two, threads, ratio) in study::SWITCHES {
        numbers.row([
            dynamic.to_string(),
            words::count(one),
            words::count(two),
            words::count(threads),
            ratio.map_or("--".to_string(), |it| format!("{it:.2}")),
        ]);
    }
    Published {
        claim: "Apache 2.0 is switched more often than 1.3; where the equivalence ratio is below \
                0.7, which is what a thread's switch is said to cost, threads may be slower; so \
                from 70 % static documents downwards. Why there are more switches is not known."
            .to_string(),
        source: format!(
            "M. Yeom, K. Chong, S. H. Noh: An Assessment of the Apache Web Server 2.0 Performance \
             on Linux, SPECTS 2002, as table 1 of {}",
            study::SOURCE
        ),
        numbers,
    }
}

fn side(met: &Met, terms: &Terms, dynamic: &str, pairs: &[[&str; 2]], setup: &str) -> Side {
    let mut numbers = Grid::new(&[
        "dynamic, %",
        "server",
        "switches / request: processes",
        "threads",
        "rest of the machine",
        "ratio",
        "requests/s",
        "CPU / request, ms",
    ]);
    let mut said = Vec::new();
    for &share in terms.shares.iter().rev() {
        for pair in pairs {
            let ratios = ratios(met, *pair, dynamic, share);
            if !ratios.is_empty() {
                said.push(format!("{} {share} %: {}", short(pair), cases::said(&ratios)));
            }
            for name in pair {
                let Some(at) = met.find(name, &group(dynamic, share)) else { continue };
                let mine: &[f64] = if *name == pair[1] { &ratios } else { &[] };
                numbers.row([
                    share.to_string(),
                    (*name).to_string(),
                    met.told(at, processes),
                    met.told(at, threads),
                    met.told(at, rest),
                    cases::said(mine),
                    met.told(at, rps),
                    met.told(at, cpu_ms),
                ]);
            }
        }
    }
    let mut series = Vec::new();
    let keep = |case: &Case| case.group.ends_with(how(dynamic));
    for name in pairs.iter().flatten() {
        for (what, figure) in [("processes", processes as cases::Figure), ("threads", threads)] {
            let line = met.line(name, figure, keep);
            if line.places.iter().any(|it| it.y > 0.01) {
                series.push(Series { name: format!("{name}: {what}"), ..line });
            }
        }
    }
    Side {
        setup: setup.to_string(),
        finding: match said.is_empty() {
            true => "No ratio: the threads' server had more switches of processes alone, or was \
                     not measured."
                .to_string(),
            false => {
                format!("Equivalence ratios at shares of dynamic documents: {}.", said.join(", "))
            }
        },
        plot: (!series.is_empty()).then(|| Plot {
            title: "Context switches a request".to_string(),
            caption: "Main threads of processes, and all other threads, of the servers alone."
                .to_string(),
            x: Axis::linear("dynamic documents, %"),
            y: Axis::linear("switches a request"),
            series,
        }),
        numbers,
    }
}

fn short(pair: &[&str; 2]) -> &'static str {
    if *pair == OURS { "ours" } else { "Apache" }
}

fn together(met: &Met, terms: &Terms) -> Plot {
    let printed = study::SWITCHES.iter().filter_map(|it| Some((f64::from(it.0), it.4?)));
    let rule = vec![(0.0, RULE), (100.0, RULE)];
    let mut series = vec![
        Series::published("table 1", printed.collect()),
        Series::published("0.7, the study's rule", rule),
    ];
    for (pair, dynamic, name) in [
        (REAL, PROGRAM, "Apache, programs"),
        (REAL, INSIDE, "Apache, in the server"),
        (OURS, INSIDE, "ours, in the server"),
    ] {
        let places = terms.shares.iter().filter_map(|&it| ratio_at(met, pair, dynamic, it));
        series.push(Series {
            name: name.to_string(),
            places: places.collect(),
            ..Series::default()
        });
    }
    Plot {
        title: "Equivalence ratio".to_string(),
        caption: "What a thread's switch may cost, as a share of a process's, for both servers to \
                  spend the same on switching. Where there is no mark, the threads' server had \
                  more switches of processes alone."
            .to_string(),
        x: Axis::linear("dynamic documents, %"),
        y: Axis::linear("equivalence ratio"),
        series: series.into_iter().filter(|it| !it.places.is_empty()).collect(),
    }
}

fn findings(met: &Met, terms: &Terms) -> Vec<Finding> {
    let mut found = Vec::new();
    let most = terms.shares.iter().copied().max().unwrap_or(0);
    let at = |name: &str, dynamic: &str, share: u32| met.find(name, &group(dynamic, share));
    let rest_of = |share: u32| met.median(at(REAL[1], PROGRAM, share)?, rest);
    if let Some((all, none)) = rest_of(most).zip(rest_of(0)) {
        let expected = "programs add switches that are neither server's";
        found.push(Finding::new("programs-switch", all > none, all - none, expected));
    }
    if let Some(count) = at(OURS[0], INSIDE, 0).and_then(|it| met.median(it, processes)) {
        let expected = "a process of ours is switched at most six times a request";
        found.push(Finding::new("ours-processes", count <= 6.0, count, expected));
    }
    if let Some(count) = at(OURS[1], INSIDE, 0).and_then(|it| met.median(it, threads)) {
        let expected = "threads of ours, the listener's among them, at most ten times a request";
        found.push(Finding::new("ours-threads", count <= 10.0, count, expected));
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "A program for each dynamic document is a fork, an exec, a pipe and a wait, in either \
         Apache. With threads it is not even a child of the server: mod_cgid has a process of its \
         own that starts it, and two more sockets lie between. So the columns of processes are \
         mostly programs where programs are many, and the ratio, which divides the difference of \
         two such columns by the threads' switches, is what is left of two large numbers."
            .to_string(),
        "The switches of the server itself come from waiting: a worker for the next connection, \
         for the request, for the socket to close; in a hybrid also the listener for a worker and \
         the worker for the listener. That is one hand-over more a request than where processes \
         accept by themselves, at any share."
            .to_string(),
        "What a switch costs does not follow from its number. CPU a request stands in the last \
         column, with everything in it."
            .to_string(),
    ]
}
