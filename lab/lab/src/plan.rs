//! The plan of a race, fixed before the first trial and named by a hash.
//!
//! The plan contains every choice that could otherwise be made after seeing the outcome: arms, load
//! points, margin, gates, seeds. The report prints the hash, so a reader can tell a pre-registered
//! comparison from an afterthought.

mod family;
mod gates;
mod point;

pub use gates::Gates;
pub use point::{Arrivals, LoadPoint, Model, Rate};
pub use stats::fnv1a;

use crate::metric::Metric;
use anyhow::{Result, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The most blocks of a run: pairing them takes time that grows with their square.
pub const BLOCKS_MAX: u32 = 10_000;

/// One server and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// The name in tables and charts: short and unique.
    pub name: String,
    /// Program and arguments. `{port}` is replaced by a free TCP port, and the server is ready when
    /// a connection succeeds. Without `{port}` the server listens on the port of `$PORT`, or picks
    /// one and announces it by a first line of JSON on stdout, `{"listening": "127.0.0.1:PORT",
    /// …}`. `{host}` is replaced by the address to listen at, `{dir}` by the trial's own directory.
    pub command: Vec<String>,
    /// Variables of its environment, besides `PORT`, a free port; `{port}`, `{host}` and `{dir}`
    /// are replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The folder in which it is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The generator's target; `{address}` is replaced by `HOST:PORT`.
    pub target: String,
    /// Further arguments for the generator, such as another request text.
    #[serde(default)]
    pub load: Vec<String>,
    /// One sentence for the reader.
    #[serde(default)]
    pub note: String,
    /// The family of its architecture, in the plural, such as `event loops`; empty for a foreign
    /// server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub family: String,
    /// Files in the `{dir}` of its trials, next to those of the plan; `{port}`, `{host}` and
    /// `{dir}` are replaced.
    #[serde(default)]
    pub files: Vec<Provision>,
    /// The check of readiness.
    #[serde(default)]
    pub ready: Ready,
    /// The time limit for its start, milliseconds; 0 = 5 s.
    #[serde(default)]
    pub boot_ms_max: u64,
    /// How to stop it gracefully.
    #[serde(default)]
    pub stop: Stop,
    /// Idle connections to it, next to those of the load point.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The check of a server's readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// By a TCP connection to `{port}` if the command or a file names it, otherwise by a first line
    /// of JSON on stdout.
    #[default]
    Auto,
    /// By this text in its output; the server then listens on `{port}`.
    Says(String),
}

/// The signal for a graceful stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// SIGTERM.
    #[default]
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT: nginx then finishes its open requests.
    Quit,
}

/// A file that every trial finds fresh in its own directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provision {
    /// File name inside `{dir}`.
    pub name: String,
    /// Its contents.
    pub text: String,
}

/// A whole race.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The question in one sentence.
    pub question: String,
    /// How much trust the answer deserves: `smoke`, `claim`, `publish`.
    pub label: String,
    /// The servers.
    pub arms: Vec<Arm>,
    /// Name of the arm that the others are divided by.
    pub baseline: String,
    /// Whether the baseline runs a second time under another name (the A/A twin).
    pub twin: bool,
    /// The load points.
    pub points: Vec<LoadPoint>,
    /// Blocks per load point; an interval needs at least six.
    pub blocks: u32,
    /// The seed of every order and every arrival.
    pub seed: u64,
    /// Unrecorded load before the window, milliseconds.
    pub warmup_ms: u64,
    /// Recorded load, milliseconds.
    pub window_ms: u64,
    /// Two arms closer than this are equivalent (0.03 = 3 %).
    pub margin: f64,
    /// The environment's limits.
    pub gates: Gates,
    /// Files that each trial gets.
    pub files: Vec<Provision>,
    /// The pre-registered metrics, compared for every arm and point that has them; other metrics
    /// are exploratory. Empty = at each load point its lead metric ([`LoadPoint::lead`]) and CPU
    /// per request.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// How the servers of a block take turns under one generator.
    #[serde(default)]
    pub turns: Turns,
}

/// A block in which all servers take turns. At an open load point, or next to idle connections,
/// one server after the other is up alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// Windows on each server at each closed load point.
    pub windows: u32,
    /// Idle connections that each server gets in the first blocks, to measure its memory for
    /// each; 0 for none.
    pub silent: u32,
    /// The time after which no block begins, milliseconds. A race with a budget also ends when it
    /// is settled, and lets clearly costlier arms leave. Absent where the number of blocks decides.
    pub budget_ms: Option<u64>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { windows: 1, silent: 0, budget_ms: None }
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            question: String::new(),
            label: "smoke".to_string(),
            arms: Vec::new(),
            baseline: String::new(),
            twin: true,
            points: Vec::new(),
            blocks: 6,
            seed: 1,
            warmup_ms: 150,
            window_ms: 600,
            margin: 0.03,
            gates: Gates::default(),
            files: Vec::new(),
            metrics: Vec::new(),
            turns: Turns::default(),
        }
    }
}

