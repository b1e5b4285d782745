//! What a visitor is told of three servers.

use super::super::cases::{self, Case, Met, cpu_ms, rps, whole_ms};
use super::super::locust::Swarmed;
use super::{
    AS_LISTED, CORRECTED, FLAWS, LISTED, NEVER, OURS, PATIENCE, RATE, SOUND, Terms, cause,
};
use crate::showing::{
    Axis, Drawn, Finding, Grid, Place, Plot, Published, Room, Series, Showing, Side,
};
use crate::stage::WebRun;
use crate::words;
use lab::stats::Comparison;

/// Where the figures stand.
const SOURCE: &str = "Report on web servers with several clients of a course in computer networks, \
    week 6: Python servers in a container, Locust with 10,000 users at 100 a second, over Wi-Fi";

/// What was published: requests a second, mean in ms, requests before the first failure.
const PUBLISHED: [(&str, f64, f64, u32); 3] = [
    ("one process", 765.7, 83.0, 18_367),
    ("process for each", 768.0, 90.0, 19_221),
    ("thread for each", 554.3, 151.0, 10_727),
];

pub(super) fn showing(met: &Met, swarms: &[(String, Swarmed)], terms: &Terms) -> Showing {
    Showing {
        headline: headline(met),
        published: published(),
        flawed: flawed(met, terms),
        corrected: corrected(met, swarms, terms),
        why: why(),
        lesson: "Before a failure is the server's, ask who ran out of what.".to_string(),
        together: together(met),
        findings: findings(met),
        facts: facts(terms),
        doubts: vec![
            "Server and swarm are on one machine, with a core each; in the report they were on \
             two, with Wi-Fi, a virtual machine and a container between them."
                .to_string(),
            "What is printed goes into a file here; in the report it went through a container's \
             terminal, which costs more."
                .to_string(),
        ],
    }
}

fn facts(terms: &Terms) -> Vec<(String, String)> {
    let most = format!(
        "{} where the client has descriptors enough; 10,000 in the report",
        words::count(terms.users)
    );
    let [one, two] = PATIENCE.map(words::span);
    vec![
        ("Users a second".into(), RATE.to_string()),
        ("Users at the most".into(), most),
        ("Descriptors of the client in the first part".into(), terms.descriptors.to_string()),
        ("A reply may stand still for".into(), format!("{one}, then {two}")),
        ("Blocks".into(), terms.blocks.to_string()),
    ]
}

fn published() -> Published {
    let mut numbers = Grid::new(&[
        "server",
        "requests/s",
        "mean, ms",
        "requests before the first failure",
        "users then",
    ]);
    for (name, rps, mean, requests) in PUBLISHED {
        let users = f64::from(requests) / rps * f64::from(RATE);
        numbers.row([
            name.to_string(),
            words::number(rps),
            words::number(mean),
            words::count(requests),
            format!("about {}", words::number((users / 10.0).round() * 10.0)),
        ]);
    }
    Published {
        claim: "Requests a second: thread < single < process. Mean: single < process < thread. \
                Requests before the first failure, which comes when there is more than the server \
                can handle: thread < single < process. Several processes handle clients at the \
                same time."
            .to_string(),
        source: SOURCE.to_string(),
        numbers,
    }
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
fn group<'a>(met: &'a Met, name: &'a str) -> impl Iterator<Item = (usize, &'a Case)> {
    let cases = met.cases.iter().enumerate();
    cases.filter(move |(at, it)| it.group == name && met.of(*at).next().is_some())
}

/// How many of a group had a first failure that `is` of that kind in any run.
fn failed(met: &Met, name: &str, is: impl Fn(&str) -> bool) -> usize {
    group(met, name).filter(|(at, _)| met.of(*at).any(|run| is(cause::kind(run)))).count()
}

