//! From trials to words: ratio, interval, verdict, forecast, for every arm, point and metric.
//!
//! A verdict is one of four, of which *unresolved* is the most important. Better and worse need an
//! interval wholly beyond the A/A floor, which is the distance of the baseline's own twin from it.
//! Equivalent needs an interval wholly inside the margin that the plan declared before the race. A
//! difference must also survive the correction for all pre-registered comparisons. There is a fifth
//! word: if the generator was the bottleneck, a speed says nothing about the server, and only a
//! bound in one direction remains.

pub(crate) mod answer;
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
use judge::{Sides, judge};
pub(crate) use lamps::broken;
use lamps::{lamps, reason};
use serde::{Deserialize, Serialize};
use stats::{CONFIDENCE, Comparison, compare, hodges_lehmann, median, sign_flip_p, step_down_p};

/// A generator busier than this limits the speed itself.
pub const BUSY_MAX: f64 = 0.8;

pub use stats::BLOCKS_MAX as FORECAST_MAX;

/// The possible conclusions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the baseline.
    Better,
    /// Worse than the baseline.
    Worse,
    /// Equal within the margin.
    Equivalent,
    /// No conclusion is possible.
    Unresolved,
    /// The generator was the bottleneck.
    GeneratorLimited,
}

impl Verdict {
    /// The word for the verdict, by metric.
    pub fn word(self, metric: Metric) -> &'static str {
        match (self, metric) {
            (Verdict::Better, metric) => metric.words().0,
            (Verdict::Worse, metric) => metric.words().1,
            (Verdict::Equivalent, _) => "equivalent",
            (Verdict::Unresolved, _) => "unresolved",
            (Verdict::GeneratorLimited, _) => "generator-limited",
        }
    }
}

impl From<stats::Verdict> for Verdict {
    fn from(verdict: stats::Verdict) -> Verdict {
        match verdict {
            stats::Verdict::Better => Verdict::Better,
            stats::Verdict::Worse => Verdict::Worse,
            stats::Verdict::Equivalent => Verdict::Equivalent,
            stats::Verdict::Unresolved => Verdict::Unresolved,
        }
    }
}

/// One arm against the baseline, at one load point, in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmVerdict {
    /// The metric.
    pub metric: Metric,
    /// Ratio and intervals.
    pub comparison: Comparison,
    /// The word.
    pub verdict: Verdict,
    /// Whether the true difference is at least this large, because the generator held one side
    /// back.
    pub at_least: bool,
    /// The total number of blocks that would probably settle an unresolved case.
    pub forecast: Option<u32>,
    /// The difference by the Hodges-Lehmann estimate, as a ratio.
    pub hodges_lehmann: Option<f64>,
    /// The p of the sign-flip test: the share of random signs that look at least as different.
    pub p: Option<f64>,
    /// The p after the correction for all pre-registered comparisons; absent for others.
    pub p_corrected: Option<f64>,
    /// Whether the plan named the metric; otherwise it is exploratory.
    #[serde(default)]
    pub registered: bool,
    /// Whether the interval alone would call it different, but the correction for many comparisons
    /// does not.
    #[serde(default)]
    pub held_back: bool,
}

/// The trust that a cell deserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Light {
    /// There is no reason for distrust.
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
    /// Whether it is the baseline's twin.
    pub twin: bool,
    /// Whether it is the baseline.
    pub baseline: bool,
    /// The reason why there is no number, if there is none.
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
    /// Whether in most trials the generator called itself, or the machine, the limit.
    #[serde(default)]
    pub late: bool,
    /// The 99.9th percentile, nanoseconds; only if every trial supports it.
    pub p999_ns: Option<f64>,
    /// The mean latency, nanoseconds.
    #[serde(default)]
    pub mean_ns: Option<f64>,
    /// The longest latency, nanoseconds: the median over the trials.
    #[serde(default)]
    pub max_ns: Option<f64>,
    /// Offered requests per second; absent in a closed loop.
    pub offered_rps: Option<f64>,
    /// Requests in flight on average by Little's law; absent in open runs, whose number is not
    /// known beforehand.
    pub in_flight: Option<f64>,
    /// Memory for each silent connection, bytes.
    pub connection_bytes: Option<f64>,
    /// Highest rate within the promise, requests per second.
    pub capacity_rps: Option<f64>,
    /// Share of its capacity that it kept serving under overload.
    pub kept_share: Option<f64>,
    /// From the end of an overload to normal latency, milliseconds.
    pub recovered_ms: Option<f64>,
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
        match metric {
            Metric::Throughput => self.throughput_rps,
            Metric::Cpu => self.cpu_ns,
            Metric::P50 => self.p50_ns,
            Metric::P99 => self.p99_ns,
            Metric::P999 => self.p999_ns,
            Metric::Switches => self.switches,
            Metric::Memory => self.memory_kb,
            Metric::ConnectionMemory => self.connection_bytes,
            Metric::Capacity => self.capacity_rps,
            Metric::Recovery => self.recovered_ms,
            Metric::Mean => self.mean_ns,
            Metric::Max => self.max_ns,
        }
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

