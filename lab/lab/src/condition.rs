//! Conditions on a result, for continuous integration: `uring p99 > 1.10x epoll`.
//!
//! In the grammar of [`stats::objective`] a multiple of an arm compares two arms block by block,
//! and a value with a unit is held against one arm. A condition without an arm is about every arm
//! but the one that it names and the twin. It is met only if the whole interval of the report's own
//! evidence lies beyond the limit, and the difference is larger than that of the twin. If the
//! interval contains the limit, the decision is open: a build that fails at random would be worse
//! than one that reports this. A run without an interval has tested nothing, and no build should
//! pass by that.

use crate::metric::Metric;
use crate::record::Run;
use crate::trial::Trial;
use crate::verdict::evidence::RaceEvidence;
use meter::histogram::BEYOND_MIN;
use stats::objective::{Limit, Objective};
use stats::{Decision, Interval, VALUES_MIN, median, median_interval};
use std::cmp::Ordering;
use std::str::FromStr;

/// A condition that should not be met.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The condition as it was written.
    pub text: String,
    /// The condition as it was read.
    pub objective: Objective,
    /// The metric that it is about.
    pub metric: Metric,
}

/// One load point's answer, with its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Name of the load point.
    pub point: String,
    /// Worse if the condition is met beyond doubt, better if it is not; `None` if there is no
    /// interval, because trials or blocks are missing or too short.
    pub decision: Option<Decision>,
    /// The estimate and its interval as text.
    pub text: String,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let hint =
            |why: String| format!("{why}; two servers are compared as in `new cpu > 1.05x old`");
        let name = |metric| match metric {
            Metric::Throughput => "rate",
            Metric::P999 => "p99.9",
            other => other.key(),
        };
        let objective = Objective::parse(text, &Metric::EVERY.map(name)).map_err(hint)?;
        let metric = Metric::by_key(&objective.metric).ok_or("expected a metric of races")?;
        Ok(Condition { text: text.to_string(), objective, metric })
    }
}

impl Condition {
    /// The run's answers at every load point that the condition covers.
    ///
    /// # Errors
    /// If the plan lacks the arm or the point: the message lists those that it has.
    pub fn ask(&self, run: &Run) -> Result<Vec<Finding>, String> {
        let plan = &run.manifest.plan;
        let arms: Vec<String> = plan.entrants().into_iter().map(|arm| arm.name).collect();
        let other = match &self.objective.limit {
            Limit::Times(_, other) => Some(other),
            Limit::Value(_) => None,
        };
        let named = [self.objective.arm.as_ref(), other].into_iter().flatten();
        if let Some(arm) = named.into_iter().find(|it| !arms.contains(it)) {
            return Err(format!("expected an arm out of {}, found `{arm}`", arms.join(", ")));
        }
        let twin = plan.twin_name();
        let asked: Vec<&String> = match &self.objective.arm {
            Some(arm) => vec![arm],
            None => arms.iter().filter(|arm| Some(*arm) != other && **arm != twin).collect(),
        };
        let all: Vec<&str> = plan.points.iter().map(|point| point.name.as_str()).collect();
        let points: Vec<&str> = match &self.objective.point {
            None => all,
            Some(point) if all.contains(&point.as_str()) => vec![point],
            Some(point) => {
                let known = all.join(", ");
                return Err(format!("expected a load point out of {known}, found `{point}`"));
            }
        };
        let evidence = RaceEvidence::of(plan, &run.trials);
        let each =
            asked.iter().flat_map(|arm| points.iter().map(|point| self.at(&evidence, arm, point)));
        Ok(each.collect())
    }

    fn at(&self, evidence: &RaceEvidence<'_>, arm: &str, point: &str) -> Finding {
        let here: Vec<&Trial> = evidence.at(point);
        let found = match &self.objective.limit {
            Limit::Times(factor, other) => {
                let found = evidence.comparison(point, self.metric, [arm, other]);
                let floor = evidence.terms(point, self.metric).floor;
                found.map(|it| (it.ratio, it.interval, *factor, it.floor() > floor))
            }
            Limit::Value(limit) => {
                let limit = limit / base_units(self.metric);
                let mine = here.iter().filter(|trial| trial.arm == arm);
                let values: Vec<f64> =
                    mine.filter_map(|trial| self.metric.in_trial(trial)).collect();
                median(&values).map(|middle| (middle, median_interval(&values), limit, true))
            }
        };
        let (decision, mut text) = match found {
            Some((middle, Some(interval), limit, is_told)) => {
                let range = self.shown(interval.low) + " to " + &self.shown(interval.high);
                let decision = self.decide(interval, limit, is_told);
                (Some(decision), format!("{} ({range})", self.shown(middle)))
            }
            _ => (None, self.missing(arm, &here)),
        };
        if self.objective.arm.is_none() {
            text = format!("{arm}: {text}");
        }
        Finding { point: point.to_string(), decision, text }
    }

