//! The band of spare threads against the size of a process.
//!
//! Apache counts spare workers one by one but starts and ends them by the process. The published
//! setting has a band of 50 (25 to 75) and processes of 50 threads: as wide as the quantum. The
//! exhibit separates three questions: how many threads start and end (churn), what triggers it (a
//! load that wobbles, not the number of clients), and its cost.

mod report;

#[cfg(test)]
use super::cases::Results;
use super::cases::{self, Case};
use super::servers::{self, Directives, Toil};
use super::study;
use crate::draft::Draft;
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Clients, Settings, Stage, WebRun};
use std::time::Duration;

/// Computing of each request, and where it has to be quick: then a busy machine answers some of
/// them in a window of a few hundred milliseconds.
const WORK: Duration = Duration::from_millis(5);
const WORK_QUICK: Duration = Duration::from_millis(1);
/// Clients that stay, and guests: 19 to 31 busy, 25 in the mean.
const STAYING: u32 = 19;
const GUESTS: u32 = 12;
/// Guests stay this long and are away as long: Apache checks once a second.
const STAY: Duration = Duration::from_millis(1_250);
/// Widths of the band, in processes.
const WIDTHS: [u32; 4] = [1, 2, 3, 4];
/// The two kinds of load.
const WOBBLING: &str = "wobbling";
const STEADY: &str = "steady";
/// The two rules, a pool of fixed size, and real Apache.
const APACHE: &str = "apache";
const DAMPED: &str = "damped";
const FIXED: &str = "static";
const REAL: &str = "Apache 2.4 worker";
/// The time for which the last servers are watched after the last client has left: Apache's rule
/// ends a process a second, ours waits ten seconds, and at most thirty.
const DROP: [(&str, Duration); 2] =
    [(APACHE, Duration::from_secs(8)), (DAMPED, Duration::from_secs(35))];
/// The same where it has to be quick.
const DROP_QUICK: [(&str, Duration); 1] = [(DAMPED, Duration::from_millis(300))];

/// The exhibit.
pub struct Band;

struct Terms {
    stay: Duration,
    wobble: Duration,
    steady: Duration,
    widths: &'static [u32],
    drop: &'static [(&'static str, Duration)],
    blocks: u32,
    work: Duration,
    quick: bool,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let ms = Duration::from_millis;
        let blocks = cases::blocks(settings);
        match settings.quick {
            true => Terms {
                stay: ms(200),
                wobble: ms(1_000),
                steady: ms(400),
                widths: &WIDTHS[..1],
                drop: &DROP_QUICK,
                blocks,
                work: WORK_QUICK,
                quick: true,
            },
            false => Terms {
                stay: STAY,
                wobble: STAY * 5,
                steady: ms(3_200),
                widths: &WIDTHS,
                drop: &DROP,
                blocks,
                work: WORK,
                quick: false,
            },
        }
    }
}

/// Idle workers after the last client.
struct Drop {
    server: String,
    looks: Vec<(f64, u32)>,
    spare_max: u32,
}

impl Exhibit for Band {
    fn name(&self) -> &'static str {
        "spare-band"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let terms = Terms::of(settings);
        let wide = 2 * terms.widths.len() as u32 + 2;
        let still = if terms.quick { 1 } else { wide };
        let drops = terms.drop.iter().map(|(_, linger)| *linger + terms.steady);
        cases::effort(wide, terms.wobble, terms.blocks)
            .and(cases::effort(still, terms.steady, terms.blocks))
            .and(Effort { steps: terms.drop.len() as u32, time: drops.sum() })
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let terms = Terms::of(stage.settings());
        let toil = Toil::calibrate(stage)?;
        let cases = all_cases(stage, &terms, toil)?;
        let results = cases::play(stage, cases, terms.blocks)?;
        let drops = drops(stage, &terms, toil)?;
        Ok(report::draft(&results, &drops, &terms, toil))
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        let toil = Toil { round_ns: None };
        report::draft(&Results::default(), &[], &Terms::of(settings), toil)
    }
}

/// The published directives with a band of `width` processes.
fn directives(width: u32) -> Directives {
    let it = study::THREADS;
    Directives { spare_max: it.spare_min + width * it.threads, ..it }
}

impl Terms {
    /// Guests come and go; the first time does not count, because the server finds its size in it.
    fn wobbling(&self, path: &str) -> Clients {
        let clients = Clients::new(path, STAYING, self.wobble);
        Clients { guests: GUESTS, stay: self.stay, warmup: self.stay * 2, ..clients }
    }

    fn steady(&self, path: &str) -> Clients {
        let clients = Clients::new(path, STAYING + GUESTS / 2, self.steady);
        // Apache checks once a second: it needs two checks to find its size, and they do not count.
        Clients { warmup: self.steady / 8 * 5, ..clients }
    }
}

fn all_cases(stage: &Stage<'_>, terms: &Terms, toil: Toil) -> Result<Vec<Case>, Fault> {
    let mut cases = Vec::new();
    let mut add = |web: crate::stage::Web, path: &str, width: u32| {
        let case = |clients, load: &str| Case {
            web: web.clone(),
            clients,
            x: f64::from(width),
            group: group(load, width),
        };
        cases.push(case(terms.wobbling(path), WOBBLING));
        if !terms.quick || web.name == APACHE {
            cases.push(case(terms.steady(path), STEADY));
        }
    };
    let path = toil.ours(terms.work);
    for &width in terms.widths {
        for policy in [APACHE, DAMPED] {
            add(servers::ours(stage, policy, &directives(width).flags(policy)), &path, width);
        }
    }
    add(servers::ours(stage, FIXED, &directives(1).flags(FIXED)), &path, 1);
    if let Some(path) = toil.apache(terms.work) {
        add(servers::hybrid(REAL, "worker", &directives(1))?, &path, 1);
    }
    Ok(cases)
}

fn group(load: &str, width: u32) -> String {
    let plural = if width == 1 { "process" } else { "processes" };
    format!("{load}, band of {width} {plural}")
}

/// Lets all clients leave and counts the workers that stay.
fn drops(stage: &mut Stage<'_>, terms: &Terms, toil: Toil) -> Result<Vec<Drop>, Fault> {
    let mut found = Vec::new();
    for &(policy, linger) in terms.drop {
        let it = directives(1);
        let web = servers::ours(stage, policy, &it.flags(policy));
        let what = format!("{policy}, after the last client");
        stage.begin(&what);
        // At first a hundred are busy, so that workers can end later.
        let clients = Clients { linger, ..Clients::new(&toil.ours(terms.work), 100, terms.steady) };
        let Some(run) = stage.meet(&web, &clients)? else { break };
        let WebRun { churn, gone_s, .. } = run;
        let idle = |processes: u32| processes.saturating_sub(1) * it.threads;
        let looks: Vec<(f64, u32)> =
            churn.looks.iter().map(|(at, processes, _)| (at - gone_s, idle(*processes))).collect();
        let left = looks.last().map_or(0, |it| it.1);
        stage.step(&format!("{what}: {left} idle workers"));
        found.push(Drop { server: policy.to_string(), looks, spare_max: it.spare_max });
    }
    Ok(found)
}
