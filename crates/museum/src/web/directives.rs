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
use crate::showing::{Axis, Drawn, Finding, Grid, Place, Plot, Published, Series, Showing, Side};
use crate::stage::{Clients, Settings, Stage, Web};
use crate::words;
use std::time::Duration;

/// Computing of each request, and where it has to be quick: then a busy machine answers some of
/// them in a window of a few hundred milliseconds.
const WORK: Duration = Duration::from_millis(5);
const WORK_QUICK: Duration = Duration::from_millis(1);
/// Clients that all stay.
const STEADY: [u32; 1] = [50];
/// Clients that stay, and guests, of the load that wobbles.
const STAYING: u32 = 19;
const GUESTS: u32 = 12;
/// How long guests stay: longer than the second between two looks of Apache's.
const STAY: Duration = Duration::from_millis(1_250);
/// The families of servers. Prefork knows no threads, so it is in the tables as processes only.
const WORKER: &str = "Apache worker";
const EVENT: &str = "Apache event";
const PREFORK: &str = "Apache prefork";
const OURS: &str = "ours";
const FAMILIES: [&str; 4] = [WORKER, EVENT, PREFORK, OURS];
/// Those with both settings.
const HYBRIDS: [&str; 3] = [WORKER, EVENT, OURS];
/// What the wobbling load is called.
const WOBBLING: &str = "wobbling";

/// The exhibit.
pub struct DirectivesTable;

struct Terms {
    steady: Vec<u32>,
    span: Duration,
    stay: Duration,
    wobble: Duration,
    blocks: u32,
    work: Duration,
    quick: bool,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let ms = Duration::from_millis;
        let usual = if settings.quick { &STEADY[..0] } else { &STEADY[..] };
        let stay = if settings.quick { ms(200) } else { STAY };
        Terms {
            steady: settings.clients(usual),
            span: ms(if settings.quick { 400 } else { 3_200 }),
            stay,
            wobble: stay * if settings.quick { 3 } else { 4 },
            blocks: cases::blocks(settings),
            work: if settings.quick { WORK_QUICK } else { WORK },
            quick: settings.quick,
        }
    }

    /// The settings that are played: both tables.
    fn tables(&self) -> &'static [Directives] {
        static ALL: [Directives; 4] = [THREADS, PROCESSES, THREADS_FIXED, PROCESSES_FIXED];
        if self.quick { &ALL[..1] } else { &ALL }
    }

    /// The families that play a setting.
    fn families(&self, it: &Directives) -> Vec<&'static str> {
        let is_prefork = it.threads == 1;
        let plays = |family: &&&str| match **family {
            PREFORK => is_prefork,
            EVENT => !self.quick,
            _ => true,
        };
        FAMILIES.iter().filter(plays).copied().collect()
    }

    fn loads(&self, path: &str) -> Vec<(String, Clients)> {
        let steady = self.steady.iter().map(|&clients| {
            let load = Clients::new(path, clients, self.span);
            // Apache looks once a second: two looks find its size, which is not what is counted.
            (steady(clients), Clients { warmup: self.span / 8 * 5, ..load })
        });
        let wobbling = Clients {
            guests: GUESTS,
            stay: self.stay,
            warmup: self.stay,
            ..Clients::new(path, STAYING, self.wobble)
        };
        steady.chain([(WOBBLING.to_string(), wobbling)]).collect()
    }
}

fn steady(clients: u32) -> String {
    words::counted(clients, "client")
}

fn name(family: &str, it: &Directives) -> String {
    format!("{family}, {}", it.name)
}

/// A family with a setting.
fn server(stage: &Stage<'_>, family: &str, it: &Directives) -> Result<Web, Fault> {
    let name = name(family, it);
    match family {
        PREFORK => servers::prefork(&name, it),
        WORKER => servers::hybrid(&name, "worker", it),
        EVENT => servers::hybrid(&name, "event", it),
        _ => {
            // A pool that cannot change needs nobody who looks after it.
            let policy = if it.spare_min == it.workers { "static" } else { "apache" };
            Ok(servers::ours(stage, &name, &it.flags(policy)))
        }
    }
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
        let servers = terms.tables().iter().map(|it| terms.families(it).len() as u32).sum::<u32>();
        cases::effort(servers * terms.steady.len() as u32, terms.span, terms.blocks)
            .and(cases::effort(servers, terms.wobble, terms.blocks))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let terms = Terms::of(stage.settings());
        let toil = Toil::calibrate(stage)?;
        let mut all = Vec::new();
        for it in terms.tables() {
            for family in terms.families(it) {
                let path = match family {
                    OURS => Some(toil.ours(terms.work)),
                    _ => toil.apache(terms.work),
                };
                let Some(path) = path else { continue };
                let web = server(stage, family, it)?;
                for (group, clients) in terms.loads(&path) {
                    all.push(Case { web: web.clone(), clients, x: 0.0, group });
                }
            }
        }
        let met = cases::play(stage, all, terms.blocks)?;
        Ok(told(&met, toil, &terms))
    }
}

