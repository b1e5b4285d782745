//! The directives: mostly threads against mostly processes, with spare workers maintained and not.
//!
//! In the study Apache with many threads in few processes lost against Apache with many processes
//! of one thread, and won as soon as no spares had to be maintained. Its two tables change two
//! things at once (also the number of processes at the start), and the churn was not counted. Here
//! both tables are run exactly, on real Apache and on our engine with Apache's rule, under the
//! published steady load and under one that wobbles.

use super::cases::{
    self, Case, Results, churn, cpu_ms, inside_ms, p99_ms, refused, response_ms, rps, whole_ms,
};
use super::servers::{self, Directives, Toil};
use super::study::{self, PROCESSES, PROCESSES_FIXED, SOURCE, THREADS, THREADS_FIXED};
use crate::draft::{Draft, Part};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Clients, Settings, Stage, Web, WebRun};
use document::{Mark, Point, Series};
use stats::words;
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
/// The length of a guest's stay: longer than the second between two checks of Apache.
const STAY: Duration = Duration::from_millis(1_250);
/// The longest time for which a server may look for its size.
const SETTLING: Duration = Duration::from_secs(5);
/// The families of servers. Prefork has no threads, so it is in the tables as processes only.
const WORKER: &str = "Apache worker";
const EVENT: &str = "Apache event";
const PREFORK: &str = "Apache prefork";
const OURS: &str = "ours";
/// Ours with the damped rule and the governor, which need no maintenance of a fixed pool.
const GOVERNED: &str = "ours, governed";
const FAMILIES: [&str; 5] = [WORKER, EVENT, PREFORK, OURS, GOVERNED];
/// Those with both settings.
const HYBRIDS: [&str; 4] = [WORKER, EVENT, OURS, GOVERNED];
/// The name of the wobbling load.
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
        let full = settings.full.then_some(study::SPAN);
        Terms {
            steady: settings.clients(if settings.full { &study::CLIENTS } else { usual }),
            span: full.unwrap_or(ms(if settings.quick { 400 } else { 3_200 })),
            stay,
            wobble: full.unwrap_or(stay * if settings.quick { 3 } else { 4 }),
            blocks: cases::blocks(settings),
            work: match (settings.full, settings.quick) {
                (true, _) => study::WORK,
                (_, true) => WORK_QUICK,
                _ => WORK,
            },
            quick: settings.quick,
        }
    }

    /// The settings that are run: both tables.
    fn tables(&self) -> &'static [Directives] {
        static ALL: [Directives; 4] = [THREADS, PROCESSES, THREADS_FIXED, PROCESSES_FIXED];
        if self.quick { &ALL[..1] } else { &ALL }
    }

    /// The families that run with a setting.
    fn families(&self, it: &Directives) -> Vec<&'static str> {
        let is_prefork = it.threads == 1;
        let is_fixed = it.spare_min == it.workers;
        let plays = |family: &&&str| match **family {
            PREFORK => is_prefork,
            GOVERNED => !is_fixed && !self.quick,
            EVENT => !self.quick,
            _ => true,
        };
        FAMILIES.iter().filter(plays).copied().collect()
    }

    fn loads(&self, path: &str) -> Vec<(String, Clients)> {
        let steady = self.steady.iter().map(|&clients| {
            let load = Clients::new(path, clients, self.span);
            // Apache checks once a second: it needs two checks to find its size, and they do not
            // count.
            let warmup = (self.span / 8 * 5).min(SETTLING);
            (steady(clients), Clients { warmup, ..load })
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
        GOVERNED => {
            let flags = format!("{} {}", it.flags("damped"), servers::GOVERNOR);
            Ok(servers::ours(stage, &name, &flags))
        }
        _ => {
            // A pool of fixed size needs no policy.
            let policy = if it.spare_min == it.workers { "static" } else { "apache" };
            Ok(servers::ours(stage, &name, &it.flags(policy)))
        }
    }
}

impl Exhibit for DirectivesTable {
    fn name(&self) -> &'static str {
        "directives"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let servers = terms.tables().iter().map(|it| terms.families(it).len() as u32).sum::<u32>();
        cases::effort(servers * terms.steady.len() as u32, terms.span, terms.blocks)
            .and(cases::effort(servers, terms.wobble, terms.blocks))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let terms = Terms::of(stage.settings());
        let toil = Toil::calibrate(stage)?;
        let mut all = Vec::new();
        for it in terms.tables() {
            for family in terms.families(it) {
                let path = match family {
                    OURS | GOVERNED => Some(toil.ours(terms.work)),
                    _ => toil.apache(terms.work),
                };
                let Some(path) = path else { continue };
                let web = server(stage, family, it)?;
                for (group, clients) in terms.loads(&path) {
                    all.push(Case { web: web.clone(), clients, x: 0.0, group });
                }
            }
        }
        let results = cases::play(stage, all, terms.blocks)?;
        Ok(draft(&results, toil, &terms))
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        draft(&Results::default(), Toil { round_ns: None }, &Terms::of(settings))
    }
}

