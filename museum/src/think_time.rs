//! Think time: clients that sleep between orders measure their own sleep.
//!
//! The course's clients sleep for a second after each order, so a thousand of them send at most a
//! thousand requests a second, and every server that can answer a few thousand looks the same. The
//! flawed run is the course's program; the corrected run sends the same mix to the same servers as
//! fast as replies come. At 500 and 1000 clients the published numbers fall short of the ceiling.
//! The servers are not the cause there either; see the exhibit on the accept queue.

use crate::course::{self, CLIENTS, Mix, ORDERS, PAUSE, WORKERS};
use crate::draft::{Draft, point};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::law::ceiling_rps;
use crate::stage::{Crowd, Race, Settings, Stage, race_duration};
use crate::web::cases;
use document::{CameOut, Point, Series};
use lab::metric::Metric;
use lab::plan::{LoadPoint, Plan};
use lab::verdict::Verdict;
use stats::{Comparison, median, median_interval, words};
use std::time::Duration;

/// The two servers of the report: its event-based one calls `select`, its thread-based one has a
/// pool of as many threads as there are clients.
const ENGINES: [&str; 2] = ["select", "pool"];
/// A third one, which the report discusses without measuring it.
const THIRD: &str = "epoll";
/// Replies of the course's kit, a block of 8192 bytes, from the report's tree of stocks.
const KIT: &str = "--framing fixed:8192 --index level-order";
/// The flags of the generator for them.
const FRAMING: &str = "--framing fixed:8192";
/// Runs of each crowd; the report has three, an interval needs six.
const RUNS: u32 = stats::VALUES_MIN as u32;
/// Start, forks and end of a crowd, beside its sleep.
const CROWD_OVERHEAD: Duration = Duration::from_millis(1_500);

/// From this share of the ceiling on, the sleep alone explains the requests.
const NEAR: f64 = 0.9;

/// The exhibit.
pub struct ThinkTime;

/// Crowds of sleepers of one size at one server.
struct Sleepers {
    clients: u32,
    /// Index into [`ENGINES`].
    side: usize,
    /// Orders per second, run by run.
    rates: Vec<f64>,
}

impl Exhibit for ThinkTime {
    fn name(&self) -> &'static str {
        "think-time"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let crowds = 2 * settings.clients(&CLIENTS).len() as u32 * settings.blocks(RUNS);
        let asleep = settings.scale.of(PAUSE) * ORDERS;
        Effort::new(crowds, asleep + CROWD_OVERHEAD).and(race_duration(&awake_plan(settings)))
    }

    fn has_visitors(&self) -> bool {
        true
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let asleep = asleep(stage)?;
        let settings = stage.settings().clone();
        let mut plan = awake_plan(&settings);
        plan.arms = ENGINES.iter().chain([&THIRD]).map(|name| arm(stage, name)).collect();
        plan.files = vec![stage.book()];
        let awake = stage.race(&plan)?;
        Ok(draft(stage.wait(PAUSE), &asleep, awake.as_ref(), &plan))
    }

    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft {
        draft(PAUSE, &[], None, &awake_plan(settings))
    }
}

/// The report's thread-based server has a lock at each node.
fn flags(name: &str) -> String {
    match name {
        "pool" => format!("--engine pool --workers {WORKERS} {KIT} --lock per-stock"),
        name => format!("--engine {name} {KIT}"),
    }
}

fn arm(stage: &Stage<'_>, name: &str) -> lab::plan::Arm {
    let mut arm = stage.arm(name, &flags(name));
    arm.load = FRAMING.split(' ').map(String::from).collect();
    arm.boot_ms_max = 30_000;
    arm
}

/// The course's clients as they are, at each server in turn.
fn asleep(stage: &mut Stage<'_>) -> Result<Vec<Sleepers>, Fault> {
    let mut found: Vec<Sleepers> = Vec::new();
    for _ in 0..stage.settings().blocks(RUNS) {
        for clients in stage.settings().clients(&CLIENTS) {
            for (side, name) in ENGINES.iter().enumerate() {
                let pause = stage.wait(PAUSE);
                let crowd = Crowd::course(name, flags(name), clients, pause, Mix::Mixed);
                let Some((run, _)) = stage.crowd(&crowd)? else { return Ok(found) };
                let same = |it: &&mut Sleepers| (it.clients, it.side) == (clients, side);
                match found.iter_mut().find(same) {
                    Some(it) => it.rates.push(run.orders_per_s),
                    None => found.push(Sleepers { clients, side, rates: vec![run.orders_per_s] }),
                }
            }
        }
    }
    Ok(found)
}

fn point_name(clients: u32) -> String {
    words::counted(clients, "client")
}

