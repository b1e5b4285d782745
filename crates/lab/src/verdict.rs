//! From trials to words: ratio, interval, verdict, forecast, for every arm, point and metric.
//!
//! A verdict is one of four, and the fourth is the point of it all: *unresolved*. Better and worse
//! need an interval wholly beyond the A/A floor, which is how far the baseline's own twin strayed
//! from it; equivalent needs an interval wholly inside the margin that the plan declared before the
//! race. The surprising thing is a fifth word: where the generator was the bottleneck, a speed says
//! nothing about the server, and only a bound in one direction survives.

use crate::load::Load;
use crate::plan::Plan;
use crate::record::Run;
use crate::stats::{Comparison, VALUES_MIN, compare, median};
use crate::trial::{Ending, Trial};
use serde::{Deserialize, Serialize};

/// A generator busier than this decides the speed itself (method: 80 %).
pub const BUSY_MAX: f64 = 0.8;

/// Forecasts beyond so many blocks are told as "more than".
pub const FORECAST_MAX: u32 = 1_000;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Answered requests per second.
    Throughput,
    /// Server CPU nanoseconds per request.
    Cpu,
    /// Median service time, nanoseconds.
    P50,
    /// 99th percentile of the service time, nanoseconds.
    P99,
}

impl Metric {
    /// All, in the order of tables.
    pub const ALL: [Metric; 4] = [Metric::Throughput, Metric::Cpu, Metric::P50, Metric::P99];

    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "requests/s",
            Metric::Cpu => "CPU per request",
            Metric::P50 => "median service time",
            Metric::P99 => "p99 service time",
        }
    }

    /// Its value in one trial.
    pub fn of(self, load: &Load) -> Option<f64> {
        match self {
            Metric::Throughput => Some(load.throughput_rps),
            Metric::Cpu => load.server.as_ref()?.cpu_ns_per_request,
            Metric::P50 => load.service.p50_ns,
            Metric::P99 => load.service.p99_ns,
        }
    }

    /// +1 where more is better, -1 where less is.
    fn sign(self) -> f64 {
        if self == Metric::Throughput { 1.0 } else { -1.0 }
    }

    /// Whether a busy generator spoils it. The server's CPU time per request is counted on the
    /// server and stays.
    fn needs_generator(self) -> bool {
        self != Metric::Cpu
    }
}

/// What can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the baseline.
    Better,
    /// Worse than the baseline.
    Worse,
    /// The same, within the margin.
    Equivalent,
    /// Nothing can be concluded.
    Unresolved,
    /// The generator was the bottleneck.
    GeneratorLimited,
}

impl Verdict {
    /// The word for it, by metric.
    pub fn word(self, metric: Metric) -> &'static str {
        match (self, metric) {
            (Verdict::Better, Metric::Cpu) => "cheaper",
            (Verdict::Worse, Metric::Cpu) => "costlier",
            (Verdict::Better, _) => "faster",
            (Verdict::Worse, _) => "slower",
            (Verdict::Equivalent, _) => "equivalent",
            (Verdict::Unresolved, _) => "unresolved",
            (Verdict::GeneratorLimited, _) => "generator-limited",
        }
    }
}

/// One arm against the baseline, at one load point, in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The metric.
    pub metric: Metric,
    /// Ratio and intervals.
    pub comparison: Comparison,
    /// The word.
    pub verdict: Verdict,
    /// The true difference is at least this large: one side was held back by the generator.
    pub at_least: bool,
    /// Blocks in all that would probably settle an unresolved case.
    pub forecast: Option<u32>,
}

/// How sure one may be of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Light {
    /// Nothing speaks against it.
    Green,
    /// Read the text beside it.
    Amber,
    /// Wrong answers: do not use it.
    Red,
}

/// A light with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lamp {
    /// The light.
    pub light: Light,
    /// The reason.
    pub text: String,
}

