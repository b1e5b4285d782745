//! The lock at each stock: its cost and its benefit.
//!
//! The course requires a readers-writers lock at every stock, and expects the threads to gain from
//! it. Whether a lock pays depends on how often threads wait for it; with ten stocks and requests
//! of some microseconds between sleeps of a second they never do. Here the same pool of threads
//! runs with three disciplines, with sleeping clients, and taking turns without a sleep.

use crate::course::{Mix, ORDERS, PAUSE, SOURCE};
use crate::draft::{Draft, point};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::stage::{Crowd, CrowdRun, Race, Settings, Stage, race_duration};
use crate::web::cases;
use document::{Mark, Series};
use lab::metric::Metric;
use lab::plan::{Arm, LoadPoint, Plan, Turns};
use stats::{Comparison, median, words};
use std::time::Duration;

/// The disciplines of `serve stock --lock`, and the report's own structure: its tree in level order
/// with a lock at each node. The others are compared with the first.
const LOCKS: [&str; 4] = ["snapshot", "per-stock", "global", TREE];
const TREE: &str = "tree";
/// Runs of each crowd; an interval needs six.
const RUNS: u32 = stats::VALUES_MIN as u32;
/// The crowd that sleeps.
const CLIENTS: [u32; 1] = [100];
/// Connections of the clients that do not sleep.
const CONNECTIONS: u32 = 32;
/// Requests in flight on each: at this depth the service is visible beside the kernel.
const DEPTH: u32 = 16;
/// The time for which the client stays with one server.
const WINDOW: Duration = Duration::from_millis(40);
/// Start, forks and end of a crowd, beside its sleep.
const OVERHEAD: Duration = Duration::from_millis(500);

/// The exhibit.
pub struct StockLock;

/// The crowds of one size at one discipline.
struct Locked {
    lock: &'static str,
    clients: u32,
    /// Run by run.
    runs: Vec<CrowdRun>,
}

impl Exhibit for StockLock {
    fn name(&self) -> &'static str {
        "stock-lock"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let crowds =
            (settings.clients(&CLIENTS).len() * LOCKS.len()) as u32 * settings.blocks(RUNS);
        let asleep = Effort::new(crowds, settings.scale.of(PAUSE) * ORDERS + OVERHEAD);
        asleep.and(race_duration(&plan(settings)))
    }

    fn has_visitors(&self) -> bool {
        true
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let asleep = asleep(stage)?;
        let mut plan = plan(stage.settings());
        plan.files = vec![stage.book()];
        for arm in &mut plan.arms {
            *arm = stage.arm(&arm.name, &flags(&arm.name, stage.settings()));
        }
        let awake = stage.race(&plan)?;
        Ok(draft(stage.wait(PAUSE), &asleep, awake.as_ref()))
    }

    #[cfg(test)]
    fn nothing(&self, _settings: &Settings) -> Draft {
        draft(PAUSE, &[], None)
    }
}

/// A worker for each client, as in the report.
fn flags(lock: &str, settings: &Settings) -> String {
    let workers = settings.clients(&CLIENTS).into_iter().fold(CONNECTIONS, u32::max);
    let lock = if lock == TREE { "per-stock --index level-order" } else { lock };
    format!("--engine pool --workers {workers} --lock {lock}")
}

fn asleep(stage: &mut Stage<'_>) -> Result<Vec<Locked>, Fault> {
    let mut found: Vec<Locked> = Vec::new();
    let settings = stage.settings().clone();
    for _ in 0..settings.blocks(RUNS) {
        for clients in settings.clients(&CLIENTS) {
            for lock in LOCKS {
                let server = format!("{} --framing fixed:8192", flags(lock, &settings));
                let crowd = Crowd::course(lock, server, clients, stage.wait(PAUSE), Mix::Mixed);
                let Some((run, _)) = stage.crowd(&crowd)? else { return Ok(found) };
                let same = |it: &&mut Locked| (it.lock, it.clients) == (lock, clients);
                match found.iter_mut().find(same) {
                    Some(it) => it.runs.push(run),
                    None => found.push(Locked { lock, clients, runs: vec![run] }),
                }
            }
        }
    }
    Ok(found)
}

/// The distance between the quickest and the slowest discipline at the largest size, run by run.
fn apart(asleep: &[Locked]) -> Vec<f64> {
    let most = asleep.iter().map(|it| it.clients).max();
    let same: Vec<&Locked> = asleep.iter().filter(|it| Some(it.clients) == most).collect();
    let whole = same.iter().map(|it| it.runs.len()).min().unwrap_or(0);
    let count = if same.len() == LOCKS.len() { whole } else { 0 };
    let spread = |at: usize| {
        let rates = || same.iter().map(|it| it.runs[at].orders_per_s);
        rates().fold(0.0, f64::max) / rates().fold(f64::INFINITY, f64::min) - 1.0
    };
    (0..count).map(spread).collect()
}

