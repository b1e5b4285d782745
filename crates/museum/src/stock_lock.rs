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
use document::{Mark, Series};
use lab::metric::Metric;
use lab::plan::{Arm, LoadPoint, Plan, Turns};
use stats::Comparison;
use stats::words;
use std::time::Duration;

/// The disciplines of `serve stock --lock`; the others are compared with the first.
const LOCKS: [&str; 3] = ["snapshot", "per-stock", "global"];
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

/// One crowd at one discipline.
struct Locked {
    lock: &'static str,
    run: CrowdRun,
}

impl Exhibit for StockLock {
    fn name(&self) -> &'static str {
        "stock-lock"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let crowds = (settings.clients(&CLIENTS).len() * LOCKS.len()) as u32;
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
            *arm = stage.arm(&arm.name, &flags(&arm.name));
        }
        let awake = stage.race(&plan)?;
        Ok(draft(stage.wait(PAUSE), &asleep, awake.as_ref()))
    }

    #[cfg(test)]
    fn nothing(&self, _settings: &Settings) -> Draft {
        draft(PAUSE, &[], None)
    }
}

fn flags(lock: &str) -> String {
    let workers = CONNECTIONS.max(CLIENTS[0]);
    format!("--engine pool --workers {workers} --lock {lock}")
}

fn asleep(stage: &mut Stage<'_>) -> Result<Vec<Locked>, Fault> {
    let mut found = Vec::new();
    for clients in stage.settings().clients(&CLIENTS) {
        for lock in LOCKS {
            let server = format!("{} --framing fixed:8192", flags(lock));
            let crowd = Crowd::course(lock, server, clients, stage.wait(PAUSE), Mix::Mixed);
            let Some((run, _)) = stage.crowd(&crowd)? else { return Ok(found) };
            found.push(Locked { lock, run });
        }
    }
    Ok(found)
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
    let rates = || asleep.iter().map(|it| it.run.orders_per_s);
    let ends = rates().max_by(f64::total_cmp).zip(rates().min_by(f64::total_cmp));
    let apart = ends.map(|(high, low)| high / low - 1.0);
    it.set("apart", apart.map(words::percent));
    it.expect("equal-asleep", apart.filter(|_| asleep.len() == LOCKS.len()));
    it.expect_ratio("lock-costs", per_stock(Mix::Show));
    it
}

fn rows(it: &mut Draft, asleep: &[Locked], all: &[Against<'_>]) {
    for locked in asleep {
        it.flawed.row([
            locked.lock.to_string(),
            words::count(locked.run.clients),
            words::number(locked.run.orders_per_s),
            words::seconds(locked.run.elapsed_s),
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