/// One arm at one load point: medians over its trials, and its comparisons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// Name of the arm.
    pub arm: String,
    /// It is the baseline's twin.
    pub twin: bool,
    /// It is the baseline.
    pub baseline: bool,
    /// Why there is no number, if there is none.
    pub absent: Option<String>,
    /// Trials that count.
    pub trials: u32,
    /// Requests per second.
    pub throughput_rps: Option<f64>,
    /// Median service time, nanoseconds.
    pub p50_ns: Option<f64>,
    /// 99th percentile, nanoseconds; only if every trial supports it.
    pub p99_ns: Option<f64>,
    /// Server CPU per request, nanoseconds.
    pub cpu_ns: Option<f64>,
    /// Context switches per request.
    pub switches: Option<f64>,
    /// Memory of the process tree, kilobytes.
    pub memory_kb: Option<f64>,
    /// Share of the window in which the generator was busy.
    pub busy: Option<f64>,
    /// Against the baseline; empty for the baseline itself.
    pub judged: Vec<Judged>,
    /// Reasons for trust and distrust; the worst light first.
    pub lamps: Vec<Lamp>,
}

impl ArmSummary {
    /// Its comparison in one metric.
    pub fn judged(&self, metric: Metric) -> Option<&Judged> {
        self.judged.iter().find(|it| it.metric == metric)
    }

    /// Whether the generator was the bottleneck here.
    pub fn generator_limited(&self) -> bool {
        self.busy.is_some_and(|busy| busy > BUSY_MAX)
    }

    /// The worst of its lights.
    pub fn light(&self) -> Light {
        self.lamps.iter().map(|lamp| lamp.light).max().unwrap_or(Light::Green)
    }
}

/// How far the twin strayed from its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// In which metric.
    pub metric: Metric,
    /// The end of the twin's interval that is farther from 1, as a log-ratio.
    pub log: f64,
    /// The interval leaves 1 out: two identical arms look different.
    pub strayed: bool,
}

/// All arms at one load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// Name of the load point.
    pub point: String,
    /// The A/A floors; empty without a twin or below six blocks.
    pub floors: Vec<Floor>,
    /// In the plan's order, the twin last.
    pub arms: Vec<ArmSummary>,
}

impl PointSummary {
    /// The A/A floor of one metric as a log-ratio; 0 where unknown.
    pub fn floor(&self, metric: Metric) -> f64 {
        self.floors.iter().find(|floor| floor.metric == metric).map_or(0.0, |floor| floor.log)
    }
}

/// The whole race in words and numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// One for each load point.
    pub points: Vec<PointSummary>,
    /// Attempts that were repeated.
    pub repeated: u32,
    /// Counted trials whose gates had failed.
    pub objected: u32,
    /// Wrong books, lost replies, dead servers: each in one sentence.
    pub broken: Vec<String>,
    /// One sentence for somebody who reads nothing else.
    pub sentence: String,
}

/// Draws the conclusions from a run.
pub fn analyse(run: &Run) -> Summary {
    let plan = &run.manifest.plan;
    let points: Vec<PointSummary> =
        plan.points.iter().map(|point| point_summary(plan, &run.trials, &point.name)).collect();
    let counted = run.trials.iter().filter(|trial| trial.counted);
    Summary {
        sentence: sentence(plan, &points),
        points,
        repeated: run.trials.iter().filter(|trial| !trial.counted).count() as u32,
        objected: counted.filter(|trial| !trial.objections.is_empty()).count() as u32,
        broken: run.trials.iter().filter_map(broken).collect(),
    }
}

/// What is wrong, not merely slow, about a trial.
fn broken(trial: &Trial) -> Option<String> {
    let Ending::Measured { load } = &trial.ending else { return None };
    let place = format!("{}, {}, block {}", trial.arm, trial.point, trial.block + 1);
    match load.checked() {
        Some(check) if !check.ok => {
            Some(format!("{place}: the model check failed: {}", check.detail))
        }
        _ if load.faults() > 0 => {
            let kinds: Vec<String> = load.errors.iter().map(|it| it.to_string()).collect();
            Some(format!("{place}: {}", kinds.join("; ")))
        }
        _ => None,
    }
}

