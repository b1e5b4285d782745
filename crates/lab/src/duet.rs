//! Duets: two servers up at once, one generator that alternates short windows between them.
//!
//! Duets make a few percent of CPU per request visible on a small shared machine: a disturbance of
//! one window affects its neighbour too, and each server's CPU time is read while it is drained.
//! Chance decides the memory layout of one pair of processes, so the pair is started afresh several
//! times, and each start gives one ratio. (A single 0.6 s trial per process is useless for this:
//! its A/A twin ranged from 0.75 to 1.73.) The first arm is compared with each of the others.

mod silent;
mod stage;
mod table;

pub use stage::Stage;
pub(crate) use table::metric;
pub use table::{DuetFigure, DuetTable, Findings, Row, TABLE_SCHEMA};

use crate::load::{Check, Fault};
use crate::machine::Conditions;
use crate::metric::Metric;
use crate::plan::{Arm, LoadPoint, Model, Provision};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use stats::{Interval, compare, median, median_interval};
use std::sync::atomic::{AtomicBool, Ordering};

/// The schema of [`Outcome`].
pub const SCHEMA: &str = "roundhouse.duets/2";

/// One server of a duet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The server.
    #[serde(flatten)]
    pub arm: Arm,
    /// Connections beside the busy ones that send one request and then stay silent.
    #[serde(default)]
    pub idle: u32,
}

/// The plan of a duet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Two servers or more; the first is compared with each of the others.
    pub parts: Vec<Part>,
    /// Whether the first arm is also compared with itself.
    pub twin: bool,
    /// The load on each server: a closed loop. Its idle connections, windows and times are those of
    /// the parts and of this plan.
    pub point: LoadPoint,
    /// The number of fresh starts of each pair; an interval needs six.
    pub fresh_pairs: u32,
    /// Windows on each server of a pair.
    pub windows: u32,
    /// Length of a window, milliseconds.
    pub window_ms: u64,
    /// Load before the first window, milliseconds.
    pub warmup_ms: u64,
    /// The seed of orders and requests.
    pub seed: u64,
    /// Files that each server finds in its directory.
    pub files: Vec<Provision>,
}

/// Why a plan cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadDuet {
    /// Fewer than two servers.
    TooFew,
    /// Two servers share a name.
    SameName(String),
    /// A server has an empty command.
    NoCommand(String),
    /// A count that must be at least one is zero.
    Zero(&'static str),
    /// The load is no closed loop.
    Model(String),
}

impl std::fmt::Display for BadDuet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadDuet::TooFew => {
                write!(f, "expected two arms or more, or one with a twin, as --arm NAME=COMMAND")
            }
            BadDuet::SameName(name) => write!(f, "two arms are called `{name}`"),
            BadDuet::NoCommand(name) => write!(f, "arm `{name}` has an empty command"),
            BadDuet::Zero(what) => write!(f, "expected 1 or more {what}, found 0"),
            BadDuet::Model(point) => write!(
                f,
                "load point `{point}`: expected a closed loop, found `rate`, `overload` or \
                 `promise`; a race can offer those loads"
            ),
        }
    }
}

impl std::error::Error for BadDuet {}

impl Plan {
    /// Checks whether the plan can be run.
    ///
    /// # Errors
    /// See [`BadDuet`].
    pub fn check(&self) -> Result<(), BadDuet> {
        if self.pairings().is_empty() {
            return Err(BadDuet::TooFew);
        }
        for (at, part) in self.parts.iter().enumerate() {
            let name = &part.arm.name;
            if part.arm.command.is_empty() {
                return Err(BadDuet::NoCommand(name.clone()));
            }
            if self.parts[..at].iter().any(|other| other.arm.name == *name) {
                return Err(BadDuet::SameName(name.clone()));
            }
        }
        if self.point.model != Model::Closed {
            return Err(BadDuet::Model(self.point.name.clone()));
        }
        let counts = [
            (self.point.connections, "connections"),
            (self.point.depth, "requests in flight (depth)"),
            (self.fresh_pairs, "fresh pairs"),
            (self.windows, "windows"),
            (self.window_ms as u32, "milliseconds in a window"),
        ];
        match counts.into_iter().find(|(count, _)| *count == 0) {
            Some((_, what)) => Err(BadDuet::Zero(what)),
            None => Ok(()),
        }
    }

    /// The indices of the pairs that are run: the first with each other, then with itself.
    pub fn pairings(&self) -> Vec<(usize, usize)> {
        let twin = (self.twin && !self.parts.is_empty()).then_some((0, 0));
        (1..self.parts.len()).map(|other| (0, other)).chain(twin).collect()
    }

    /// The names of a pairing; a twin's name says that it is one.
    pub fn names(&self, (a, b): (usize, usize)) -> (String, String) {
        let name = |at: usize| self.parts[at].arm.name.clone();
        if a == b { (name(a), format!("{} (twin)", name(b))) } else { (name(a), name(b)) }
    }
}

