//! Computing time: fifty clients, each request computes for 2 to 10 s.
//!
//! The study lets requests compute longer and longer and counts what is answered in twenty minutes:
//! 600, 300, 200, 150, 100, by processes and by threads alike. The surprising thing is that nobody
//! needs a server for these numbers: they are 1200 s divided by the computing. Only the last, 100
//! where 120 fit, tells anything, and what it tells is about the end of the run.

use super::cases::{self, Case, Met, cpu_ms, inside_ms, response_ms, whole_ms};
use super::servers::{self, Toil};
use super::study::{self, SOURCE};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::showing::{Axis, Drawn, Finding, Grid, Plot, Published, Series, Showing, Side};
use crate::stage::{Clients, Settings, Stage, Web, WebRun};
use crate::words;
use std::time::Duration;

/// By how much computing and run are shorter than in the study, beside `--scale`.
const SHORTER: u32 = 1_000;
/// The servers of ours.
const OURS: [(&str, &str); 2] = [("ours, processes", "prefork"), ("ours, threads", "pool")];
/// Apache's.
const REAL: [(&str, &str); 3] =
    [("Apache, prefork", "prefork"), ("Apache, worker", "worker"), ("Apache, event", "event")];

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
        let scaled = |span: Duration| settings.scale.of(span / SHORTER);
        let works = study::WORKS_S[..count].iter().map(|&seconds| {
            // Both servers are told whole milliseconds.
            let work = scaled(Duration::from_secs(seconds.into())).as_secs_f64() * 1e3;
            (seconds, Duration::from_millis((work.round() as u64).max(1)))
        });
        Terms {
            works: works.collect(),
            // Few enough that a busy machine answers some of them in a quarter of the run.
            clients: settings.clients(&[study::WORK_CLIENTS / if settings.quick { 5 } else { 1 }])
                [0],
            span: scaled(run).max(Duration::from_millis(300)),
            blocks: cases::blocks(settings),
            real: if settings.quick { 1 } else { REAL.len() },
        }
    }

    /// How often the computing fits into the run.
    fn fits(&self, work: Duration) -> f64 {
        self.span.as_secs_f64() / work.as_secs_f64()
    }
}

impl Exhibit for ComputingTime {
    fn name(&self) -> &'static str {
        "computing-time"
    }

    fn title(&self) -> &'static str {
        "Computing time"
    }

    fn about(&self) -> &'static str {
        "a published table of throughputs that is a division, and what lies beyond it"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let servers = (OURS.len() + terms.real) as u32;
        cases::effort(servers * terms.works.len() as u32, terms.span, terms.blocks)
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
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
        let met = cases::play(stage, all, terms.blocks)?;
        Ok(told(&met, &terms, toil))
    }
}

fn group(seconds: u32) -> String {
    format!("{seconds} s in the study")
}

fn names() -> impl Iterator<Item = &'static str> {
    OURS.iter().map(|it| it.0).chain(REAL.iter().map(|it| it.0))
}

fn answered(run: &WebRun) -> Option<f64> {
    (run.load.requests > 0).then_some(run.load.requests as f64)
}

fn told(met: &Met, terms: &Terms, toil: Toil) -> Showing {
    let worst = worst(met, terms);
    let work = terms.works.first();
    let scale = work.map_or(1.0, |(seconds, it)| f64::from(*seconds) / it.as_secs_f64());
    Showing {
        headline: match worst {
            Some(worst) => format!(
                "The published throughputs are the length of the run divided by the computing; \
                 here no server, ours or Apache, with threads or processes, is further than {} \
                 from that division.",
                words::percent(worst)
            ),
            None => "Stopped before a server had been asked to compute.".to_string(),
        },
        published: published(),
        flawed: flawed(met, terms),
        corrected: corrected(met, terms),
        why: why(terms),
        lesson: "Before comparing two columns, see whether a third one without any server has the \
                 same numbers."
            .to_string(),
        together: Some(together(met, terms)),
        findings: findings(met, terms, worst),
        facts: vec![
            (
                "Scale".into(),
                format!(
                    "1/{scale:.0} of the study's computing; runs of {}, 20 min in the study",
                    words::span(terms.span)
                ),
            ),
            ("Clients".into(), terms.clients.to_string()),
            ("Blocks".into(), terms.blocks.to_string()),
            toil.fact(),
        ],
        doubts: vec![
            "A machine that is shared computes less than its time; what other processes took is \
             in the distance from the division."
                .to_string(),
        ],
    }
}

