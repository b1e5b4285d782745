//! The evidence of a race: every comparison of its family, made together.
//!
//! The family are the pre-registered metrics at all load points: each arm against the baseline, and
//! in CPU per request all pairs, because the cheapest arm of a race is chosen after its outcome is
//! known, and of eight equal arms one always comes first by chance. Arms that left because they
//! were clearly costlier have their answer already and are not among them. A comparison outside the
//! family is exploratory and has a separate interval.

use super::NoiseFloor;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::trial::Trial;
use stats::{Comparison, Terms, compare, compare_all};
use std::collections::BTreeMap;

type Key = (usize, Metric, String, String);

/// The comparisons of one race.
pub(crate) struct RaceEvidence<'a> {
    pub plan: &'a Plan,
    trials: &'a [Trial],
    known: BTreeMap<Key, Comparison>,
    /// Arms that left because they were clearly costlier.
    pub cleared: Vec<String>,
    /// The number of comparisons with an interval.
    pub family: u32,
}

impl<'a> RaceEvidence<'a> {
    /// The evidence of all trials.
    pub fn of(plan: &'a Plan, trials: &'a [Trial]) -> RaceEvidence<'a> {
        RaceEvidence::without(plan, trials, super::answer::cleared(plan, trials))
    }

    /// The evidence of these trials, in which the arms `cleared` are no longer compared.
    pub fn without(plan: &'a Plan, trials: &'a [Trial], cleared: Vec<String>) -> RaceEvidence<'a> {
        let staying = |name: &&str| !cleared.iter().any(|cleared| cleared == name);
        let names = plan.arms.iter().map(|arm| arm.name.as_str());
        let names: Vec<&str> = names.filter(staying).collect();
        let blocks = trials.iter().map(|it| it.block + 1).max().unwrap_or(0);
        let (mut keys, mut all) = (Vec::new(), Vec::new());
        for (at, point) in plan.points.iter().enumerate() {
            let here: Vec<&Trial> = trials.iter().filter(|it| it.point == point.name).collect();
            for metric in plan.registered(point) {
                let kind = at * Metric::EVERY.len() + metric as usize;
                for (nth, first) in names.iter().enumerate() {
                    for second in &names[nth + 1..] {
                        let has_base = [*first, *second].contains(&plan.baseline.as_str());
                        if metric != Metric::Cpu && !has_base {
                            continue;
                        }
                        let logs = log_ratios(&here, blocks, [first, second], metric);
                        if logs.iter().any(Option::is_some) {
                            keys.push((at, metric, (*first).to_string(), (*second).to_string()));
                            all.push((kind, logs));
                        }
                    }
                }
            }
        }
        let found = compare_all(&all, plan.seed).into_iter();
        let known: BTreeMap<Key, Comparison> =
            keys.into_iter().zip(found).filter_map(|(key, it)| Some((key, it?))).collect();
        let family = known.values().filter(|it| it.interval.is_some()).count() as u32;
        RaceEvidence { plan, trials, known, cleared, family }
    }

    /// The comparison of two arms at a load point.
    pub fn comparison(&self, point: &str, metric: Metric, arms: [&str; 2]) -> Option<Comparison> {
        let at = self.plan.points.iter().position(|it| it.name == point)?;
        let key = |[first, second]: [&str; 2]| (at, metric, first.to_string(), second.to_string());
        let turned = || self.known.get(&key([arms[1], arms[0]])).map(Comparison::inverse);
        self.known
            .get(&key(arms))
            .cloned()
            .or_else(turned)
            .or_else(|| compare(&paired(&self.at(point), arms[0], arms[1], metric)))
    }

    /// The bound that a difference in a metric has to exceed at a load point.
    pub fn terms(&self, point: &str, metric: Metric) -> Terms {
        let twin = self.twin(point, metric);
        let floor = twin.filter(|it| it.interval.is_some()).map_or(0.0, |it| it.floor());
        Terms { better: metric.better(), floor, margin: self.plan.margin }
    }

    /// The baseline's twin against the baseline.
    pub fn twin(&self, point: &str, metric: Metric) -> Option<Comparison> {
        let twin = self.plan.twin.then(|| self.plan.twin_name())?;
        self.comparison(point, metric, [&twin, &self.plan.baseline])
    }

    /// The noise floors of all metrics at a load point.
    pub fn floors(&self, point: &str) -> Vec<NoiseFloor> {
        let floor = |&metric: &Metric| {
            let twin = self.twin(point, metric)?;
            let interval = twin.interval?;
            let strayed = interval.side(1.0).is_some();
            Some(NoiseFloor { metric, log: twin.floor(), strayed })
        };
        Metric::EVERY.iter().filter_map(floor).collect()
    }

    /// The trials of a load point.
    pub fn at(&self, point: &str) -> Vec<&'a Trial> {
        self.trials.iter().filter(|trial| trial.point == point).collect()
    }
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
        for trial in here.iter().filter(|it| it.arm == arm) {
            let value = metric.in_trial(trial).filter(|value| *value > 0.0);
            logs[trial.block as usize] = value.map(f64::ln);
        }
        logs
    };
    logs(first).into_iter().zip(logs(second)).map(|(a, b)| Some(a? - b?)).collect()
}

/// The pairs (first, second) of each block in which both arms gave a result at one load point.
pub fn paired(here: &[&Trial], first: &str, second: &str, metric: Metric) -> Vec<(f64, f64)> {
    let value = |name: &str, block: u32| {
        let trial = here.iter().find(|it| it.arm == name && it.block == block)?;
        metric.in_trial(trial)
    };
    let blocks = here.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
    (0..blocks).filter_map(|block| Some((value(first, block)?, value(second, block)?))).collect()
}
