//! The summary of a run's rows.

use super::{Plan, Row};
use crate::faults::{FaultKind, Faults};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// The name and version of [`Summary`].
pub const SCHEMA: &str = "roundhouse.simulator/1";
/// The most intervals of a run.
const INTERVALS: u32 = 60;
/// The shortest interval.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// A percentile is reported only if this many times lie beyond it.
const BEYOND: usize = 10;

/// A run of the simulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// `SCHEMA`.
    pub schema: String,
    /// The server and the file.
    pub target: String,
    /// Clients that stay.
    pub clients: u32,
    /// Clients that come and go.
    pub guests: u32,
    /// Clients that could not be made.
    pub clients_missing: u32,
    /// Length of the counted window, seconds.
    pub window_s: f64,
    /// Requests answered in it.
    pub requests: u64,
    /// Requests answered in the whole run, also before and after the window.
    pub requests_total: u64,
    /// Requests a second in the window.
    pub throughput_rps: f64,
    /// From the end of the request to the last byte: the published response time.
    pub response: Times,
    /// Connecting.
    pub connect: Times,
    /// Connecting, sending and waiting: what a user experiences.
    pub whole: Times,
    /// Connections retried after a timeout.
    pub retries: u64,
    /// Replies with an incomplete head or a body shorter than announced; they count as answered, as
    /// they did for the tools of the time.
    pub malformed: u64,
    /// Failures by kind.
    pub errors: Faults,
    /// The first failure.
    pub first_failure: Option<FirstFailure>,
    /// The run in intervals of equal length; a request belongs to the interval in which it was
    /// answered.
    pub stretches: Vec<Interval>,
    /// Reasons to distrust the figures.
    pub doubts: Vec<String>,
}

/// A distribution of times, nanoseconds; a percentile beyond which fewer than ten lie is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The number of times.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: Option<f64>,
    /// 9 of 10 are shorter.
    pub p90_ns: Option<f64>,
    /// 99 of 100 are shorter.
    pub p99_ns: Option<f64>,
    /// The longest.
    pub max_ns: f64,
}

/// The first failure and its circumstances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstFailure {
    /// Its time, from the start.
    pub at_ms: f64,
    /// Requests answered before it.
    pub after_requests: u64,
    /// Clients that had arrived.
    pub users: u32,
    /// Its kind.
    pub kind: FaultKind,
    /// Its description.
    pub words: String,
}

/// An interval of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its start, seconds from the start of the run.
    pub at_s: f64,
    /// Its length, seconds.
    pub for_s: f64,
    /// Requests answered in it.
    pub requests: u64,
    /// Mean of their times including connecting, nanoseconds; 0 if there is none.
    pub mean_ns: f64,
}

impl Times {
    fn of(mut us: Vec<u64>) -> Times {
        us.sort_unstable();
        let count = us.len();
        let at = |share: f64| {
            let place = ((count as f64 * share).ceil() as usize).clamp(1, count.max(1)) - 1;
            let beyond = count.saturating_sub(place + 1);
            (beyond >= BEYOND).then(|| us[place] as f64 * 1e3)
        };
        Times {
            count: count as u64,
            mean_ns: us.iter().sum::<u64>() as f64 * 1e3 / count.max(1) as f64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            max_ns: us.last().map_or(0.0, |us| *us as f64 * 1e3),
        }
    }
}

impl Summary {
    /// Summarizes `rows`. Requests answered within the window count, whenever they began: leaving
    /// out those that began in the warm-up would remove a whole round of all clients from a closed
    /// loop, a third of a window of three rounds.
    pub(super) fn of(plan: &Plan, rows: &[Row], window: Duration) -> Summary {
        let from_us = plan.warmup.as_micros() as u64;
        let to_us = window.as_micros() as u64;
        let end = |row: &Row| row.at_us + row.connect_us + row.response_us;
        let counted: Vec<&Row> =
            rows.iter().filter(|row| (from_us..=to_us).contains(&end(row))).collect();
        let times = |of: fn(&Row) -> u64| Times::of(counted.iter().map(|row| of(row)).collect());
        let window_s = window.saturating_sub(plan.warmup).as_secs_f64();
        Summary {
            schema: SCHEMA.to_owned(),
            target: plan.target.to_string(),
            clients: plan.clients,
            guests: plan.guests,
            clients_missing: 0,
            window_s,
            requests: counted.len() as u64,
            requests_total: rows.len() as u64,
            throughput_rps: counted.len() as f64 / window_s.max(1e-9),
            response: times(|row| row.response_us),
            connect: times(|row| row.connect_us),
            whole: times(|row| row.connect_us + row.response_us),
            retries: 0,
            malformed: counted.iter().filter(|row| !row.is_whole).count() as u64,
            errors: Faults::default(),
            first_failure: None,
            stretches: intervals(rows, window),
            doubts: Vec::new(),
        }
    }

