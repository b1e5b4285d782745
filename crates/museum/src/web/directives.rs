//! The directives: threads mostly against processes mostly, with spare workers maintained and not.
//!
//! The study's surprise was that Apache with many threads in few processes lost against Apache with
//! many processes of one thread, and won as soon as nothing had to be maintained. Its two tables
//! change two things at once (also how many processes there are at the start), and nobody counted
//! what came and went. Here both tables are played exactly, on real Apache and on our engine with
//! Apache's rule, under the published steady load and under one that wobbles.

use super::cases::{self, Case, Met, churn, cpu_ms, inside_ms, p99_ms, response_ms, rps, whole_ms};
use super::servers::{self, Directives, Toil};
use super::study::{self, PROCESSES, PROCESSES_FIXED, SOURCE, THREADS, THREADS_FIXED};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::showing::{Axis, Finding, Grid, Plot, Published, Showing, Side};
use crate::stage::{Clients, Settings, Stage};
use crate::words;
use std::time::Duration;

/// Computing of each request.
const WORK: Duration = Duration::from_millis(5);
/// Clients that all stay.
const STEADY: [u32; 3] = [26, 50, 100];
/// Clients that stay, and guests, of the load that wobbles.
const STAYING: u32 = 19;
const GUESTS: u32 = 12;
/// How long guests stay.
const STAY: Duration = Duration::from_millis(1_500);
/// The names of the two families of servers.
const REAL: &str = "Apache";
const OURS: &str = "ours";
/// What the wobbling load is called, and where it stands on an axis of clients.
const WOBBLING: &str = "wobbling";

/// The exhibit.
pub struct DirectivesTable;

struct Terms {
    steady: Vec<u32>,
    span: Duration,
    stay: Duration,
    wobble: Duration,
    blocks: u32,
    quick: bool,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let ms = Duration::from_millis;
        let usual = if settings.quick { &STEADY[..0] } else { &STEADY[..] };
        Terms {
            steady: settings.clients(usual),
            span: ms(if settings.quick { 500 } else { 2_000 }),
            stay: if settings.quick { ms(250) } else { STAY },
            wobble: if settings.quick { ms(750) } else { STAY * 5 },
            blocks: settings.blocks(1),
            quick: settings.quick,
        }
    }

    /// The settings that are played: both tables.
    fn tables(&self) -> &'static [Directives] {
        static ALL: [Directives; 4] = [THREADS, PROCESSES, THREADS_FIXED, PROCESSES_FIXED];
        if self.quick { &ALL[..1] } else { &ALL }
    }

    fn loads(&self, path: &str) -> Vec<(f64, String, Clients)> {
        let steady = self.steady.iter().map(|&clients| {
            let load = Clients::new(path, clients, self.span);
            let load = Clients { warmup: self.span / 4, ..load };
            (f64::from(clients), steady(clients), load)
        });
        let wobbling = Clients {
            guests: GUESTS,
            stay: self.stay,
            warmup: self.stay,
            ..Clients::new(path, STAYING, self.wobble)
        };
        steady.chain([(0.0, WOBBLING.to_string(), wobbling)]).collect()
    }
}

fn steady(clients: u32) -> String {
    words::counted(clients, "client")
}

fn name(family: &str, it: &Directives) -> String {
    format!("{family}, {}", it.name)
}

impl Exhibit for DirectivesTable {
    fn name(&self) -> &'static str {
        "directives"
    }

    fn title(&self) -> &'static str {
        "Threads mostly, processes mostly"
    }

    fn about(&self) -> &'static str {
        "Apache's directives as published, with spare workers maintained and not, on both servers"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let servers = 2 * terms.tables().len() as u32;
        cases::effort(servers * terms.steady.len() as u32, terms.span, terms.blocks)
            .and(cases::effort(servers, terms.wobble, terms.blocks))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let terms = Terms::of(stage.settings());
        let toil = Toil::calibrate(stage)?;
        let mut all = Vec::new();
        for it in terms.tables() {
            // A pool that cannot change needs nobody who looks after it.
            let policy = if it.spare_min == it.workers { "static" } else { "apache" };
            let web = servers::ours(stage, &name(OURS, it), &it.flags(policy));
            for (x, group, clients) in terms.loads(&toil.ours(WORK)) {
                all.push(Case { web: web.clone(), clients, x, group });
            }
            let Some(path) = toil.apache(WORK) else { continue };
            let web = servers::worker(&name(REAL, it), it)?;
            for (x, group, clients) in terms.loads(&path) {
                all.push(Case { web: web.clone(), clients, x, group });
            }
        }
        let met = cases::play(stage, all, terms.blocks)?;
        Ok(told(&met, toil))
    }
}

