//! `cargo xtask bench engines`: our engines against the bare loops, and against a peer.
//!
//! Every row is a duet: both servers are up on one core, the generator alternates short windows
//! between them, and what is compared is the servers' CPU time per request. The table of
//! comparisons is all there is to change here; how a duet works is `roundhouse duet`'s business.
//! The surprising thing: 1.00 is the best a row can be expected to reach where a bare loop stands
//! on the left, and a row above it means that the bare loop is a straw man.

mod record;

use crate::steps;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Connections that ask at the same time.
const CONNECTIONS: u32 = 64;
/// An iterative server has one client; the others would wait for it to leave.
const ONE: u32 = 1;
/// The market's only request: one parse, one look-up, one update.
const MIX: &str = "buy=1";
/// The same as a constant, where an arm counts lines and knows no stocks to draw from.
const BUY: (&str, &str) = ("buy 1 1\\n", "[buy] success");
/// What the peer is asked.
const INCR: (&str, &str) = ("INCR stock\\r\\n", ":");
/// Where Debian puts the peer.
const REDIS: &str = "/usr/bin/redis-server";

/// A server that can sing in a duet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    /// A bare loop and its form.
    Bare(&'static str, &'static str),
    /// One of our engines.
    Ours(&'static str),
    /// redis-server, answering pipelined INCR.
    Redis,
}

/// Left against right: the ratio is left's CPU per request divided by right's.
struct Duet {
    left: Arm,
    right: Arm,
    connections: u32,
    /// Depth, and the ratio that is wanted there, where one is.
    depths: &'static [(u32, Option<f64>)],
}

/// What is wanted of a counting bare loop's CPU divided by ours, by depth.
const OF_COUNT: &[(u32, Option<f64>)] = &[(1, Some(0.95)), (16, Some(0.85))];
/// The same of a bare loop that does our work.
const OF_WORK: &[(u32, Option<f64>)] = &[(1, Some(0.95)), (16, Some(0.90))];
/// Shown beside, with nothing wanted.
const SHOWN: &[(u32, Option<f64>)] = &[(1, None), (16, None)];
/// A peer is compared where batching shows: at depth 1 the kernel is nearly everything.
const PEER: &[(u32, Option<f64>)] = &[(16, Some(2.0))];

const DUETS: &[Duet] = &[
    duet(Arm::Ours("epoll"), Arm::Ours("epoll"), SHOWN),
    duet(Arm::Bare("epoll", "count"), Arm::Ours("epoll"), OF_COUNT),
    duet(Arm::Bare("epoll", "work"), Arm::Ours("epoll"), OF_WORK),
    duet(Arm::Bare("uring", "count"), Arm::Ours("uring"), OF_COUNT),
    duet(Arm::Bare("uring", "work"), Arm::Ours("uring"), OF_WORK),
    duet(Arm::Ours("epoll"), Arm::Ours("uring"), SHOWN),
    duet(Arm::Redis, Arm::Ours("epoll"), PEER),
    duet(Arm::Redis, Arm::Ours("uring"), PEER),
    duet(Arm::Bare("epoll", "work"), Arm::Ours("prefork"), SHOWN),
    Duet { connections: ONE, ..duet(Arm::Bare("epoll", "work"), Arm::Ours("iterative"), SHOWN) },
];

const fn duet(left: Arm, right: Arm, depths: &'static [(u32, Option<f64>)]) -> Duet {
    Duet { left, right, connections: CONNECTIONS, depths }
}

impl Arm {
    /// What tables call it.
    fn name(self) -> String {
        match self {
            Self::Bare(name, form) => format!("bare-{name}-{form}"),
            Self::Ours(engine) => engine.to_owned(),
            Self::Redis => "redis".to_owned(),
        }
    }

    /// The command that serves; the duet fills in `{port}`, and `{dir}` with a copy of the book.
    fn command(self, tools: &Tools) -> String {
        let stock = "{dir}/stock.txt";
        match self {
            Self::Bare(name, form) => format!("{}/{name} {form} 0 {stock}", tools.bare.display()),
            Self::Ours(engine) => format!(
                "{} serve stock --port 0 --engine {engine} --data {stock}{}",
                tools.roundhouse.display(),
                // A child serves one client, and in a duet nobody leaves.
                if engine == "prefork" {
                    format!(" --workers {CONNECTIONS}")
                } else {
                    String::new()
                }
            ),
            Self::Redis => format!(
                "{REDIS} --port {{port}} --bind 127.0.0.1 --save '' --appendonly no \
                 --daemonize no --loglevel warning"
            ),
        }
    }

