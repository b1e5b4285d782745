//! Duets: two servers up at once, one generator that alternates short windows between them.
//!
//! This is how a few percent of CPU per request become visible on a small shared machine: what
//! disturbs one window disturbs its neighbour, and each server's CPU time is read while it is
//! drained. One pair of processes has its own luck in memory layout, so the pair is started afresh
//! several times and each gives one ratio. (A single 0.6 s trial per process is useless for this:
//! its A/A twin ranged from 0.75 to 1.73.) The first arm is compared with each of the others.

use crate::load::{Check, Fault};
use crate::machine::{Conditions, Placement, Watch};
use crate::plan::{Provision, fnv1a};
use crate::server::Server;
use crate::stats::{Interval, compare};
use crate::trial::{Waited, pin, wait_for};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The schema of a generator's report about one pair.
pub const PAIR_SCHEMA: &str = "roundhouse.duet/1";
/// The schema of [`Outcome`].
pub const SCHEMA: &str = "roundhouse.duets/1";

const PATIENCE: Duration = Duration::from_secs(5);

/// One server of a duet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Short and unique.
    pub name: String,
    /// As [`crate::plan::Arm::command`].
    pub command: Vec<String>,
    /// The protocol the generator speaks to it: the scheme of its target.
    pub scheme: String,
    /// A constant request instead of the scheme's own, with escapes such as `\r\n`.
    pub request: Option<String>,
    /// What a right reply to it begins with.
    pub expect: Option<String>,
}

/// What to play.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Two servers or more; the first is compared with each of the others.
    pub parts: Vec<Part>,
    /// Whether the first is also compared with itself.
    pub twin: bool,
    /// Connections to each server.
    pub connections: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// Replies after which a connection is replaced; 0 = never.
    pub requests_per_connection: u64,
    /// The mix of requests in the generator's words; empty = its default.
    pub mix: String,
    /// How many times each pair is started afresh; an interval needs six.
    pub fresh_pairs: u32,
    /// Windows on each server of a pair.
    pub windows: u32,
    /// Length of a window, milliseconds.
    pub window_ms: u64,
    /// Load before the first window, milliseconds.
    pub warmup_ms: u64,
    /// Orders and requests come from it.
    pub seed: u64,
    /// Files that each server finds in its directory.
    pub files: Vec<Provision>,
}

/// Why a plan cannot be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadDuet {
    /// Fewer servers than it takes.
    TooFew,
    /// Two servers share a name.
    SameName(String),
    /// A server has an empty command.
    NoCommand(String),
    /// A count that must be at least one is zero.
    Zero(&'static str),
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
        }
    }
}

impl std::error::Error for BadDuet {}

impl Plan {
    /// Says why the plan cannot be played, if so.
    ///
    /// # Errors
    /// See [`BadDuet`].
    pub fn check(&self) -> Result<(), BadDuet> {
        if self.pairings().is_empty() {
            return Err(BadDuet::TooFew);
        }
        for (at, part) in self.parts.iter().enumerate() {
            if part.command.is_empty() {
                return Err(BadDuet::NoCommand(part.name.clone()));
            }
            if self.parts[..at].iter().any(|other| other.name == part.name) {
                return Err(BadDuet::SameName(part.name.clone()));
            }
        }
        let counts = [
            (self.connections, "connections"),
            (self.depth, "requests in flight (depth)"),
            (self.fresh_pairs, "fresh pairs"),
            (self.windows, "windows"),
            (self.window_ms as u32, "milliseconds in a window"),
        ];
        match counts.into_iter().find(|(count, _)| *count == 0) {
            Some((_, what)) => Err(BadDuet::Zero(what)),
            None => Ok(()),
        }
    }

    /// Indices of the pairs that are played: the first with each other, then with itself.
    pub fn pairings(&self) -> Vec<(usize, usize)> {
        let twin = (self.twin && !self.parts.is_empty()).then_some((0, 0));
        (1..self.parts.len()).map(|other| (0, other)).chain(twin).collect()
    }

    /// The names of a pairing; a twin carries the word.
    pub fn names(&self, (a, b): (usize, usize)) -> (String, String) {
        let name = |at: usize| self.parts[at].name.clone();
        if a == b { (name(a), format!("{} (twin)", name(b))) } else { (name(a), name(b)) }
    }
}