impl Arm {
    /// The arm at a load point: `{connections}` in its command is the point's number, an `http`
    /// target has the point's path, and the point's files and idle connections are among its own.
    pub fn at(&self, point: &LoadPoint) -> Arm {
        let connections = point.connections.to_string();
        let mut arm = self.clone();
        for word in &mut arm.command {
            *word = word.replace("{connections}", &connections);
        }
        let scheme = arm.target.split("://").next().unwrap_or_default();
        if !point.path.is_empty() && ["http", "https"].contains(&scheme) {
            arm.target = format!("{scheme}://{{address}}{}", point.path);
        }
        arm.files.extend(point.files.iter().cloned());
        arm.idle += point.idle;
        arm
    }

    /// The time limit for its start: its own, or 5 s.
    pub fn boot_max(&self) -> Duration {
        Duration::from_millis(if self.boot_ms_max == 0 { 5_000 } else { self.boot_ms_max })
    }

    /// The program that its command names, if there is no such file; a word without `/` is looked
    /// for in `PATH`, as execvp(3) does.
    pub fn missing(&self) -> Option<&str> {
        let program = self.command.first()?;
        (!self.program().is_some_and(|path| path.is_file())).then_some(program)
    }

    /// The file that its command starts, resolved as execvp(3) does in its folder.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        let word = self.command.first()?;
        match (word.contains('/'), &self.folder) {
            (true, Some(folder)) => Some(folder.join(word)),
            (true, None) => Some(PathBuf::from(word)),
            (false, _) => which::which(word).ok(),
        }
    }
}

/// Flags of `roundhouse load` that several runs cannot share.
const OF_ONE_RUN: [&str; 9] = [
    "--receipts",
    "--requests-csv",
    "--otlp",
    "--prometheus",
    "--unix",
    "--connect-to",
    "--proxy",
    "--stages",
    "--stage",
];

impl Plan {
    /// The name of the A/A twin.
    pub fn twin_name(&self) -> String {
        format!("{} (twin)", self.baseline)
    }

    /// The arms with the twin, in the plan's order; the twin comes last.
    pub fn entrants(&self) -> Vec<Arm> {
        let mut all = self.arms.clone();
        if self.twin
            && let Some(baseline) = self.arms.iter().find(|arm| arm.name == self.baseline)
        {
            all.push(Arm {
                name: self.twin_name(),
                note: "the baseline again, under another name".to_string(),
                ..baseline.clone()
            });
        }
        all
    }

    /// Trials without repetitions.
    pub fn trials(&self) -> u32 {
        self.blocks * self.points.len() as u32 * self.entrants().len() as u32
    }

    /// Checks whether the plan can be run.
    ///
    /// # Errors
    /// The first reason why it cannot.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.arms.is_empty(), "the plan has no arm; name at least one server");
        ensure!(!self.points.is_empty(), "the plan has no load point; give at least one depth");
        ensure!(self.blocks > 0, "expected 1 block or more, found 0");
        ensure!(self.window_ms > 0, "expected a window longer than 0 ms");
        let is_share = self.margin > 0.0 && self.margin < 1.0;
        ensure!(is_share, "expected a margin between 0 and 1, as 0.03 for 3 %");
        let arms: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        let points: Vec<&str> = self.points.iter().map(|point| point.name.as_str()).collect();
        if let Some(name) = [&arms, &points].into_iter().find_map(|names| repeated(names)) {
            bail!("two parts of the plan are called `{name}`");
        }
        let (base, have) = (&self.baseline, arms.join(", "));
        let is_known = arms.contains(&base.as_str());
        ensure!(is_known, "expected the baseline to be one of {have}, found `{base}`");
        for Arm { name, command, .. } in &self.arms {
            ensure!(!command.is_empty(), "arm `{name}` has an empty command");
        }
        for LoadPoint { name, connections, depth, .. } in &self.points {
            let asks = *connections > 0 && *depth > 0;
            ensure!(asks, "load point `{name}` needs 1 connection and depth 1 or more");
        }
        ensure!(self.turns.windows > 0, "expected 1 or more windows, found 0");
        let loads = self.arms.iter().map(|arm| (&arm.name, &arm.load));
        for (name, load) in loads.chain(self.points.iter().map(|it| (&it.name, &it.load))) {
            let word = |flag: &&str| load.iter().any(|word| word.split('=').next() == Some(*flag));
            if let Some(flag) = OF_ONE_RUN.into_iter().find(word) {
                bail!(
                    "{name}: {flag} takes one run; leave it out of the race, and say it to \
                     `roundhouse load`"
                );
            }
        }
        match self.points.iter().find_map(|point| Some((&point.name, point.fault()?))) {
            Some((name, why)) => bail!("load point `{name}`: {why}"),
            None => Ok(()),
        }
    }

    /// The trust that the number of blocks allows in a result: `smoke` below 10, `claim` below 12,
    /// then `publish`.
    pub fn label_for(blocks: u32) -> &'static str {
        match blocks {
            0..10 => "smoke",
            10..12 => "claim",
            _ => "publish",
        }
    }

    /// Length of one trial's load, milliseconds: (warm-up, window).
    pub fn spans(&self, point: &LoadPoint) -> (u64, u64) {
        (point.warmup_ms.unwrap_or(self.warmup_ms), point.window_ms.unwrap_or(self.window_ms))
    }

    /// The plan's fingerprint: FNV-1a (64 bits) over its JSON, as 16 hexadecimal digits. It guards
    /// against mistakes, not against forgers.
    pub fn hash(&self) -> String {
        let json = serde_json::to_vec(self).expect("a plan holds only strings and numbers");
        format!("{:016x}", fnv1a(&json))
    }
}

