//! Computing time: fifty clients, each request computes for 2 to 10 s.
//!
//! The study lets requests compute longer and longer and counts the answers in twenty minutes: 600,
//! 300, 200, 150, 100, the same for processes and threads. These numbers need no server. 1200 s
//! divided by the computing time is 600 to 120; since the fifty clients compute side by side they
//! end together, and the whole rounds of fifty that fit are the published table to the last number.

use super::cases::{self, Case, Results, cpu_ms, inside_ms, response_ms, whole_ms};
use super::servers::{self, OURS, REAL, Toil, names};
use super::study::{self, SOURCE};
use crate::draft::Draft;
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Clients, Settings, Stage, Web, WebRun};
use document::{Mark, Series};
use stats::{median, words};
use std::time::Duration;

/// The factor by which computing and run are shorter than in the study, beside `--scale`. At it a
/// request computes for 10 to 50 ms, some thousand times a switch, as far as a short run can go.
const SHORTER: u32 = 200;

/// The exhibit.
pub struct ComputingTime;

struct Terms {
    works: Vec<(u32, Duration)>,
    clients: u32,
    span: Duration,
    blocks: u32,
    real: usize,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let count = if settings.quick { 1 } else { study::WORKS_S.len() };
        let run = study::WORK_SPAN / if settings.quick { 4 } else { 1 };
        let shorter = if settings.full { 1 } else { SHORTER };
        let scaled = |span: Duration| settings.scale.of(span / shorter);
        let works = study::WORKS_S[..count].iter().map(|&seconds| {
            // Both servers take whole milliseconds.
            let work = scaled(Duration::from_secs(seconds.into())).as_secs_f64() * 1e3;
            (seconds, Duration::from_millis((work.round() as u64).max(1)))
        });
        Terms {
            works: works.collect(),
            // A number so small that a busy machine answers some of them in a quarter of the run.
            clients: settings.clients(&[study::WORK_CLIENTS / if settings.quick { 5 } else { 1 }])
                [0],
            span: scaled(run).max(Duration::from_millis(300)),
            blocks: cases::blocks(settings),
            real: if settings.quick { 1 } else { REAL.len() },
        }
    }

    /// The number of times that the computing fits into the run.
    fn fits(&self, work: Duration) -> f64 {
        self.span.as_secs_f64() / work.as_secs_f64()
    }

    /// The requests of whole rounds: all clients compute side by side, so a round takes as many
    /// computings as there are clients. A round that would end with the run is not counted.
    fn rounds(&self, work: Duration) -> f64 {
        let clients = f64::from(self.clients);
        clients * ((self.fits(work) / clients).ceil() - 1.0).max(0.0)
    }
}

