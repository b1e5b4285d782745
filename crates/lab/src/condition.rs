//! Conditions on a result, for continuous integration: `uring p99 > 1.10x epoll`.
//!
//! `ARM METRIC > FACTORx ARM [at POINT]` compares two arms block by block; `ARM METRIC > VALUE [at
//! POINT]` compares one arm with a number that has a unit. A condition is met only if the whole
//! interval meets it. There is a third answer: if the interval contains the limit, no conclusion is
//! possible. A build that fails at random would be worse than one that reports this. The fourth is
//! a run without an interval: it has tested nothing, and no build should pass by that.

use crate::metric::Metric;
use crate::record::Run;
use crate::trial::Trial;
use crate::verdict::paired;
use meter::histogram::BEYOND_MIN;
use stats::{Interval, VALUES_MIN, compare, median, median_interval};
use std::str::FromStr;

/// A condition that should not be met.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The condition as it was written.
    pub text: String,
    arm: String,
    metric: Metric,
    above: bool,
    limit: Limit,
    point: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Limit {
    /// A multiple of another arm's value.
    Times(f64, String),
    /// A value in the metric's unit.
    Value(f64),
}

/// A run's answer to a condition at one load point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The condition is met: the whole interval lies beyond the limit.
    Met,
    /// The condition is not met: the whole interval lies on the other side of the limit.
    NotMet,
    /// The interval contains the limit.
    Unsure,
    /// There is no interval, because trials or blocks are missing or too short.
    NoResult,
}

/// One load point's answer, with its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Name of the load point.
    pub point: String,
    /// The answer.
    pub answer: Answer,
    /// The estimate and its interval as text.
    pub text: String,
}

impl Condition {
    /// The metric that it is about.
    pub fn metric(&self) -> Metric {
        self.metric
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let wrong = |what: &str| {
            format!(
                "{what}: expected such as `uring p99 > 1.10x epoll at depth 16`, found `{text}`"
            )
        };
        let at = text.find(['<', '>']).ok_or_else(|| wrong("no comparison"))?;
        let above = text[at..].starts_with('>');
        let (left, right) = (text[..at].trim(), text[at + 1..].trim_start_matches('=').trim());
        let (arm, metric) = left.rsplit_once(' ').ok_or_else(|| wrong("no metric"))?;
        let metric = Metric::by_key(metric).ok_or_else(|| {
            let known: Vec<&str> = Metric::EVERY.iter().map(|metric| metric.key()).collect();
            format!("expected a metric out of {}, found `{metric}`", known.join(", "))
        })?;
        let (right, point) = match right.split_once(" at ") {
            Some((right, point)) => (right.trim(), Some(point.trim().to_string())),
            None => (right, None),
        };
        let limit = match right.split_once(' ') {
            Some((factor, other)) if factor.ends_with(['x', '×']) => {
                let factor = factor.trim_end_matches(['x', '×']).parse::<f64>();
                let factor = factor.ok().filter(|it| *it > 0.0);
                Limit::Times(factor.ok_or_else(|| wrong("no factor"))?, other.trim().to_string())
            }
            _ => Limit::Value(value(right, metric).ok_or_else(|| wrong("no limit"))?),
        };
        let arm = arm.trim().to_string();
        Ok(Condition { text: text.to_string(), arm, metric, above, limit, point })
    }
}

/// A number with a unit, converted to the metric's own unit: nanoseconds, kilobytes, requests a
/// second.
fn value(text: &str, metric: Metric) -> Option<f64> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..at].parse().ok()?;
    let unit = text[at..].trim();
    let times = match metric {
        Metric::Cpu | Metric::P50 | Metric::P99 | Metric::P999 => match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return None,
        },
        Metric::Recovery => match unit {
            "ms" => 1.0,
            "s" => 1e3,
            _ => return None,
        },
        Metric::Memory => match unit {
            "kB" | "KB" => 1.0,
            "MB" => 1e3,
            "GB" => 1e6,
            _ => return None,
        },
        Metric::ConnectionMemory => match unit {
            "B" => 1.0,
            "kB" | "KB" => 1e3,
            _ => return None,
        },
        Metric::Throughput | Metric::Capacity | Metric::Switches => match unit {
            "" => 1.0,
            "k" => 1e3,
            "M" => 1e6,
            _ => return None,
        },
    };
    Some(number * times)
}

impl Condition {
    /// The run's answers at every load point that the condition covers.
    ///
    /// # Errors
    /// If the plan lacks the arm or the point: the message lists those that it has.
    pub fn ask(&self, run: &Run) -> Result<Vec<Finding>, String> {
        let plan = &run.manifest.plan;
        let arms: Vec<String> = plan.entrants().into_iter().map(|arm| arm.name).collect();
        let other = match &self.limit {
            Limit::Times(_, other) => Some(other),
            Limit::Value(_) => None,
        };
        if let Some(arm) =
            [Some(&self.arm), other].into_iter().flatten().find(|it| !arms.contains(it))
        {
            return Err(format!("expected an arm out of {}, found `{arm}`", arms.join(", ")));
        }
        let all: Vec<&str> = plan.points.iter().map(|point| point.name.as_str()).collect();
        let points: Vec<&str> = match &self.point {
            None => all,
            Some(point) if all.contains(&point.as_str()) => vec![point],
            Some(point) => {
                let known = all.join(", ");
                return Err(format!("expected a load point out of {known}, found `{point}`"));
            }
        };
        Ok(points.into_iter().map(|point| self.at(run, point)).collect())
    }

