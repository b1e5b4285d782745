//! From trials to words: ratio, interval, decision, forecast, for every arm, point and metric.
//!
//! The comparisons of a race are made together ([`evidence`]), and [`stats::decide`] alone turns
//! each into a word, of which *unresolved* is the most important. The noise floor is the distance
//! of the baseline's own twin. If the generator was the bottleneck, a speed says nothing about the
//! server, and only a bound in one direction remains.

pub(crate) mod answer;
pub(crate) mod evidence;
mod judge;
mod lamps;
mod sentence;
mod sweep;

pub use crate::metric::Metric;
pub use answer::{CostAnswer, RaceAnswer, Rank, Room};
pub use sweep::{Curve, Place, Sweep};

use crate::cause::reasons;
use crate::load::Load;
use crate::plan::{LoadPoint, Plan};
use crate::record::Run;
use crate::trial::{Trial, in_flight};
use evidence::RaceEvidence;
pub use evidence::paired;
use judge::{Sides, judge};
pub(crate) use lamps::broken;
use lamps::{lamps, reason};
use serde::{Deserialize, Serialize};
use stats::{Comparison, Decision, median};
use std::collections::BTreeMap;

/// A generator busier than this limits the speed itself.
pub const BUSY_MAX: f64 = 0.8;

pub use stats::BLOCKS_MAX as FORECAST_MAX;

/// The word for a decision, by metric.
pub fn word(decision: Decision, metric: Metric) -> &'static str {
    match decision {
        Decision::Better => metric.words().0,
        Decision::Worse => metric.words().1,
        Decision::Equal => "equivalent",
        Decision::Open => "unresolved",
    }
}

/// One arm against the baseline, at one load point, in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmVerdict {
    /// The metric.
    pub metric: Metric,
    /// Ratio and interval.
    pub comparison: Comparison,
    /// The decision on it.
    pub decision: Decision,
    /// Whether the generator was the bottleneck, so that the decision is open or a bound.
    #[serde(default)]
    pub limited: bool,
    /// Whether the true difference is at least this large, because the generator held one side
    /// back.
    pub at_least: bool,
    /// The total number of blocks that would probably settle an open case.
    pub forecast: Option<u32>,
    /// Whether the plan named the metric; otherwise it is exploratory.
    #[serde(default)]
    pub registered: bool,
}

impl ArmVerdict {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self.limited && self.decision == Decision::Open {
            true => "generator-limited",
            false => word(self.decision, self.metric),
        }
    }
}

/// The trust that a cell deserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Light {
    /// There is no reason for distrust.
    Green,
    /// Read the text next to it.
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
    /// Whether it is the baseline's twin.
    pub twin: bool,
    /// Whether it is the baseline.
    pub baseline: bool,
    /// The reason why there is no number, if there is none.
    pub absent: Option<String>,
    /// Trials that count.
    pub trials: u32,
    /// The median in each metric that it has; that of a percentile only if every trial supports it.
    #[serde(default)]
    pub medians: BTreeMap<Metric, f64>,
    /// Share of the window in which the generator was busy.
    pub busy: Option<f64>,
    /// Whether in most trials the generator called itself, or the machine, the limit.
    #[serde(default)]
    pub late: bool,
    /// Offered requests per second; absent in a closed loop.
    pub offered_rps: Option<f64>,
    /// Requests in flight on average by Little's law; absent in open runs, whose number is not
    /// known beforehand.
    pub in_flight: Option<f64>,
    /// Share of its capacity that it kept serving under overload.
    pub kept_share: Option<f64>,
    /// The resources that the whole process tree used under load: medians over the trials.
    pub cost: Option<CostSummary>,
    /// Against the baseline; empty for the baseline itself.
    pub judged: Vec<ArmVerdict>,
    /// Reasons for trust and distrust; the worst light first.
    pub lamps: Vec<Lamp>,
}

impl ArmSummary {
    /// Its comparison in one metric.
    pub fn judged(&self, metric: Metric) -> Option<&ArmVerdict> {
        self.judged.iter().find(|it| it.metric == metric)
    }

