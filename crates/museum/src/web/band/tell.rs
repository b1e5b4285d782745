//! What a visitor is told of bands: how much comes and goes, what makes it, what it costs.

use super::super::cases::{self, Case, Met, churn, cpu_ms, p99_ms, process_churn, rps};
use super::super::servers::Toil;
use super::super::study::{self, SOURCE};
use super::{
    APACHE, DAMPED, Drop, FIXED, GUESTS, REAL, STAY, STAYING, STEADY, Terms, WIDTHS, WOBBLING,
    group,
};
use crate::showing::{
    Axis, Drawn, Finding, Grid, Place, Plot, Published, Room, Series, Showing, Side,
};
use crate::stage::WebRun;
use crate::words;
use lab::stats::{Comparison, VALUES_MIN};

/// How many times less `damped` should start and end.
const TENTH: f64 = 0.1;

pub(super) fn showing(met: &Met, drops: &[Drop], terms: &Terms, toil: Toil) -> Showing {
    Showing {
        headline: headline(met),
        published: Published {
            claim: "What it costs to maintain spare threads keeps the advantages of threads from \
                    showing; the range of spare threads deserves further study. (How many threads \
                    were started and ended was not counted.)"
                .to_string(),
            source: SOURCE.to_string(),
            numbers: study::grid(&[study::THREADS, study::PROCESSES]),
        },
        flawed: flawed(met, terms),
        corrected: corrected(met),
        why: why(),
        lesson: "Count what comes and goes before asking what it costs; and make a band wider \
                 than the step in which it is kept."
            .to_string(),
        together: Some(together(met)),
        findings: findings(met, drops),
        facts: vec![
            ("Computing of each request".into(), words::span(terms.work)),
            ("Clients".into(), format!("{STAYING} that stay, {GUESTS} that come and go")),
            ("Guests stay".into(), words::span(STAY)),
            ("Blocks".into(), terms.blocks.to_string()),
            toil.fact(),
        ],
        doubts: vec![
            "Threads that live for less than 100 ms are not seen.".to_string(),
            "Server and clients have a core each; with more cores a fork disturbs fewer."
                .to_string(),
        ],
    }
}

/// The case of a server under a load, where it was run.
fn at(met: &Met, server: &str, load: &str, width: u32) -> Option<usize> {
    met.find(server, &group(load, width)).filter(|at| met.has(*at))
}

fn churned(met: &Met, server: &str, load: &str) -> Option<f64> {
    met.median(at(met, server, load, 1)?, churn)
}

/// A server against the fixed pool under the wobbling load, block by block.
fn beside(met: &Met, server: &str, width: u32, figure: cases::Figure) -> Option<Comparison> {
    met.against(at(met, server, WOBBLING, width)?, at(met, FIXED, WOBBLING, 1)?, figure)
}

fn headline(met: &Met) -> String {
    let of = |server: &str, load: &str| churned(met, server, load);
    match (of(APACHE, WOBBLING), of(DAMPED, WOBBLING), of(APACHE, STEADY)) {
        (Some(apache), Some(damped), Some(steady)) => format!(
            "Churn: with a band as wide as one process a load of {STAYING} to {} clients starts \
             and ends {} threads a minute under Apache's rule and {} under ours. Trigger: {}; {} a \
             minute where all clients stay. Cost: {}.",
            STAYING + GUESTS,
            words::number(apache.round()),
            words::number(damped.round()),
            trigger(steady, apache),
            words::number(steady.round()),
            costs(met),
        ),
        _ => "Stopped before both rules had met the wobbling load.".to_string(),
    }
}

/// What makes threads come and go, judged by how many do so where nobody comes or goes.
fn trigger(steady: f64, wobbling: f64) -> &'static str {
    match steady * 2.0 < wobbling {
        true => "the wobble",
        false => "not the wobble alone",
    }
}