fn told(met: &Met, toil: Toil, terms: &Terms) -> Showing {
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
            terms,
            "Table 5: 25 to 75 spare threads are kept. At the start 50 threads, at the most 150.",
        ),
        corrected: side(
            met,
            [&THREADS_FIXED, &PROCESSES_FIXED],
            terms,
            "Table 6: 150 threads from the start and nothing to maintain. Apache takes the most \
             spare, 150, as 201 or 152 without a word, and that is what makes it a fixed pool.",
        ),
        why: why(),
        lesson: "Change one thing at a time, and count what you blame.".to_string(),
        together: Some(together(met, terms)),
        findings: findings(met),
        facts: vec![
            ("Computing of each request".into(), words::span(terms.work)),
            (
                "Wobbling load".into(),
                format!("{STAYING} clients that stay, {GUESTS} that come and go"),
            ),
            ("Blocks".into(), terms.blocks.to_string()),
            toil.fact(),
        ],
        doubts: vec![
            "MaxClients is called MaxRequestWorkers since Apache 2.4; its value is the same."
                .to_string(),
            "A process of one thread under the worker module is not prefork: it has a listener \
             and a queue beside its thread. Prefork is beside it as processes alone."
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
    let known: Vec<String> = HYBRIDS.into_iter().filter_map(of).collect();
    match known.is_empty() {
        true => "Stopped before the load that wobbles had met both settings.".to_string(),
        false => format!("When the load wobbles: {}.", known.join("; ")),
    }
}

/// The loads that were met: so many that stay, and the wobble.
fn loads(terms: &Terms) -> Vec<String> {
    terms.steady.iter().map(|it| steady(*it)).chain([WOBBLING.to_string()]).collect()
}

fn side(met: &Met, pair: [&Directives; 2], terms: &Terms, setup: &str) -> Side {
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
    for load in loads(terms) {
        for family in FAMILIES {
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
    Side {
        setup: format!("{setup} Each request computes for {}.", words::span(terms.work)),
        finding: ratios(met, pair, terms),
        plot: bars(
            met,
            terms,
            &pair,
            response_ms,
            Plot {
                title: "Response time without connecting, as published".to_string(),
                caption: "Medians of the means over all clients; the bars' ends are intervals."
                    .to_string(),
                y: Axis::linear("milliseconds"),
                ..Plot::default()
            },
        ),
        numbers,
    }
}

/// Mostly threads against mostly processes in each family, in words.
fn ratios(met: &Met, pair: [&Directives; 2], terms: &Terms) -> String {
    let said = loads(terms).into_iter().flat_map(|load| {
        let families = HYBRIDS.into_iter().filter_map(|family| {
            let it = against(met, family, pair, &load, rps)?;
            Some(format!("{family} {} ({load})", words::compared(&it)))
        });
        families.collect::<Vec<String>>()
    });
    let said: Vec<String> = said.collect();
    match said.is_empty() {
        true => "It was not measured.".to_string(),
        false => format!("Requests/s, mostly threads / mostly processes: {}.", said.join(", ")),
    }
}

/// A figure of all families with these settings, a bar for each load.
fn bars(
    met: &Met,
    terms: &Terms,
    settings: &[&Directives],
    figure: cases::Figure,
    plot: Plot,
) -> Option<Plot> {
    let all = FAMILIES.iter().flat_map(|family| settings.iter().map(|it| name(family, it)));
    let servers: Vec<String> =
        all.filter(|name| met.find(name, WOBBLING).is_some_and(|at| met.has(at))).collect();
    let series = loads(terms).into_iter().map(|load| {
        let places = servers.iter().zip(1..).filter_map(|(server, x)| {
            met.place(met.find(server, &load)?, figure).map(|it| Place { x: f64::from(x), ..it })
        });
        let places = places.collect();
        Series { name: load, drawn: Drawn::Bar, places, ..Series::default() }
    });
    let series: Vec<Series> = series.filter(|it| !it.places.is_empty()).collect();
    let x = Axis::named("server and directives", servers);
    (!series.is_empty()).then_some(Plot { x, series, ..plot })
}

/// Threads that come and go: what nobody had counted.
fn together(met: &Met, terms: &Terms) -> Plot {
    let plot = Plot {
        title: "Threads started and ended a minute".to_string(),
        caption: "What was blamed and not counted.".to_string(),
        y: Axis::linear("threads a minute"),
        ..Plot::default()
    };
    let all = [&THREADS, &PROCESSES, &THREADS_FIXED, &PROCESSES_FIXED];
    bars(met, terms, &all, churn, plot.clone()).unwrap_or(plot)
}

fn findings(met: &Met) -> Vec<Finding> {
    let mut found = Vec::new();
    let value = |family: &str, it: &Directives| {
        met.find(&name(family, it), WOBBLING).and_then(|at| met.median(at, churn))
    };
    for (family, key, slower_key) in
        [(WORKER, "apache-churns", "apache-slower"), (OURS, "ours-churns", "ours-slower")]
    {
        if let Some((t, p)) = value(family, &THREADS).zip(value(family, &PROCESSES)) {
            let expected = format!("{family}: mostly threads start and end more threads");
            found.push(Finding::new(key, t > p, t / p.max(1.0), expected));
        }
        let slower = against(met, family, [&THREADS, &PROCESSES], WOBBLING, rps);
        if let Some(it) = slower {
            let expected = format!("{family}: mostly threads answer less, as published");
            let holds = match &it.interval {
                Some(range) => range.high < 1.0,
                None => it.ratio < 0.95,
            };
            found.push(Finding::new(slower_key, holds, it.ratio, expected));
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