/// The resources that one server of a fresh pair used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Replies in the measured windows.
    pub requests: u64,
    /// CPU time per request, nanoseconds.
    pub cpu_ns_per_request: f64,
    /// Context switches per request.
    #[serde(default)]
    pub switches_per_request: Option<f64>,
    /// The 99th percentile of the service time, nanoseconds.
    #[serde(default)]
    pub p99_ns: Option<u64>,
    /// Replies per second of the measured windows.
    #[serde(default)]
    pub throughput_rps: Option<f64>,
    /// Kinds of errors.
    #[serde(default)]
    pub errors: Vec<Fault>,
    /// Whether its replies were right.
    #[serde(default)]
    pub check: Option<Check>,
}

impl Side {
    /// The fault in its replies, if any.
    fn wrong(&self) -> Option<String> {
        match &self.check {
            Some(check) if !check.ok => Some(format!("the check failed: {}", check.detail)),
            _ => self.errors.first().map(|fault| fault.to_string()),
        }
    }
}

/// The metrics of [`Side::metric`] and [`Fresh::value`].
pub const METRICS: [Metric; 5] =
    [Metric::Cpu, Metric::Throughput, Metric::P99, Metric::Switches, Metric::ConnectionMemory];

impl Side {
    /// Its value of a metric, in the metric's unit, if it was measured.
    fn metric(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Cpu => Some(self.cpu_ns_per_request),
            Metric::Throughput => self.throughput_rps,
            Metric::P99 => self.p99_ns.filter(|ns| *ns > 0).map(|ns| ns as f64),
            Metric::Switches => self.switches_per_request,
            _ => None,
        }
    }
}

/// The growth of a server's memory with silent connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Silence {
    /// Their number.
    pub connections: u32,
    /// The growth of the server processes' pages for each connection (bytes), by Pss.
    pub bytes_each: f64,
    /// Growth of the kernel's memory for TCP on the whole machine, both ends (kB).
    pub kernel_kb: Option<i64>,
}

/// One fresh pair of processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fresh {
    /// Its number, from 0.
    pub number: u32,
    /// Whether server and generator had swapped cores.
    pub swapped: bool,
    /// CPU per request of the first over the second.
    pub ratio: f64,
    /// The first server.
    pub a: Side,
    /// The second server.
    pub b: Side,
    /// The memory cost of the silent connections in the first server, if it had any.
    #[serde(default)]
    pub a_idle: Option<Silence>,
    /// The memory cost of the silent connections in the second server.
    #[serde(default)]
    pub b_idle: Option<Silence>,
    /// The other activity of the machine.
    pub conditions: Conditions,
    /// The generator's own doubts.
    pub doubts: Vec<String>,
}

impl Fresh {
    /// The values of the first and the second server. Only the server with silent connections has
    /// a memory for each of them.
    pub fn values(&self, metric: Metric) -> [Option<f64>; 2] {
        let memory = |it: &Option<Silence>| it.as_ref().map(|it| it.bytes_each);
        match metric {
            Metric::ConnectionMemory => [memory(&self.a_idle), memory(&self.b_idle)],
            _ => [self.a.metric(metric), self.b.metric(metric)],
        }
    }

    /// The figure of this pair: the ratio of both values, or bytes for each silent connection.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        match (metric, self.values(metric)) {
            (Metric::Cpu, _) => Some(self.ratio),
            (Metric::ConnectionMemory, [a, b]) => b.or(a),
            (_, [a, b]) => Some(a? / b.filter(|value| *value > 0.0)?),
        }
    }
}

/// A median over fresh pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Middle {
    /// The median.
    pub middle: f64,
    /// Its exact interval; absent below six pairs.
    pub interval: Option<Interval>,
}

/// One comparison over all its fresh pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pairing {
    /// The first server.
    pub a: String,
    /// The second server.
    pub b: String,
    /// Median over fresh pairs of CPU per request of the first over the second.
    pub ratio: Option<f64>,
    /// The exact interval of that median; absent below six pairs.
    pub interval: Option<Interval>,
    /// Median CPU per request of the first, nanoseconds.
    pub a_cpu_ns: Option<f64>,
    /// Median CPU per request of the second, nanoseconds.
    pub b_cpu_ns: Option<f64>,
    /// Median over fresh pairs of the 99th percentile of the first over that of the second.
    #[serde(default)]
    pub p99_ratio: Option<Middle>,
    /// Median 99th percentile of the first, nanoseconds.
    #[serde(default)]
    pub a_p99_ns: Option<f64>,
    /// Median 99th percentile of the second, nanoseconds.
    #[serde(default)]
    pub b_p99_ns: Option<f64>,
    /// Memory of the first for each of its silent connections (bytes), if it had any.
    #[serde(default)]
    pub a_idle_bytes: Option<Middle>,
    /// Memory of the second for each of its silent connections (bytes).
    #[serde(default)]
    pub b_idle_bytes: Option<Middle>,
    /// The fresh pairs.
    pub fresh: Vec<Fresh>,
    /// Pairs that gave no ratio, each with its reason.
    pub failures: Vec<String>,
    /// Wrong replies, each in one sentence.
    pub broken: Vec<String>,
}