    /// Whether requests were answered and none failed.
    pub fn is_right(&self) -> bool {
        self.requests > 0 && self.errors.is_empty()
    }
}

fn intervals(rows: &[Row], window: Duration) -> Vec<Interval> {
    let each = (window / INTERVALS).max(INTERVAL_MIN).as_secs_f64();
    let count = (window.as_secs_f64() / each).floor() as usize;
    let mut sums = vec![(0_u64, 0_u64); count];
    for row in rows {
        let took = row.connect_us + row.response_us;
        let at = ((row.at_us + took) as f64 / 1e6 / each) as usize;
        if let Some((requests, us)) = sums.get_mut(at) {
            (*requests, *us) = (*requests + 1, *us + took);
        }
    }
    let interval = |(at, (requests, us)): (usize, &(u64, u64))| Interval {
        at_s: at as f64 * each,
        for_s: each,
        requests: *requests,
        mean_ns: *us as f64 * 1e3 / (*requests).max(1) as f64,
    };
    sums.iter().enumerate().map(interval).collect()
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let guests = match self.guests {
            0 => String::new(),
            guests => format!(" and {guests} guests"),
        };
        writeln!(f, "{} · simulator · {} clients{guests}", self.target, self.clients)?;
        let (requests, window, rps) = (self.requests, self.window_s, self.throughput_rps);
        writeln!(f, "  requests      {requests} in {window:.1} s ({rps:.1}/s)")?;
        for (name, times) in
            [("response", &self.response), ("connecting", &self.connect), ("both", &self.whole)]
        {
            writeln!(f, "  {name:<12}  {times}")?;
        }
        if self.retries + self.malformed > 0 {
            let (retries, malformed) = (self.retries, self.malformed);
            writeln!(f, "  tried again   {retries} connections; {malformed} replies malformed")?;
        }
        if let Some(first) = &self.first_failure {
            writeln!(
                f,
                "  first failure after {} requests with {} clients, {:.1} s: {}",
                first.after_requests,
                first.users,
                first.at_ms / 1e3,
                first.words
            )?;
        }
        for fault in &self.errors.list {
            writeln!(f, "  error         {} {}; {}", fault.count, fault.kind, fault.kind.remedy())?;
        }
        self.doubts.iter().try_for_each(|doubt| writeln!(f, "  doubt         {doubt}"))
    }
}

impl Display for Times {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let time = stats::words::time;
        write!(f, "mean {}", time(self.mean_ns))?;
        for (name, value) in [("p50", self.p50_ns), ("p90", self.p90_ns), ("p99", self.p99_ns)] {
            if let Some(ns) = value {
                write!(f, " · {name} {}", time(ns))?;
            }
        }
        write!(f, " · max {}", time(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_that_too_few_lie_beyond_are_left_out() {
        let found = Times::of((1..=100).collect());
        assert_eq!((found.count, found.mean_ns, found.max_ns), (100, 50_500.0, 100_000.0));
        assert_eq!((found.p50_ns, found.p90_ns, found.p99_ns), (Some(50e3), Some(90e3), None));
        assert_eq!(Times::of((1..=1_000).collect()).p99_ns, Some(990e3));
        assert_eq!(Times::of(Vec::new()), Times::default());
    }

    #[test]
    fn what_is_answered_in_the_window_counts() {
        let target = "http://127.0.0.1:1/".parse().expect("a target");
        let plan = Plan { warmup: Duration::from_secs(1), ..Plan::new(target, 1, Duration::ZERO) };
        let row = |at_us: u64, response_us: u64| Row {
            client: 0,
            at_us,
            connect_us: 0,
            response_us,
            retries: 0,
            bytes: 1,
            status: 200,
            is_whole: true,
        };
        // Before the window, across its beginning, within it, across its end.
        let rows = [row(0, 999_999), row(0, 1_000_000), row(2_000_000, 5), row(2_500_000, 600_000)];
        let found = Summary::of(&plan, &rows, Duration::from_secs(3));
        assert_eq!((found.requests, found.requests_total, found.window_s), (2, 4, 2.0));
        assert_eq!(found.throughput_rps, 1.0);
    }
}