    fn at(&self, run: &Run, point: &str) -> Finding {
        let here: Vec<&Trial> = run.trials.iter().filter(|trial| trial.point == point).collect();
        let found = match &self.limit {
            Limit::Times(factor, other) => {
                let pairs = paired(&here, &self.arm, other, self.metric);
                compare(&pairs, 0, 0).map(|it| (it.ratio, it.interval, *factor))
            }
            Limit::Value(limit) => {
                let mine = here.iter().filter(|trial| trial.arm == self.arm);
                let values: Vec<f64> =
                    mine.filter_map(|trial| self.metric.in_trial(trial)).collect();
                median(&values).map(|middle| (middle, median_interval(&values), *limit))
            }
        };
        if let Some((middle, Some(interval), limit)) = found {
            let range = self.shown(interval.low) + " to " + &self.shown(interval.high);
            let text = format!("{} ({range})", self.shown(middle));
            let point = point.to_string();
            return Finding { point, answer: self.judged(interval, limit), text };
        }
        let text = self.missing(&here);
        Finding { point: point.to_string(), answer: Answer::NoResult, text }
    }

    /// Why there is no interval, and what gives one.
    fn missing(&self, here: &[&Trial]) -> String {
        let arms = match &self.limit {
            Limit::Times(_, other) => vec![self.arm.as_str(), other],
            Limit::Value(_) => vec![self.arm.as_str()],
        };
        let mine = |arm: &str| {
            let mine = here.iter().filter(|trial| trial.counted && trial.arm == arm);
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

    fn judged(&self, interval: Interval, limit: f64) -> Answer {
        let (met, not) = match self.above {
            true => (interval.low > limit, interval.high <= limit),
            false => (interval.high < limit, interval.low >= limit),
        };
        match (met, not) {
            (true, _) => Answer::Met,
            (false, true) => Answer::NotMet,
            (false, false) => Answer::Unsure,
        }
    }

    fn shown(&self, value: f64) -> String {
        match self.limit {
            Limit::Times(..) => format!("{value:.3}x"),
            Limit::Value(_) => format!("{value:.4}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::tests::{manifest, trial};
    use crate::trial::Ending;

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
        fn check(text: &str, want: Answer) {
            let condition: Condition = text.parse().expect("a condition");
            let found = condition.ask(&run()).expect("its arms are there");
            assert_eq!(found[0].answer, want, "{text}: {found:?}");
        }
        check("uring rps > 1.10x epoll", Answer::Met);
        check("uring rps > 1.22x epoll", Answer::Unsure);
        check("uring rps > 1.30x epoll", Answer::NotMet);
        check("uring throughput < 0.9x epoll at depth 1", Answer::NotMet);
        check("epoll rps < 2k", Answer::Met);
        check("epoll p50 >= 2us", Answer::NotMet);
        check("prefork p50 > 1ms", Answer::NoResult);
        check("uring cpu < 0.9x epoll", Answer::Met);
    }

    #[test]
    fn a_condition_without_a_result_says_what_would_give_one() {
        let ask = |text: &str, run: &Run| {
            let found = text.parse::<Condition>().expect("a condition").ask(run).expect("its arms");
            (found[0].answer, found[0].text.clone())
        };
        let mut short = run();
        for trial in &mut short.trials {
            if let Ending::Measured { load } = &mut trial.ending {
                (load.requests, load.window_ns) = (2_500, 600_000_000);
                (load.service.p99_ns, load.response.p99_ns) = (None, None);
            }
        }
        let (answer, text) = ask("uring p99 > 1.1x epoll", &short);
        assert_eq!(answer, Answer::NoResult);
        assert!(text.contains("10000 requests") && text.contains("2500 in 600 ms"), "{text}");
        assert!(text.contains("--window 2.9s"), "{text}");
        let mut few = run();
        few.trials.truncate(8);
        few.manifest.plan.blocks = 4;
        let (answer, text) = ask("uring rps > 1.1x epoll", &few);
        assert_eq!(answer, Answer::NoResult);
        assert!(text.contains("4 blocks have") && text.contains("--blocks 6"), "{text}");
        few.trials.retain(|trial| trial.arm == "epoll");
        let (answer, text) = ask("uring rps > 1.1x epoll", &few);
        assert_eq!(
            (answer, text.as_str()),
            (Answer::NoResult, "no trial of uring has measured anything")
        );
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
        check("p99 > 1.1x epoll", "no metric");
        check("uring speed > 1.1x epoll", "expected a metric out of throughput");
        check("uring p99 > 5", "no limit");
        check("uring p99 > -1x epoll", "no factor");
        check("select rps > 1.1x epoll", "expected an arm out of epoll, uring");
        check("uring rps > 1.1x epoll at depth 9", "expected a load point out of depth 1");
    }
}