fn published() -> Published {
    let mut numbers = Grid::new(&["computing, s", "processes", "threads", "1200 s / computing"]);
    for (seconds, answered) in study::WORKS_S.iter().zip(study::ANSWERED) {
        let law = study::WORK_SPAN.as_secs() / u64::from(*seconds);
        let [seconds, answered] = [*seconds, answered].map(words::count);
        numbers.row([seconds, answered.clone(), answered, words::count(law)]);
    }
    Published {
        claim: "Threads answer earlier and spend less time on a request inside the server, the \
                more so the longer it computes; both answer the same number of requests, because \
                the work takes so long."
            .to_string(),
        source: format!("{SOURCE}, section 4.2, tables 3 and 4, figures 5 and 6"),
        numbers,
    }
}

/// The largest distance of any server's count from the division.
fn worst(met: &Met, terms: &Terms) -> Option<f64> {
    let all = terms.works.iter().flat_map(|&(seconds, work)| {
        names().filter_map(move |name| {
            let at = met.find(name, &group(seconds))?;
            Some((met.median(at, answered)? / terms.fits(work) - 1.0).abs())
        })
    });
    all.max_by(f64::total_cmp)
}

fn flawed(met: &Met, terms: &Terms) -> Side {
    let mut numbers = Grid::new(&[
        "computing",
        "server",
        "answered",
        "run / computing",
        "response, ms",
        "with connecting, ms",
    ]);
    for &(seconds, work) in &terms.works {
        for name in names() {
            let Some(at) = met.find(name, &group(seconds)) else { continue };
            numbers.row([
                format!("{} ({})", words::span(work), group(seconds)),
                name.to_string(),
                met.told(at, answered),
                words::number(terms.fits(work).round()),
                met.told(at, response_ms),
                met.told(at, whole_ms),
            ]);
        }
    }
    let series = names().map(|name| met.line(name, response_ms, |_| true));
    Side {
        setup: format!(
            "{} clients of the study's simulator for {}; the computing is shorter too.",
            terms.clients,
            words::span(terms.span)
        ),
        finding: match worst(met, terms) {
            Some(worst) => format!(
                "The count that is furthest from run / computing differs from it by {}.",
                words::percent(worst)
            ),
            None => "It was not measured.".to_string(),
        },
        plot: Some(Plot {
            title: "Response time without connecting".to_string(),
            caption: "The study's figure 5, on this machine.".to_string(),
            x: Axis::linear("computing in the study, seconds"),
            y: Axis::linear("milliseconds"),
            series: series.filter(|it| !it.places.is_empty()).collect(),
        }),
        numbers,
    }
}

fn corrected(met: &Met, terms: &Terms) -> Side {
    let mut numbers = Grid::new(&[
        "computing",
        "server",
        "inside the server, ms",
        "CPU / request, ms",
        "CPU beyond computing, ms",
    ]);
    for &(seconds, work) in &terms.works {
        for name in names() {
            let Some(at) = met.find(name, &group(seconds)) else { continue };
            let beyond = met.median(at, cpu_ms).map(|ms| ms - work.as_secs_f64() * 1e3);
            numbers.row([
                words::span(work),
                name.to_string(),
                met.told(at, inside_ms),
                met.told(at, cpu_ms),
                words::or_none(beyond, words::number),
            ]);
        }
    }
    let series = names().map(|name| met.line(name, inside_ms, |_| true));
    Side {
        setup: "The same runs, seen from inside: how long a request took by the server's own log, \
                from its head to its reply, and how much CPU it cost. The network is in neither; \
                waiting for the processor behind the other requests is in the first."
            .to_string(),
        finding: beyond_words(met, terms),
        plot: Some(Plot {
            title: "Time inside the server".to_string(),
            caption: "The study's figure 6, on this machine: by the servers' own logs.".to_string(),
            x: Axis::linear("computing in the study, seconds"),
            y: Axis::linear("milliseconds"),
            series: series.filter(|it| !it.places.is_empty()).collect(),
        }),
        numbers,
    }
}

