//! A bound that a value should keep, and whether its interval shows that it does.

use crate::Interval;
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

/// Whether a goal was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, derive_more::Display)]
#[serde(rename_all = "snake_case")]
#[display("{}", self.word())]
pub enum GoalVerdict {
    /// The whole interval keeps the bound.
    Reached,
    /// The whole interval breaks the bound.
    Missed,
    /// The interval lies on both sides, or there is none.
    Unresolved,
}

impl Goal {
    /// The verdict on a value that lies in `interval`.
    pub fn verdict(self, interval: Option<&Interval>) -> GoalVerdict {
        let Some(&Interval { low, high, .. }) = interval else { return GoalVerdict::Unresolved };
        let (reached, missed) = match self {
            Goal::AtLeast(bound) => (low >= bound, high < bound),
            Goal::AtMost(bound) => (high <= bound, low > bound),
        };
        match (reached, missed) {
            (true, _) => GoalVerdict::Reached,
            (_, true) => GoalVerdict::Missed,
            _ => GoalVerdict::Unresolved,
        }
    }
}

impl GoalVerdict {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            GoalVerdict::Reached => "reached",
            GoalVerdict::Missed => "missed",
            GoalVerdict::Unresolved => "unresolved",
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
        fn check(ends: Option<(f64, f64)>, goal: Goal, want: GoalVerdict) {
            let interval = ends.map(|(low, high)| Interval { low, high, cover: 0.96 });
            assert_eq!(goal.verdict(interval.as_ref()), want, "{ends:?} {goal}");
        }
        check(Some((0.96, 0.99)), Goal::AtLeast(0.95), GoalVerdict::Reached);
        check(Some((0.90, 0.94)), Goal::AtLeast(0.95), GoalVerdict::Missed);
        check(Some((0.93, 0.97)), Goal::AtLeast(0.95), GoalVerdict::Unresolved);
        check(None, Goal::AtLeast(0.95), GoalVerdict::Unresolved);
        check(Some((900.0, 1_000.0)), Goal::AtMost(2_048.0), GoalVerdict::Reached);
        check(Some((2_000.0, 2_100.0)), Goal::AtMost(2_048.0), GoalVerdict::Unresolved);
        check(Some((2_100.0, 2_200.0)), Goal::AtMost(2_048.0), GoalVerdict::Missed);
    }
}