impl Exhibit for ComputingTime {
    fn name(&self) -> &'static str {
        "computing-time"
    }

    fn has_clients(&self) -> bool {
        // Their number does not change how long it takes.
        true
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let servers = (OURS.len() + terms.real) as u32;
        cases::effort(servers * terms.works.len() as u32, terms.span, terms.blocks)
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let terms = Terms::of(stage.settings());
        let toil = Toil::calibrate(stage)?;
        let mut all = Vec::new();
        let mut add = |web: Web, path: String, seconds: u32| {
            all.push(Case {
                web,
                clients: Clients::new(&path, terms.clients, terms.span),
                x: f64::from(seconds),
                group: group(seconds),
            });
        };
        for &(seconds, work) in &terms.works {
            for (name, engine) in OURS {
                let flags = format!("--engine {engine} --workers {}", terms.clients);
                add(servers::ours(stage, name, &flags), toil.ours(work), seconds);
            }
            let Some(path) = toil.apache(work) else { continue };
            for (name, module) in &REAL[..terms.real] {
                add(servers::fixed(name, module, terms.clients)?, path.clone(), seconds);
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

fn group(seconds: u32) -> String {
    format!("{seconds} s in the study")
}

fn answered(run: &WebRun) -> Option<f64> {
    (run.load.requests > 0).then_some(run.load.requests as f64)
}

fn draft(results: &Results, terms: &Terms, toil: Toil) -> Draft {
    let mut it = Draft::default();
    let worst = worst(results, terms);
    let work = terms.works.first();
    let scale = work.map_or(1.0, |(seconds, it)| f64::from(*seconds) / it.as_secs_f64());
    it.set("source", SOURCE);
    it.set("clients", terms.clients);
    it.set("span", words::span(terms.span));
    it.set("scale", format!("1/{scale:.0}"));
    it.set("blocks", terms.blocks);
    it.set("worst", median(&worst).map(words::percent));
    let pairs = [[OURS[1].0, OURS[0].0], [REAL[1].0, REAL[0].0]].into_iter().filter_map(|pair| {
        let found = against(results, terms, pair)?;
        Some(format!("{} / {}: {}", pair[0], pair[1], words::compared(&found)))
    });
    it.set("pairs", pairs.collect::<Vec<_>>());
    rows(&mut it, results, terms);
    for name in names() {
        it.flawed.series(results.line(name, response_ms, |_| true));
        it.corrected.series(results.line(name, inside_ms, |_| true));
    }
    together(&mut it, results, terms);
    it.facts = vec![toil.fact()];
    it.expect_median("a-division", &worst);
    it.expect_ratio("equal-cpu", against(results, terms, [OURS[1].0, OURS[0].0]).as_ref());
    it
}

fn rows(it: &mut Draft, results: &Results, terms: &Terms) {
    for (seconds, answered) in study::WORKS_S.iter().zip(study::ANSWERED) {
        let fits = study::WORK_SPAN.as_secs() as u32 / *seconds;
        let row = [*seconds, answered, answered, fits, study::whole_rounds(*seconds)];
        it.published.row(row.map(words::count));
    }
    for &(seconds, work) in &terms.works {
        for name in names() {
            let Some(at) = results.find(name, &group(seconds)) else { continue };
            it.flawed.row([
                format!("{} ({})", words::span(work), group(seconds)),
                name.to_string(),
                results.shown(at, answered),
                format!("{:.0} to {:.0}", terms.rounds(work), terms.fits(work)),
                results.shown(at, response_ms),
                results.shown(at, whole_ms),
            ]);
            let beyond = results.median(at, cpu_ms).map(|ms| ms - work.as_secs_f64() * 1e3);
            it.corrected.row([
                words::span(work),
                name.to_string(),
                results.shown(at, inside_ms),
                results.shown(at, cpu_ms),
                words::or_none(beyond, words::number),
            ]);
        }
    }
}

/// How far a server's counts lie outside the range from whole rounds to the division, as shares of
/// the division, block by block: of the server and computing that are furthest from it.
fn worst(results: &Results, terms: &Terms) -> Vec<f64> {
    let all = terms.works.iter().flat_map(|&(seconds, work)| {
        let (rounds, fits) = (terms.rounds(work), terms.fits(work));
        names().filter_map(move |name| {
            let counts = results.values(results.find(name, &group(seconds))?, answered);
            let away = |count: &f64| (rounds - count).max(count - fits).max(0.0) / fits;
            Some(counts.iter().map(away).collect::<Vec<f64>>())
        })
    });
    let rank = |all: &Vec<f64>| (median(all).unwrap_or(0.0), all.iter().sum::<f64>());
    let by = |a: (f64, f64), b: (f64, f64)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
    all.max_by(|a, b| by(rank(a), rank(b))).unwrap_or_default()
}

/// CPU of threads against processes at the longest computing.
fn against(results: &Results, terms: &Terms, pair: [&str; 2]) -> Option<stats::Comparison> {
    let group = group(terms.works.last()?.0);
    let [threads, processes] = pair.map(|name| results.find(name, &group));
    results.against(threads?, processes?, cpu_ms)
}

fn together(it: &mut Draft, results: &Results, terms: &Terms) {
    let factor = study::WORK_SPAN.as_secs_f64() / terms.span.as_secs_f64();
    let works = terms.works.iter().map(|it| f64::from(it.0));
    it.together.series(Series::published("1200 s / computing", works.map(|it| (it, 1_200.0 / it))));
    let printed = study::WORKS_S.iter().zip(study::ANSWERED);
    let printed = printed.map(|(x, y)| (f64::from(*x), f64::from(y)));
    it.together.series(Series::published("table 4", printed));
    for name in names() {
        let mut line = results.line(name, answered, |_| true).drawn_as(Mark::Point);
        for (point, (_, work)) in line.points.iter_mut().zip(&terms.works) {
            // The shortest computing is a whole millisecond, so the two scales differ.
            let scaled = factor * work.as_secs_f64() / point.x.max(1e-9);
            point.y *= scaled;
            point.range = point.range.map(|(low, high)| (low * scaled, high * scaled));
        }
        it.together.series(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_full_size_it_is_as_published() {
        let full = Settings { full: true, ..Settings::default() };
        let terms = Terms::of(&full);
        let works: Vec<u64> = terms.works.iter().map(|work| work.1.as_secs()).collect();
        assert_eq!(works, [2, 4, 6, 8, 10]);
        assert_eq!((terms.clients, terms.span.as_secs()), (50, 20 * 60));
    }

    #[test]
    fn the_published_table_is_whole_rounds() {
        assert_eq!(study::WORKS_S.map(study::whole_rounds), study::ANSWERED);
        let terms = Terms::of(&Settings::default());
        let ranges = terms.works.iter().map(|it| (terms.rounds(it.1), terms.fits(it.1)));
        let wanted =
            [(550.0, 600.0), (250.0, 300.0), (150.0, 200.0), (100.0, 150.0), (100.0, 120.0)];
        assert!(ranges.eq(wanted), "a round that ends with the run may count or not");
    }
}
