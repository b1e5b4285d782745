//! One comparison: its arms, its load, and the output of `roundhouse duet` about them.

use super::arm::{Arm, BUY};
use super::{Outcome, Reading, Row, Tools};
use crate::steps;
use anyhow::{Context, bail};
use serde_json::Value;
use stats::{Goal, Interval};
use std::process::{Command, Stdio};

/// The market's only request: one parse, one look-up, one update.
const MIX: &str = "buy=1";

/// Left against right: the ratio is left's CPU per request divided by right's.
#[derive(Clone, Debug)]
pub struct Duet {
    /// The bound, mostly.
    pub left: Arm,
    /// The arm that it is compared with.
    pub right: Arm,
    /// The load of both arms.
    pub load: Load,
    /// The goal of the ratio.
    pub wanted: Option<Goal>,
    /// The goal of the right arm's memory for each idle connection, if there are any.
    pub bytes: Option<Goal>,
    /// The goal of the ratio of the 99th percentiles, if that has a row.
    pub p99: Option<Option<Goal>>,
}

/// The load that both arms receive.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections that ask at the same time.
    pub connections: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// Replies after which a connection is closed and replaced.
    pub per_connection: Option<u32>,
    /// Silent connections to the right arm.
    pub idle: u32,
    /// The HTTP path, if the arms speak HTTP.
    pub path: Option<&'static str>,
    /// Length of a window (milliseconds): so long that it holds many replies.
    pub window_ms: u32,
    /// Windows on each, at most; `None`: as many as the comparison has.
    pub windows_max: Option<u32>,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            connections: 64,
            depth: 1,
            per_connection: None,
            idle: 0,
            path: None,
            window_ms: 40,
            windows_max: None,
        }
    }
}

/// The length of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// The number of fresh starts of both servers.
    pub fresh_pairs: u32,
    /// Windows on each.
    pub windows: u32,
}

impl Load {
    /// The load, for a table.
    pub fn words(&self) -> String {
        let mut words = match self.per_connection {
            Some(count) => format!("{count} a connection"),
            None => format!("depth {}", self.depth),
        };
        if self.idle > 0 {
            words += &format!(", {} idle", self.idle);
        }
        if let Some(path) = self.path {
            words += &format!(", {path}");
        }
        words
    }
}

impl Duet {
    /// `left / right`; a server that is compared with itself is named once, with the difference.
    pub fn name(&self) -> String {
        let (left, right) = self.names();
        format!("{left} / {right}")
    }

    fn names(&self) -> (String, String) {
        let (left, right) = (self.left.name(), self.right.name());
        match self.load.idle {
            0 => (left, right),
            idle => (left, format!("{right}+{idle}")),
        }
    }

    /// The arms that differ; one that meets itself under the same load is its own twin.
    fn arms(&self) -> Vec<(Arm, String)> {
        let (left, right) = self.names();
        let mut arms = vec![(self.left, left), (self.right, right)];
        arms.dedup_by(|a, b| a.1 == b.1);
        arms
    }
}

/// Runs one duet and adds its output to `outcome`: a row, another for the 99th percentile if the
/// duet wants it, and another for memory if there are idle connections.
pub fn sing(duet: &Duet, length: &Length, tools: &Tools, outcome: &mut Outcome) {
    // The stored output is read elsewhere, where this folder has another name.
    let root = crate::root().display().to_string();
    let found = heard(duet, length, tools).map_err(|e| format!("{e:#}").replace(&root, "."));
    let (ratio, bytes, p99, doubts) = match found {
        Ok(heard) => (Ok(heard.ratio), Ok(heard.bytes), Ok(heard.p99), heard.doubts),
        Err(why) => (Err(why.clone()), Err(why.clone()), Err(why), Vec::new()),
    };
    let load = duet.load.words();
    outcome.rows.push(Row {
        name: duet.name(),
        load: load.clone(),
        wanted: duet.wanted,
        found: ratio,
    });
    if let Some(wanted) = duet.p99 {
        let missing = "the generator said nothing about latency".to_owned();
        let found = p99.and_then(|p99| p99.ok_or(missing));
        let name = format!("{}, p99", duet.name());
        outcome.rows.push(Row { name, load: load.clone(), wanted, found });
    }
    if duet.load.idle > 0 {
        let missing = "the generator said nothing about memory".to_owned();
        let found = bytes.and_then(|bytes| bytes.ok_or(missing));
        let name = format!("{}, bytes for each idle one", duet.right.name());
        outcome.rows.push(Row { name, load, wanted: duet.bytes, found });
    }
    for doubt in doubts {
        outcome.doubt(format!("{}: {doubt}", duet.name()));
    }
}

