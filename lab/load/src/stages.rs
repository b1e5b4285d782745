//! Loads in stages: a level of users, or a rate, that goes up, holds and comes down.
//!
//! A stage is a time and the level at its end; within it the level changes evenly, from the end of
//! the stage before, and from zero at first (`--stage` of k6 has the same form and meaning). With a
//! level of users, a user is present while the level is at least its number; with a rate, arrivals
//! come where the integral of the rate passes the sums of their draws (time-rescaling theorem:
//! Brown et al., Neural Computation 14, 2002, section 2).

use crate::parse::Usage;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use wire::conf::span;

/// The longest load, seconds: a hundred days.
const LONGEST: f64 = 8_640_000.0;
const HIGHEST: f64 = 1e9;

/// The stages of a load.
#[derive(Clone, Debug, PartialEq, derive_more::Display)]
#[display("{text}")]
pub struct Stages {
    /// As written.
    text: String,
    /// Whether the levels are arrivals a second, not users.
    pub is_rate: bool,
    /// Length of each stage in seconds, level at its start and at its end.
    list: Vec<(f64, f64, f64)>,
}

impl FromStr for Stages {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let bad = |part: &str| {
            Usage(format!(
                "expected stages TIME:USERS, or TIME:RATE/s in all of them, such as \
                 30s:100,2m:100,30s:0, found `{part}`"
            ))
        };
        let (mut list, mut level, mut rates) = (Vec::new(), 0.0, 0);
        for part in text.split(',') {
            let (time, end) = part.trim().split_once(':').ok_or_else(|| bad(part))?;
            let seconds = span(time).map_err(|_| bad(part))?.as_secs_f64();
            let number = end.strip_suffix("/s");
            rates += usize::from(number.is_some());
            let end: f64 = number.unwrap_or(end).parse().map_err(|_| bad(part))?;
            let is_whole = number.is_some() || end.fract() == 0.0;
            if !(0.0..=HIGHEST).contains(&end) || !is_whole || seconds > LONGEST {
                return Err(bad(part));
            }
            list.push((seconds, level, end));
            level = end;
        }
        if rates != 0 && rates != list.len() {
            return Err(bad(text));
        }
        let stages = Self { text: text.to_owned(), is_rate: rates > 0, list };
        match stages.span().is_zero() || stages.most() == 0.0 || stages.seconds() > LONGEST {
            true => Err(bad(text)),
            false => Ok(stages),
        }
    }
}

impl Stages {
    fn seconds(&self) -> f64 {
        self.list.iter().map(|stage| stage.0).sum()
    }

    /// The length of all of them.
    pub fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds())
    }

    /// The highest level.
    pub fn most(&self) -> f64 {
        self.list.iter().map(|stage| stage.2).fold(0.0, f64::max)
    }

    /// The mean level over their length.
    pub fn mean(&self) -> f64 {
        let area = self.list.iter().map(|(time, from, to)| time * (from + to) / 2.0);
        area.sum::<f64>() / self.seconds()
    }

    /// When the level is at least `wanted` for the first time from `now` on, in seconds from the
    /// start; the present moment if it is.
    fn reaches(&self, wanted: f64, now: f64) -> Option<f64> {
        let mut begin = 0.0;
        for &(time, from, to) in &self.list {
            let end = begin + time;
            if end > now {
                let rising = (to - from) / time;
                let at = |moment: f64| from + rising * (moment - begin);
                let first = begin.max(now);
                if at(first) >= wanted {
                    return Some(first);
                }
                if to >= wanted {
                    return Some((begin + (wanted - from) / rising).clamp(first, end));
                }
            }
            begin = end;
        }
        None
    }

    /// When the integral of the level passes `area`, in seconds from the start.
    pub(crate) fn passes(&self, area: f64) -> Option<f64> {
        let (mut begin, mut left) = (0.0, area);
        for &(time, from, to) in &self.list {
            let whole = time * (from + to) / 2.0;
            if left < whole {
                // from·t + slope·t²/2 = left, solved without cancellation.
                let slope = (to - from) / time;
                let root = (from * from + 2.0 * slope * left).max(0.0).sqrt();
                let moment = if left > 0.0 { 2.0 * left / (from + root) } else { 0.0 };
                return Some(begin + moment.min(time));
            }
            (begin, left) = (begin + time, left - whole);
        }
        None
    }
}