/// What one server of a fresh pair used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Replies in the measured windows.
    pub requests: u64,
    /// CPU time per request, nanoseconds.
    pub cpu_ns_per_request: f64,
    /// Context switches per request.
    #[serde(default)]
    pub switches_per_request: Option<f64>,
    /// Kinds of errors.
    #[serde(default)]
    pub errors: Vec<Fault>,
    /// Whether its replies were right.
    #[serde(default)]
    pub check: Option<Check>,
}

impl Side {
    /// What is wrong with its replies, if anything.
    fn wrong(&self) -> Option<String> {
        match &self.check {
            Some(check) if !check.ok => Some(format!("the check failed: {}", check.detail)),
            _ => self.errors.first().map(|fault| fault.to_string()),
        }
    }
}

/// The generator's report about one pair, as far as it is read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Report {
    schema: String,
    a: Side,
    b: Side,
    ratio: f64,
    #[serde(default)]
    doubts: Vec<String>,
}

/// One fresh pair of processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fresh {
    /// Which, from 0.
    pub number: u32,
    /// The servers' core and the generator's had changed over.
    pub swapped: bool,
    /// CPU per request of the first over the second.
    pub ratio: f64,
    /// The first server.
    pub a: Side,
    /// The second server.
    pub b: Side,
    /// What else the machine did.
    pub conditions: Conditions,
    /// The generator's own doubts.
    pub doubts: Vec<String>,
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
    /// The fresh pairs.
    pub fresh: Vec<Fresh>,
    /// Pairs that brought no ratio, each with its reason.
    pub failures: Vec<String>,
    /// Wrong replies, each in one sentence.
    pub broken: Vec<String>,
}

/// All comparisons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// `roundhouse.duets/1`.
    pub schema: String,
    /// What was played.
    pub plan: Plan,
    /// In the order of [`Plan::pairings`].
    pub pairings: Vec<Pairing>,
    /// It was stopped before its end.
    pub interrupted: bool,
}

impl Outcome {
    /// Whether every comparison has a ratio and no reply was wrong.
    pub fn is_right(&self) -> bool {
        let right = |it: &Pairing| it.ratio.is_some() && it.broken.is_empty();
        !self.interrupted && self.pairings.iter().all(right)
    }
}

/// Something that can play one fresh pair; the seam for tests.
pub trait Players {
    /// Plays `pairing` for the `number`th time. `None` when it was interrupted; `Some(Err)` is a
    /// reason in words.
    fn play(&mut self, pairing: (usize, usize), number: u32) -> Option<Result<Fresh, String>>;
}

/// Plays all pairings, the fresh pairs of different pairings shuffled among each other. `heard` is
/// told of every fresh pair.
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
        let middle = |side: fn(&Fresh) -> &Side| {
            let values: Vec<f64> =
                self.fresh.iter().map(|fresh| side(fresh).cpu_ns_per_request).collect();
            crate::stats::median(&values)
        };
        self.a_cpu_ns = middle(|fresh| &fresh.a);
        self.b_cpu_ns = middle(|fresh| &fresh.b);
    }
}

/// The real thing: processes on this machine.
pub struct Stage<'a> {
    plan: &'a Plan,
    exe: PathBuf,
    room: PathBuf,
    placement: Option<Placement>,
    stop: &'a AtomicBool,
}

