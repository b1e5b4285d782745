//! `cargo xtask bench engines`: our engines against the bare loops, and against a peer.
//!
//! Every row is a duet: both servers are up on one core, the generator alternates short windows
//! between them, and what is compared is the servers' CPU time per request. The table of
//! comparisons is all there is to change here; how a duet works is `roundhouse duet`'s business.
//! The surprising thing: 1.00 is the best a row can be expected to reach where a bare loop stands
//! on the left, and a row above it means that the bare loop is a straw man.

mod record;

use crate::steps::{self, Scratch};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Connections that ask at the same time.
const CONNECTIONS: u32 = 64;
/// Stocks and how many are left of each: more than any run can buy.
const STOCKS: (u32, u32) = (10, 1_000_000_000);
/// The only request: one parse, one look-up, one update, the same reply each time.
const MIX: &str = "buy=1";
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
    Duet { left: Arm::Ours("epoll"), right: Arm::Ours("epoll"), depths: SHOWN },
    Duet { left: Arm::Bare("epoll", "count"), right: Arm::Ours("epoll"), depths: OF_COUNT },
    Duet { left: Arm::Bare("epoll", "work"), right: Arm::Ours("epoll"), depths: OF_WORK },
    Duet { left: Arm::Bare("uring", "count"), right: Arm::Ours("uring"), depths: OF_COUNT },
    Duet { left: Arm::Bare("uring", "work"), right: Arm::Ours("uring"), depths: OF_WORK },
    Duet { left: Arm::Ours("epoll"), right: Arm::Ours("uring"), depths: SHOWN },
    Duet { left: Arm::Redis, right: Arm::Ours("epoll"), depths: PEER },
    Duet { left: Arm::Redis, right: Arm::Ours("uring"), depths: PEER },
    Duet { left: Arm::Bare("epoll", "work"), right: Arm::Ours("prefork"), depths: SHOWN },
    Duet { left: Arm::Bare("epoll", "work"), right: Arm::Ours("iterative"), depths: SHOWN },
];

impl Arm {
    /// What tables call it.
    fn name(self) -> String {
        match self {
            Self::Bare(name, form) => format!("bare-{name}-{form}"),
            Self::Ours(engine) => engine.to_owned(),
            Self::Redis => "redis".to_owned(),
        }
    }

    /// The command that serves; `{port}` is filled in by the duet.
    fn command(self, tools: &Tools) -> String {
        let stock = tools.stock.display();
        match self {
            Self::Bare(name, form) => format!("{}/{name} {form} 0 {stock}", tools.bare.display()),
            Self::Ours(engine) => format!(
                "{} serve stock --port 0 --engine {engine} --data {stock}",
                tools.roundhouse.display()
            ),
            Self::Redis => format!(
                "{REDIS} --port {{port}} --bind 127.0.0.1 --save '' --appendonly no \
                 --daemonize no --loglevel warning"
            ),
        }
    }

    /// Why it cannot run on this machine, if so.
    fn absent(self) -> Option<String> {
        let missing = self == Self::Redis && !Path::new(REDIS).exists();
        missing.then(|| format!("{REDIS} is not there (Debian: `apt install redis-server`)"))
    }
}

/// The finished binaries and the file that both sides serve.
struct Tools {
    roundhouse: PathBuf,
    bare: PathBuf,
    stock: PathBuf,
}

/// What a duet said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// CPU per request of the left arm divided by that of the right: the median of fresh pairs.
    pub ratio: f64,
    /// The interval of that median.
    pub low: f64,
    /// Its other end.
    pub high: f64,
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
        match (&self.found, self.wanted) {
            (Ok(found), Some(wanted)) if found.low >= wanted => "met",
            (Ok(found), Some(wanted)) if found.high < wanted => "missed",
            (Ok(_), Some(_)) => "unresolved",
            _ => "",
        }
    }
}

/// How long the run is.
struct Length {
    fresh_pairs: u32,
    windows: u32,
}

