//! A pure controller of the number of requests that are executed at once: the measurements
//! of a moment go in, a limit with its reason comes out. It starts nothing and reads no clock.
//!
//! The signal is the measured wait: of input for a worker, of a job for a helper, of a thread for a
//! core. It is never inferred from response times, whose unloaded value nobody knows under load
//! (Netflix concurrency-limits #134, Envoy #11579). The law is that of Breakwater (Cho et al., OSDI
//! 2020) without its credits: above the target the limit shrinks with the excess, below it grows.
//! By Little's law a ceiling follows from the highest throughput of ten seconds, so that the limit
//! cannot drift upwards while nothing improves.

use std::collections::VecDeque;
use std::time::Duration;

use seam::Instant;

use crate::axes::words;

/// The interval between two decisions while requests come.
pub const EVERY: Duration = Duration::from_millis(50);
/// The target wait is this part of the objective: a burst then has room, and the mean wait of a
/// full queue leaves four fifths for the service itself and for chance.
const TARGET_PART: u32 = 5;
/// The least target: below it the scheduler's own delays look like a queue.
const TARGET_MIN: Duration = Duration::from_millis(1);
/// Input that has waited for this many targets is refused.
const OLD: u32 = 2;
/// The limit before anything was measured, in requests a core.
const FIRST: u64 = 8;
/// A decision shrinks the limit at most by this factor.
const SHRINK_MOST: f64 = 0.5;
/// The part of the limit that one target of excess takes away.
const SHRINK: f64 = 0.1;
/// The growth of the limit in a decision below the target, and far below it.
const GROW: f64 = 1.02;
const GROW_FAST: f64 = 1.25;
/// The room above Little's number.
const ROOM: f64 = 1.5;
/// The weight of a decision's mean service time in the moving average.
const SERVICE_WEIGHT: f64 = 0.2;
/// The windows of a second over which the highest throughput counts.
const WINDOWS: usize = 10;
/// Decisions kept.
const DECISIONS_MAX: usize = 200;

/// The mode of a governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is measured.
    #[default]
    Off,
    /// It decides and reports, and refuses nothing.
    Advise,
    /// Requests beyond the limit are refused.
    On,
}

words!(Mode, Off = "off", Advise = "advise", On = "on");

/// The measurements since the last decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The length of the interval.
    pub elapsed: Duration,
    /// Requests executed.
    pub done: u64,
    /// Requests refused.
    pub refused: u64,
    /// The mean wait of a request for a worker, a helper and a core; `None`: none was measured.
    pub wait: Option<Duration>,
    /// The mean service time without waits; `None`: none was measured.
    pub service: Option<Duration>,
    /// The most requests that were executed at once.
    pub peak: u64,
}

/// A change of the limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When.
    pub at: Instant,
    /// By which rule: `shrink` while requests wait longer than the target, `grow` while they wait
    /// less and the limit binds, `ceiling` above what the throughput can use.
    pub rule: &'static str,
    /// The limit before and after.
    pub limit: (u64, u64),
    /// The wait that was measured.
    pub wait: Duration,
    /// The reason in words, with its numbers.
    pub why: String,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Governor {
    /// Its mode.
    pub mode: Mode,
    cores: u64,
    /// The target of the mean wait.
    pub target: Duration,
    limit: f64,
    service_ns: f64,
    /// The wait that was measured last.
    pub wait: Duration,
    /// Requests executed by windows of a second, the present one last.
    windows: VecDeque<(Duration, u64)>,
    /// The time of the next decision.
    pub next: Instant,
    refuses: bool,
    /// The last decisions, oldest first.
    pub decisions: VecDeque<Decision>,
}

impl Governor {
    /// A governor that holds `objective` on `cores`; its first decision is due at `now`.
    pub fn new(mode: Mode, objective: Duration, cores: usize, now: Instant) -> Governor {
        let cores = cores.max(1) as u64;
        Governor {
            mode,
            cores,
            target: (objective / TARGET_PART).max(TARGET_MIN),
            limit: (FIRST * cores) as f64,
            service_ns: 0.0,
            wait: Duration::ZERO,
            windows: VecDeque::from([(Duration::ZERO, 0)]),
            next: now,
            refuses: false,
            decisions: VecDeque::new(),
        }
    }

