//! The workload: show only, buy and sell only, mixed.
//!
//! The report repeats its measurement with clients that only show and with clients that only trade,
//! and finds no difference between the kinds of request. With a sleep of a second between requests
//! there cannot be one. Without the sleep the kinds differ, in CPU rather than in speed: with one
//! request at a time the kernel does nearly all of the work, so a second load point keeps sixteen
//! in flight, where the service itself becomes visible.

use crate::course::{self, Mix, ORDERS, PAUSE};
use crate::draft::{Draft, point};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::law::ceiling_rps;
use crate::stage::{Crowd, CrowdRun, Race, Settings, Stage, race_duration};
use crate::web::cases;
use document::{CameOut, Series};
use lab::metric::Metric;
use lab::plan::{LoadPoint, Plan};
use stats::{Comparison, median, words};
use std::collections::BTreeMap;
use std::time::Duration;

/// The crowd that sleeps: the size at which the published kinds were closest.
const CLIENTS: [u32; 1] = [100];
/// Connections of the clients that do not sleep.
const CONNECTIONS: u32 = 32;
/// Requests in flight on each.
const DEPTHS: [u32; 2] = [1, 16];
/// The two servers of the report.
const ENGINES: [&str; 2] = ["select", "pool"];
/// Runs of each crowd; the report has three, an interval needs six.
const RUNS: u32 = stats::VALUES_MIN as u32;
/// Start, forks and end of a crowd, beside its sleep.
const OVERHEAD: Duration = Duration::from_millis(500);

/// The exhibit.
pub struct Workload;

/// One crowd of one kind.
struct Kind {
    mix: Mix,
    engine: &'static str,
    /// The number of its run, from 0.
    number: u32,
    run: CrowdRun,
}

impl Exhibit for Workload {
    fn name(&self) -> &'static str {
        "workload"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let asleep = settings.scale.of(PAUSE) * ORDERS + OVERHEAD;
        let crowds = (settings.clients(&CLIENTS).len() * Mix::ALL.len() * ENGINES.len()) as u32;
        Effort::new(crowds * settings.blocks(RUNS), asleep).and(race_duration(&plan(settings)))
    }

    fn has_visitors(&self) -> bool {
        true
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let asleep = asleep(stage)?;
        let mut plan = plan(stage.settings());
        let arm = |name: &&str| stage.arm(name, &flags(name, stage.settings()));
        plan.arms = ENGINES.iter().map(arm).collect();
        plan.files = vec![stage.book()];
        let awake = stage.race(&plan)?;
        Ok(draft(stage.wait(PAUSE), &asleep, awake.as_ref(), &plan))
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        draft(PAUSE, &[], None, &plan(settings))
    }
}

/// A worker for each client, as in the report, and its tree of stocks, locked at each node.
fn flags(engine: &str, settings: &Settings) -> String {
    let most = settings.clients(&CLIENTS).into_iter().fold(CONNECTIONS, u32::max);
    match engine {
        "pool" => format!("--engine pool --workers {most} --index level-order --lock per-stock"),
        name => format!("--engine {name} --index level-order"),
    }
}

fn asleep(stage: &mut Stage<'_>) -> Result<Vec<Kind>, Fault> {
    let mut found = Vec::new();
    let settings = stage.settings().clone();
    for number in 0..settings.blocks(RUNS) {
        for clients in settings.clients(&CLIENTS) {
            for mix in Mix::ALL {
                for engine in ENGINES {
                    let name = format!("{engine}, {}", mix.name());
                    let server = format!("{} --framing fixed:8192", flags(engine, &settings));
                    let crowd = Crowd::course(&name, server, clients, stage.wait(PAUSE), mix);
                    let Some((run, _)) = stage.crowd(&crowd)? else { return Ok(found) };
                    found.push(Kind { mix, engine, number, run });
                }
            }
        }
    }
    Ok(found)
}

fn point_name(mix: Mix, depth: u32) -> String {
    format!("{}, depth {depth}", mix.name())
}

/// The same kinds without the sleep; the stage replaces the arms by real ones.
fn plan(settings: &Settings) -> Plan {
    let mut points = Vec::new();
    for depth in DEPTHS {
        points.extend(Mix::ALL.map(|mix| LoadPoint {
            name: point_name(mix, depth),
            connections: CONNECTIONS,
            depth,
            mix: mix.flag().to_string(),
            ..LoadPoint::default()
        }));
    }
    let arm = |name: &str| lab::plan::Arm { name: name.to_string(), ..Default::default() };
    Plan {
        question: "What does each kind of request cost?".to_string(),
        label: Plan::label_for(settings.blocks(8)).to_string(),
        arms: ENGINES.map(arm).to_vec(),
        baseline: ENGINES[0].to_string(),
        twin: false,
        points,
        blocks: settings.blocks(8),
        seed: u64::from(settings.seed),
        warmup_ms: settings.window(Duration::from_millis(150)).as_millis() as u64,
        window_ms: settings.window(Duration::from_millis(500)).as_millis() as u64,
        metrics: vec![Metric::Throughput, Metric::Cpu],
        ..Plan::default()
    }
}