impl<'a> Stage<'a> {
    /// Prepares to play `plan`; arguments as in [`crate::trial::Floor::new`].
    pub fn new(
        plan: &'a Plan,
        exe: &Path,
        room: &Path,
        placement: Option<Placement>,
        stop: &'a AtomicBool,
    ) -> Stage<'a> {
        Stage { plan, exe: exe.to_path_buf(), room: room.to_path_buf(), placement, stop }
    }

    fn server(&self, part: &Part, side: &str, core: Option<usize>) -> Result<Server, String> {
        let dir = self.room.join(side);
        let failed = |why: std::io::Error| format!("cannot prepare {}: {why}", dir.display());
        fs::create_dir_all(&dir).map_err(failed)?;
        for file in &self.plan.files {
            fs::write(dir.join(&file.name), &file.text).map_err(failed)?;
        }
        let prefix = core.map(|core| pin(&self.exe, core)).unwrap_or_default();
        Server::start(&prefix, &part.command, &dir, "server", PATIENCE)
            .map_err(|reason| format!("{}: {reason}", part.name))
    }

    fn generator(&self, parts: [&Part; 2], servers: [&Server; 2], seed: u64) -> Vec<String> {
        let plan = self.plan;
        let target = |at: usize| format!("{}://{}", parts[at].scheme, servers[at].address);
        let mut words = vec![self.exe.display().to_string(), "load".to_string(), target(0)];
        let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
        flag("--duet", target(1));
        flag("--watch", servers[0].process.id().to_string());
        flag("--watch-b", servers[1].process.id().to_string());
        for (suffix, part) in [("", parts[0]), ("-b", parts[1])] {
            for (name, value) in [("request", &part.request), ("expect-prefix", &part.expect)] {
                if let Some(value) = value {
                    flag(&format!("--{name}{suffix}"), value.clone());
                }
            }
        }
        flag("--closed", plan.connections.to_string());
        flag("--depth", plan.depth.to_string());
        if plan.requests_per_connection > 0 {
            flag("--requests-per-connection", plan.requests_per_connection.to_string());
        }
        if !plan.mix.is_empty() {
            flag("--mix", plan.mix.clone());
        }
        flag("--windows", plan.windows.to_string());
        flag("--window", format!("{}ms", plan.window_ms));
        flag("--warmup", format!("{}ms", plan.warmup_ms));
        flag("--seed", seed.to_string());
        words
    }

    /// Both servers, the generator, its report. The outer option is about interruption.
    fn fresh(&self, pair: (usize, usize), number: u32) -> Option<Result<(Report, bool), String>> {
        let parts = [&self.plan.parts[pair.0], &self.plan.parts[pair.1]];
        let swapped = number % 2 == 1;
        let cores = self.placement.map(|placement| placement.cores(swapped));
        let seed = fnv1a(&[self.plan.seed.to_le_bytes(), u64::from(number).to_le_bytes()].concat());
        let seed = seed & 0xffff_ffff;
        let core = cores.map(|cores| cores.0);
        // Which one is started first is drawn too: the later one finds warmer caches.
        let (first, second) = match Pcg64::seed_from_u64(seed).random::<bool>() {
            true => (0, 1),
            false => (1, 0),
        };
        let sides = ["a", "b"];
        let start = |at: usize| self.server(parts[at], sides[at], core);
        let (one, two) = match start(first).and_then(|one| Ok((one, start(second)?))) {
            Ok(both) => both,
            Err(reason) => return Some(Err(reason)),
        };
        let (a, b) = if first == 0 { (one, two) } else { (two, one) };
        let mut command = self.generator(parts, [&a, &b], seed);
        if let Some((_, generator)) = cores {
            command.extend(["--cpu".to_string(), generator.to_string()]);
        }
        command.push("--json".to_string());
        let millis = 2 * (self.plan.warmup_ms + u64::from(self.plan.windows) * self.plan.window_ms);
        let longest = Duration::from_millis(4 * millis + 20_000);
        let waited = wait_for(&command, &self.room, "load", longest, self.stop);
        a.process.stop(PATIENCE);
        b.process.stop(PATIENCE);
        match waited {
            Waited::Interrupted => None,
            Waited::Nothing(reason) => Some(Err(reason)),
            Waited::Output { text, complaint } => Some(
                Report::parse(&text)
                    .map(|report| (report, swapped))
                    .map_err(|reason| if complaint.is_empty() { reason } else { complaint }),
            ),
        }
    }
}

impl Report {
    fn parse(text: &str) -> Result<Report, String> {
        let line = text.lines().rev().find(|line| line.starts_with('{'));
        let line = line.ok_or("expected a line of JSON from the generator, found none")?;
        let report: Report = serde_json::from_str(line)
            .map_err(|why| format!("the generator's report cannot be read: {why}"))?;
        match report.schema == PAIR_SCHEMA {
            true => Ok(report),
            false => Err(format!("expected schema `{PAIR_SCHEMA}`, found `{}`", report.schema)),
        }
    }
}

impl Players for Stage<'_> {
    fn play(&mut self, pairing: (usize, usize), number: u32) -> Option<Result<Fresh, String>> {
        let watch = Watch::start();
        let result = self.fresh(pairing, number)?;
        let conditions = watch.stop();
        Some(result.map(|(report, swapped)| Fresh {
            number,
            swapped,
            ratio: report.ratio,
            a: report.a,
            b: report.b,
            conditions,
            doubts: report.doubts,
        }))
    }
}

#[cfg(test)]
mod tests;
