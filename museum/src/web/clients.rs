//! Concurrent clients: ten to a hundred of them, each request computes for 0.2 s.
//!
//! The study finds threads ahead of processes in response time and throughput at every number of
//! clients, "because a switch costs less". But on one processor that only computes neither can be
//! ahead: with N clients and a computing time of W each waits N x W, and the server answers 1 / W
//! requests a second, with processes or threads. The architecture can only change the CPU of a
//! request beyond its computing, which is measured by itself.

use super::cases::{self, Case, Results, cpu_ms, inside_ms, response_ms, rps, whole_ms};
use super::servers::{self, OURS, REAL, Toil, names};
use super::study::{self, SOURCE};
use crate::draft::Draft;
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Clients, Settings, Stage, Web};
use document::Series;
use stats::words;
use std::time::Duration;

/// The factor by which computing is shorter than in the study, beside `--scale`.
const SHORTER: u32 = 50;
/// The path of the run without computing: a fixed text.
const PLAIN: &str = "/index.html";

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
        // Both servers take whole milliseconds.
        let shorter = match (settings.full, settings.quick) {
            (true, _) => 1,
            (_, true) => SHORTER * 4,
            _ => SHORTER,
        };
        let work = settings.scale.of(study::WORK / shorter).as_secs_f64() * 1e3;
        let work = ms((work.round() as u64).max(1));
        Terms {
            clients: settings.clients(usual),
            work,
            span: match (settings.full, settings.quick) {
                (true, _) => settings.scale.of(study::SPAN),
                (_, true) => ms(400),
                _ => ms(1_800),
            },
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

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let servers = (OURS.len() + terms.real) as u32;
        cases::effort(servers * terms.clients.len() as u32, terms.span, terms.blocks)
            .and(cases::effort(servers, terms.plain, terms.blocks))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
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
        let results = cases::play(stage, all, terms.blocks)?;
        Ok(draft(&results, &terms, toil))
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        draft(&Results::default(), &Terms::of(settings), Toil { round_ns: None })
    }
}

fn draft(results: &Results, terms: &Terms, toil: Toil) -> Draft {
    let mut it = Draft::default();
    let work_s = terms.work.as_secs_f64();
    let most = terms.clients.iter().copied().max().unwrap_or(1);
    let apart = apart(results, terms);
    let plain = compared(results, OURS[1].0, OURS[0].0, PLAIN, cpu_ms);
    it.set("source", SOURCE);
    it.set("work", words::span(terms.work));
    it.set("study_work", words::span(study::WORK));
    it.set("scale", format!("1/{:.0}", study::WORK.as_secs_f64() / work_s));
    it.set("law", words::number(1.0 / work_s));
    it.set("blocks", terms.blocks);
    it.set("apart", apart.as_ref().map(|it| words::ratio(it.ratio)));
    it.compare("plain", plain.as_ref());
    it.set("furthest", furthest(results, terms));
    let each = names().skip(1).filter_map(|name| {
        let found = compared(results, name, OURS[0].0, PLAIN, cpu_ms)?;
        Some(format!("{name} {}", words::compared(&found)))
    });
    it.set("each", each.collect::<Vec<_>>());
    rows(&mut it, results, terms);
    let law = [(0.0, 0.0), (f64::from(most), f64::from(most) * work_s * 1e3)];
    it.together.series(Series::published("clients × computing", law));
    for name in names() {
        it.flawed.series(results.line(name, rps, |case| case.group != PLAIN));
        it.together.series(results.line(name, response_ms, |case| case.group != PLAIN));
    }
    it.facts = vec![toil.fact()];
    it.expect_ratio("equal-computing", apart.as_ref());
    if let Some(at) = results.find(OURS[1].0, &words::counted(most, "client")) {
        let all = results.values(at, response_ms).into_iter();
        let shares: Vec<f64> = all.map(|ms| ms / (f64::from(most) * work_s * 1e3)).collect();
        it.expect_median("law", &shares);
    }
    it.expect_ratio("threads-cheaper", plain.as_ref());
    it
}

fn rows(it: &mut Draft, results: &Results, terms: &Terms) {
    for [name, value] in
        [["time", "2 min"], ["clients", "10 to 100"], ["computing of each request", "0.2 s"]]
    {
        it.published.row([name.to_string(), value.to_string()]);
    }
    let work_s = terms.work.as_secs_f64();
    for &clients in &terms.clients {
        for name in names() {
            let Some(at) = results.find(name, &words::counted(clients, "client")) else { continue };
            it.flawed.row([
                words::count(clients),
                name.to_string(),
                results.shown(at, rps),
                words::number(1.0 / work_s),
                results.shown(at, response_ms),
                words::number(f64::from(clients) * work_s * 1e3),
                results.shown(at, whole_ms),
                results.shown(at, inside_ms),
            ]);
        }
    }
    for name in names() {
        let Some(at) = results.find(name, PLAIN) else { continue };
        let against = compared(results, name, OURS[0].0, PLAIN, cpu_ms);
        it.corrected.row([
            name.to_string(),
            results.shown(at, rps),
            results.shown(at, cpu_ms),
            against.map_or(words::NONE.to_string(), |it| words::compared(&it)),
            results.shown(at, inside_ms),
        ]);
    }
}

fn compared(
    results: &Results,
    one: &str,
    other: &str,
    group: &str,
    figure: cases::Figure,
) -> Option<stats::Comparison> {
    results.against(results.find(one, group)?, results.find(other, group)?, figure)
}

/// Throughput of our threads against our processes, where it is furthest from 1.
fn apart(results: &Results, terms: &Terms) -> Option<stats::Comparison> {
    let ratios = terms.clients.iter().filter_map(|&clients| {
        let group = words::counted(clients, "client");
        compared(results, OURS[1].0, OURS[0].0, &group, rps)
    });
    ratios.max_by(|a, b| a.ratio.ln().abs().total_cmp(&b.ratio.ln().abs()))
}

/// The server and crowd whose throughput is furthest from 1 / computing, and the ratio.
fn furthest(results: &Results, terms: &Terms) -> Option<[String; 3]> {
    let law = 1.0 / terms.work.as_secs_f64();
    let all = terms.clients.iter().flat_map(|&clients| {
        names().filter_map(move |name| {
            let at = results.find(name, &words::counted(clients, "client"))?;
            Some((name, clients, results.median(at, rps)? / law))
        })
    });
    let (name, clients, ratio) = all.max_by(|a, b| a.2.ln().abs().total_cmp(&b.2.ln().abs()))?;
    Some([name.to_string(), words::counted(clients, "client"), words::ratio(ratio)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_full_size_it_is_as_published() {
        let full = Settings { full: true, ..Settings::default() };
        let terms = Terms::of(&full);
        assert_eq!(terms.clients, [10, 40, 70, 100]);
        assert_eq!((terms.work.as_millis(), terms.span.as_secs()), (200, 120));
    }
}