/// The same question without the sleep; the arms are added on a stage.
fn awake_plan(settings: &Settings) -> Plan {
    let point = |clients| LoadPoint {
        name: point_name(clients),
        connections: clients,
        mix: Mix::Mixed.flag().to_string(),
        series: "clients".to_string(),
        x: Some(f64::from(clients)),
        ..LoadPoint::default()
    };
    let names = ENGINES.iter().chain([&THIRD]);
    let arms = names.map(|name| lab::plan::Arm { name: name.to_string(), ..Default::default() });
    Plan {
        question: "Do the servers of the report differ when their clients do not sleep?".into(),
        label: Plan::label_for(settings.blocks(6)).to_string(),
        arms: arms.collect(),
        baseline: ENGINES[0].to_string(),
        points: settings.clients(&CLIENTS).into_iter().map(point).collect(),
        blocks: settings.blocks(6),
        seed: u64::from(settings.seed),
        warmup_ms: settings.window(Duration::from_millis(200)).as_millis() as u64,
        window_ms: settings.window(Duration::from_millis(600)).as_millis() as u64,
        metrics: vec![Metric::Throughput, Metric::Cpu, Metric::Mean, Metric::Max],
        ..Plan::default()
    }
}

fn draft(pause: Duration, asleep: &[Sleepers], awake: Option<&Race>, plan: &Plan) -> Draft {
    let mut it = Draft::default();
    let widest_each = widest(asleep);
    let widest = median(&widest_each);
    let largest = awake.and_then(|race| largest(race, plan));
    it.set("source", course::SOURCE);
    it.set("orders", ORDERS);
    it.set("pause", words::span(pause));
    it.set("workers", words::count(WORKERS));
    it.set("blocks", plan.blocks);
    it.set("window_ms", plan.window_ms);
    it.set("plan", plan.hash());
    it.set("widest", widest.map(words::percent));
    let reached = pairs(asleep).map(|(clients, [select, _])| {
        let share = words::percent(select / ceiling_rps(clients, pause));
        format!("{share} at {}", words::count(clients))
    });
    it.set("reached", reached.collect::<Vec<_>>());
    let near =
        |(clients, [select, _]): (u32, [f64; 2])| select > NEAR * ceiling_rps(clients, pause);
    it.set("is_near", pairs(asleep).all(near));
    it.set("largest", largest.as_ref());
    it.published.rows = course::throughputs(&[Mix::Mixed]);
    rows_asleep(&mut it, asleep, pause);
    if let Some(race) = awake {
        rows_awake(&mut it, race, plan);
    }
    together(&mut it, asleep, awake, plan, pause);
    it.expect_median("equal-asleep", &widest_each);
    let shares = asleep.iter().flat_map(|it| {
        let ceiling = ceiling_rps(it.clients, pause);
        it.rates.iter().map(move |rate| rate / ceiling)
    });
    it.expect("below-ceiling", shares.max_by(f64::total_cmp));
    let speed = |point: &LoadPoint| awake?.arm(&point.name, ENGINES[0])?.throughput_rps;
    let awake = plan.points.first().and_then(speed);
    it.expect("freed", awake.zip(pairs(asleep).next()).map(|(awake, (_, [it, _]))| awake / it));
    if let Some(largest) = largest {
        it.claim_ratio("differ-awake", largest.came_out, &largest.comparison);
    }
    it
}

/// The relative differences between the two servers at the size where their median is largest, run
/// by run.
fn widest(asleep: &[Sleepers]) -> Vec<f64> {
    let both = asleep.chunks_exact(2).map(|pair| {
        let runs = pair[0].rates.iter().zip(&pair[1].rates);
        runs.map(|(a, b)| (b / a - 1.0).abs()).collect::<Vec<f64>>()
    });
    let middle = |all: &Vec<f64>| median(all).unwrap_or(0.0);
    both.max_by(|a, b| middle(a).total_cmp(&middle(b))).unwrap_or_default()
}

/// Median requests per second of both servers, where both were measured.
fn pairs(asleep: &[Sleepers]) -> impl Iterator<Item = (u32, [f64; 2])> {
    let rate = |it: &Sleepers| median(&it.rates).unwrap_or(0.0);
    asleep.chunks_exact(2).map(move |pair| (pair[0].clients, [rate(&pair[0]), rate(&pair[1])]))
}

/// The largest difference in CPU per request that was found without the sleep.
#[derive(serde::Serialize)]
struct Largest {
    #[serde(skip)]
    comparison: Comparison,
    #[serde(skip)]
    came_out: CameOut,
    point: String,
    cpu: String,
    speed: Option<String>,
}