    /// Its median in one metric.
    pub fn median(&self, metric: Metric) -> Option<f64> {
        self.medians.get(&metric).copied()
    }

    /// Whether the generator was the bottleneck here.
    pub fn generator_limited(&self) -> bool {
        self.late || self.busy.is_some_and(|busy| busy > BUSY_MAX)
    }

    /// The worst of its lights.
    pub fn light(&self) -> Light {
        self.lamps.iter().map(|lamp| lamp.light).max().unwrap_or(Light::Green)
    }
}

/// The resources that an arm's process tree used: medians over its trials, next to the speed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostSummary {
    /// CPU time per request over the whole load, ended processes included, nanoseconds.
    pub cpu_ns: Option<f64>,
    /// Share of it in the kernel, 0 to 1 (sampled at the tick).
    pub system_share: Option<f64>,
    /// Highest memory use, kilobytes.
    pub memory_peak_kb: Option<f64>,
    /// Page faults in the server's life.
    pub faults_minor: Option<f64>,
    /// Clients that found the accept queue full.
    pub listen_overflows: Option<f64>,
    /// SYNs sent again.
    pub syn_retransmits: Option<f64>,
}

/// The distance of the twin from its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// The metric.
    pub metric: Metric,
    /// The distance of its estimate from 1, as a log-ratio.
    pub log: f64,
    /// Whether the interval excludes 1, so that two identical arms look different.
    pub strayed: bool,
}

/// All arms at one load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// Name of the load point.
    pub point: String,
    /// The A/A floors; empty without a twin or below six blocks.
    pub floors: Vec<NoiseFloor>,
    /// In the plan's order, the twin last.
    pub arms: Vec<ArmSummary>,
    /// The metric that answers this point's question: requests/s in a closed loop, p99 in an open
    /// one, goodput, capacity.
    #[serde(default = "throughput")]
    pub lead: Metric,
}

fn throughput() -> Metric {
    Metric::Throughput
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
    /// Trials whose gates had failed.
    pub objected: u32,
    /// Wrong sums, lost replies and dead servers: each in one sentence.
    pub broken: Vec<String>,
    /// The result in one sentence.
    pub sentence: String,
    /// The curves: load points that share a series, for every arm.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// The number of pre-registered comparisons, whose intervals hold together.
    #[serde(default)]
    pub family: u32,
    /// The answer in figures.
    pub answer: RaceAnswer,
}

/// Draws the conclusions from a run.
pub fn analyse(run: &Run) -> Summary {
    let plan = &run.manifest.plan;
    let evidence = RaceEvidence::of(plan, &run.trials);
    let summary = |point: &LoadPoint| point_summary(plan, &run.trials, point, &evidence);
    let points: Vec<PointSummary> = plan.points.iter().map(summary).collect();
    let mut answer = answer::answer(plan, &run.trials, &evidence);
    answer.reasons = reasons(run, &answer);
    let broken = lamps::faults(&run.trials);
    Summary {
        sentence: sentence::sentence(plan, &points, &answer, &broken),
        answer,
        sweeps: sweep::sweeps(plan, &run.trials),
        family: evidence.family,
        points,
        objected: run.trials.iter().filter(|it| !it.objections.is_empty()).count() as u32,
        broken,
    }
}