/// CPU that a thread costs from its start to its end, milliseconds: what Apache's rule uses more
/// than the fixed pool, over the threads that it started (every second one of the churn).
fn thread_ms(met: &Met) -> Vec<f64> {
    let pair = at(met, APACHE, WOBBLING, 1).zip(at(met, FIXED, WOBBLING, 1));
    let Some((a, s)) = pair else { return Vec::new() };
    let cost = |[a, s]: [&WebRun; 2]| {
        let threads = churn(a)? / 2.0;
        (threads > 0.0).then_some((cpu_ms(a)? - cpu_ms(s)?) * rps(a)? * 60.0 / threads)
    };
    met.blockwise([a, s], cost)
}

/// What the churn costs, in words.
fn costs(met: &Met) -> String {
    let said = [("CPU a request", cpu_ms as cases::Figure), ("p99", p99_ms), ("requests/s", rps)]
        .into_iter()
        .filter_map(|(what, figure)| {
            Some(format!("{what} {}", words::compared(&beside(met, APACHE, 1, figure)?)))
        });
    let said: Vec<String> = said.collect();
    match said.is_empty() {
        true => "not measured".to_string(),
        false => format!("{} of a fixed pool's", said.join(", ")),
    }
}

const HEAD: [&str; 7] = [
    "load",
    "rule",
    "threads started + ended / min",
    "processes / min",
    "requests/s",
    "CPU / request, ms",
    "p99, ms",
];

fn row(met: &Met, at: usize) -> [String; 7] {
    let case = &met.cases[at];
    [
        case.group.clone(),
        case.web.name.clone(),
        met.told(at, churn),
        met.told(at, process_churn),
        met.told(at, rps),
        met.told(at, cpu_ms),
        met.told(at, p99_ms),
    ]
}

fn table(met: &Met, loads: &[&str], widths: &[u32], servers: &[&str]) -> Grid {
    let mut numbers = Grid::new(&HEAD);
    for load in loads {
        for width in widths {
            let all = servers.iter().filter_map(|server| at(met, server, load, *width));
            all.for_each(|at| numbers.row(row(met, at)));
        }
    }
    numbers
}

fn flawed(met: &Met, terms: &Terms) -> Side {
    let of = |load: &str| churned(met, APACHE, load);
    Side {
        setup: format!(
            "The published directives, threads mostly (25 to 75 spare, processes of 50), under a \
             load of {} clients that stay and under one that wobbles between {STAYING} and {}; \
             each request computes for {}. Real Apache, our engine with Apache's rule, and a pool \
             that nobody maintains.",
            STAYING + GUESTS / 2,
            STAYING + GUESTS,
            words::span(terms.work)
        ),
        finding: match (of(STEADY), of(WOBBLING)) {
            (Some(steady), Some(wobbling)) => format!(
                "The trigger is {}: {} threads a minute come and go under the wobble, {} under \
                 the steady load.",
                trigger(steady, wobbling),
                words::number(wobbling.round()),
                words::number(steady.round())
            ),
            _ => "Stopped before both loads had been there.".to_string(),
        },
        plot: Some(residents(met, &[APACHE, DAMPED, FIXED, REAL])),
        numbers: table(met, &[STEADY, WOBBLING], &[1], &[REAL, APACHE, FIXED]),
    }
}

/// Threads over time in the first run of each server under the wobbling load.
fn residents(met: &Met, servers: &[&str]) -> Plot {
    let mut series = Vec::new();
    for server in servers {
        let run = at(met, server, WOBBLING, 1).and_then(|at| met.of(at).next());
        let Some(run) = run else { continue };
        let looks = run.churn.looks.iter();
        let places = looks.map(|(at, _, threads)| (*at, f64::from(*threads))).collect();
        series.push(Series::measured(*server, places));
    }
    Plot {
        title: "Threads that live".to_string(),
        caption: "Every thread of the server's process tree, listeners and supervisor included, \
                  while guests come and go; one run of each."
            .to_string(),
        x: Axis::linear("seconds"),
        y: Axis::linear("threads"),
        series,
    }
}

