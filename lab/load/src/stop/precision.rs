//! Stops when a number is known precisely enough: the width of its interval is the stop rule.
//!
//! Every interval of time gives one value (a mean, a percentile, a rate). Values of neighbouring
//! intervals are correlated, so they are gathered into batches that double in length whenever there
//! are too many. The means of long batches are nearly independent, and the half-width of their 95 %
//! interval is `t s / sqrt(n)` (A. Law, "Simulation Modeling and Analysis", section 9.5.3: batch
//! means).
//!
//! This is the precision within one run of one process on this machine now. Two runs differ by
//! more.

use super::{Progress, Stop};
use crate::Instant;
use crate::parse::Usage;
use crate::tally::Tally;
use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Fewer batches than this give no usable interval.
const BATCHES_MIN: usize = 16;
/// At this many batches neighbours are merged.
const BATCHES_MAX: usize = 64;
/// Student's t for 95 % at 15 to 63 degrees of freedom is 2.13 to 2.00; the largest serves all.
const STUDENT: f64 = 2.13;

/// The number to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Replies a second.
    Rate,
    /// The mean of the response time.
    Mean,
    /// A percentile of the response time, in thousandths: 500, 900, 990.
    Quantile(u16),
}

/// The required precision: `2%`, `5%:p99`, `1%:rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The number.
    pub metric: Metric,
    /// Half the width of its 95 % interval, as a fraction of it.
    pub share: f64,
}

/// Ends when a number is known to a precision, or at a deadline.
#[derive(Debug)]
pub struct ByPrecision {
    precision: Precision,
    end: Instant,
    batches: RefCell<Batches>,
}

/// Means of batches of equal length.
#[derive(Clone, Debug, Default)]
struct Batches {
    means: Vec<f64>,
    /// Values per batch.
    length: u32,
    /// The batch being filled: its sum and number of values.
    open: (f64, u32),
}

impl ByPrecision {
    /// Ends when `precision` is reached, or at `end`.
    pub fn new(precision: Precision, end: Instant) -> Self {
        let batches = Batches { length: 1, ..Batches::default() };
        Self { precision, end, batches: RefCell::new(batches) }
    }
}

impl Stop for ByPrecision {
    fn room(&self, _asked: u64) -> u64 {
        u64::MAX
    }

    fn over(&self, progress: Progress) -> bool {
        let width = self.batches.borrow().half_width();
        progress.now >= self.end || width.is_some_and(|width| width <= self.precision.share)
    }

    fn wake(&self) -> Option<Instant> {
        Some(self.end)
    }

    fn looks(&self) -> bool {
        true
    }

    fn reached(&self) -> Option<(Option<f64>, f64)> {
        Some((self.batches.borrow().half_width(), self.precision.share))
    }

    fn look(&self, tally: &Tally, span: Duration) {
        let response = &tally.response;
        let value = match self.precision.metric {
            Metric::Rate => tally.done as f64 / span.as_secs_f64(),
            _ if response.count() == 0 => return,
            Metric::Mean => response.mean(),
            Metric::Quantile(q) => response.quantile(f64::from(q) / 1000.0) as f64,
        };
        self.batches.borrow_mut().push(value);
    }
}

impl Batches {
    fn push(&mut self, value: f64) {
        let (sum, count) = self.open;
        self.open = (sum + value, count + 1);
        if self.open.1 < self.length {
            return;
        }
        self.means.push(self.open.0 / f64::from(self.length));
        self.open = (0.0, 0);
        if self.means.len() == BATCHES_MAX {
            self.means = self.means.chunks(2).map(|two| (two[0] + two[1]) / 2.0).collect();
            self.length *= 2;
        }
    }

    fn half_width(&self) -> Option<f64> {
        let n = self.means.len();
        if n < BATCHES_MIN {
            return None;
        }
        let mean = self.means.iter().sum::<f64>() / n as f64;
        let squares: f64 = self.means.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (n - 1) as f64 / n as f64).sqrt();
        (mean > 0.0).then(|| STUDENT * error / mean)
    }
}

impl FromStr for Precision {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let bad = || {
            Usage(format!(
                "expected a precision such as 2% (of the median), 2%:rate, 2%:mean, 5%:p99, found \
                 `{text}`"
            ))
        };
        let (share, metric) = text.split_once(':').unwrap_or((text, "p50"));
        let metric = match metric {
            "rate" => Metric::Rate,
            "mean" => Metric::Mean,
            "p50" => Metric::Quantile(500),
            "p90" => Metric::Quantile(900),
            "p99" => Metric::Quantile(990),
            _ => return Err(bad()),
        };
        let percent = share.strip_suffix('%').and_then(|share| share.trim().parse().ok());
        let percent = percent.filter(|percent: &f64| (0.01..=100.0).contains(percent));
        Ok(Self { metric, share: percent.ok_or_else(bad)? / 100.0 })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.share * 100.0;
        match self.metric {
            Metric::Rate => write!(f, "{percent}% of the rate"),
            Metric::Mean => write!(f, "{percent}% of the mean response"),
            Metric::Quantile(q) => write!(f, "{percent}% of the response's p{}", q / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> ByPrecision {
        ByPrecision::new(text.parse().expect(text), Instant::from_ns(1000))
    }

    fn over(rule: &ByPrecision, now: u64) -> bool {
        let now = Instant::from_ns(now);
        rule.over(Progress { now, asked: 0, done: 0, outstanding: 0 })
    }

    fn look(rule: &ByPrecision, ns: u64) {
        let mut tally = Tally::default();
        tally.response.record(ns, 100);
        rule.look(&tally, Duration::from_secs(1));
    }

    #[test]
    fn steady_values_are_soon_enough_and_wild_ones_never() {
        let steady = rule("1%");
        (0..BATCHES_MIN - 1).for_each(|_| look(&steady, 5000));
        assert!(!over(&steady, 1));
        look(&steady, 5000);
        assert!(over(&steady, 1));
        let wild = rule("1%:mean");
        (0..100).for_each(|i| look(&wild, if i % 7 == 0 { 90_000 } else { 1000 }));
        assert!(!over(&wild, 999) && over(&wild, 1000));
    }

    #[test]
    fn batches_double_and_keep_the_mean() {
        let mut batches = Batches { length: 1, ..Batches::default() };
        (0..6400).for_each(|i| batches.push(f64::from(i % 10)));
        assert!((32..64).contains(&batches.means.len()), "{}", batches.means.len());
        let mean = batches.means.iter().sum::<f64>() / batches.means.len() as f64;
        assert!((mean - 4.5).abs() < 0.05, "{mean}");
        assert!(batches.half_width().expect("enough") < 0.02);
    }

    #[test]
    fn precisions_are_read() {
        for (text, metric, share) in [
            ("2%", Metric::Quantile(500), 0.02),
            ("0.5%:rate", Metric::Rate, 0.005),
            ("5%:p99", Metric::Quantile(990), 0.05),
        ] {
            assert_eq!(text.parse(), Ok(Precision { metric, share }), "{text}");
        }
        for bad in ["", "2", "0%", "2%:p12", "200%", "-1%", "x%"] {
            assert!(bad.parse::<Precision>().is_err(), "{bad}");
        }
    }
}