/// The resources that an arm's process tree used: medians over its trials, beside the speed.
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
    /// Processes created under load.
    pub forks: Option<f64>,
    /// Threads created under load.
    pub threads_created: Option<f64>,
    /// Processes that a signal ended under load.
    pub kills: Option<f64>,
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
    /// The end of the twin's interval that is farther from 1, as a log-ratio.
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
    /// Attempts that were repeated.
    pub repeated: u32,
    /// Counted trials whose gates had failed.
    pub objected: u32,
    /// Wrong sums, lost replies and dead servers: each in one sentence.
    pub broken: Vec<String>,
    /// The result in one sentence.
    pub sentence: String,
    /// The curves: load points that share a series, for every arm, with the scalability law.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// The number of pre-registered comparisons with an interval, which the correction is over.
    #[serde(default)]
    pub family: u32,
    /// The answer of a race whose servers take turns.
    pub answer: Option<RaceAnswer>,
}

/// Draws the conclusions from a run.
pub fn analyse(run: &Run) -> Summary {
    let plan = &run.manifest.plan;
    let points: Vec<PointSummary> =
        plan.points.iter().map(|point| point_summary(plan, &run.trials, point)).collect();
    let mut points = points;
    let family = correct(run, &mut points, &answer::cleared(plan, &run.trials));
    let counted = run.trials.iter().filter(|trial| trial.counted);
    let mut answer = answer::answer(plan, &run.trials, &points);
    if let Some(answer) = &mut answer {
        answer.reasons = reasons(run, answer);
    }
    Summary {
        sentence: match &answer {
            Some(answer) => sentence::answered(plan, answer),
            None => sentence::sentence(plan, &points),
        },
        answer,
        sweeps: sweep::sweeps(plan, &run.trials),
        family,
        points,
        repeated: run.trials.iter().filter(|trial| !trial.counted).count() as u32,
        objected: counted.filter(|trial| !trial.objections.is_empty()).count() as u32,
        broken: run.trials.iter().filter_map(broken).collect(),
    }
}

/// Corrects the pre-registered comparisons of a race for their number, and returns it. A difference
/// that does not survive loses its word. Arms that left a race in turns because they were clearly
/// dearer (`cleared`) have their answer already and are not among the comparisons.
fn correct(run: &Run, points: &mut [PointSummary], cleared: &[String]) -> u32 {
    let plan = &run.manifest.plan;
    let mut family: Vec<&mut ArmVerdict> = Vec::new();
    let mut comparisons = Vec::new();
    for (nth, point) in points.iter_mut().enumerate() {
        let here: Vec<&Trial> = run.trials.iter().filter(|it| it.point == point.point).collect();
        let judged = point.arms.iter_mut().filter(|arm| !arm.twin && !cleared.contains(&arm.arm));
        let judged = judged.flat_map(|it| it.judged.iter_mut().map(|judged| (&it.arm, judged)));
        for (arm, judged) in judged.filter(|(_, it)| it.registered && it.p.is_some()) {
            let kind = nth * Metric::EVERY.len() + judged.metric as usize;
            let logs = log_ratios(&here, run.blocks(), [arm, &plan.baseline], judged.metric);
            comparisons.push((kind, logs));
            family.push(judged);
        }
    }
    for (judged, corrected) in family.iter_mut().zip(step_down_p(&comparisons, plan.seed)) {
        judged.p_corrected = Some(corrected);
        let differs = matches!(judged.verdict, Verdict::Better | Verdict::Worse);
        if differs && corrected > 1.0 - CONFIDENCE {
            let blocks = judged.comparison.log_ratios.len() as u32;
            judged.held_back = true;
            judged.verdict = Verdict::Unresolved;
            judged.forecast = Some(blocks + 1);
        }
    }
    family.len() as u32
}

/// The log-ratio of two arms in each block, `None` where one of them gave no result.
fn log_ratios(
    here: &[&Trial],
    blocks: u32,
    [first, second]: [&str; 2],
    metric: Metric,
) -> Vec<Option<f64>> {
    let logs = |arm: &str| {
        let mut logs = vec![None; blocks as usize];
        for trial in here.iter().filter(|it| it.arm == arm && it.counted) {
            let value = metric.in_trial(trial).filter(|value| *value > 0.0);
            logs[trial.block as usize] = value.map(f64::ln);
        }
        logs
    };
    logs(first).into_iter().zip(logs(second)).map(|(a, b)| Some(a? - b?)).collect()
}