    /// The limit in force, in requests.
    pub fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// The age from which waiting input is refused.
    pub fn age_max(&self) -> Duration {
        self.target * OLD
    }

    /// The highest limit that can be of use, by Little's law: as many requests as are executed
    /// and wait for one target at the highest throughput of ten seconds, and as many as `cores`
    /// could execute of short ones.
    pub fn ceiling(&self) -> u64 {
        if self.service_ns == 0.0 {
            return self.limit() * 2;
        }
        let span = (self.service_ns + self.target.as_nanos() as f64) / 1e9;
        let rate = |(time, done): &(Duration, u64)| *done as f64 / time.as_secs_f64().max(1.0);
        let fastest = self.windows.iter().map(rate).fold(0.0, f64::max);
        let fits = self.cores as f64 * span * 1e9 / self.service_ns;
        (ROOM * fastest * span).max(fits).max(self.cores as f64).min(1e6).ceil() as u64
    }

    /// Decides by what was measured until `now`; returns whether requests began or ceased to be
    /// refused, in words.
    pub fn look(&mut self, now: Instant, seen: &Measured) -> Option<String> {
        self.next = now + EVERY;
        self.count(seen);
        self.wait = seen.wait.unwrap_or_default();
        if let Some((rule, wanted, why)) = self.judge(seen) {
            let wanted = wanted.max(self.cores as f64);
            let limit = (self.limit(), wanted as u64);
            self.limit = wanted;
            if limit.0 != limit.1 {
                if self.decisions.len() == DECISIONS_MAX {
                    self.decisions.pop_front();
                }
                self.decisions.push_back(Decision { at: now, rule, limit, wait: self.wait, why });
            }
        }
        let refuses = seen.refused > 0;
        let has_turned = refuses != std::mem::replace(&mut self.refuses, refuses);
        has_turned.then(|| match refuses {
            true => format!(
                "requests are refused: they wait {:.1?} of a target of {:.1?}, and the limit is {}",
                self.wait,
                self.target,
                self.limit()
            ),
            false => format!("no request is refused any more, and the limit is {}", self.limit()),
        })
    }

    fn judge(&self, seen: &Measured) -> Option<(&'static str, f64, String)> {
        let (wait, target) = (self.wait.as_secs_f64(), self.target.as_secs_f64());
        let words = |what: &str| format!("requests wait {:.1?}, {what}", self.wait);
        if wait >= target {
            let factor = (1.0 - SHRINK * (wait - target) / target).max(SHRINK_MOST);
            let why = words(&format!("more than the target of {:.1?}", self.target));
            return Some(("shrink", self.limit * factor, why));
        }
        let ceiling = self.ceiling() as f64;
        if self.limit > ceiling {
            // Gently: the throughput falls for a moment with the load.
            let why = words(&format!("and {} a second need no more places", self.fastest()));
            return Some(("ceiling", ceiling.max(self.limit * 0.9), why));
        }
        // A limit that does not bind cannot be judged.
        if seen.peak < self.limit() {
            return None;
        }
        let fast = wait < target / 4.0;
        let factor = if fast { GROW_FAST } else { GROW };
        let wanted = (self.limit * factor).max(self.limit + 1.0).min(ceiling);
        let why = words(&format!("less than the target of {:.1?}, and all places", self.target));
        (wanted > self.limit).then(|| ("grow", wanted, why + " were taken"))
    }

    fn fastest(&self) -> u64 {
        self.windows.iter().map(|window| window.1).max().unwrap_or(0)
    }

    /// Counts throughput and service time.
    fn count(&mut self, seen: &Measured) {
        if let Some(service) = seen.service {
            let fresh = service.as_nanos() as f64;
            let weight = if self.service_ns == 0.0 { 1.0 } else { SERVICE_WEIGHT };
            self.service_ns += weight * (fresh - self.service_ns);
        }
        let last = self.windows.back_mut().expect("one is always there");
        *last = (last.0 + seen.elapsed, last.1 + seen.done);
        if last.0 >= Duration::from_secs(1) {
            self.windows.push_back((Duration::ZERO, 0));
            if self.windows.len() > WINDOWS {
                self.windows.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests;