/// The servers take turns at each mix; the stage adds commands and files.
fn plan(settings: &Settings) -> Plan {
    let arm = |lock: &str| Arm { name: lock.to_string(), ..Arm::default() };
    let point = |mix: Mix| LoadPoint {
        name: mix.name().to_string(),
        connections: CONNECTIONS,
        depth: DEPTH,
        mix: mix.flag().to_string(),
        ..LoadPoint::default()
    };
    let windows = settings.window(WINDOW * 20).div_duration_f64(WINDOW).ceil() as u32;
    Plan {
        question: "What does a lock at each stock cost?".to_string(),
        arms: LOCKS.map(arm).to_vec(),
        baseline: LOCKS[0].to_string(),
        points: Mix::ALL.map(point).to_vec(),
        blocks: settings.blocks(8),
        window_ms: WINDOW.as_millis() as u64,
        warmup_ms: settings.window(Duration::from_millis(200)).as_millis() as u64,
        seed: u64::from(settings.seed),
        resamples: 0,
        metrics: vec![Metric::Cpu],
        turns: Some(Turns { windows, silent: 0, budget_ms: None }),
        ..Plan::default()
    }
}

/// One discipline against the first in one mix, as `other / first`.
struct Against<'a> {
    mix: Mix,
    lock: &'a str,
    found: &'a Comparison,
    cpu_ns: Option<f64>,
}

fn against(race: &Race) -> Vec<Against<'_>> {
    let others = race.plan().entrants().into_iter().skip(1);
    let others: Vec<String> = others.map(|arm| arm.name).collect();
    let all = Mix::ALL.into_iter().flat_map(|mix| others.iter().map(move |lock| (mix, lock)));
    all.filter_map(|(mix, lock)| {
        let it = race.arm(mix.name(), lock)?;
        let found = &it.judged(Metric::Cpu)?.comparison;
        Some(Against { mix, lock: &it.arm, found, cpu_ns: it.cpu_ns })
    })
    .collect()
}

fn draft(pause: Duration, asleep: &[Locked], awake: Option<&Race>) -> Draft {
    let mut it = Draft::default();
    let all = awake.map(against).unwrap_or_default();
    let per_stock = |mix: Mix| {
        let found = all.iter().find(|it| it.mix == mix && it.lock == LOCKS[1]);
        found.map(|it| it.found)
    };
    it.set("source", SOURCE);
    it.set("orders", ORDERS);
    it.set("pause", words::span(pause));
    it.set("connections", CONNECTIONS);
    it.set("depth", DEPTH);
    it.set("window_ms", WINDOW.as_millis() as u64);
    it.compare("mixed", per_stock(Mix::Mixed));
    it.compare("show", per_stock(Mix::Show));
    it.compare("trade", per_stock(Mix::Trade));
    rows(&mut it, asleep, &all);
    it.corrected.named(Mix::ALL.map(Mix::name));
    for (at, mix) in Mix::ALL.iter().enumerate() {
        for other in all.iter().filter(|it| it.mix == *mix) {
            let point = point(at as f64 + 1.0, other.found);
            let series = &mut it.corrected.series;
            match series.iter_mut().find(|line| line.name == other.lock) {
                Some(line) => line.points.push(point),
                None => series.push(Series::measured(other.lock, [point]).drawn_as(Mark::Point)),
            }
        }
    }
    let apart = apart(asleep);
    it.set("apart", median(&apart).map(words::percent));
    it.expect_median("equal-asleep", &apart);
    it.expect_ratio("lock-costs", per_stock(Mix::Show));
    it
}

fn rows(it: &mut Draft, asleep: &[Locked], all: &[Against<'_>]) {
    for locked in asleep {
        let of = |figure: fn(&CrowdRun) -> f64| {
            cases::said(&locked.runs.iter().map(figure).collect::<Vec<f64>>())
        };
        it.flawed.row([
            locked.lock.to_string(),
            words::count(locked.clients),
            of(|run| run.orders_per_s),
            of(|run| run.elapsed_s),
        ]);
    }
    for against in all {
        it.corrected.row([
            against.mix.name().to_string(),
            against.lock.to_string(),
            words::or_none(against.cpu_ns, words::micros),
            words::compared(against.found),
        ]);
    }
}