impl std::fmt::Display for crate::load::Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.count, self.kind)?;
        if self.example.is_empty() { Ok(()) } else { write!(f, " (as `{}`)", self.example) }
    }
}

fn point_summary(plan: &Plan, trials: &[Trial], point: &str) -> PointSummary {
    let here: Vec<&Trial> = trials.iter().filter(|trial| trial.point == point).collect();
    let everywhere = |arm: &str| trials.iter().filter(|it| it.arm == arm).collect::<Vec<_>>();
    let mut arms: Vec<ArmSummary> = plan
        .entrants()
        .iter()
        .map(|arm| arm_summary(plan, &here, &everywhere(&arm.name), &arm.name))
        .collect();
    let twin = arms.iter().find(|arm| arm.twin);
    let floors: Vec<Floor> = twin.map(|twin| floors_of(plan, &here, twin)).unwrap_or_default();
    let limited = arms.iter().any(|arm| arm.baseline && arm.generator_limited());
    for arm in arms.iter_mut().filter(|arm| !arm.baseline) {
        let sides = Sides { arm: arm.generator_limited(), baseline: limited };
        arm.judged = Metric::ALL
            .iter()
            .filter_map(|&metric| {
                let comparison = compared(plan, &here, &arm.arm, metric)?;
                let floor = floors.iter().find(|floor| floor.metric == metric);
                let floor = floor.map_or(0.0, |floor| floor.log);
                Some(judge(metric, comparison, floor, plan.margin, sides))
            })
            .collect();
    }
    PointSummary { point: point.to_string(), floors, arms }
}

fn compared(plan: &Plan, here: &[&Trial], arm: &str, metric: Metric) -> Option<Comparison> {
    compare(&pairs(plan, here, arm, metric), plan.resamples as usize, plan.seed)
}

/// (arm, baseline) of each block in which both brought a result.
fn pairs(plan: &Plan, here: &[&Trial], arm: &str, metric: Metric) -> Vec<(f64, f64)> {
    let value = |name: &str, block: u32| {
        let trial = here.iter().find(|it| it.arm == name && it.block == block && it.counted)?;
        metric.of(trial.result()?)
    };
    (0..plan.blocks)
        .filter_map(|block| Some((value(arm, block)?, value(&plan.baseline, block)?)))
        .collect()
}

fn floors_of(plan: &Plan, here: &[&Trial], twin: &ArmSummary) -> Vec<Floor> {
    Metric::ALL
        .iter()
        .filter_map(|&metric| {
            let found = compared(plan, here, &twin.arm, metric)?;
            let interval = found.interval?;
            let (low, high) = (interval.low.ln(), interval.high.ln());
            let strayed = low > 0.0 || high < 0.0;
            Some(Floor { metric, log: low.abs().max(high.abs()), strayed })
        })
        .collect()
}

/// Which side the generator held back.
#[derive(Clone, Copy)]
struct Sides {
    arm: bool,
    baseline: bool,
}

/// The verdict on one comparison. `floor` is a log-ratio, `margin` a share (0.03 = 3 %).
fn judge(
    metric: Metric,
    comparison: Comparison,
    floor: f64,
    margin: f64,
    limited: Sides,
) -> Judged {
    let mut verdict = Verdict::Unresolved;
    let mut forecast = None;
    match comparison.interval {
        None => forecast = Some(VALUES_MIN as u32),
        Some(interval) => {
            // Turned so that more is better; ends change places with the sign.
            let (a, b) = (interval.low.ln() * metric.sign(), interval.high.ln() * metric.sign());
            let (low, high) = (a.min(b), a.max(b));
            let room = (1.0 + margin).ln();
            verdict = if low > -room && high < room {
                Verdict::Equivalent
            } else if low > floor {
                Verdict::Better
            } else if high < -floor {
                Verdict::Worse
            } else {
                Verdict::Unresolved
            };
            if verdict == Verdict::Unresolved {
                let centre = comparison.ratio.ln();
                let blocks = comparison.log_ratios.len();
                forecast = Some(settles_after(blocks, centre, (high - low) / 2.0, floor, room));
            }
        }
    }
    let mut at_least = false;
    if metric.needs_generator() && (limited.arm || limited.baseline) {
        at_least = match verdict {
            Verdict::Better => !limited.baseline,
            Verdict::Worse => !limited.arm,
            _ => false,
        };
        if !at_least {
            (verdict, forecast) = (Verdict::GeneratorLimited, None);
        }
    }
    Judged { metric, comparison, verdict, at_least, forecast }
}