fn point_summary(plan: &Plan, trials: &[Trial], point: &LoadPoint) -> PointSummary {
    let here: Vec<&Trial> = trials.iter().filter(|trial| trial.point == point.name).collect();
    let everywhere = |arm: &str| trials.iter().filter(|it| it.arm == arm).collect::<Vec<_>>();
    let mut arms: Vec<ArmSummary> = plan
        .entrants()
        .iter()
        .map(|arm| arm_summary(plan, &here, &everywhere(&arm.name), &arm.name))
        .collect();
    let twin = arms.iter().find(|arm| arm.twin);
    let floors: Vec<NoiseFloor> = twin.map(|twin| floors_of(plan, &here, twin)).unwrap_or_default();
    let limited = arms.iter().any(|arm| arm.baseline && arm.generator_limited());
    for arm in arms.iter_mut().filter(|arm| !arm.baseline) {
        let sides = Sides { arm: arm.generator_limited(), baseline: limited };
        arm.judged = Metric::EVERY
            .iter()
            .filter_map(|&metric| {
                let comparison = compared(plan, &here, &arm.arm, metric)?;
                let floor = floors.iter().find(|floor| floor.metric == metric);
                let floor = floor.map_or(0.0, |floor| floor.log);
                let judged = judge(metric, comparison, floor, plan.margin, sides);
                Some(tested(plan, point, judged))
            })
            .collect();
    }
    PointSummary { point: point.name.clone(), floors, arms, lead: plan.lead(point) }
}

/// Adds the sign-flip test and the second estimate.
fn tested(plan: &Plan, point: &LoadPoint, judged: ArmVerdict) -> ArmVerdict {
    let values = &judged.comparison.log_ratios;
    ArmVerdict {
        hodges_lehmann: hodges_lehmann(values).map(f64::exp),
        p: judged.comparison.interval.and_then(|_| sign_flip_p(values, plan.seed)),
        registered: plan.registers(point, judged.metric),
        ..judged
    }
}

fn compared(plan: &Plan, here: &[&Trial], arm: &str, metric: Metric) -> Option<Comparison> {
    compare(&pairs(plan, here, arm, metric), plan.resamples as usize, plan.seed)
}

/// The pairs (arm, baseline) of each block in which both gave a result.
fn pairs(plan: &Plan, here: &[&Trial], arm: &str, metric: Metric) -> Vec<(f64, f64)> {
    paired(here, arm, &plan.baseline, metric)
}

/// The pairs (first, second) of each block in which both arms gave a result at one load point.
pub fn paired(here: &[&Trial], first: &str, second: &str, metric: Metric) -> Vec<(f64, f64)> {
    let value = |name: &str, block: u32| {
        let trial = here.iter().find(|it| it.arm == name && it.block == block && it.counted)?;
        metric.in_trial(trial)
    };
    let blocks = here.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
    (0..blocks).filter_map(|block| Some((value(first, block)?, value(second, block)?))).collect()
}

fn floors_of(plan: &Plan, here: &[&Trial], twin: &ArmSummary) -> Vec<NoiseFloor> {
    Metric::EVERY
        .iter()
        .filter_map(|&metric| {
            let found = compared(plan, here, &twin.arm, metric)?;
            let interval = found.interval?;
            let strayed = interval.low > 1.0 || interval.high < 1.0;
            Some(NoiseFloor { metric, log: found.floor(), strayed })
        })
        .collect()
}

fn arm_summary(plan: &Plan, here: &[&Trial], all: &[&Trial], name: &str) -> ArmSummary {
    let mine: Vec<&Trial> =
        here.iter().copied().filter(|it| it.arm == name && it.counted).collect();
    let loads: Vec<&Load> = mine.iter().filter_map(|trial| trial.result()).collect();
    let middle = |value: &dyn Fn(&Trial) -> Option<f64>| {
        median(&mine.iter().filter_map(|trial| value(trial)).collect::<Vec<_>>())
    };
    let of = |metric: Metric| middle(&|trial| metric.in_trial(trial));
    // If only some trials supported a percentile, its median would be that of the lucky ones.
    let tail = |metric: Metric| {
        loads.iter().all(|load| metric.of(load).is_some()).then(|| of(metric)).flatten()
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
        throughput_rps: of(Metric::Throughput),
        p50_ns: of(Metric::P50),
        p99_ns: tail(Metric::P99),
        p999_ns: tail(Metric::P999),
        mean_ns: of(Metric::Mean),
        max_ns: of(Metric::Max),
        cpu_ns: of(Metric::Cpu),
        switches: of(Metric::Switches),
        memory_kb: of(Metric::Memory),
        busy,
        late,
        offered_rps: middle(&|trial| trial.seen.offered_rps),
        in_flight: by_load(&|load| in_flight(load).map(|it| it.0)),
        connection_bytes: of(Metric::ConnectionMemory),
        capacity_rps: of(Metric::Capacity),
        kept_share: middle(&|trial| trial.seen.recovery.as_ref()?.kept_share),
        recovered_ms: of(Metric::Recovery),
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
        forks: middle(&|cost| count(cost.forks)),
        threads_created: middle(&|cost| count(cost.threads_created)),
        kills: middle(&|cost| count(cost.kills)),
        listen_overflows: seen(&|trial| trial.conditions.listen_overflows),
        syn_retransmits: seen(&|trial| trial.conditions.syn_retransmits),
    })
}

#[cfg(test)]
mod tests;
