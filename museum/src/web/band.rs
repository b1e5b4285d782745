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
/// A server finds its size in this time, which does not count: Apache's rule needs some checks, and
/// ends one process a second.
const SETTLING: Duration = Duration::from_secs(5);
/// The time for which each run is watched after that. One process that ends is 100 threads a minute
/// here.
const WATCHED: Duration = Duration::from_secs(30);
/// Widths of the band, in processes.
const WIDTHS: [u32; 3] = [1, 2, 4];
/// The two kinds of load.
const WOBBLING: &str = "wobbling";
const STEADY: &str = "steady";
/// The two rules, a pool of fixed size, ours with the governor, and real Apache. Since 2.4 Apache
/// raises the most spare threads to the fewest and one process with its listener: 75 to 76.
const APACHE: &str = "apache";
const DAMPED: &str = "damped";
const FIXED: &str = "static";
const GOVERNED: &str = "damped, governed";
const REAL: &str = "Apache 2.4 worker";
/// The time for which the last servers are watched after the last client has left: Apache's rule
/// ends a process a second, ours waits ten seconds, and at most thirty.
const DROP: [(&str, Duration); 2] =
    [(APACHE, Duration::from_secs(8)), (DAMPED, Duration::from_secs(35))];
/// The time for which a hundred clients are there before they leave.
const DROPPED: Duration = Duration::from_secs(3);
/// The same where it has to be quick.
const DROP_QUICK: [(&str, Duration); 1] = [(DAMPED, Duration::from_millis(300))];

/// The exhibit.
pub struct Band;

struct Terms {
    stay: Duration,
    settling: Duration,
    watched: Duration,
    widths: &'static [u32],
    drop: &'static [(&'static str, Duration)],
    blocks: u32,
    work: Duration,
    quick: bool,
}

impl Terms {
    fn of(settings: &Settings) -> Terms {
        let (ms, quick) = (Duration::from_millis, settings.quick);
        Terms {
            stay: if quick { ms(200) } else { STAY },
            settling: if quick { ms(400) } else { SETTLING },
            // A minute of each run at full size; at any scale a few of Apache's checks.
            watched: match (quick, settings.full) {
                (true, _) => ms(600),
                (_, true) => WATCHED * 2,
                _ => settings.scale.of(WATCHED).max(STAY * 4),
            },
            widths: if quick { &WIDTHS[..1] } else { &WIDTHS },
            drop: if quick { &DROP_QUICK } else { &DROP },
            blocks: cases::blocks(settings),
            work: if quick { WORK_QUICK } else { WORK },
            quick,
        }
    }

    fn span(&self) -> Duration {
        self.settling + self.watched
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
        let wide = 2 * terms.widths.len() as u32 + 3;
        let still = if terms.quick { 1 } else { 5 };
        let drops = terms.drop.iter().map(|(_, linger)| *linger + DROPPED);
        cases::effort(wide + still, terms.span(), terms.blocks)
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
    /// Guests come and go.
    fn wobbling(&self, path: &str) -> Clients {
        let clients = Clients::new(path, STAYING, self.span());
        Clients { guests: GUESTS, stay: self.stay, warmup: self.settling, ..clients }
    }

    fn steady(&self, path: &str) -> Clients {
        let clients = Clients::new(path, STAYING + GUESTS / 2, self.span());
        Clients { warmup: self.settling, ..clients }
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
        if width == 1 && (!terms.quick || web.name == APACHE) {
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
    let governed = format!("{} {}", directives(1).flags(DAMPED), servers::GOVERNOR);
    add(servers::ours(stage, GOVERNED, &governed), &path, 1);
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
        let clients = Clients { linger, ..Clients::new(&toil.ours(terms.work), 100, DROPPED) };
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
