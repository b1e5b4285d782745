//! Objectives of a run: `p99 < 5ms, rate > 10k/s`.

use crate::parse::Usage;
use meter::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Objective;
use stats::objective::Limit;
use std::fmt;
use std::str::FromStr;

const METRICS: &[&str] = &["p", "mean", "max", "rate", "errors"];

/// Objectives, all of which must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo(pub Vec<Objective>);

/// The outcome of a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The goal in its present form.
    pub goal: String,
    /// The fraction answered within the time; failed and unanswered requests were not. Of `errors`
    /// the fraction with a right reply; of `mean` and `rate` 1 if met, else 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub found: f64,
    /// Whether the goal is met.
    pub met: bool,
    /// The value of `mean` (ns), unless no request has a time, of `rate` (requests a second), or of
    /// `errors` (a fraction; 1 if there was no request).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

impl Slo {
    /// Judges the goals from the response times, the number of due requests `without` a time, and
    /// the right replies a second. A request without a time took longer than any limit.
    pub fn judge(&self, response: &Histogram, without: u64, rate: f64) -> Vec<Outcome> {
        self.0.iter().map(|goal| judge(goal, response, without, rate)).collect()
    }

    /// Whether all goals are about times and errors, which a search for a rate can keep.
    pub fn fits_search(&self) -> bool {
        self.0.iter().all(|goal| goal.metric != "rate")
    }
}

fn judge(goal: &Objective, response: &Histogram, without: u64, rate: f64) -> Outcome {
    let Limit::Value(limit) = goal.limit else { unreachable!("a run has no arms to refer to") };
    let all = response.count() + without;
    let within = || response.count_within(limit as u64) as f64 / all.max(1) as f64;
    let yes_or_no = |met: bool| if met { 1.0 } else { 0.0 };
    let (found, met, value) = match goal.metric.as_str() {
        "rate" => (yes_or_no(rate > limit), rate > limit, Some(rate)),
        "mean" => {
            let met = without == 0 && response.count() > 0 && response.mean() < limit;
            (yes_or_no(met), met, (response.count() > 0).then(|| response.mean()))
        }
        "errors" => {
            let errors = if all == 0 { 1.0 } else { without as f64 / all as f64 };
            (1.0 - errors, errors < limit, Some(errors))
        }
        _ => {
            let share = goal.share().unwrap_or(1.0);
            (within(), within() >= share, None)
        }
    };
    Outcome { goal: goal.to_string(), found, met: all > 0 && met, value }
}

impl FromStr for Slo {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let goal = |part: &str| {
            let goal = Objective::parse(part.trim(), METRICS).map_err(Usage)?;
            let sense = if goal.metric == "rate" { '>' } else { '<' };
            let wrong = |what: &str| Usage(format!("expected {what}, found `{}`", part.trim()));
            match &goal.limit {
                Limit::Times(..) => Err(wrong("a value with a unit, because a run has no arms")),
                Limit::Value(limit) if *limit <= 0.0 => Err(wrong("a limit above zero")),
                _ if goal.arm.is_some() => Err(wrong("no arm before the metric")),
                _ if goal.point.is_some() => Err(wrong("no load point")),
                _ if goal.is_above != (sense == '>') => {
                    Err(wrong(&format!("`{} {sense}` a limit", goal.metric)))
                }
                _ => Ok(goal),
            }
        };
        text.split(',').map(goal).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goals: Vec<String> = self.0.iter().map(Objective::to_string).collect();
        f.write_str(&goals.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_cannot_judge_is_refused() {
        fn check(text: &str, want: &str) {
            let Usage(found) = text.parse::<Slo>().expect_err(text);
            assert!(found.contains(want), "{text}: {found}");
        }
        check("", "no comparison");
        check("99<5ms", "expected a metric out of p50, p99, p99.9, mean, max, rate, errors");
        check("p99 < 5ms,", "no comparison");
        check("99%<0s", "a limit above zero");
        check("p99 > 5ms", "expected `p99 <` a limit");
        check("rate < 5k/s", "expected `rate >` a limit");
        check("p99 < 1.1x old", "a run has no arms");
        check("new p99 < 1ms", "no arm before the metric");
        check("p99 < 1ms at depth 1", "no load point");
        let slo: Slo = "99%<5ms, rate>10k/s".parse().expect("two goals");
        assert_eq!(slo.to_string(), "p99 < 5ms, rate > 10k/s");
        assert!(!slo.fits_search() && slo.0[0].is_old && !slo.0[1].is_old);
    }

    #[test]
    fn who_was_not_answered_was_not_answered_in_time() {
        let mut response = Histogram::new();
        response.record(1_000_000, 990);
        response.record(9_000_000, 9);
        let check = |text: &str, without, want: bool| {
            let slo: Slo = text.parse().expect(text);
            let found = slo.judge(&response, without, 5_000.0).remove(0);
            assert_eq!(found.met, want, "{text}, {without}: {found:?}");
        };
        check("p99 < 5ms", 1, true);
        check("p99 < 5ms", 2, false);
        check("p99.8 < 10ms", 0, true);
        check("p50 < 0.9ms", 0, false);
        check("p1 < 1h", 1_000_000, false);
        check("max < 10ms", 0, true);
        check("max < 10ms", 1, false);
        check("mean < 1.1ms", 0, true);
        check("mean < 1.1ms", 1, false);
        check("mean < 1ms", 0, false);
        check("rate > 4k/s", 0, true);
        check("rate > 5k/s", 0, false);
        check("errors < 0.2%", 1, true);
        check("errors < 0.1%", 1, false);
        let one: Slo = "p1 < 1s, errors < 1%".parse().expect("two");
        assert!(one.judge(&Histogram::new(), 0, 0.0).iter().all(|it| !it.met));
        let all: Slo = "p1 < 1s, errors < 1%, mean < 1s, max < 1s".parse().expect("four");
        for without in [0, 7] {
            let found = all.judge(&Histogram::new(), without, 0.0);
            assert!(found.iter().all(|it| !it.met && it.found == 0.0), "{found:?}");
            let values: Vec<_> = found.iter().map(|it| it.value).collect();
            assert_eq!(values, [None, Some(1.0), None, None], "no reply is not a good time");
        }
    }
}