/// The users of a thread, present by the stages.
#[derive(Clone, Debug)]
pub struct Presence {
    /// The stages.
    pub stages: Arc<Stages>,
    /// The number of this thread.
    pub part: usize,
    /// The number of threads.
    pub parts: usize,
}

impl Presence {
    /// When the user of slot `at` comes back, `now` after the start; `None` while it is present.
    /// A user that stays away comes back after the end.
    pub(crate) fn away_until(&self, at: usize, now: Duration) -> Option<Duration> {
        let number = (at * self.parts + self.part + 1) as f64;
        let now = now.as_secs_f64();
        let back = self.stages.reaches(number, now).unwrap_or(2.0 * LONGEST);
        (back > now).then(|| Duration::from_secs_f64(back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrive::ArrivalProcess;
    use crate::{Arrivals, Instant};

    fn stages(text: &str) -> Arc<Stages> {
        Arc::new(text.parse().expect("stages"))
    }

    fn dues(text: &str, arrivals: Arrivals, of: (usize, usize)) -> Vec<f64> {
        let mut staged = ArrivalProcess::staged(stages(text), arrivals, 7, of);
        staged.start(Instant::ZERO);
        let next = || {
            let due = staged.due()?.ns() as f64 / 1e9;
            staged.advance();
            Some(due)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_rate_goes_up_holds_and_comes_down() {
        let text = "10s:100/s,10s:100/s,10s:0/s";
        let even = dues(text, Arrivals::Constant, (0, 1));
        let counted =
            |from: f64, to: f64| even.iter().filter(|&&due| (from..to).contains(&due)).count();
        assert_eq!(even.len(), 2000);
        assert_eq!(
            (counted(0.0, 10.0), counted(10.0, 20.0), counted(20.0, 30.0)),
            (500, 1000, 500)
        );
        assert_eq!((counted(0.0, 5.0), counted(25.0, 30.0)), (125, 125));
        assert!(even.is_sorted());
        // Two threads share it; chance keeps the counts.
        let both = dues(text, Arrivals::Constant, (0, 2)).len()
            + dues(text, Arrivals::Constant, (1, 2)).len();
        assert_eq!(both, 2000);
        let drawn = dues(text, Arrivals::Poisson, (0, 1));
        let held = drawn.iter().filter(|&&due| (10.0..20.0).contains(&due)).count();
        // Four standard deviations of a Poisson count of 1,000.
        assert!(held.abs_diff(1000) < 127 && drawn.len().abs_diff(2000) < 179, "{held}");
    }

    #[test]
    fn users_come_and_go_by_their_number() {
        let presence =
            Presence { stages: stages("10s:10,5s:10,10s:0,0s:5,5s:5"), part: 0, parts: 1 };
        let seconds = |at, now| {
            let back = presence.away_until(at, Duration::from_secs_f64(now));
            back.map(|back| back.as_secs_f64())
        };
        assert_eq!((seconds(0, 0.0), seconds(9, 0.0)), (Some(1.0), Some(10.0)));
        assert_eq!((seconds(0, 1.0), seconds(9, 12.0)), (None, None));
        // The last leaves first, and does not come back to a level of five.
        assert!(seconds(9, 15.5).is_some_and(|back| back > LONGEST));
        assert_eq!((seconds(4, 20.5), seconds(4, 26.0)), (Some(25.0), None));
        let half = Presence { part: 1, parts: 2, ..presence };
        assert_eq!(half.away_until(0, Duration::ZERO), Some(Duration::from_secs(2)));
    }

    #[test]
    fn stages_have_a_mean_and_a_most() {
        let found = stages("1m:60,1m:60,1m:0");
        assert_eq!((found.span().as_secs(), found.most(), found.mean()), (180, 60.0, 40.0));
        assert!(!found.is_rate && stages("1s:0.5/s").is_rate);
        for bad in ["", "10s", "x:5", "1s:-1", "1s:1.5", "1s:5,1s:5/s", "0s:5", "5s:0", "1s:1e12"] {
            let why = bad.parse::<Stages>().expect_err(bad);
            assert!(why.to_string().contains("TIME:USERS"), "{why}");
        }
    }
}