fn corrected(met: &Met) -> Side {
    let cost = thread_ms(met);
    // A small difference of large numbers: without an interval it would only look like a figure.
    let cost = match cost.len() < VALUES_MIN {
        true => String::new(),
        false => format!(" A thread costs {} ms of CPU from start to end.", cases::said(&cost)),
    };
    Side {
        setup: "The same loads while the band grows from one process to four, under Apache's rule \
                and under ours (damped: what is missing is started at once, what is too much must \
                be so for ten seconds, and the band is never narrower than two processes and twice \
                the spread of the load)."
            .to_string(),
        finding: format!("Under the wobble, with the narrowest band: {}.{cost}", costs(met)),
        plot: Some(cost_plot(met)),
        numbers: table(met, &[WOBBLING, STEADY], &WIDTHS, &[APACHE, DAMPED, FIXED]),
    }
}

/// CPU a request and p99 of both rules against the fixed pool, over widths.
fn cost_plot(met: &Met) -> Plot {
    let mut series = Vec::new();
    for (server, what, figure) in [
        (APACHE, "CPU / request", cpu_ms as cases::Figure),
        (DAMPED, "CPU / request", cpu_ms),
        (APACHE, "p99", p99_ms),
        (DAMPED, "p99", p99_ms),
    ] {
        let places = WIDTHS.iter().filter_map(|&width| {
            Some(Place::of(f64::from(width), &beside(met, server, width, figure)?))
        });
        let places: Vec<Place> = places.collect();
        if !places.is_empty() {
            let name = format!("{server}: {what}");
            series.push(Series { name, places, ..Series::default() });
        }
    }
    let ends = [1.0, f64::from(WIDTHS[WIDTHS.len() - 1])];
    series.push(Series::published("a fixed pool", ends.map(|x| (x, 1.0)).to_vec()));
    Plot {
        title: "What it costs under the wobble, against a fixed pool".to_string(),
        caption: "Below 1 is cheaper or quicker than a pool that nobody maintains. Paired in \
                  blocks."
            .to_string(),
        x: Axis::named("width of the band, in processes", WIDTHS.map(|it| it.to_string())),
        y: Axis::log("times a fixed pool's"),
        series,
    }
}

/// What becomes of the workers when a hundred clients leave at once.
pub(super) fn given_back(drops: &[Drop]) -> Room {
    let mut numbers = Grid::new(&["rule", "idle workers at last", "after, s", "the most spare"]);
    for it in drops {
        let (at, last) = it.looks.last().copied().unwrap_or_default();
        let [last, most] = [last, it.spare_max].map(words::count);
        numbers.row([it.server.clone(), last, words::number(at.round()), most]);
    }
    let side = Side {
        setup: "A hundred clients are there, and leave at the same moment; who stays is watched."
            .to_string(),
        finding: drops.iter().map(drop_words).collect::<Vec<_>>().join(" "),
        plot: leaving(drops),
        numbers,
    };
    Room { title: "Everybody leaves".to_string(), side }
}

/// Workers that stay when a hundred clients leave.
fn leaving(drops: &[Drop]) -> Option<Plot> {
    let series = drops.iter().map(|it| {
        let places = it.looks.iter().map(|(at, idle)| (*at, f64::from(*idle))).collect();
        Series::measured(it.server.clone(), places)
    });
    let ends = drops.iter().flat_map(|it| it.looks.iter().map(|look| look.0));
    let end = ends.fold(0.0, f64::max);
    let most = drops.first()?.spare_max;
    let limit = [0.0, end].map(|x| (x, f64::from(most))).to_vec();
    let limit = Series::published("the most spare", limit);
    Some(Plot {
        title: "Workers after the last client has left".to_string(),
        caption: "At 0 everybody leaves; until then all workers are busy.".to_string(),
        x: Axis::linear("seconds after the last client"),
        y: Axis::linear("workers"),
        series: series.chain([limit]).collect(),
    })
}

fn drop_words(it: &Drop) -> String {
    let (at, last) = it.looks.last().copied().unwrap_or_default();
    format!("{}: {last} idle workers {at:.0} s after the last client left.", it.server)
}