/// Builds everything, runs all duets, prints the table and, with `--save`, keeps it in `runs/`.
///
/// # Errors
/// Where a build fails, the arguments are not understood, or the result cannot be saved. A duet
/// that fails is a row with its reason.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let (mut save, mut length) = (false, Length { fresh_pairs: 8, windows: 20 });
    match args.first().map(String::as_str) {
        Some("engines") => {}
        other => bail!("expected `bench engines`, found {other:?}"),
    }
    for flag in &args[1..] {
        match flag.as_str() {
            "--save" => save = true,
            "--quick" => length = Length { fresh_pairs: 2, windows: 5 },
            other => bail!("expected --save or --quick, found `{other}`"),
        }
    }
    let scratch = Scratch::new("bench")?;
    let tools = prepare(scratch.path())?;
    let mut rows = Vec::new();
    for duet in DUETS {
        for (depth, wanted) in duet.depths {
            let name = format!("{} / {}", duet.left.name(), duet.right.name());
            eprintln!("── {name}, depth {depth}");
            let found = sing(duet, *depth, &length, &tools).map_err(|error| format!("{error:#}"));
            rows.push(Row { name, depth: *depth, wanted: *wanted, found });
        }
    }
    let text = record::table(&rows);
    print!("{text}");
    if save {
        let path = record::save(&rows, &text)?;
        eprintln!("bench: saved in {}", path.display());
    }
    Ok(())
}

/// Builds the release binary and the bare loops, and writes the stock file.
fn prepare(scratch: &Path) -> anyhow::Result<Tools> {
    let build = ["build", "--release", "-p", "cli", "--bin", "roundhouse"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    let bare = crate::root().join("bare/build");
    crate::bare::build(&bare)?;
    let stock = scratch.join("stock.txt");
    let (stocks, left) = STOCKS;
    let lines: String = (1..=stocks).map(|id| format!("{id} {left} {}\n", id * 1_000)).collect();
    std::fs::write(&stock, lines).with_context(|| format!("write {}", stock.display()))?;
    Ok(Tools { roundhouse: steps::binary("roundhouse", "release")?, bare, stock })
}

/// Runs one duet and reads what it says.
fn sing(duet: &Duet, depth: u32, length: &Length, tools: &Tools) -> anyhow::Result<Reading> {
    for arm in [duet.left, duet.right] {
        if let Some(why) = arm.absent() {
            bail!("skipped: {why}");
        }
    }
    let is_twin = duet.left == duet.right;
    let mut command = Command::new(&tools.roundhouse);
    command.arg("duet");
    for (side, arm) in [("left", duet.left), ("right", duet.right)] {
        let name = if is_twin { format!("{}-{side}", arm.name()) } else { arm.name() };
        command.arg("--arm").arg(format!("{name}={}", arm.command(tools)));
        if arm == Arm::Redis {
            command.args(["--target".to_owned(), format!("{name}=line://{{address}}")]);
        }
    }
    let numbers = [
        ("--depth", depth),
        ("--connections", CONNECTIONS),
        ("--fresh-pairs", length.fresh_pairs),
        ("--windows", length.windows),
    ];
    for (flag, value) in numbers {
        command.arg(flag).arg(value.to_string());
    }
    command.args(["--mix", MIX, "--json"]);
    let output = command.stderr(std::process::Stdio::inherit()).output().context("start a duet")?;
    if !output.status.success() {
        bail!("`{}` failed: {}", steps::line(&command), output.status);
    }
    reading(&String::from_utf8_lossy(&output.stdout))
}

/// The last JSON line of a duet's output.
fn reading(output: &str) -> anyhow::Result<Reading> {
    let line = output.lines().rev().find(|line| line.starts_with('{'));
    let line = line.context("expected a duet to end with a line of JSON, found none")?;
    let value: serde_json::Value = serde_json::from_str(line).context("the duet's JSON")?;
    let number = |key: &str| {
        let found = value.get(key).and_then(serde_json::Value::as_f64);
        found.with_context(|| format!("expected `{key}` in the duet's result, found {line}"))
    };
    Ok(Reading { ratio: number("ratio")?, low: number("low")?, high: number("high")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_whole_interval_on_one_side() {
        let row = |low, high, wanted| {
            let found = Ok(Reading { ratio: (low + high) / 2.0, low, high });
            Row { name: String::new(), depth: 1, wanted, found }.verdict()
        };
        assert_eq!(row(0.96, 0.99, Some(0.95)), "met");
        assert_eq!(row(0.90, 0.94, Some(0.95)), "missed");
        assert_eq!(row(0.93, 0.97, Some(0.95)), "unresolved");
        assert_eq!(row(0.93, 0.97, None), "");
    }

    #[test]
    fn the_result_is_the_last_line_of_json() {
        let found = reading("block 1\n{\"ratio\": 0.9, \"low\": 0.8, \"high\": 1.0}\n").unwrap();
        assert_eq!(found, Reading { ratio: 0.9, low: 0.8, high: 1.0 });
        assert!(reading("nothing").is_err());
        assert!(reading("{\"ratio\": 1}").unwrap_err().to_string().contains("`low`"));
    }
}