fn headline(met: &Met) -> String {
    let listed = group(met, LISTED).count();
    let client = failed(met, LISTED, |kind| kind == "no_descriptors");
    let costs = || group(met, SOUND).filter_map(|(at, it)| Some((met.median(at, cpu_ms)?, it)));
    let least = costs().min_by(|a, b| a.0.total_cmp(&b.0));
    let most = costs().max_by(|a, b| a.0.total_cmp(&b.0));
    match (listed, least.zip(most)) {
        (1.., Some((least, most))) => format!(
            "Of {listed} servers as listed {client} seem to fail first where in truth the client \
             has run out of descriptors; with valid replies, without the join and with enough \
             descriptors, {} of {} fail at all, and a request costs {} {} the CPU that it costs \
             {}.",
            failed(met, SOUND, |kind| !kind.is_empty()),
            group(met, SOUND).count(),
            most.1.web.name,
            words::ratio(most.0 / least.0),
            least.1.web.name,
        ),
        _ => "Stopped, or without Python: the course's servers were not all there.".to_string(),
    }
}

const HEAD: [&str; 8] = [
    "server",
    "requests/s",
    "mean, ms",
    "CPU / request, ms",
    "requests before the first failure",
    "users then",
    "cause",
    "invalid replies",
];

fn row(met: &Met, at: usize) -> [String; 8] {
    let none = || format!("none in {}", met.told(at, answered));
    [
        met.cases[at].web.name.clone(),
        met.told(at, rps),
        met.told(at, whole_ms),
        met.told(at, cpu_ms),
        if met.median(at, before).is_some() { met.told(at, before) } else { none() },
        met.told(at, users),
        cause::usual(met, at),
        met.told(at, malformed),
    ]
}

fn flawed(met: &Met, terms: &Terms) -> Side {
    let mut numbers = Grid::new(&HEAD);
    group(met, LISTED).for_each(|(at, _)| numbers.row(row(met, at)));
    let never = met.find(NEVER, LISTED).and_then(|at| met.median(at, answered));
    Side {
        setup: format!(
            "The servers as listed (--join, --bare, --keep, --print of museum/artefact), {RATE} \
             users more each second, each asking again as soon as he is answered, until the first \
             failure. The client has {} descriptors, so that it runs out with as many users; the \
             published failures came at 1,940 to 2,500, which is near a laptop's limit of 2,560.",
            terms.descriptors
        ),
        finding: match never {
            Some(0.0) => "The server with a process for each, as listed, ends no reply at all: \
                          its published 768 requests a second cannot be its own."
                .to_string(),
            Some(count) => format!(
                "The server with a process for each, as listed, answered {} requests.",
                words::number(count)
            ),
            None => "It was not measured.".to_string(),
        },
        plot: growth(met, LISTED, "Requests a second while the swarm grows, as listed"),
        numbers,
    }
}

fn corrected(met: &Met, swarms: &[(String, Swarmed)], terms: &Terms) -> Side {
    let mut numbers = Grid::new(&HEAD);
    let names = CORRECTED.iter().map(|it| it.name).chain(OURS.iter().map(|it| it.0));
    for name in names {
        if let Some(at) = met.find(name, SOUND).filter(|at| met.of(*at).next().is_some()) {
            numbers.row(row(met, at));
        }
    }
    swarms.iter().for_each(|(name, it)| numbers.row(swarm_row(name, it)));
    Side {
        setup: format!(
            "The same three with a whole reply (length, blank line), a worker that nobody waits \
             for, a backlog of 4096 and no printing; then ours. Up to {} users, with descriptors \
             enough. Also by the real Locust, which takes an invalid reply for a good one.",
            words::count(terms.users)
        ),
        finding: best(met),
        plot: growth(met, SOUND, "Requests a second while the swarm grows, corrected"),
        numbers,
    }
}