fn draft(results: &Results, toil: Toil, terms: &Terms) -> Draft {
    let mut it = Draft::default();
    it.set("source", SOURCE);
    it.set("work", words::span(terms.work));
    it.set("staying", STAYING);
    it.set("guests", GUESTS);
    it.set("blocks", terms.blocks);
    let counts = HYBRIDS.into_iter().filter_map(|family| {
        let [threads, processes] = [&THREADS, &PROCESSES].map(|it| churned(results, family, it));
        let rate = against(results, family, [&THREADS, &PROCESSES], WOBBLING, rps)?;
        let counts = [threads?, processes?].map(|it| words::number(it.round()));
        Some([family.to_string(), counts[0].clone(), counts[1].clone(), words::compared(&rate)])
    });
    it.set("families", counts.collect::<Vec<_>>());
    it.published = study::table(&[THREADS, PROCESSES, THREADS_FIXED, PROCESSES_FIXED]);
    let (table_5, table_6) = ([&THREADS, &PROCESSES], [&THREADS_FIXED, &PROCESSES_FIXED]);
    it.set("maintained", ratios(results, table_5, terms));
    it.set("fixed", ratios(results, table_6, terms));
    it.flawed = side(results, table_5, terms);
    it.corrected = side(results, table_6, terms);
    // The churn, which the study blamed and did not count.
    bars(&mut it.together, results, terms, &[table_5, table_6].concat(), churn);
    it.facts = vec![toil.fact()];
    it.set("worker", WORKER);
    it.set("ours", OURS);
    for (family, churns, slower) in
        [(WORKER, "apache-churns", "apache-slower"), (OURS, "ours-churns", "ours-slower")]
    {
        let pair = [&THREADS, &PROCESSES].map(|it| results.find(&name(family, it), WOBBLING));
        if let [Some(threads), Some(processes)] = pair {
            let ratio = |[t, p]: [&WebRun; 2]| Some(churn(t)? / churn(p)?.max(1.0));
            it.expect_median(churns, &results.blockwise([threads, processes], ratio));
        }
        let rate = against(results, family, [&THREADS, &PROCESSES], WOBBLING, rps);
        it.expect_ratio(slower, rate.as_ref());
    }
    let fixed = against(results, WORKER, table_6, WOBBLING, rps);
    it.expect_ratio("fixed-faster", fixed.as_ref());
    it
}

/// Threads that come and go a minute when the load wobbles.
fn churned(results: &Results, family: &str, it: &Directives) -> Option<f64> {
    results.find(&name(family, it), WOBBLING).and_then(|at| results.median(at, churn))
}

/// Mostly threads against mostly processes for one family, by `figure`, where both were measured.
fn against(
    results: &Results,
    family: &str,
    pair: [&Directives; 2],
    load: &str,
    figure: cases::Figure,
) -> Option<stats::Comparison> {
    let [threads, processes] = pair.map(|it| results.find(&name(family, it), load));
    results.against(threads?, processes?, figure)
}

/// The loads: clients that stay, and the wobble.
fn loads(terms: &Terms) -> Vec<String> {
    terms.steady.iter().map(|it| steady(*it)).chain([WOBBLING.to_string()]).collect()
}

fn side(results: &Results, pair: [&Directives; 2], terms: &Terms) -> Part {
    let mut part = Part::default();
    for load in loads(terms) {
        for family in FAMILIES {
            for it in pair {
                let Some(at) = results.find(&name(family, it), &load) else { continue };
                part.row([
                    load.clone(),
                    name(family, it),
                    results.shown(at, rps),
                    results.shown(at, response_ms),
                    results.shown(at, whole_ms),
                    results.shown(at, p99_ms),
                    results.shown(at, inside_ms),
                    results.shown(at, cpu_ms),
                    results.shown(at, churn),
                    results.shown(at, refused),
                ]);
            }
        }
    }
    bars(&mut part, results, terms, &pair, response_ms);
    part
}

/// Mostly threads against mostly processes in each family, in words.
fn ratios(results: &Results, pair: [&Directives; 2], terms: &Terms) -> Vec<String> {
    let each = loads(terms).into_iter().flat_map(|load| {
        let families = HYBRIDS.into_iter().filter_map(|family| {
            let it = against(results, family, pair, &load, rps)?;
            Some(format!("{family} {} ({load})", words::compared(&it)))
        });
        families.collect::<Vec<String>>()
    });
    each.collect()
}

/// A figure of all families with these settings, a bar for each load.
fn bars(
    part: &mut Part,
    results: &Results,
    terms: &Terms,
    settings: &[&Directives],
    figure: cases::Figure,
) {
    let all = FAMILIES.iter().flat_map(|family| settings.iter().map(|it| name(family, it)));
    let servers: Vec<String> =
        all.filter(|name| results.find(name, WOBBLING).is_some_and(|at| results.has(at))).collect();
    for load in loads(terms) {
        let points = servers.iter().zip(1..).filter_map(|(server, x)| {
            results
                .point(results.find(server, &load)?, figure)
                .map(|it| Point { x: f64::from(x), ..it })
        });
        part.series(Series::measured(&load, points).drawn_as(Mark::Bar));
    }
    part.named(servers);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_full_size_it_is_as_published() {
        let full = Settings { full: true, ..Settings::default() };
        let terms = Terms::of(&full);
        assert_eq!(terms.steady, [10, 40, 70, 100]);
        assert_eq!((terms.work.as_millis(), terms.span.as_secs()), (200, 120));
    }
}