fn told(met: &Met, toil: Toil) -> Showing {
    Showing {
        headline: headline(met),
        published: Published {
            claim: "With spare threads maintained (table 5) Apache with mostly threads answers \
                    later and less than with mostly processes, against expectation; with nothing \
                    to maintain (table 6) threads are ahead in both. So what it costs to maintain \
                    spare threads is the main cause. (The figures are drawings without numbers.)"
                .to_string(),
            source: SOURCE.to_string(),
            numbers: study::grid(&[THREADS, PROCESSES, THREADS_FIXED, PROCESSES_FIXED]),
        },
        flawed: side(
            met,
            [&THREADS, &PROCESSES],
            "Table 5: 25 to 75 spare threads are kept. At the start 50 threads, at the most 150.",
        ),
        corrected: side(
            met,
            [&THREADS_FIXED, &PROCESSES_FIXED],
            "Table 6: 150 threads from the start and nothing to maintain. Apache takes the most \
             spare, 150, as 201 or 152 without a word, and that is what makes it a fixed pool.",
        ),
        why: why(),
        lesson: "Change one thing at a time, and count what you blame.".to_string(),
        together: Some(together(met)),
        findings: findings(met),
        facts: vec![
            ("Computing of each request".into(), words::span(WORK)),
            (
                "Wobbling load".into(),
                format!("{STAYING} clients that stay, {GUESTS} that come and go"),
            ),
            toil.fact(),
        ],
        doubts: vec![
            "MaxClients is called MaxRequestWorkers since Apache 2.4; its value is the same."
                .to_string(),
            "A process of one thread under the worker module is not prefork: it has a listener \
             and a queue beside its thread."
                .to_string(),
        ],
    }
}

/// Threads mostly against processes mostly for one family, by `figure`, where both were measured.
fn against(
    met: &Met,
    family: &str,
    pair: [&Directives; 2],
    load: &str,
    figure: cases::Figure,
) -> Option<lab::stats::Comparison> {
    let [threads, processes] = pair.map(|it| met.find(&name(family, it), load));
    met.against(threads?, processes?, figure)
}

fn headline(met: &Met) -> String {
    let of = |family: &str| {
        let [t, p] = [&THREADS, &PROCESSES].map(|it| {
            let case = met.find(&name(family, it), WOBBLING)?;
            met.median(case, churn)
        });
        let rate = against(met, family, [&THREADS, &PROCESSES], WOBBLING, rps)?;
        Some(format!(
            "{family}: {} and {} threads a minute come and go with mostly threads and mostly \
             processes, and the first answers {} as much",
            words::number(t?.round()),
            words::number(p?.round()),
            words::compared(&rate)
        ))
    };
    let known: Vec<String> = [REAL, OURS].into_iter().filter_map(of).collect();
    match known.is_empty() {
        true => "Stopped before the load that wobbles had met both settings.".to_string(),
        false => format!("When the load wobbles: {}.", known.join("; ")),
    }
}

