//! Concurrent clients: ten to a hundred of them, each request computes for 0.2 s.
//!
//! The study finds threads ahead of processes in response time and throughput at every number of
//! clients, "because a switch costs less". The surprising thing is that with one processor that
//! computes there is nothing for either to be ahead in: who computes W for each of N clients
//! answers each after N x W, and 1 / W of them a second, whatever it is made of. What is left for
//! the architecture is the CPU of a request beyond its computing, which is looked at by itself.

use super::cases::{self, Case, Met, cpu_ms, inside_ms, response_ms, rps, whole_ms};
use super::servers::{self, Toil};
use super::study::{self, SOURCE};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::showing::{Axis, Finding, Grid, Plot, Published, Series, Showing, Side};
use crate::stage::{Clients, Settings, Stage, Web};
use crate::words;
use std::time::Duration;

/// By how much computing is shorter than in the study, beside `--scale`.
const SHORTER: u32 = 50;
/// The path of the run without computing: a fixed text.
const PLAIN: &str = "/index.html";
/// The names of the servers; the first of ours is what the others are compared with.
const OURS: [(&str, &str); 2] = [("ours, processes", "prefork"), ("ours, threads", "pool")];
const REAL: [(&str, &str); 3] =
    [("Apache, prefork", "prefork"), ("Apache, worker", "worker"), ("Apache, event", "event")];

/// The exhibit.
pub struct ConcurrentClients;

struct Terms {
    clients: Vec<u32>,
    work: Duration,
    span: Duration,
    plain: Duration,
    blocks: u32,
    real: usize,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let ms = Duration::from_millis;
        let usual = if settings.quick { &study::CLIENTS[..1] } else { &study::CLIENTS[..] };
        // Both servers are told whole milliseconds.
        let shorter = if settings.quick { SHORTER * 4 } else { SHORTER };
        let work = settings.scale.of(study::WORK / shorter).as_secs_f64() * 1e3;
        let work = ms((work.round() as u64).max(1));
        Terms {
            clients: settings.clients(usual),
            work,
            span: ms(if settings.quick { 400 } else { 1_800 }),
            plain: ms(if settings.quick { 250 } else { 600 }),
            blocks: cases::blocks(settings),
            real: if settings.quick { 1 } else { REAL.len() },
        }
    }
}

impl Exhibit for ConcurrentClients {
    fn name(&self) -> &'static str {
        "concurrent-clients"
    }

    fn title(&self) -> &'static str {
        "Concurrent clients"
    }

    fn about(&self) -> &'static str {
        "processes against threads where every request computes: nothing is left to differ"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let servers = (OURS.len() + terms.real) as u32;
        cases::effort(servers * terms.clients.len() as u32, terms.span, terms.blocks)
            .and(cases::effort(servers, terms.plain, terms.blocks))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let terms = Terms::of(stage.settings());
        let toil = Toil::calibrate(stage)?;
        let most = terms.clients.iter().copied().max().unwrap_or(1);
        let mut all = Vec::new();
        let mut add = |web: Web, path: String| {
            for &clients in &terms.clients {
                all.push(Case {
                    web: web.clone(),
                    clients: Clients {
                        warmup: terms.span / 4,
                        ..Clients::new(&path, clients, terms.span)
                    },
                    x: f64::from(clients),
                    group: words::counted(clients, "client"),
                });
            }
            let clients = Clients::new(PLAIN, terms.clients[0], terms.plain);
            all.push(Case { web, clients, x: 0.0, group: PLAIN.to_string() });
        };
        for (name, engine) in OURS {
            let flags = format!("--engine {engine} --workers {most}");
            add(servers::ours(stage, name, &flags), toil.ours(terms.work));
        }
        if let Some(path) = toil.apache(terms.work) {
            for &(name, module) in &REAL[..terms.real] {
                add(servers::fixed(name, module, most)?, path.clone());
            }
        }
        let met = cases::play(stage, all, terms.blocks)?;
        Ok(told(&met, &terms, toil))
    }
}