fn together(met: &Met) -> Plot {
    let mut series = Vec::new();
    for (load, servers) in [
        (WOBBLING, [APACHE, DAMPED, FIXED, REAL].as_slice()),
        (STEADY, [APACHE, DAMPED].as_slice()),
    ] {
        for server in servers {
            let line = met.line(server, churn, |case: &Case| case.group.starts_with(load));
            let drawn = if line.places.len() == 1 { Drawn::Marks } else { Drawn::Line };
            series.push(Series { name: format!("{server}, {load}"), drawn, ..line });
        }
    }
    Plot {
        title: "Threads started and ended a minute".to_string(),
        caption: format!(
            "A load that wobbles between {STAYING} and {} busy workers, and one that is steady; a \
             process has 50 threads.",
            STAYING + GUESTS
        ),
        x: Axis::named("width of the band, in processes", WIDTHS.map(|it| it.to_string())),
        y: Axis::linear("threads started and ended, a minute"),
        series: series.into_iter().filter(|it| !it.places.is_empty()).collect(),
    }
}

fn findings(met: &Met, drops: &[Drop]) -> Vec<Finding> {
    let mut found = Vec::new();
    let value = |server: &str, load: &str| churned(met, server, load);
    if let Some((a, s)) = value(APACHE, WOBBLING).zip(value(APACHE, STEADY)) {
        let expected = "under Apache's rule at most half as many threads come and go where all \
                        clients stay as where the load wobbles";
        let holds = s * 2.0 < a;
        found.push(Finding::new("wobble-triggers", holds, s / a.max(1e-9), expected));
    }
    let both = value(REAL, WOBBLING).zip(value(APACHE, WOBBLING));
    if let Some((real, ours)) = both.filter(|(real, _)| *real > 0.0) {
        let ratio = ours / real;
        let expected = "our engine with Apache's rule starts and ends as many threads as Apache, \
                        within a half";
        found.push(Finding::new("same-rule", (0.67..=1.5).contains(&ratio), ratio, expected));
    }
    if let Some((a, d)) = value(APACHE, WOBBLING).zip(value(DAMPED, WOBBLING)) {
        let ratio = d / a.max(1e-9);
        let expected = "damped starts and ends at most a tenth of the threads of Apache's rule";
        found.push(Finding::new("damped-churn", a > 0.0 && ratio <= TENTH, ratio, expected));
    }
    if let Some(it) = beside(met, DAMPED, 1, rps) {
        let expected = "throughput of damped within 5 % of a fixed pool's";
        let holds = (it.ratio - 1.0).abs() <= 0.05;
        found.push(Finding::new("damped-throughput", holds, it.ratio, expected));
    }
    if let Some(it) = drops.iter().find(|it| it.server == DAMPED) {
        let left = it.looks.last().map_or(0, |it| it.1);
        let expected = "35 s after the last client damped keeps at most the most spare (75)";
        let holds = left <= it.spare_max;
        found.push(Finding::new("damped-gives-back", holds, f64::from(left), expected));
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "Apache looks once a second. With fewer than 25 idle threads it starts a process of 50, \
         with more than 75 it ends one. Between the two edges lie 50 threads, and a process is 50: \
         whoever crosses one edge is carried to the other by the answer to it. At 31 busy of 50 \
         there are 19 idle, so a process comes; at 19 busy of 100 there are 81 idle, so it goes."
            .to_string(),
        "A steady load of any size finds a number of processes and stays with it. So neither the \
         number of clients nor the number of threads makes the churn, but a load that crosses an \
         edge of the band again and again. The published experiment had clients that all stayed."
            .to_string(),
        "What it costs is a third question. A thread is started in some 20 µs today; fifty of them \
         every three seconds are less than a thousandth of a core, unless starting one is made \
         dear by large stacks, by opening connections to a database, by warming a cache. The \
         table says what was found here."
            .to_string(),
    ]
}