    /// The constant request that it has to be asked, and what the reply begins with, where it is
    /// no market.
    fn constant(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Bare(_, "count") => Some(BUY),
            Self::Redis => Some(INCR),
            _ => None,
        }
    }

    /// Why it cannot run on this machine, if so.
    fn absent(self) -> Option<String> {
        let missing = self == Self::Redis && !Path::new(REDIS).exists();
        missing.then(|| format!("{REDIS} is not there (Debian: `apt install redis-server`)"))
    }
}

/// The finished binaries.
struct Tools {
    roundhouse: PathBuf,
    bare: PathBuf,
}

/// What a duet said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// CPU per request of the left arm divided by that of the right: the median of fresh pairs.
    pub ratio: f64,
    /// The interval of that median; fewer than six fresh pairs have none.
    pub interval: Option<(f64, f64)>,
    /// CPU per request of the left arm, nanoseconds.
    pub left_ns: f64,
    /// CPU per request of the right arm, nanoseconds.
    pub right_ns: f64,
}

/// A row of the result.
#[derive(Clone, Debug)]
pub struct Row {
    /// `left / right`.
    pub name: String,
    /// Requests in flight on each connection.
    pub depth: u32,
    /// The ratio that is wanted.
    pub wanted: Option<f64>,
    /// What was measured, or why nothing was.
    pub found: Result<Reading, String>,
}

impl Row {
    /// `met`, `missed`, `unresolved`; nothing where nothing is wanted or was measured.
    pub fn verdict(&self) -> &'static str {
        let (Ok(found), Some(wanted)) = (&self.found, self.wanted) else { return "" };
        match found.interval {
            Some((low, _)) if low >= wanted => "met",
            Some((_, high)) if high < wanted => "missed",
            _ => "unresolved",
        }
    }
}

/// How long the run is.
struct Length {
    fresh_pairs: u32,
    windows: u32,
}

/// Builds everything, runs the duets (all, or with `--only ARM` those in which it sings), prints
/// the table and, with `--save`, keeps it in `runs/`.
///
/// # Errors
/// Where a build fails, the arguments are not understood, or the result cannot be saved. A duet
/// that fails is a row with its reason.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let (mut save, mut length) = (false, Length { fresh_pairs: 8, windows: 20 });
    let mut only = None;
    match args.first().map(String::as_str) {
        Some("engines") => {}
        other => bail!("expected `bench engines`, found {other:?}"),
    }
    let mut flags = args[1..].iter();
    while let Some(flag) = flags.next() {
        match flag.as_str() {
            "--save" => save = true,
            "--quick" => length = Length { fresh_pairs: 2, windows: 5 },
            "--only" => only = Some(flags.next().context("--only expects the name of an arm")?),
            other => bail!("expected --save, --quick or --only ARM, found `{other}`"),
        }
    }
    let tools = prepare()?;
    let mut rows = Vec::new();
    for duet in DUETS {
        for (depth, wanted) in duet.depths {
            let name = format!("{} / {}", duet.left.name(), duet.right.name());
            if only.is_some_and(|arm| ![duet.left.name(), duet.right.name()].contains(arm)) {
                continue;
            }
            eprintln!("── {name}, depth {depth}");
            // What is kept is read elsewhere, where this folder has another name.
            let root = crate::root().display().to_string();
            let reason = |error: anyhow::Error| format!("{error:#}").replace(&root, ".");
            let found = sing(duet, *depth, &length, &tools).map_err(reason);
            rows.push(Row { name, depth: *depth, wanted: *wanted, found });
        }
    }
    let text = record::table(&rows);
    print!("{text}");
    if save {
        let path = record::save(&rows, &text, only.map(String::as_str))?;
        eprintln!("bench: saved in {}", path.display());
    }
    Ok(())
}