fn swarm_row(name: &str, it: &Swarmed) -> [String; 8] {
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

/// Who answers most, and with the least CPU.
fn best(met: &Met) -> String {
    let of = |figure: cases::Figure| -> Vec<(f64, &str)> {
        group(met, SOUND)
            .filter_map(|(at, it)| Some((met.median(at, figure)?, it.web.name.as_str())))
            .collect()
    };
    let most = of(rps).into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let least = of(cpu_ms).into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    match most.zip(least) {
        Some((most, least)) => format!(
            "Most were answered by {}: {} requests a second. The least CPU for each was used by \
             {}: {} ms.",
            most.1,
            words::number(most.0),
            least.1,
            words::number(least.0)
        ),
        None => "It was not measured.".to_string(),
    }
}

/// Each flaw by itself, against the same server without it.
pub(super) fn flaws(met: &Met) -> Room {
    let head =
        ["server and flaw", "requests/s", "against none", "CPU / request", "invalid replies"];
    let mut numbers = Grid::new(&head);
    let mut names: Vec<String> = Vec::new();
    let mut places = Vec::new();
    for it in FLAWS {
        let pair = met.find(it.name, it.flags).zip(met.find(it.name, SOUND));
        let Some((with, without)) = pair.filter(|(with, _)| met.has(*with)) else { continue };
        let against = |figure: cases::Figure| met.against(with, without, figure);
        let said = |found: &Option<Comparison>| {
            found.as_ref().map_or(words::NONE.to_string(), words::compared)
        };
        let (rate, cost) = (against(rps), against(cpu_ms));
        names.push(format!("{} {}", it.name, it.flags));
        places.extend(rate.iter().map(|found| Place::of(names.len() as f64, found)));
        numbers.row([
            format!("{} {}", it.name, it.flags),
            met.told(with, rps),
            said(&rate),
            said(&cost),
            met.told(with, malformed),
        ]);
    }
    let side = Side {
        setup: "Which flaw is worth what: the sound servers with one flaw of the listings each. \
                --join waits for each worker, --bare sends the reply that is not valid, --print \
                prints each connection and request, --backlog 5 is what the listings ask for."
            .to_string(),
        finding: match names.is_empty() {
            true => "No flaw was measured by itself.".to_string(),
            false => "An invalid reply costs a client of the time nothing, which is why nobody \
                      saw it; it is counted in the last column."
                .to_string(),
        },
        plot: (!names.is_empty()).then(|| flaw_plot(names, places)),
        numbers,
    };
    Room { title: "One flaw at a time".to_string(), side }
}

fn flaw_plot(names: Vec<String>, places: Vec<Place>) -> Plot {
    let one = Series::published("no flaw", vec![(0.5, 1.0), (names.len() as f64 + 0.5, 1.0)]);
    let with = Series { name: "one flaw".into(), drawn: Drawn::Marks, places, ..Series::default() };
    Plot {
        title: "Requests a second with one flaw, against none".to_string(),
        caption: "Paired in blocks; above 1 the server with the flaw answers more.".to_string(),
        x: Axis::named("server and flaw", names),
        y: Axis::log("times the server without"),
        series: vec![one, with],
    }
}

/// Places of a line over time at the most: more of them show the noise.
const PLACES: usize = 12;

/// Requests a second over time in the first run of each server.
fn growth(met: &Met, name: &str, title: &str) -> Option<Plot> {
    let series: Vec<Series> = group(met, name)
        .filter_map(|(at, it)| {
            let run = met.of(at).find(|run| run.load.requests > 0)?;
            let each = run.load.stretches.len().div_ceil(PLACES).max(1);
            let places = run.load.stretches.chunks(each).map(|all| {
                let long: f64 = all.iter().map(|it| it.for_s).sum();
                let requests: u64 = all.iter().map(|it| it.requests).sum();
                (all[0].at_s + long / 2.0, requests as f64 / long.max(1e-9))
            });
            Some(Series::measured(it.web.name.clone(), places.collect()))
        })
        .collect();
    (!series.is_empty()).then(|| Plot {
        title: title.to_string(),
        caption: format!(
            "{RATE} users come each second; a line ends with the first failure. One run of each."
        ),
        x: Axis::linear("seconds"),
        y: Axis::log("requests/s"),
        series: series.into_iter().map(positive).filter(|it| !it.places.is_empty()).collect(),
    })
}

/// Without the places that an axis of factors cannot show.
fn positive(mut series: Series) -> Series {
    series.places.retain(|it| it.y > 0.0);
    series
}

/// Requests a second of all servers, as listed and corrected, beside the published.
fn together(met: &Met) -> Option<Plot> {
    let names: Vec<&str> =
        AS_LISTED.iter().chain(&CORRECTED).map(|it| it.name).chain(OURS.map(|it| it.0)).collect();
    let mut unique: Vec<&str> = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    let published = PUBLISHED.iter().filter_map(|(server, rps, ..)| {
        let x = unique.iter().position(|it| it == server)? + 1;
        Some((x as f64, *rps))
    });
    let published = Series::published("published", published.collect());
    let mut series = vec![Series { drawn: Drawn::Bar, ..published }];
    for (name, of) in [(LISTED, rps as cases::Figure), (SOUND, rps)] {
        let places = unique.iter().zip(1..).filter_map(|(server, x)| {
            Some((f64::from(x), met.median(met.find(server, name)?, of)?))
        });
        let places: Vec<(f64, f64)> = places.collect();
        if !places.is_empty() {
            series.push(Series { drawn: Drawn::Bar, ..Series::measured(name, places) });
        }
    }
    (series.len() > 1).then(|| Plot {
        title: "Requests a second, all servers".to_string(),
        caption: "Over the whole ramp; who fails early has met fewer users.".to_string(),
        x: Axis::named("server", unique),
        y: Axis::log("requests/s"),
        series,
    })
}

fn findings(met: &Met) -> Vec<Finding> {
    let mut found = Vec::new();
    let sum = |name: &str, figure: cases::Figure| -> f64 {
        group(met, name).flat_map(|(at, _)| met.of(at).filter_map(figure)).sum()
    };
    if group(met, LISTED).count() > 0 {
        let client = failed(met, LISTED, |kind| kind == "no_descriptors") as f64;
        let expected = "as listed, the client's descriptors are the first failure somewhere";
        found.push(Finding::new("client-limit", client >= 1.0, client, expected));
        let (invalid, answered) = (sum(LISTED, malformed), sum(LISTED, answered));
        let expected = "as listed, no reply is valid HTTP";
        found.push(Finding::new(
            "invalid",
            invalid == answered && answered > 0.0,
            invalid,
            expected,
        ));
    }
    if let Some(at) = met.find(NEVER, LISTED).filter(|at| met.of(*at).next().is_some()) {
        let answered: f64 = met.of(at).filter_map(answered).sum();
        let expected = "the process for each, as listed, never ends a reply";
        found.push(Finding::new("never-ends", answered == 0.0, answered, expected));
    }
    if group(met, SOUND).count() > 0 {
        let count = failed(met, SOUND, |kind| !kind.is_empty()) as f64;
        let expected = "corrected, and with descriptors enough, nothing fails";
        found.push(Finding::new("sound", count == 0.0, count, expected));
    }
    let joined = met.find("thread for each", "--join").zip(met.find("thread for each", SOUND));
    if let Some(it) = joined.and_then(|(with, without)| met.against(with, without, rps)) {
        let expected = "on one core and with nothing to wait for, the join alone costs threads \
                        less than half of their requests a second";
        found.push(Finding::new("join", it.ratio > 0.5, it.ratio, expected));
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "start() followed by join() is one connection after the other, with the price of a process \
         or a thread on top. That is why the three were so close, and why the one without workers \
         was not behind."
            .to_string(),
        "A status line without a blank line behind it has no end but the end of the connection. \
         The server with a process for each keeps every socket in a list, so the kernel never \
         sends that end, and a client that waits for it waits for ever. That the report has \
         figures for it, within 0.3 % of the single process's, suggests that the swarm had met \
         the single process once more."
            .to_string(),
        "Each user of a swarm holds a descriptor. At 100 users more each second, requests before \
         the first failure are requests a second times the seconds until the descriptors are gone: \
         a second way of writing the throughput, and nothing about what a server can bear. The \
         published figures, 18,367, 19,221 and 10,727, are 24, 25 and 19 times their own requests \
         a second."
            .to_string(),
        "Requests a second are the server's only while its core is its own. Each thread has its \
         turn of a core that is shared, so on a busy machine a server of 250 threads overtakes one \
         of a single thread that needs a fifth of the CPU for a request."
            .to_string(),
    ]
}