fn repeated<'a>(names: &[&'a str]) -> Option<&'a str> {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small plan that other modules' tests start from.
    pub(crate) fn plan() -> Plan {
        let arm = |name: &str| Arm {
            name: name.to_string(),
            command: vec!["server".to_string()],
            target: "stock://{address}".to_string(),
            ..Arm::default()
        };
        let point = |depth| LoadPoint {
            name: format!("depth {depth}"),
            connections: 8,
            depth,
            requests_per_connection: 64,
            ..LoadPoint::default()
        };
        Plan {
            question: "which is quicker?".to_string(),
            arms: vec![arm("epoll"), arm("uring"), arm("prefork")],
            baseline: "epoll".to_string(),
            points: vec![point(1), point(16)],
            warmup_ms: 1,
            window_ms: 1,
            ..Plan::default()
        }
    }

    #[test]
    fn bad_plans_say_why() {
        fn check(change: impl Fn(&mut Plan), want: &str) {
            let mut bad = plan();
            change(&mut bad);
            assert_eq!(bad.check().map_err(|why| why.to_string()), Err(want.to_string()));
        }
        plan().check().expect("a good plan");
        check(|p| p.arms.clear(), "the plan has no arm; name at least one server");
        check(|p| p.points.clear(), "the plan has no load point; give at least one depth");
        check(|p| p.blocks = 0, "expected 1 block or more, found 0");
        check(|p| p.window_ms = 0, "expected a window longer than 0 ms");
        check(|p| p.margin = 3.0, "expected a margin between 0 and 1, as 0.03 for 3 %");
        check(|p| p.arms[1].name = "epoll".into(), "two parts of the plan are called `epoll`");
        check(|p| p.arms[1].command.clear(), "arm `uring` has an empty command");
        let empty = "load point `depth 1` needs 1 connection and depth 1 or more";
        check(|p| p.points[0].depth = 0, empty);
        let slow = "load point `depth 1`: expected an overload factor above 1, such as 1.2";
        check(|p| p.points[0].model = Model::Overload { factor: 0.5 }, slow);
        check(|p| p.turns.windows = 0, "expected 1 or more windows, found 0");
        let csv = "epoll: --requests-csv takes one run; leave it out of the race, and say it to \
                   `roundhouse load`";
        check(|p| p.arms[0].load = vec!["--requests-csv=a".into()], csv);
        let gone = "expected the baseline to be one of epoll, uring, prefork, found `select`";
        check(|p| p.baseline = "select".into(), gone);
    }

    #[test]
    fn the_twin_is_the_baseline_under_another_name() {
        let all = plan().entrants();
        assert_eq!(all.len(), 4);
        assert_eq!(all[3].name, "epoll (twin)");
        assert_eq!(all[3].command, all[0].command);
        assert_eq!(plan().trials(), 48);
    }

    #[test]
    fn an_arm_takes_its_connections_path_and_files_from_the_point() {
        let arm = Arm {
            command: ["sh", "--workers", "{connections}"].map(String::from).to_vec(),
            target: "http://{address}/".to_string(),
            ..Arm::default()
        };
        let file = Provision { name: "www/1k".to_string(), text: "x".repeat(1024) };
        let point = LoadPoint {
            connections: 9,
            path: "/1k".to_string(),
            files: vec![file.clone()],
            ..LoadPoint::default()
        };
        let found = arm.at(&point);
        assert_eq!(found.command[2], "9");
        assert_eq!((found.target.as_str(), &found.files), ("http://{address}/1k", &vec![file]));
        let sealed = Arm { target: "https://{address}".to_string(), ..arm.clone() };
        assert_eq!(sealed.at(&point).target, "https://{address}/1k");
        let market = Arm { target: "stock://{address}".to_string(), ..arm.clone() };
        assert_eq!(market.at(&point).target, market.target);
        assert_eq!(arm.missing(), None, "every machine has a shell");
        let gone = Arm { command: vec!["no-such-program".to_string()], ..arm.clone() };
        assert_eq!(gone.missing(), Some("no-such-program"));
        let gone = Arm { command: vec!["./no/such".to_string()], ..arm };
        assert_eq!(gone.missing(), Some("./no/such"));
    }

    #[test]
    fn the_hash_changes_with_any_choice() {
        let mut other = plan();
        other.margin = 0.05;
        assert_eq!(plan().hash(), plan().hash());
        assert_ne!(plan().hash(), other.hash());
    }
}