/// Showing against trading on one engine, at one depth: CPU per request.
fn show_over_trade(race: &Race, engine: &str, depth: u32) -> Option<Comparison> {
    let names = [Mix::Show, Mix::Trade].map(|mix| point_name(mix, depth));
    race.across(engine, [&names[0], &names[1]], Metric::Cpu)
}

fn draft(pause: Duration, asleep: &[Kind], awake: Option<&Race>, plan: &Plan) -> Draft {
    let mut it = Draft::default();
    let apart_each = apart(asleep);
    let apart = median(&apart_each);
    let deep = DEPTHS[DEPTHS.len() - 1];
    let found = awake.and_then(|race| show_over_trade(race, ENGINES[0], deep));
    it.set("source", course::SOURCE);
    it.set("orders", ORDERS);
    it.set("pause", words::span(pause));
    it.set("connections", CONNECTIONS);
    it.set("deep", deep);
    it.set("blocks", plan.blocks);
    it.set("plan", plan.hash());
    it.set("apart", apart.map(words::percent));
    it.compare("show", found.as_ref());
    it.published.rows = course::throughputs(&[Mix::Show, Mix::Trade]);
    for kind in asleep.iter().filter(|it| it.number == 0) {
        let same = |it: &&Kind| {
            (it.mix, it.engine, it.run.clients) == (kind.mix, kind.engine, kind.run.clients)
        };
        let rates: Vec<f64> = asleep.iter().filter(same).map(|it| it.run.orders_per_s).collect();
        let share = median(&rates).unwrap_or(0.0) / ceiling_rps(kind.run.clients, pause);
        it.flawed.row([
            kind.mix.name().to_string(),
            kind.engine.to_string(),
            words::count(kind.run.clients),
            cases::said(&rates),
            words::percent(share),
        ]);
    }
    if let Some(race) = awake {
        rows_awake(&mut it, race);
    }
    let each = DEPTHS.iter().flat_map(|depth| ENGINES.map(|engine| (engine, *depth)));
    let each = each.filter_map(|(engine, depth)| {
        let it = show_over_trade(awake?, engine, depth)?;
        Some(format!("{} on {engine} with {depth} in flight", words::compared(&it)))
    });
    it.set("each", each.collect::<Vec<_>>());
    it.expect_median("equal-asleep", &apart_each);
    if let Some(found) = &found {
        let holds = found.interval.is_some_and(|range| range.low > 1.0 || range.high < 1.0);
        it.claim_ratio("differ-awake", if holds { CameOut::Yes } else { CameOut::Open }, found);
    }
    it
}

/// The distance between the slowest and the quickest of all crowds of one size, run by run, at the
/// size where it is largest.
fn apart(asleep: &[Kind]) -> Vec<f64> {
    let mut all: BTreeMap<u32, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    for kind in asleep {
        let runs = all.entry(kind.run.clients).or_default();
        runs.entry(kind.number).or_default().push(kind.run.orders_per_s);
    }
    let spread = |rates: &Vec<f64>| {
        let high = rates.iter().copied().fold(0.0, f64::max);
        high / rates.iter().copied().fold(f64::INFINITY, f64::min) - 1.0
    };
    let sizes = all.values().map(|runs| runs.values().map(spread).collect::<Vec<f64>>());
    let middle = |all: &Vec<f64>| median(all).unwrap_or(0.0);
    sizes.max_by(|a, b| middle(a).total_cmp(&middle(b))).unwrap_or_default()
}

fn rows_awake(it: &mut Draft, race: &Race) {
    for depth in DEPTHS {
        for mix in Mix::ALL {
            for engine in ENGINES {
                let at = point_name(mix, depth);
                let Some(arm) = race.arm(&at, engine) else { continue };
                let trade = point_name(Mix::Trade, depth);
                let against = race.across(engine, [&at, &trade], Metric::Cpu);
                it.corrected.row([
                    mix.name().to_string(),
                    depth.to_string(),
                    engine.to_string(),
                    words::or_none(arm.throughput_rps, words::number),
                    words::or_none(arm.cpu_ns, words::micros),
                    match (mix, against) {
                        (Mix::Trade, _) => "1".to_string(),
                        (_, Some(it)) => words::compared(&it),
                        (_, None) => words::NONE.to_string(),
                    },
                ]);
            }
        }
    }
    for engine in ENGINES {
        let points = DEPTHS.iter().filter_map(|&depth| {
            Some(point(f64::from(depth), &show_over_trade(race, engine, depth)?))
        });
        it.corrected.series(Series::measured(engine, points));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowds_are_compared_only_with_crowds_of_their_size() {
        let kind = |clients, orders_per_s| Kind {
            mix: Mix::Show,
            engine: "select",
            number: 0,
            run: CrowdRun { clients, orders_per_s, ..CrowdRun::default() },
        };
        let found = apart(&[kind(10, 10.0), kind(10, 9.0), kind(100, 99.0)]);
        assert!((found[0] - 10.0 / 9.0 + 1.0).abs() < 1e-9, "{found:?}");
        assert!(apart(&[]).is_empty());
    }
}
