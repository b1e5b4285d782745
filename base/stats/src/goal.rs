//! A bound that a value should keep, and whether its interval shows that it does.

use crate::{Better, Decision, Interval};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The goal for a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, derive_more::Display)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// This much or more.
    #[display(">= {_0}")]
    AtLeast(f64),
    /// This much or less.
    #[display("<= {_0}")]
    AtMost(f64),
}

impl Goal {
    /// The decision on a value that lies in `interval`: better reaches the goal, worse misses it. A
    /// value on the bound itself reaches it.
    pub fn decide(self, interval: Option<&Interval>) -> Decision {
        let Some(interval) = interval else { return Decision::Open };
        let (bound, better) = match self {
            Goal::AtLeast(bound) => (bound, Better::More),
            Goal::AtMost(bound) => (bound, Better::Less),
        };
        let reached = match self {
            Goal::AtLeast(_) => interval.low >= bound,
            Goal::AtMost(_) => interval.high <= bound,
        };
        if reached { Decision::Better } else { Decision::by_side(interval.side(bound), better) }
    }

    /// The word for a decision on a goal.
    pub fn word(decision: Decision) -> &'static str {
        match decision {
            Decision::Better => "reached",
            Decision::Worse => "missed",
            Decision::Equal | Decision::Open => "unresolved",
        }
    }
}

impl FromStr for Goal {
    type Err = String;

    /// Reads `>= 0.95` or `<= 2048`.
    fn from_str(text: &str) -> Result<Goal, String> {
        let text = text.trim();
        let wrong = || format!("expected a goal such as `>= 0.95` or `<= 2048`, found `{text}`");
        let least = text.strip_prefix(">=").map(|rest| (rest, true));
        let most = text.strip_prefix("<=").map(|rest| (rest, false));
        let (bound, is_least) = least.or(most).ok_or_else(wrong)?;
        let bound = bound.trim().parse::<f64>().ok().filter(|it| it.is_finite());
        let bound = bound.ok_or_else(wrong)?;
        Ok(if is_least { Goal::AtLeast(bound) } else { Goal::AtMost(bound) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read_as_they_are_shown() {
        for goal in [Goal::AtLeast(0.95), Goal::AtMost(2048.0)] {
            assert_eq!(goal.to_string().parse(), Ok(goal));
        }
        assert_eq!(">=1".parse(), Ok(Goal::AtLeast(1.0)));
        for bad in ["", "0.95", "> 1", ">= soon", "<= inf", "≥ 1"] {
            let why = bad.parse::<Goal>().expect_err("no goal");
            assert!(why.contains(&format!("found `{bad}`")), "{why}");
        }
    }

    #[test]
    fn a_goal_needs_the_whole_interval_on_one_side() {
        fn check(ends: Option<(f64, f64)>, goal: Goal, want: Decision) {
            let interval = ends.map(|(low, high)| Interval { low, high, cover: 0.96 });
            assert_eq!(goal.decide(interval.as_ref()), want, "{ends:?} {goal}");
        }
        check(Some((0.96, 0.99)), Goal::AtLeast(0.95), Decision::Better);
        check(Some((0.90, 0.94)), Goal::AtLeast(0.95), Decision::Worse);
        check(Some((0.93, 0.97)), Goal::AtLeast(0.95), Decision::Open);
        check(None, Goal::AtLeast(0.95), Decision::Open);
        check(Some((900.0, 1_000.0)), Goal::AtMost(2_048.0), Decision::Better);
        check(Some((2_000.0, 2_100.0)), Goal::AtMost(2_048.0), Decision::Open);
        check(Some((2_100.0, 2_200.0)), Goal::AtMost(2_048.0), Decision::Worse);
    }
}