/// The figures in an outcome of `roundhouse duet`.
#[derive(Debug, PartialEq)]
struct Heard {
    ratio: Reading,
    bytes: Option<Reading>,
    p99: Option<Reading>,
    doubts: Vec<String>,
}

fn heard(duet: &Duet, length: &Length, tools: &Tools) -> anyhow::Result<Heard> {
    for arm in [duet.left, duet.right] {
        if let Some(why) = arm.absent() {
            bail!("skipped: {why}");
        }
    }
    let mut command = command(duet, length, tools)?;
    let output = command.stderr(Stdio::inherit()).output().context("start a duet")?;
    // An outcome describes a failure better than the exit code that comes with it.
    read(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("`{}`: {}", steps::line(&command), output.status))
}

fn command(duet: &Duet, length: &Length, tools: &Tools) -> anyhow::Result<Command> {
    let Load { connections, depth, per_connection, idle, window_ms, windows_max, .. } = duet.load;
    let mut command = Command::new(&tools.roundhouse);
    command.arg("duet");
    let arms = duet.arms();
    if arms.len() == 1 {
        command.arg("--twin");
    }
    // Both sides of a duet get the same requests, unless one speaks another protocol.
    let constant = arms.iter().any(|(arm, _)| arm.constant().is_some());
    for (arm, name) in &arms {
        command.arg("--arm").arg(format!("{name}={}", arm.command(tools, connections)));
        if constant {
            let (request, reply) = arm.constant().unwrap_or(BUY);
            command.arg("--scheme").arg(format!("{name}=line"));
            command.arg("--request").arg(format!("{name}={request}"));
            command.arg("--expect").arg(format!("{name}={reply}"));
        }
    }
    if let (true, Some((_, right))) = (idle > 0, arms.last()) {
        command.arg("--idle").arg(format!("{right}={idle}"));
    }
    let numbers = [
        ("--depth", depth),
        ("--connections", connections),
        ("--requests-per-connection", per_connection.unwrap_or(0)),
        ("--fresh-pairs", length.fresh_pairs),
        ("--windows", length.windows.min(windows_max.unwrap_or(u32::MAX))),
    ];
    for (flag, value) in numbers {
        command.arg(flag).arg(value.to_string());
    }
    command.args(["--window", &format!("{window_ms}ms")]);
    match duet.load.path {
        Some(path) => {
            command.args(["--scheme", "http"]);
            for (arm, name) in &arms {
                command.arg("--request").arg(format!("{name}={}", arm.path(path, tools)?));
            }
        }
        None if duet.left.is_echo() => drop(command.args(["--scheme", "echo"])),
        None if !constant => drop(command.args(["--mix", MIX])),
        None => {}
    }
    command.arg("--json").current_dir(crate::root());
    Ok(command)
}

/// Reads the only pairing of an outcome (schema `roundhouse.duets/1`, the last JSON line).
fn read(output: &str) -> anyhow::Result<Heard> {
    let line = output.lines().rev().find(|line| line.starts_with('{'));
    let line = line.context("expected a duet to end with a line of JSON, found none")?;
    let value: Value = serde_json::from_str(line).context("the duet's JSON")?;
    let pairing = &value["pairings"][0];
    for (list, what) in [("broken", "wrong replies"), ("failures", "failed pairs")] {
        if let Some(first) = pairing[list].get(0).and_then(Value::as_str) {
            bail!("{what}, the first: {first}");
        }
    }
    let number = |key: &str| {
        let found = pairing[key].as_f64();
        found.with_context(|| format!("expected `{key}` in the duet's pairing, found {line}"))
    };
    let ends = |it: &Value| serde_json::from_value::<Option<Interval>>(it.clone()).ok().flatten();
    let (bytes, p99) = (&pairing["b_idle_bytes"], &pairing["p99_ratio"]);
    let late = |key: &str| pairing[key].as_f64();
    let mut doubts = Vec::new();
    for fresh in pairing["fresh"].as_array().into_iter().flatten() {
        let said = fresh["doubts"].as_array().into_iter().flatten().filter_map(Value::as_str);
        doubts.extend(said.map(anonymous));
        let foreign = fresh["conditions"]["foreign"].as_f64().unwrap_or(0.0);
        if foreign > FOREIGN_MAX {
            doubts.push(format!(
                "other processes took more than {:.0} % of the machine's time in \
                                 some pairs",
                FOREIGN_MAX * 100.0
            ));
        }
    }
    Ok(Heard {
        ratio: Reading {
            value: number("ratio")?,
            interval: ends(&pairing["interval"]),
            each_ns: Some((number("a_cpu_ns")?, number("b_cpu_ns")?)),
        },
        bytes: bytes["middle"].as_f64().map(|value| Reading {
            value,
            interval: ends(&bytes["interval"]),
            each_ns: None,
        }),
        p99: p99["middle"].as_f64().map(|value| Reading {
            value,
            interval: ends(&p99["interval"]),
            each_ns: late("a_p99_ns").zip(late("b_p99_ns")),
        }),
        doubts,
    })
}

