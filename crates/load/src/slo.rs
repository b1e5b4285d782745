//! A latency objective: `p99 < 5ms`.

use crate::parse::{Usage, span};
use meter::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Fractions of requests and the times within which they must be answered; all must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo(pub Vec<Goal>);

/// A fraction of all requests must be answered within a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The fraction, above 0 and below 1.
    pub share: f64,
    /// The response time.
    pub within: Duration,
}

/// The outcome of a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The goal as written.
    pub goal: String,
    /// The fraction answered within the time. Failed and unanswered requests were not.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub found: f64,
    /// Whether the goal is met.
    pub met: bool,
}

impl Slo {
    /// Judges the goals from the response times and the number of due requests `without` a time.
    pub fn judge(&self, response: &Histogram, without: u64) -> Vec<Outcome> {
        let all = response.count() + without;
        let judge = |goal: &Goal| {
            let ns = u64::try_from(goal.within.as_nanos()).unwrap_or(u64::MAX);
            let found = response.count_within(ns) as f64 / all.max(1) as f64;
            Outcome { goal: goal.to_string(), found, met: all > 0 && found >= goal.share }
        };
        self.0.iter().map(judge).collect()
    }
}

impl FromStr for Slo {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let bad = || {
            Usage(format!(
                "expected an objective such as `p99 < 5ms`, or several as `p50 < 1ms, p99.9 < \
                 20ms`, found `{text}`"
            ))
        };
        let goal = |part: &str| {
            let (share, within) = part.split_once('<').ok_or_else(bad)?;
            // The older form is `99%<5ms`.
            let share = share.trim();
            let percent: f64 = share
                .strip_prefix('p')
                .or_else(|| share.strip_suffix('%'))
                .and_then(|percent| percent.trim().parse().ok())
                .filter(|percent| (0.0..100.0).contains(percent) && *percent > 0.0)
                .ok_or_else(bad)?;
            let within = span(within.trim()).ok().filter(|within| !within.is_zero());
            // Divided only once, so that 99.9 % equals the float 0.999.
            let share = (percent * 1e6).round() / 1e8;
            Ok(Goal { share, within: within.ok_or_else(bad)? })
        };
        text.split(',').map(goal).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounding removes binary fraction noise: 0.99 * 100 is 99.00000000000001.
        let percent = (self.share * 1e8).round() / 1e6;
        write!(f, "p{percent} < {:?}", self.within)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goals: Vec<String> = self.0.iter().map(Goal::to_string).collect();
        f.write_str(&goals.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_and_written() {
        for (text, goals) in [
            ("99%<5ms", &[(0.99, 5_000)][..]),
            ("p50 < 1ms, p99.9<0.02s", &[(0.5, 1_000), (0.999, 20_000)]),
        ] {
            let slo: Slo = text.parse().expect(text);
            let found: Vec<_> = slo.0.iter().map(|it| (it.share, it.within.as_micros())).collect();
            assert_eq!(found, goals);
            assert_eq!(slo.to_string().parse(), Ok(slo));
        }
        assert_eq!("99%<5ms".parse::<Slo>().expect("one").to_string(), "p99 < 5ms");
        for bad in [
            "",
            "99<5ms",
            "p100 < 5ms",
            "p9% < 1s",
            "0%<5ms",
            "99%<0s",
            "99%>5ms",
            "99%<5ms,",
            "x%<1s",
        ] {
            assert!(bad.parse::<Slo>().is_err(), "{bad}");
        }
    }

    #[test]
    fn who_was_not_answered_was_not_answered_in_time() {
        let mut response = Histogram::new();
        response.record(1_000_000, 990);
        response.record(9_000_000, 9);
        let judge = |text: &str, without| {
            let slo: Slo = text.parse().expect(text);
            slo.judge(&response, without).remove(0).met
        };
        assert!(judge("99%<5ms", 1) && !judge("99%<5ms", 2));
        assert!(judge("99.8%<10ms", 0) && !judge("50%<0.9ms", 0));
        assert!(!judge("1%<1h", 1_000_000));
        let one: Slo = "1%<1s".parse().expect("one");
        assert!(!one.judge(&Histogram::new(), 0)[0].met);
    }
}