fn told(met: &Met, terms: &Terms, toil: Toil) -> Showing {
    let apart = apart(met, terms);
    let plain = compared(met, OURS[1].0, OURS[0].0, PLAIN, cpu_ms);
    Showing {
        headline: match (&apart, &plain) {
            (Some(apart), Some(plain)) => format!(
                "Where every request computes for {}, ours with threads answers {} as much as \
                 ours with processes, whatever the number of clients; where none does, a request \
                 costs threads {} the CPU of processes.",
                words::span(terms.work),
                words::ratio(*apart),
                words::compared(plain)
            ),
            _ => "Stopped before threads and processes had met the same clients.".to_string(),
        },
        published: published(),
        flawed: flawed(met, terms),
        corrected: corrected(met),
        why: why(terms),
        lesson: "A processor that computes all the time has nothing to tell about who switches it."
            .to_string(),
        together: Some(together(met, terms)),
        findings: findings(met, terms, apart),
        facts: vec![
            (
                "Computing of each request".into(),
                format!(
                    "{}; {} in the study: scale 1/{:.0}",
                    words::span(terms.work),
                    words::span(study::WORK),
                    study::WORK.as_secs_f64() / terms.work.as_secs_f64()
                ),
            ),
            ("Workers".into(), "as many as clients at the most".into()),
            ("Blocks".into(), terms.blocks.to_string()),
            toil.fact(),
        ],
        doubts: vec![
            "Ours computes until its thread has used that much CPU, Apache goes through a loop of \
             fixed length: what switching costs the loop itself is in Apache's CPU and not in ours."
                .to_string(),
        ],
    }
}

fn published() -> Published {
    let mut numbers = Grid::new(&["setting", "value"]);
    for [name, value] in
        [["time", "2 min"], ["clients", "10 to 100"], ["computing of each request", "0.2 s"]]
    {
        numbers.row([name.to_string(), value.to_string()]);
    }
    Published {
        claim: "The server with threads is ahead in response time and throughput, because \
                switching costs it less; the distance hardly depends on the number of clients. \
                (Both figures are drawings without numbers.)"
            .to_string(),
        source: format!("{SOURCE}, section 4.1, table 2, figures 3 and 4"),
        numbers,
    }
}

fn compared(
    met: &Met,
    one: &str,
    other: &str,
    group: &str,
    figure: cases::Figure,
) -> Option<lab::stats::Comparison> {
    met.against(met.find(one, group)?, met.find(other, group)?, figure)
}

/// Throughput of our threads against our processes, where it is furthest from 1.
fn apart(met: &Met, terms: &Terms) -> Option<f64> {
    let ratios = terms.clients.iter().filter_map(|&clients| {
        let group = words::counted(clients, "client");
        Some(compared(met, OURS[1].0, OURS[0].0, &group, rps)?.ratio)
    });
    ratios.max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()))
}

fn names() -> impl Iterator<Item = &'static str> {
    OURS.iter().map(|it| it.0).chain(REAL.iter().map(|it| it.0))
}

fn flawed(met: &Met, terms: &Terms) -> Side {
    let mut numbers = Grid::new(&[
        "clients",
        "server",
        "requests/s",
        "1 / computing",
        "response, ms",
        "clients × computing, ms",
        "with connecting, ms",
        "inside the server, ms",
    ]);
    let work_s = terms.work.as_secs_f64();
    for &clients in &terms.clients {
        for name in names() {
            let group = words::counted(clients, "client");
            let Some(at) = met.find(name, &group) else { continue };
            numbers.row([
                words::count(clients),
                name.to_string(),
                met.told(at, rps),
                words::number(1.0 / work_s),
                met.told(at, response_ms),
                words::number(f64::from(clients) * work_s * 1e3),
                met.told(at, whole_ms),
                met.told(at, inside_ms),
            ]);
        }
    }
    let series = names().map(|name| met.line(name, rps, |case| case.group != PLAIN));
    Side {
        setup: format!(
            "The study's simulator: all clients start at once and connect anew for each request. \
             Each request computes for {} on the server's one core.",
            words::span(terms.work)
        ),
        finding: furthest(met, terms),
        plot: Some(Plot {
            title: "Requests a second".to_string(),
            caption: "The study's figure 4, on this machine.".to_string(),
            x: Axis::linear("clients"),
            y: Axis::linear("requests/s"),
            series: series.filter(|it| !it.places.is_empty()).collect(),
        }),
        numbers,
    }
}