fn largest(race: &Race, plan: &Plan) -> Option<Largest> {
    let candidates = plan
        .points
        .iter()
        .filter_map(|point| Some((point, race.judged(&point.name, ENGINES[1], Metric::Cpu)?)));
    let far = |ratio: f64| ratio.ln().abs();
    let (point, judged) = candidates
        .max_by(|a, b| far(a.1.comparison.ratio).total_cmp(&far(b.1.comparison.ratio)))?;
    let speed = race.judged(&point.name, ENGINES[1], Metric::Throughput);
    Some(Largest {
        comparison: judged.comparison.clone(),
        came_out: match judged.verdict {
            Verdict::Better | Verdict::Worse => CameOut::Yes,
            Verdict::Equivalent => CameOut::No,
            Verdict::Unresolved | Verdict::GeneratorLimited => CameOut::Open,
        },
        point: point.name.clone(),
        cpu: words::compared(&judged.comparison),
        speed: speed.map(|it| words::ratio(it.comparison.ratio)),
    })
}

fn rows_asleep(it: &mut Draft, asleep: &[Sleepers], pause: Duration) {
    for (clients, [select, pool]) in pairs(asleep) {
        let published = course::published_rps(Mix::Mixed, 0, clients);
        it.flawed.row([
            words::count(clients),
            words::number(ceiling_rps(clients, pause)),
            shown(asleep, clients, 0),
            shown(asleep, clients, 1),
            format!("{:.3}", pool / select),
            words::or_none(published, |it| words::percent(it / ceiling_rps(clients, PAUSE))),
        ]);
    }
}

/// The median of a server's crowds of one size, with its interval.
fn shown(asleep: &[Sleepers], clients: u32, side: usize) -> String {
    let same = asleep.iter().find(|it| (it.clients, it.side) == (clients, side));
    same.map_or(words::NONE.to_string(), |it| cases::said(&it.rates))
}

fn rows_awake(it: &mut Draft, race: &Race, plan: &Plan) {
    for point in &plan.points {
        let speed = |name: &str| {
            let arm = race.arm(&point.name, name);
            words::or_none(arm.and_then(|arm| arm.throughput_rps), words::number)
        };
        let judged = |name: &str| match race.judged(&point.name, name, Metric::Cpu) {
            Some(it) => {
                let word = it.verdict.word(it.metric);
                format!("{} {word}", words::compared(&it.comparison))
            }
            None => words::NONE.to_string(),
        };
        // The report promised both and printed neither.
        let latency = |name: &str| {
            let arm = race.arm(&point.name, name);
            let both = arm.and_then(|arm| Some([arm.mean_ns?, arm.max_ns?]));
            both.map_or(words::NONE.to_string(), |both| both.map(words::time).join(" and "))
        };
        it.corrected.row([
            words::count(point.connections),
            speed(ENGINES[0]),
            speed(ENGINES[1]),
            speed(THIRD),
            latency(ENGINES[0]),
            latency(ENGINES[1]),
            judged(ENGINES[1]),
            judged(THIRD),
        ]);
    }
    for name in [ENGINES[1], THIRD] {
        let points = plan.points.iter().filter_map(|at| {
            let judged = race.judged(&at.name, name, Metric::Cpu)?;
            Some(point(f64::from(at.connections), &judged.comparison))
        });
        it.corrected.series(Series::measured(format!("{name} / select"), points));
    }
}

fn together(
    it: &mut Draft,
    asleep: &[Sleepers],
    awake: Option<&Race>,
    plan: &Plan,
    pause: Duration,
) {
    course::series(Mix::Mixed).into_iter().for_each(|published| it.together.series(published));
    for (side, name) in ENGINES.iter().enumerate() {
        let same = asleep.iter().filter(|it| it.side == side);
        let points = same.map(|it| {
            let range = median_interval(&it.rates).map(|it| (it.low, it.high));
            Point { x: f64::from(it.clients), y: median(&it.rates).unwrap_or(0.0), range }
        });
        let name = format!("{name}, sleep of {}", words::span(pause));
        it.together.series(Series::measured(name, points));
    }
    for name in ENGINES.iter().chain([&THIRD]) {
        let points = plan.points.iter().filter_map(|point| {
            let speed = awake?.arm(&point.name, name)?.throughput_rps?;
            Some((f64::from(point.connections), speed))
        });
        it.together.series(Series::measured(format!("{name}, no sleep"), points));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sleep_is_blamed_only_where_it_explains_the_requests() {
        let check = |orders_per_s: f64, want: &str| {
            let rates = || vec![orders_per_s];
            let pair = [0, 1].map(|side| Sleepers { clients: 100, side, rates: rates() });
            let plan = awake_plan(&Settings::default());
            let document = draft(PAUSE, &pair, None, &plan).document(&ThinkTime.text());
            let finding = document.expect("it fits").flawed.finding;
            assert!(finding.starts_with(want), "{finding}");
        };
        check(98.0, "The sleep, not a server, limits the requests");
        check(41.7, "Not only the sleep limits the requests here");
    }
}