    /// Why there is no interval, and what gives one.
    fn missing(&self, arm: &str, here: &[&Trial]) -> String {
        let arms = match &self.objective.limit {
            Limit::Times(_, other) => vec![arm, other],
            Limit::Value(_) => vec![arm],
        };
        let mine = |arm: &str| {
            let mine = here.iter().filter(|trial| trial.arm == arm);
            mine.copied().collect::<Vec<_>>()
        };
        if let Some(arm) = arms.iter().find(|arm| !mine(arm).iter().any(|it| it.result().is_some()))
        {
            return format!("no trial of {arm} has measured anything");
        }
        let share = match self.metric {
            Metric::P99 => Some(0.99),
            Metric::P999 => Some(0.999),
            _ => None,
        };
        let lacking = arms.iter().flat_map(|arm| mine(arm));
        let lacking = lacking.filter(|trial| self.metric.in_trial(trial).is_none());
        let least = lacking.filter_map(|trial| trial.result()).min_by_key(|load| load.requests);
        if let (Some(share), Some(load)) = (share, least) {
            let needed = (BEYOND_MIN / (1.0 - share)).round();
            let window_ms = load.window_ns as f64 / 1e6;
            // A fifth more, because throughput varies from trial to trial.
            let enough_s =
                (1.2e-2 * window_ms * needed / load.requests.max(1) as f64).ceil() / 10.0;
            return format!(
                "{} needs {needed:.0} requests in each trial, and one has {} in {window_ms:.0} ms; \
                 --window {enough_s}s gives enough",
                self.metric.key(),
                load.requests,
            );
        }
        let blocks: Vec<u32> = arms
            .iter()
            .map(|arm| {
                mine(arm).iter().filter(|it| self.metric.in_trial(it).is_some()).count() as u32
            })
            .collect();
        let blocks = blocks.into_iter().min().unwrap_or(0);
        let played = here.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
        let failed = played.saturating_sub(blocks);
        format!(
            "{blocks} blocks have the {}, and an interval needs {VALUES_MIN}; --blocks {} gives \
             enough",
            self.metric.name(),
            VALUES_MIN as u32 + failed,
        )
    }

    /// Worse where the whole interval is beyond the limit and the twin (`is_told`), better where it
    /// keeps the limit.
    fn decide(&self, interval: Interval, limit: f64, is_told: bool) -> Decision {
        let (beyond, keeps) = match self.objective.is_above {
            true => (Ordering::Greater, interval.high <= limit),
            false => (Ordering::Less, interval.low >= limit),
        };
        match interval.side(limit) == Some(beyond) {
            true if is_told => Decision::Worse,
            false if keeps => Decision::Better,
            _ => Decision::Open,
        }
    }

    fn shown(&self, value: f64) -> String {
        match self.objective.limit {
            Limit::Times(..) => format!("{value:.3}x"),
            Limit::Value(_) => format!("{value:.4}"),
        }
    }
}

/// The metric's own unit in base units: nanoseconds, bytes, requests a second.
fn base_units(metric: Metric) -> f64 {
    match metric {
        Metric::Memory => 1e3,
        Metric::Recovery => 1e6,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::tests::{load, manifest, trial};

    fn run() -> Run {
        let mut run = Run { manifest: manifest(), ..Run::default() };
        run.manifest.plan.points.truncate(1);
        for block in 0..6 {
            let wobble = f64::from(block) / 100.0;
            run.trials.push(trial("epoll", block, 1_000.0));
            run.trials.push(trial("uring", block, 1_200.0 * (1.0 + wobble)));
        }
        run
    }

    #[test]
    fn conditions_are_met_only_by_whole_intervals() {
        fn check(text: &str, want: Option<Decision>) {
            let condition: Condition = text.parse().expect("a condition");
            let found = condition.ask(&run()).expect("its arms are there");
            assert_eq!(found[0].decision, want, "{text}: {found:?}");
        }
        check("uring rps > 1.10x epoll", Some(Decision::Worse));
        check("uring rps > 1.22x epoll", Some(Decision::Open));
        check("uring rps > 1.30x epoll", Some(Decision::Better));
        check("uring throughput < 0.9x epoll at depth 1", Some(Decision::Better));
        check("epoll rps < 2k", Some(Decision::Worse));
        check("epoll p50 >= 2us", Some(Decision::Better));
        check("prefork p50 > 1ms", None);
        check("uring cpu < 0.9x epoll", Some(Decision::Worse));
        check("rate > 1.10x epoll", Some(Decision::Worse));
        check("rate < 900/s", Some(Decision::Better));
    }

    #[test]
    fn a_condition_without_a_result_says_what_would_give_one() {
        let ask = |text: &str, run: &Run| {
            let found = text.parse::<Condition>().expect("a condition").ask(run).expect("its arms");
            (found[0].decision, found[0].text.clone())
        };
        let mut short = run();
        for trial in &mut short.trials {
            let load = load(trial);
            (load.requests, load.window_ns) = (2_500, 600_000_000);
            (load.service.p99_ns, load.response.p99_ns) = (None, None);
        }
        let (decision, text) = ask("uring p99 > 1.1x epoll", &short);
        assert_eq!(decision, None);
        assert!(text.contains("10000 requests") && text.contains("2500 in 600 ms"), "{text}");
        assert!(text.contains("--window 2.9s"), "{text}");
        let mut few = run();
        few.trials.truncate(8);
        few.manifest.plan.blocks = 4;
        let (decision, text) = ask("uring rps > 1.1x epoll", &few);
        assert_eq!(decision, None);
        assert!(text.contains("4 blocks have") && text.contains("--blocks 6"), "{text}");
        few.trials.retain(|trial| trial.arm == "epoll");
        let (decision, text) = ask("uring rps > 1.1x epoll", &few);
        assert_eq!((decision, text.as_str()), (None, "no trial of uring has measured anything"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        fn check(text: &str, want: &str) {
            let found = match text.parse::<Condition>() {
                Err(why) => why,
                Ok(condition) => condition.ask(&run()).expect_err("it makes no sense"),
            };
            assert!(found.contains(want), "{text}: {found}");
        }
        check("uring p99", "no comparison");
        check("uring cpu > 5%", "compared as in `new cpu > 1.05x old`");
        check("uring speed > 1.1x epoll", "expected a metric out of rate");
        check("uring slowness > 1.1x epoll", "found `slowness`");
        check("select rps > 1.1x epoll", "expected an arm out of epoll, uring");
        check("uring rps > 1.1x epoll at depth 9", "expected a load point out of depth 1");
    }
}