fn point_summary(
    plan: &Plan,
    trials: &[Trial],
    point: &LoadPoint,
    evidence: &RaceEvidence<'_>,
) -> PointSummary {
    let here: Vec<&Trial> = trials.iter().filter(|trial| trial.point == point.name).collect();
    let everywhere = |arm: &str| trials.iter().filter(|it| it.arm == arm).collect::<Vec<_>>();
    let mut arms: Vec<ArmSummary> = plan
        .entrants()
        .iter()
        .map(|arm| arm_summary(plan, &here, &everywhere(&arm.name), &arm.name))
        .collect();
    let floors = evidence.floors(&point.name);
    let limited = arms.iter().any(|arm| arm.baseline && arm.generator_limited());
    for arm in arms.iter_mut().filter(|arm| !arm.baseline) {
        let sides = Sides { arm: arm.generator_limited(), baseline: limited };
        let judged = |metric: &Metric| {
            let pair = [arm.arm.as_str(), plan.baseline.as_str()];
            let comparison = evidence.comparison(&point.name, *metric, pair)?;
            let terms = evidence.terms(&point.name, *metric);
            let registered = plan.registers(point, *metric);
            Some(ArmVerdict { registered, ..judge(*metric, comparison, terms, sides) })
        };
        arm.judged = Metric::EVERY.iter().filter_map(judged).collect();
    }
    PointSummary { point: point.name.clone(), floors, arms, lead: plan.lead(point) }
}

fn arm_summary(plan: &Plan, here: &[&Trial], all: &[&Trial], name: &str) -> ArmSummary {
    let mine: Vec<&Trial> = here.iter().copied().filter(|it| it.arm == name).collect();
    let loads: Vec<&Load> = mine.iter().filter_map(|trial| trial.result()).collect();
    let middle = |value: &dyn Fn(&Trial) -> Option<f64>| {
        median(&mine.iter().filter_map(|trial| value(trial)).collect::<Vec<_>>())
    };
    let of = |metric: Metric| {
        let is_tail = matches!(metric, Metric::P99 | Metric::P999);
        // If only some trials supported a percentile, its median would be that of the lucky ones.
        let is_whole = !is_tail || loads.iter().all(|load| metric.of(load).is_some());
        middle(&|trial| metric.in_trial(trial)).filter(|_| is_whole)
    };
    let by_load = |value: &dyn Fn(&Load) -> Option<f64>| {
        median(&loads.iter().filter_map(|load| value(load)).collect::<Vec<_>>())
    };
    let busy = by_load(&|load| load.generator.map(|generator| generator.busy));
    let late = loads.iter().filter(|load| load.is_late()).count() * 2 > loads.len();
    ArmSummary {
        arm: name.to_string(),
        twin: plan.twin && name == plan.twin_name(),
        baseline: name == plan.baseline,
        absent: if loads.is_empty() { Some(reason(all)) } else { None },
        trials: loads.len() as u32,
        medians: Metric::EVERY.iter().filter_map(|it| Some((*it, of(*it)?))).collect(),
        busy,
        late,
        offered_rps: middle(&|trial| trial.seen.offered_rps),
        in_flight: by_load(&|load| in_flight(load).map(|it| it.0)),
        kept_share: middle(&|trial| trial.seen.recovery.as_ref()?.kept_share),
        cost: cost_summary(&mine),
        judged: Vec::new(),
        lamps: lamps(&mine, &loads, busy, late),
    }
}

fn cost_summary(mine: &[&Trial]) -> Option<CostSummary> {
    let costs = || mine.iter().filter_map(|trial| trial.seen.cost.as_ref());
    costs().next()?;
    let middle = |value: &dyn Fn(&crate::observations::TreeLife) -> Option<f64>| {
        median(&costs().filter_map(value).collect::<Vec<_>>())
    };
    let count = |value: Option<u64>| value.map(|it| it as f64);
    let seen = |value: &dyn Fn(&Trial) -> Option<u64>| {
        median(&mine.iter().filter_map(|trial| count(value(trial))).collect::<Vec<_>>())
    };
    Some(CostSummary {
        cpu_ns: middle(&|cost| cost.cpu_ns_per_request),
        system_share: middle(&|cost| {
            let all = cost.user_ns + cost.system_ns;
            (all > 0).then(|| cost.system_ns as f64 / all as f64)
        }),
        memory_peak_kb: middle(&|cost| count(cost.memory_peak_kb)),
        faults_minor: middle(&|cost| count(cost.faults_minor)),
        listen_overflows: seen(&|trial| trial.conditions.listen_overflows),
        syn_retransmits: seen(&|trial| trial.conditions.syn_retransmits),
    })
}

#[cfg(test)]
mod tests;