/// All comparisons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// `roundhouse.duets/2`.
    pub schema: String,
    /// The plan that was run.
    pub plan: Plan,
    /// In the order of [`Plan::pairings`].
    pub pairings: Vec<Pairing>,
    /// The run stopped before its end.
    pub interrupted: bool,
}

impl Outcome {
    /// Whether every comparison has a ratio and no reply was wrong.
    pub fn is_right(&self) -> bool {
        let right = |it: &Pairing| it.ratio.is_some() && it.broken.is_empty();
        !self.interrupted && self.pairings.iter().all(right)
    }
}

/// The interface through which fresh pairs are run, so that tests can replace it.
pub trait Players {
    /// Runs `pairing` for the `number`th time. `None` if it was interrupted; an error is the reason
    /// as text.
    fn play(&mut self, pairing: (usize, usize), number: u32) -> Option<Result<Fresh, String>>;
}

/// Runs all pairings, with the fresh pairs of different pairings in random order. `heard` is called
/// for every fresh pair.
pub fn run(
    plan: &Plan,
    players: &mut dyn Players,
    stop: &AtomicBool,
    mut heard: impl FnMut(&str, &str, u32, &Result<Fresh, String>),
) -> Outcome {
    let pairings = plan.pairings();
    let mut rng = Pcg64::seed_from_u64(plan.seed);
    let mut found: Vec<Pairing> = pairings.iter().map(|&pair| Pairing::new(plan, pair)).collect();
    let mut interrupted = false;
    'all: for number in 0..plan.fresh_pairs {
        let mut order: Vec<usize> = (0..pairings.len()).collect();
        order.shuffle(&mut rng);
        for at in order {
            let result = match stop.load(Ordering::Relaxed) {
                true => None,
                false => players.play(pairings[at], number),
            };
            let Some(result) = result else {
                interrupted = true;
                break 'all;
            };
            let pairing = &mut found[at];
            heard(&pairing.a, &pairing.b, number, &result);
            pairing.take(result);
        }
    }
    for pairing in &mut found {
        pairing.conclude();
    }
    Outcome { schema: SCHEMA.to_string(), plan: plan.clone(), pairings: found, interrupted }
}

impl Pairing {
    fn new(plan: &Plan, pair: (usize, usize)) -> Pairing {
        let (a, b) = plan.names(pair);
        Pairing {
            a,
            b,
            ratio: None,
            interval: None,
            a_cpu_ns: None,
            b_cpu_ns: None,
            p99_ratio: None,
            a_p99_ns: None,
            b_p99_ns: None,
            a_idle_bytes: None,
            b_idle_bytes: None,
            fresh: Vec::new(),
            failures: Vec::new(),
            broken: Vec::new(),
        }
    }

    fn take(&mut self, result: Result<Fresh, String>) {
        match result {
            Ok(fresh) => {
                for (name, side) in [(&self.a, &fresh.a), (&self.b, &fresh.b)] {
                    if let Some(wrong) = side.wrong() {
                        self.broken.push(format!("{name}, pair {}: {wrong}", fresh.number + 1));
                    }
                }
                self.fresh.push(fresh);
            }
            Err(reason) => self.failures.push(reason),
        }
    }

    fn conclude(&mut self) {
        let ratios: Vec<(f64, f64)> = self.fresh.iter().map(|fresh| (fresh.ratio, 1.0)).collect();
        let found = compare(&ratios, 0, 0);
        self.ratio = found.as_ref().map(|it| it.ratio);
        self.interval = found.and_then(|it| it.interval);
        let middle = |value: &dyn Fn(&Fresh) -> Option<f64>| {
            let values: Vec<f64> = self.fresh.iter().filter_map(value).collect();
            let interval = median_interval(&values);
            median(&values).map(|middle| Middle { middle, interval })
        };
        let both = |metric| [0, 1].map(|at| middle(&|fresh| fresh.values(metric)[at]));
        let middles = |metric| both(metric).map(|it| it.map(|it| it.middle));
        self.p99_ratio = middle(&|fresh| fresh.figure(Metric::P99));
        let cpu = middles(Metric::Cpu);
        let late = middles(Metric::P99);
        let idle = both(Metric::ConnectionMemory);
        [self.a_cpu_ns, self.b_cpu_ns] = cpu;
        [self.a_p99_ns, self.b_p99_ns] = late;
        [self.a_idle_bytes, self.b_idle_bytes] = idle;
    }
}

#[cfg(test)]
mod tests;