fn side(met: &Met, pair: [&Directives; 2], setup: &str) -> Side {
    let mut numbers = Grid::new(&[
        "load",
        "server",
        "requests/s",
        "response, ms",
        "with connecting, ms",
        "p99, ms",
        "inside, ms",
        "CPU / request, ms",
        "threads ± / min",
    ]);
    let loads: Vec<String> = STEADY.map(steady).into_iter().chain([WOBBLING.to_string()]).collect();
    for load in loads {
        for family in [REAL, OURS] {
            for it in pair {
                let Some(at) = met.find(&name(family, it), &load) else { continue };
                numbers.row([
                    load.clone(),
                    name(family, it),
                    met.told(at, rps),
                    met.told(at, response_ms),
                    met.told(at, whole_ms),
                    met.told(at, p99_ms),
                    met.told(at, inside_ms),
                    met.told(at, cpu_ms),
                    met.told(at, churn),
                ]);
            }
        }
    }
    let ratio = |family: &str, load: &str| {
        let it = against(met, family, pair, load, rps)?;
        Some(format!("{family} {}", words::compared(&it)))
    };
    let widest = steady(STEADY[1]);
    let said: Vec<String> = [REAL, OURS]
        .iter()
        .flat_map(|family| {
            [
                ratio(family, &widest).map(|it| format!("{it} at {widest}")),
                ratio(family, WOBBLING).map(|it| format!("{it} under the wobble")),
            ]
        })
        .flatten()
        .collect();
    let series = [REAL, OURS].iter().flat_map(|family| {
        pair.map(|it| met.line(&name(family, it), response_ms, |case| case.group != WOBBLING))
    });
    let series: Vec<_> = series.filter(|it| !it.places.is_empty()).collect();
    Side {
        setup: format!("{setup} Each request computes for {}.", words::span(WORK)),
        finding: match said.is_empty() {
            true => "It was not measured.".to_string(),
            false => format!("Requests/s, mostly threads / mostly processes: {}.", said.join(", ")),
        },
        plot: (!series.is_empty()).then(|| Plot {
            title: "Response time without connecting, as published".to_string(),
            caption: "Means over the clients that all stay.".to_string(),
            x: Axis::linear("clients"),
            y: Axis::linear("milliseconds"),
            series,
        }),
        numbers,
    }
}

/// Threads that come and go, as bars: what nobody had counted.
fn together(met: &Met) -> Plot {
    let mut names = Vec::new();
    let (mut still, mut moving) = (Vec::new(), Vec::new());
    for family in [REAL, OURS] {
        for it in [&THREADS, &PROCESSES, &THREADS_FIXED, &PROCESSES_FIXED] {
            let of =
                |load: &str| met.find(&name(family, it), load).and_then(|at| met.median(at, churn));
            let Some(wobbling) = of(WOBBLING) else { continue };
            names.push(name(family, it));
            let x = names.len() as f64;
            moving.push((x, wobbling));
            still.extend(of(&steady(STEADY[1])).map(|steady| (x, steady)));
        }
    }
    let bar = |name: &str, places| crate::showing::Series {
        drawn: crate::showing::Drawn::Bar,
        ..crate::showing::Series::measured(name, places)
    };
    let [steady, wobbling] = [("50 clients that stay", still), ("a load that wobbles", moving)];
    Plot {
        title: "Threads started and ended a minute".to_string(),
        caption: "What was blamed and not counted.".to_string(),
        x: Axis::named("directives", names),
        y: Axis::linear("threads a minute"),
        series: [bar(steady.0, steady.1), bar(wobbling.0, wobbling.1)]
            .into_iter()
            .filter(|it| !it.places.is_empty())
            .collect(),
    }
}

fn findings(met: &Met) -> Vec<Finding> {
    let mut found = Vec::new();
    let value = |family: &str, it: &Directives| {
        met.find(&name(family, it), WOBBLING).and_then(|at| met.median(at, churn))
    };
    for (family, key) in [(REAL, "apache-churns"), (OURS, "ours-churns")] {
        if let Some((t, p)) = value(family, &THREADS).zip(value(family, &PROCESSES)) {
            let expected = format!("{family}: mostly threads start and end more threads");
            found.push(Finding::new(key, t > p, t / p.max(1.0), expected));
        }
        let slower = against(met, family, [&THREADS, &PROCESSES], WOBBLING, rps);
        if let Some(it) = slower {
            let expected = format!("{family}: mostly threads answer less, as published");
            let key = if family == REAL { "apache-slower" } else { "ours-slower" };
            let holds = match &it.interval {
                Some(range) => range.high < 1.0,
                None => it.ratio < 0.95,
            };
            found.push(Finding::new(key, holds, it.ratio, expected));
        }
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "Both settings begin with 50 threads and may have 150. With mostly threads a step is 50 \
         threads, with mostly processes it is one; the band is the same. So the same wobble makes \
         the first start and end whole processes, and the second a few threads. That is a matter \
         of the step, not of threads."
            .to_string(),
        "Table 6 takes the maintenance away and also starts three times as many threads. A run \
         that begins with 50 threads waits up to a second for the next 50 and up to two for the \
         last; the shorter the run, the more of it that is. Nobody can tell the two apart from the \
         tables alone."
            .to_string(),
        "A closed load of clients that all stay crosses an edge of the band once, at the \
         beginning. In the steady rows above the counts of threads are what they are afterwards."
            .to_string(),
    ]
}
