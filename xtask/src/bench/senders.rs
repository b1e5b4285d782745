//! `cargo xtask bench senders`: what a packet costs by each way to send, and how late it leaves.
//!
//! Every run is a process of its own, `crates/engines/examples/rate.rs`, that casts constant
//! packets and tells its CPU time and its lateness; both sides of a row run in turns on one core.
//! Where a network device may be made (root, `ip`), packets go to an `ifb`, which frees them: the
//! cost is the sender's alone. Elsewhere they go to a socket of the loopback device that nobody
//! reads, and the cost of receiving is in both sides of every ratio.
//!
//! The surprising thing: only the rows that say "as fast as it can" are about throughput. A stream
//! has its rate; what a sender can save is CPU time, and what it can spoil is the moment.

use super::{Bench, Length, Outcome, Reading, Row, Wanted, record};
use crate::steps;
use anyhow::{Context, bail, ensure};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const BENCH: Bench = Bench {
    name: "senders",
    title: "Ways to send by the clock",
    note: NOTE,
    duets: Vec::new,
    full: Length { fresh_pairs: 8, windows: 1 },
};

const NOTE: &str = "CPU time (user and system) of the sender per packet: left divided by right, \
    each a process of its own on one core, in turns. Rows of lateness compare the 99.9th \
    percentile of the time from a packet's moment to the receiver's kernel in the same way, in ns; \
    they go over the loopback device, the others to the sink named below. `hogs` are 50 spinning \
    processes on the sender's core; `fifo` runs at real-time priority 50.";

/// The device that frees what it is given, its address, and that of nobody behind it.
const SINK: &str = "rhsink";
const SINK_NET: &str = "10.99.87.1/24";
const SINK_TO: &str = "10.99.87.2:9";

/// What is compared in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// CPU time of a packet.
    Cost,
    /// The 99.9th percentile of lateness.
    Late,
}

/// One row: two sides that differ in a word, and what they have in common.
struct Match {
    name: &'static str,
    load: &'static str,
    left: &'static str,
    right: &'static str,
    common: &'static str,
    what: What,
    wanted: Wanted,
}

const AUDIO: &str = "casts=1000 packets=100 gap_us=30000 payload=32";
const FAST: &str = "casts=1 packets=400000 gap_us=0 payload=32";
const VIDEO: &str = "casts=1 packets=200000 gap_us=0 payload=1316";
const VIDEO_FILE: &str = "casts=1 packets=200000 gap_us=0 payload=1316 file=1";
const AUDIO_FILE: &str = "casts=1000 packets=100 gap_us=30000 payload=32 file=1";
const TEN: &str = "casts=10 packets=100 gap_us=30000 payload=32";

const fn cost(
    name: &'static str,
    load: &'static str,
    [left, right, common]: [&'static str; 3],
    wanted: Wanted,
) -> Match {
    Match { name, load, left, right, common, what: What::Cost, wanted }
}

const fn late(name: &'static str, [left, right]: [&'static str; 2], wanted: Wanted) -> Match {
    let load = "10 streams of 32 B each 30 ms";
    Match { name, load, left, right, common: TEN, what: What::Late, wanted }
}

/// Every row.
fn matches() -> Vec<Match> {
    let least = Wanted::AtLeast;
    let shown = Wanted::Shown;
    let audio = "1000 streams of 32 B each 30 ms";
    let fast = "32 B, as fast as it can";
    let video = "1316 B, as fast as it can";
    vec![
        cost("plain / plain", audio, ["plain", "plain", AUDIO], shown),
        cost("plain / sendmmsg", audio, ["plain", "sendmmsg", AUDIO], least(2.86)),
        cost("plain / wheel-sendto", audio, ["plain", "wheel-sendto", AUDIO], least(1.67)),
        cost("plain / plain-abs", audio, ["plain", "plain-abs", AUDIO], shown),
        cost("plain / uring-chain", audio, ["plain", "uring-chain", AUDIO], least(1.25)),
        cost("plain / uring-batch", audio, ["plain", "uring-batch", AUDIO], shown),
        cost("wheel-mmap / sendmmsg", fast, ["wheel-mmap", "sendmmsg", FAST], least(1.15)),
        cost("uring-batch / sendmmsg", fast, ["uring-batch", "sendmmsg", FAST], shown),
        cost("wheel-mmap / gso", video, ["wheel-mmap", "gso", VIDEO], least(2.0)),
        cost("gso / sendmmsg+gso", video, ["gso", "sendmmsg+gso", VIDEO], shown),
        cost("wheel-mmap / sendfile", video, ["wheel-mmap", "sendfile", VIDEO_FILE], shown),
        cost("wheel-mmap / sendfile", audio, ["wheel-mmap", "sendfile", AUDIO_FILE], shown),
        cost("wheel-sendto / wheel-mmap", video, ["wheel-sendto", "wheel-mmap", VIDEO_FILE], shown),
        cost("msg-zerocopy / wheel-mmap", video, ["msg-zerocopy", "wheel-mmap", VIDEO], shown),
        cost("uring-zc / uring-batch", video, ["uring-zc", "uring-batch", VIDEO], shown),
        late("plain / plain-abs", ["plain", "plain-abs"], shown),
        late("plain / sendmmsg", ["plain", "sendmmsg"], shown),
        late("plain-abs / uring-chain", ["plain-abs", "uring-chain"], least(1.0)),
        late("plain hogs / sendmmsg fifo hogs", ["plain hogs", "sendmmsg fifo hogs"], shown),
        late("plain hogs / uring-chain hogs", ["plain hogs", "uring-chain hogs"], shown),
        late(
            "plain hogs / uring-chain-sqpoll hogs",
            ["plain hogs", "uring-chain-sqpoll hogs"],
            shown,
        ),
    ]
}