/// The server that is furthest from 1 / computing, in words.
fn furthest(met: &Met, terms: &Terms) -> String {
    let law = 1.0 / terms.work.as_secs_f64();
    let all = terms.clients.iter().flat_map(|&clients| {
        names().filter_map(move |name| {
            let at = met.find(name, &words::counted(clients, "client"))?;
            Some((name, clients, met.median(at, rps)? / law))
        })
    });
    match all.max_by(|a, b| a.2.ln().abs().total_cmp(&b.2.ln().abs())) {
        Some((name, clients, ratio)) => format!(
            "Two lines know nothing of servers: 1 / computing, and clients × computing. Furthest \
             from the first is {name} with {}: {} of it.",
            words::counted(clients, "client"),
            words::ratio(ratio)
        ),
        None => "It was not measured.".to_string(),
    }
}

fn corrected(met: &Met) -> Side {
    let mut numbers = Grid::new(&[
        "server",
        "requests/s",
        "CPU / request, ms",
        "against ours, processes",
        "inside the server, ms",
    ]);
    for name in names() {
        let Some(at) = met.find(name, PLAIN) else { continue };
        let against = compared(met, name, OURS[0].0, PLAIN, cpu_ms);
        numbers.row([
            name.to_string(),
            met.told(at, rps),
            met.told(at, cpu_ms),
            against.map_or(words::NONE.to_string(), |it| words::compared(&it)),
            met.told(at, inside_ms),
        ]);
    }
    let of = |name: &str| compared(met, name, OURS[0].0, PLAIN, cpu_ms);
    let said: Vec<String> = names()
        .skip(1)
        .filter_map(|name| Some(format!("{name} {}", words::compared(&of(name)?))))
        .collect();
    Side {
        setup: "The same servers and clients without the computing: a small file, a connection \
                for each request. What is left is what the architecture itself costs."
            .to_string(),
        finding: match said.is_empty() {
            true => "It was not measured.".to_string(),
            false => format!("CPU of a request against ours with processes: {}.", said.join("; ")),
        },
        plot: None,
        numbers,
    }
}

fn together(met: &Met, terms: &Terms) -> Plot {
    let work_ms = terms.work.as_secs_f64() * 1e3;
    let most = terms.clients.iter().copied().max().unwrap_or(1);
    let law = vec![(0.0, 0.0), (f64::from(most), f64::from(most) * work_ms)];
    let lines = names().map(|name| met.line(name, response_ms, |case| case.group != PLAIN));
    let series = [Series::published("clients × computing", law)].into_iter().chain(lines);
    Plot {
        title: "Response time without connecting".to_string(),
        caption: "The study's figure 3, on this machine; the dashed line is arithmetic."
            .to_string(),
        x: Axis::linear("clients"),
        y: Axis::linear("milliseconds"),
        series: series.filter(|it| !it.places.is_empty()).collect(),
    }
}

fn findings(met: &Met, terms: &Terms, apart: Option<f64>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(apart) = apart {
        let expected = "computing, threads and processes of ours within 10 % of each other";
        found.push(Finding::new("equal-computing", (apart - 1.0).abs() <= 0.1, apart, expected));
    }
    let most = terms.clients.iter().copied().max().unwrap_or(1);
    let group = words::counted(most, "client");
    let law_ms = f64::from(most) * terms.work.as_secs_f64() * 1e3;
    let at = met.find(OURS[1].0, &group).and_then(|at| met.median(at, response_ms));
    if let Some(ms) = at {
        let ratio = ms / law_ms;
        let expected = "response within a quarter of clients × computing";
        found.push(Finding::new("law", (0.8..=1.25).contains(&ratio), ratio, expected));
    }
    if let Some(it) = compared(met, OURS[1].0, OURS[0].0, PLAIN, cpu_ms) {
        let expected = "without computing, a request costs threads less CPU than processes";
        let holds = it.interval.as_ref().map_or(it.ratio, |range| range.high) < 1.0;
        found.push(Finding::new("threads-cheaper", holds, it.ratio, expected));
    }
    found
}

fn why(terms: &Terms) -> Vec<String> {
    vec![
        format!(
            "One core computes {} for each request, so it answers {} a second at the most; with N \
             clients who all wait, each waits for the N - 1 others. Threads or processes, a switch \
             of a few microseconds every few milliseconds is a thousandth of that.",
            words::span(terms.work),
            words::number(1.0 / terms.work.as_secs_f64())
        ),
        "In the study's years a switch between processes emptied the cache of translations, and \
         Linux had threads that were processes in all but name. A constant distance between two \
         lines at every number of clients, as published, is not what a cost for each switch would \
         draw; it is what a constant cost for each request would."
            .to_string(),
    ]
}