/// CPU of threads against processes at the longest computing.
fn against(met: &Met, terms: &Terms, pair: [&str; 2]) -> Option<lab::stats::Comparison> {
    let group = group(terms.works.last()?.0);
    let [threads, processes] = pair.map(|name| met.find(name, &group));
    met.against(threads?, processes?, cpu_ms)
}

fn beyond_words(met: &Met, terms: &Terms) -> String {
    let pairs = [[OURS[1].0, OURS[0].0], [REAL[1].0, REAL[0].0]];
    let said: Vec<String> = pairs
        .into_iter()
        .filter_map(|pair| {
            let it = against(met, terms, pair)?;
            Some(format!("{} / {}: {}", pair[0], pair[1], words::compared(&it)))
        })
        .collect();
    match said.is_empty() {
        true => "It was not measured.".to_string(),
        false => format!("CPU of a request at the longest computing, {}.", said.join("; ")),
    }
}

fn together(met: &Met, terms: &Terms) -> Plot {
    let factor = study::WORK_SPAN.as_secs_f64() / terms.span.as_secs_f64();
    let works = terms.works.iter().map(|it| it.0);
    let law =
        works.clone().map(|seconds| (f64::from(seconds), 1_200.0 / f64::from(seconds))).collect();
    let printed = study::WORKS_S.iter().zip(study::ANSWERED);
    let printed = printed.map(|(x, y)| (f64::from(*x), f64::from(y))).collect();
    let marks = names().map(|name| {
        let mut line = met.line(name, answered, |_| true);
        line.drawn = Drawn::Marks;
        for (place, (_, work)) in line.places.iter_mut().zip(&terms.works) {
            // A floor for the computing makes the scale of the two differ.
            let scaled = factor * work.as_secs_f64() / place.x.max(1e-9);
            place.y *= scaled;
            place.range = place.range.map(|(low, high)| (low * scaled, high * scaled));
        }
        line
    });
    let fixed =
        [Series::published("1200 s / computing", law), Series::published("table 4", printed)];
    Plot {
        title: "Requests answered in twenty minutes".to_string(),
        caption: "What was answered here, at the study's scale; the published table; division."
            .to_string(),
        x: Axis::linear("computing in the study, seconds"),
        y: Axis::linear("requests"),
        series: fixed.into_iter().chain(marks).filter(|it| !it.places.is_empty()).collect(),
    }
}

fn findings(met: &Met, terms: &Terms, worst: Option<f64>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(worst) = worst {
        let expected = "every count within a quarter of run / computing";
        found.push(Finding::new("a-division", worst <= 0.25, worst, expected));
    }
    if let Some(it) = against(met, terms, [OURS[1].0, OURS[0].0]) {
        let expected = "CPU of a request of threads within 5 % of processes'";
        let holds = (it.ratio - 1.0).abs() <= 0.05;
        found.push(Finding::new("equal-cpu", holds, it.ratio, expected));
    }
    found
}

fn why(terms: &Terms) -> Vec<String> {
    vec![
        "A processor that does nothing but compute answers as many requests as computings fit \
         into the run. It does not matter who switches between them or how often, unless switching \
         takes a share that one can see; so a table of such throughputs must be equal for all \
         servers that work at all."
            .to_string(),
        format!(
            "At the end of the run up to {} requests are under way, each with a part of its \
             computing done, and none of them counts. With computings of 10 s in 20 minutes that \
             is a large part: 100 was published where 120 fit. It is the share of the run that the \
             last round takes.",
            terms.clients
        ),
    ]
}