/// Above this share of the machine's time, the activity of other processes is a doubt: both arms'
/// caches and the generator suffer from it, even if equally.
const FOREIGN_MAX: f64 = 0.05;

/// A doubt without the numbers of threads and processes, so that eight fresh pairs say it once.
fn anonymous(doubt: &str) -> String {
    let words: Vec<&str> = doubt.split(' ').collect();
    let is_number = |at: usize| {
        let counted = words.get(at + 1).is_some_and(|next| next.starts_with("threads"));
        let named = at > 0 && words[at - 1] == "process";
        (counted || named) && words[at].parse::<u64>().is_ok()
    };
    let masked = |at: usize| if is_number(at) { "N" } else { words[at] };
    (0..words.len()).map(masked).collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_the_last_line_of_json() {
        let pairing = "\"ratio\": 0.9, \"a_cpu_ns\": 9, \"b_cpu_ns\": 10";
        let interval = "\"interval\": {\"low\": 0.8, \"high\": 1.0, \"cover\": 0.95}";
        let say = |text: &str| read(&format!("pair 1\n{{\"pairings\": [{{{text}}}]}}\n"));
        let found = say(&format!("{pairing}, {interval}, \"failures\": []")).unwrap();
        let ratio = Reading {
            value: 0.9,
            interval: Some(Interval { low: 0.8, high: 1.0, cover: 0.95 }),
            each_ns: Some((9.0, 10.0)),
        };
        assert_eq!(found, Heard { ratio, bytes: None, p99: None, doubts: Vec::new() });
        assert_eq!(say(&format!("{pairing}, \"interval\": null")).unwrap().ratio.interval, None);
        assert!(say(&format!("{pairing}, \"broken\": [\"a lie\"]")).is_err());
        assert!(say("\"ratio\": 1").unwrap_err().to_string().contains("`a_cpu_ns`"));
        assert!(read("nothing").is_err());
        let memory = "\"b_idle_bytes\": {\"middle\": 400.0, \"interval\": null}";
        let bytes = say(&format!("{pairing}, {memory}")).unwrap().bytes.unwrap();
        assert_eq!((bytes.value, bytes.interval), (400.0, None));
        let late = "\"p99_ratio\": {\"middle\": 1.5, \"interval\": null}, \"a_p99_ns\": 3.0, \
                    \"b_p99_ns\": 2.0";
        let p99 = say(&format!("{pairing}, {late}")).unwrap().p99.unwrap();
        assert_eq!((p99.value, p99.each_ns), (1.5, Some((3.0, 2.0))));
    }

    #[test]
    fn doubts_of_fresh_pairs_are_one() {
        let doubt = |count: u32, pid: u32| {
            anonymous(&format!("{count} threads of process {pid} ended: known to 20 ms only"))
        };
        assert_eq!(doubt(3, 17), doubt(64, 99));
        assert!(doubt(1, 2).contains("20 ms"));
    }

    #[test]
    fn a_server_beside_itself_is_one_arm_unless_the_load_differs() {
        let (left, right) = (Arm::Ours("epoll"), Arm::Ours("epoll"));
        let (wanted, bytes) = (None, None);
        let same = Duet { left, right, load: Load::default(), wanted, bytes, p99: None };
        assert_eq!((same.arms().len(), same.name()), (1, "epoll / epoll".to_owned()));
        let idle = Duet { load: Load { idle: 9, ..same.load }, ..same };
        assert_eq!((idle.arms().len(), idle.name()), (2, "epoll / epoll+9".to_owned()));
    }
}