/// How many blocks would probably settle a case, if centre and spread stay as they are: half
/// widths shrink with the square root of the number of blocks, the twin's as the arm's.
fn settles_after(blocks: usize, centre: f64, half: f64, floor: f64, room: f64) -> u32 {
    let needed = |now: f64, wanted: f64| {
        if wanted > 0.0 { blocks as f64 * (now / wanted).powi(2) } else { f64::INFINITY }
    };
    let different = needed(half + floor, centre.abs());
    let equal = needed(half, room - centre.abs());
    let least = different.min(equal).ceil().min(f64::from(FORECAST_MAX) + 1.0);
    (least as u32).max(blocks as u32 + 1)
}

fn arm_summary(plan: &Plan, here: &[&Trial], all: &[&Trial], name: &str) -> ArmSummary {
    let mine: Vec<&Trial> =
        here.iter().copied().filter(|it| it.arm == name && it.counted).collect();
    let loads: Vec<&Load> = mine.iter().filter_map(|trial| trial.result()).collect();
    let middle = |value: &dyn Fn(&Load) -> Option<f64>| {
        median(&loads.iter().filter_map(|load| value(load)).collect::<Vec<_>>())
    };
    let p99 = |load: &Load| load.service.p99_ns;
    let supported = loads.iter().all(|load| p99(load).is_some());
    let busy = middle(&|load| load.generator.map(|generator| generator.busy));
    ArmSummary {
        arm: name.to_string(),
        twin: plan.twin && name == plan.twin_name(),
        baseline: name == plan.baseline,
        absent: if loads.is_empty() { Some(reason(all)) } else { None },
        trials: loads.len() as u32,
        throughput_rps: middle(&|load| Metric::Throughput.of(load)),
        p50_ns: middle(&|load| Metric::P50.of(load)),
        p99_ns: if supported { middle(&p99) } else { None },
        cpu_ns: middle(&|load| Metric::Cpu.of(load)),
        switches: middle(&|load| load.server.as_ref()?.switches_per_request),
        memory_kb: middle(&|load| load.memory_kb().map(|kb| kb as f64)),
        busy,
        judged: Vec::new(),
        lamps: lamps(&mine, &loads, busy),
    }
}

/// Why an arm has no result.
fn reason(all: &[&Trial]) -> String {
    let words = all.iter().rev().find_map(|trial| match &trial.ending {
        Ending::Unavailable { reason } | Ending::Failed { reason } => Some(reason.clone()),
        Ending::Measured { .. } => None,
    });
    words.unwrap_or_else(|| "the race was stopped before its first trial".to_string())
}