/// Where packets go.
struct Sink {
    to: Option<&'static str>,
}

impl Sink {
    /// A device that frees packets, if one can be made.
    fn make() -> Sink {
        let ip = |words: &str| {
            let ended = Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status();
            ended.is_ok_and(|status| status.success())
        };
        let made = ip(&format!("link add {SINK} type ifb"))
            && ip(&format!("addr add {SINK_NET} dev {SINK}"))
            && ip(&format!("link set {SINK} up"));
        Sink { to: made.then_some(SINK_TO) }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let gone = Command::new("ip").args(["link", "del", SINK]).stderr(Stdio::null()).status();
        // What cannot be made cannot be taken away either.
        let _ = gone;
    }
}

/// Processes that spin until this is dropped.
struct Hogs(Vec<Child>);

impl Hogs {
    fn start(count: usize, cpu: usize) -> anyhow::Result<Hogs> {
        let mut hogs = Hogs(Vec::new());
        for _ in 0..count {
            let spin =
                ["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"].map(String::from);
            hogs.0.push(Command::new("taskset").args(spin).spawn().context("start `taskset`")?);
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended needs no signal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Builds the program, plays every row, prints the table and, with `--save`, keeps it in `runs/`.
pub(super) fn run(args: &[String]) -> anyhow::Result<()> {
    let (mut length, mut save) = (BENCH.full, false);
    for flag in args {
        match flag.as_str() {
            "--save" => save = true,
            "--quick" => length = super::QUICK,
            other => bail!("expected --save or --quick, found `{other}`"),
        }
    }
    let build = ["build", "--release", "-p", "engines", "--example", "rate"];
    steps::run(&mut steps::cargo(build), "cargo")?;
    let program = rate()?;
    let mut outcome = Outcome::default();
    record::machine_doubts(&mut outcome, &length);
    let sink = Sink::make();
    match sink.to {
        Some(_) => outcome.doubt("sink: ifb, a device that frees what it is given".to_owned()),
        None => outcome.doubt("sink: the loopback device, for no device could be made".to_owned()),
    }
    for (at, row) in matches().iter().enumerate() {
        eprintln!("── {} of {}: {}, {}", at + 1, matches().len(), row.name, row.load);
        let found = play(row, &length, &program, &sink).map_err(|error| format!("{error:#}"));
        outcome.rows.push(Row {
            name: row.name.to_owned(),
            load: row.load.to_owned(),
            wanted: row.wanted,
            found,
        });
    }
    let text = record::text(&BENCH, &outcome);
    print!("{text}");
    if save {
        let path = record::save(&BENCH, &outcome, &text, None)?;
        eprintln!("bench: saved in {}", path.display());
    }
    Ok(())
}

/// The program, beside the binaries of its profile.
fn rate() -> anyhow::Result<PathBuf> {
    let binary = steps::binary("roundhouse", "release")?;
    let folder = binary.parent().context("a binary lies in a folder")?;
    Ok(folder.join("examples/rate"))
}

/// Both sides in turns; the median of their ratios with its interval.
fn play(row: &Match, length: &Length, program: &PathBuf, sink: &Sink) -> anyhow::Result<Reading> {
    let (mut ratios, mut lefts, mut rights) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..length.fresh_pairs {
        let mut sides = [row.left, row.right];
        // Who begins changes, so that what the first finds does not favour a side.
        if pair % 2 == 1 {
            sides.reverse();
        }
        let mut values = Vec::new();
        for side in sides {
            values.push(measure(row, side, program, sink)?);
        }
        if pair % 2 == 1 {
            values.reverse();
        }
        ratios.push(values[0] / values[1].max(1.0));
        lefts.push(values[0]);
        rights.push(values[1]);
    }
    let each_ns = Some((median(&mut lefts), median(&mut rights)));
    let value = median(&mut ratios);
    // The order statistics that hold the median of 8 in 93 % of cases, of 6 in 97 %.
    let interval = match ratios.len() {
        8.. => Some((ratios[1], ratios[ratios.len() - 2])),
        6.. => Some((ratios[0], ratios[ratios.len() - 1])),
        _ => None,
    };
    Ok(Reading { value, interval, each_ns })
}

/// Sorts, and says what stands in the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    (low + high) / 2.0
}

/// One run of one side.
fn measure(row: &Match, side: &str, program: &PathBuf, sink: &Sink) -> anyhow::Result<f64> {
    let mut words = side.split(' ');
    let sender = words.next().context("a side names its sender")?;
    let rest: Vec<&str> = words.collect();
    let hogs = if rest.contains(&"hogs") { 50 } else { 0 };
    let hogs = Hogs::start(hogs, 0)?;
    let mut command = match rest.contains(&"fifo") {
        true => {
            let mut chrt = Command::new("chrt");
            chrt.args(["-f", "50"]).arg(program);
            chrt
        }
        false => Command::new(program),
    };
    command.arg(format!("sender={sender}")).arg("cpu=0").args(row.common.split(' '));
    if let (What::Cost, Some(to)) = (row.what, sink.to) {
        command.arg(format!("to={to}"));
    }
    let output = command.output().with_context(|| format!("start {}", program.display()))?;
    drop(hogs);
    ensure!(
        output.status.success(),
        "{sender} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let line: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let field = match row.what {
        What::Cost => "ns_per_packet",
        What::Late => "late_p999_ns",
    };
    line[field].as_f64().with_context(|| format!("expected {field} in {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_stands_twice() {
        let mut names: Vec<String> = matches()
            .iter()
            .map(|row| format!("{} {} {:?}", row.name, row.load, row.what))
            .collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