/// Builds the release binary and the bare loops.
fn prepare() -> anyhow::Result<Tools> {
    let build = ["build", "--release", "-p", "cli", "--bin", "roundhouse"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    let bare = crate::root().join("bare/build");
    crate::bare::build(&bare)?;
    Ok(Tools { roundhouse: steps::binary("roundhouse", "release")?, bare })
}

/// Runs one duet and reads what it says.
fn sing(duet: &Duet, depth: u32, length: &Length, tools: &Tools) -> anyhow::Result<Reading> {
    for arm in [duet.left, duet.right] {
        if let Some(why) = arm.absent() {
            bail!("skipped: {why}");
        }
    }
    let mut command = Command::new(&tools.roundhouse);
    command.arg("duet");
    let arms = if duet.left == duet.right {
        command.arg("--twin");
        &[duet.left][..]
    } else {
        &[duet.left, duet.right][..]
    };
    // Both sides of a duet are asked the same, unless one speaks another protocol.
    let constant = arms.iter().any(|arm| arm.constant().is_some());
    for arm in arms {
        let name = arm.name();
        command.arg("--arm").arg(format!("{name}={}", arm.command(tools)));
        if constant {
            let (request, reply) = arm.constant().unwrap_or(BUY);
            command.arg("--scheme").arg(format!("{name}=line"));
            command.arg("--request").arg(format!("{name}={request}"));
            command.arg("--expect").arg(format!("{name}={reply}"));
        }
    }
    let numbers = [
        ("--depth", depth),
        ("--connections", duet.connections),
        ("--fresh-pairs", length.fresh_pairs),
        ("--windows", length.windows),
    ];
    for (flag, value) in numbers {
        command.arg(flag).arg(value.to_string());
    }
    command.args(["--mix", MIX, "--json"]).current_dir(crate::root());
    let output = command.stderr(Stdio::inherit()).output().context("start a duet")?;
    // An outcome says more about what went wrong than the exit code that comes with it.
    reading(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("`{}`: {}", steps::line(&command), output.status))
}

/// What the only pairing of an outcome says (schema `roundhouse.duets/1`, the last JSON line).
fn reading(output: &str) -> anyhow::Result<Reading> {
    let line = output.lines().rev().find(|line| line.starts_with('{'));
    let line = line.context("expected a duet to end with a line of JSON, found none")?;
    let value: serde_json::Value = serde_json::from_str(line).context("the duet's JSON")?;
    let pairing = &value["pairings"][0];
    for (list, what) in [("broken", "wrong replies"), ("failures", "failed pairs")] {
        let first = pairing[list].get(0).and_then(serde_json::Value::as_str);
        if let Some(first) = first {
            bail!("{what}, the first: {first}");
        }
    }
    let number = |key: &str| {
        let found = pairing[key].as_f64();
        found.with_context(|| format!("expected `{key}` in the duet's pairing, found {line}"))
    };
    let interval = &pairing["interval"];
    let interval = interval["low"].as_f64().zip(interval["high"].as_f64());
    let (left_ns, right_ns) = (number("a_cpu_ns")?, number("b_cpu_ns")?);
    Ok(Reading { ratio: number("ratio")?, interval, left_ns, right_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_whole_interval_on_one_side() {
        let row = |interval, wanted| {
            let found = Ok(Reading { ratio: 0.95, interval, left_ns: 1.0, right_ns: 1.0 });
            Row { name: String::new(), depth: 1, wanted, found }.verdict()
        };
        assert_eq!(row(Some((0.96, 0.99)), Some(0.95)), "met");
        assert_eq!(row(Some((0.90, 0.94)), Some(0.95)), "missed");
        assert_eq!(row(Some((0.93, 0.97)), Some(0.95)), "unresolved");
        assert_eq!(row(None, Some(0.95)), "unresolved");
        assert_eq!(row(Some((0.93, 0.97)), None), "");
    }

    #[test]
    fn the_outcome_is_the_last_line_of_json() {
        let pairing = "\"ratio\": 0.9, \"a_cpu_ns\": 9, \"b_cpu_ns\": 10";
        let interval = "\"interval\": {\"low\": 0.8, \"high\": 1.0, \"cover\": 0.95}";
        let say = |text: &str| reading(&format!("pair 1\n{{\"pairings\": [{{{text}}}]}}\n"));
        let found = say(&format!("{pairing}, {interval}, \"failures\": []")).unwrap();
        let wanted =
            Reading { ratio: 0.9, interval: Some((0.8, 1.0)), left_ns: 9.0, right_ns: 10.0 };
        assert_eq!(found, wanted);
        assert_eq!(say(&format!("{pairing}, \"interval\": null")).unwrap().interval, None);
        assert!(say(&format!("{pairing}, \"broken\": [\"a lie\"]")).is_err());
        assert!(say("\"ratio\": 1").unwrap_err().to_string().contains("`a_cpu_ns`"));
        assert!(reading("nothing").is_err());
    }
}