fn lamps(trials: &[&Trial], loads: &[&Load], busy: Option<f64>) -> Vec<Lamp> {
    let mut found = Vec::new();
    let mut lamp = |light: Light, text: String| found.push(Lamp { light, text });
    let n = loads.len();
    let checked = loads.iter().filter(|load| load.checked().is_some()).count();
    let wrong = loads.iter().filter(|load| load.checked().is_some_and(|it| !it.ok)).count();
    let faults: u64 = loads.iter().map(|load| load.faults()).sum();
    let failed = trials.len() - n;
    let unclean = trials.iter().filter(|it| it.exit.is_some() && !it.exit_clean).count();
    let noisy = trials.iter().filter(|trial| !trial.objections.is_empty()).count();
    if wrong > 0 {
        lamp(Light::Red, format!("model check FAILED {wrong}/{n}"));
    }
    if faults > 0 {
        lamp(Light::Red, format!("{faults} errors"));
    }
    if failed > 0 {
        lamp(Light::Amber, format!("no result {failed}/{}", trials.len()));
    }
    if let Some(busy) = busy.filter(|&busy| busy > BUSY_MAX) {
        lamp(Light::Amber, format!("generator-limited, {:.0} % busy", busy * 100.0));
    }
    if unclean > 0 {
        lamp(Light::Amber, format!("unclean end {unclean}/{n}"));
    }
    if noisy > 0 {
        lamp(Light::Amber, format!("machine busy {noisy}/{n}"));
    }
    if n > 0 && wrong == 0 {
        match checked {
            0 => lamp(Light::Amber, "replies not checked".to_string()),
            _ => lamp(Light::Green, format!("model check passed {checked}/{n}")),
        }
    }
    found.sort_by_key(|lamp| std::cmp::Reverse(lamp.light));
    found
}

/// One sentence: each arm against the baseline at each point, by speed and by CPU. Arms of which
/// the same can be said share a clause.
fn sentence(plan: &Plan, points: &[PointSummary]) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for arm in plan.arms.iter().filter(|arm| arm.name != plan.baseline) {
        add(&mut said, predicate(points, &arm.name), &arm.name);
    }
    if said.is_empty() {
        return format!("Only {} ran: there is nothing to compare it with.", plan.baseline);
    }
    let clauses: Vec<String> = said
        .into_iter()
        .map(|(words, arms)| {
            let verb = if arms.len() == 1 { "is" } else { "are" };
            format!("{} {verb} {words}", listed(&arms))
        })
        .collect();
    format!("Against {}: {}.", plan.baseline, clauses.join("; "))
}

/// What can be said of one arm, after `is` or `are`.
fn predicate(points: &[PointSummary], arm: &str) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for point in points {
        add(&mut said, phrase(point, arm), &point.point);
    }
    let parts: Vec<String> = said
        .into_iter()
        .map(|(words, at)| match at.len() == points.len() && points.len() > 1 {
            true => format!("{words} at every load point"),
            false => format!("{words} at {}", listed(&at)),
        })
        .collect();
    parts.join(", ")
}

/// Puts `item` under `words`, in the order of first use.
fn add<'a>(said: &mut Vec<(String, Vec<&'a str>)>, words: String, item: &'a str) {
    match said.iter_mut().find(|(known, _)| *known == words) {
        Some((_, items)) => items.push(item),
        None => said.push((words, vec![item])),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [one] => (*one).to_string(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

fn phrase(point: &PointSummary, name: &str) -> String {
    let Some(arm) = point.arms.iter().find(|arm| arm.arm == name && arm.absent.is_none()) else {
        return "not measured".to_string();
    };
    let said = |metric: Metric| {
        let judged = arm.judged(metric)?;
        match judged.verdict {
            Verdict::Unresolved | Verdict::GeneratorLimited => None,
            verdict => Some(verdict.word(metric)),
        }
    };
    match (said(Metric::Throughput), said(Metric::Cpu)) {
        (Some("equivalent"), Some("equivalent")) => "equivalent in speed and CPU".to_string(),
        (Some(speed), Some("equivalent")) => format!("{speed} at the same CPU cost"),
        (Some("equivalent"), Some(cost)) => format!("as fast and {cost} in CPU"),
        (Some(speed), Some(cost)) => {
            let agree = (speed == "faster") == (cost == "cheaper");
            format!("{speed} {} {cost} in CPU", if agree { "and" } else { "but" })
        }
        (Some("equivalent"), None) => "as fast (CPU unresolved)".to_string(),
        (Some(speed), None) => format!("{speed} (CPU unresolved)"),
        (None, Some("equivalent")) => "equally costly in CPU (speed unresolved)".to_string(),
        (None, Some(cost)) => format!("{cost} in CPU (speed unresolved)"),
        (None, None) => "unresolved".to_string(),
    }
}

#[cfg(test)]
mod tests;
