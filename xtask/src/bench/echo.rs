//! Packets per second of the echo beside the library's own design before its optimisation. (CPU per
//! packet beside the same echo on tokio is a plan, `experiments/duets/echo.toml`.)

use super::at_least;
use super::goals::{self, Figure, Values};
use anyhow::{Context, bail, ensure};
use stats::median;
use stats::words::short;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The note for the reader.
const NOTE: &str = "\
    Nanoseconds of a whole second's work for each packet: 100 connections with 100 packets \
    outstanding each, one of them closed and made again every 500 ms. Server and generator share \
    all cores: on a core of its own no worker of a server waits for another's lock. On the left is \
    the library's design before its optimisation: four workers at one queue, one lock held from \
    finding a session until its send is over, a hash map, and a new buffer of 20,000 bytes for \
    each message of about 50 packets. Ours should do twice as much.";

/// Our engines.
const ENGINES: [&str; 3] = ["reactor", "uring", "port"];
/// The duration of one run (seconds).
const SECONDS: &str = "2s";

/// Packets a second against the design of the library, for each engine; prints a table and with
/// `save` keeps it in `runs/`.
///
/// # Errors
/// If the result cannot be saved. A run that fails is a row with its reason.
pub fn rates(roundhouse: &Path, count: u32, save: bool) -> anyhow::Result<()> {
    let figures: Vec<Figure> =
        ENGINES.iter().map(|engine| figure(engine, count, roundhouse)).collect();
    println!();
    let title = "The echo beside its library's first design";
    goals::show(["echo-rates", title, NOTE], &figures, &[], save)
}

fn figure(engine: &str, count: u32, roundhouse: &Path) -> Figure {
    let name = format!("unoptimised / {engine}");
    eprintln!("── {name}");
    let found = pairs(engine, count, roundhouse).map_err(|error| format!("{error:#}"));
    let load = "100 x 100, reconnects".to_owned();
    let (goal, because, wanted) = ("", "", at_least(2.0));
    Figure { goal, name, what: "wall time per packet", load, wanted, because, found }
}

fn pairs(engine: &str, count: u32, roundhouse: &Path) -> anyhow::Result<Values> {
    let (mut blocks, mut before, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..count {
        let mut each = [0.0; 2];
        // The order alternates, because the machine drifts.
        for at in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            let server = match at {
                0 => Server::unoptimised(roundhouse)?,
                _ => Server::ours(engine, roundhouse)?,
            };
            each[at] = server.packet_ns(roundhouse)?;
        }
        eprintln!("   {:.0} ns / {:.0} ns", each[0], each[1]);
        blocks.push(each[0] / each[1]);
        before.push(each[0]);
        ours.push(each[1]);
    }
    let [left, right] = [&before, &ours].map(|it| short(median(it).unwrap_or(f64::NAN)));
    Ok(Values { blocks, from: format!("{left} / {right} ns") })
}

/// A server that ends with this value.
struct Server {
    child: Child,
    address: String,
    /// The artefact serves while this is open.
    _input: Option<ChildStdin>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn unoptimised(roundhouse: &Path) -> anyhow::Result<Server> {
        let (mut server, line) = Server::start(roundhouse, &["artefact", "echo", "00000"])?;
        let port: u16 = line.trim().parse().with_context(|| format!("no port: `{line}`"))?;
        server.address = format!("127.0.0.1:{port}");
        Ok(server)
    }

    fn ours(engine: &str, roundhouse: &Path) -> anyhow::Result<Server> {
        let words = ["serve", "echo", "--port", "0", "--engine", engine];
        let (mut server, line) = Server::start(roundhouse, &words)?;
        let ready: serde_json::Value =
            serde_json::from_str(&line).with_context(|| format!("no announcement: `{line}`"))?;
        let address = ready["listening"].as_str().context("expected an address")?.to_owned();
        server.address = address;
        Ok(server)
    }

    /// Starts it, and returns its first line.
    fn start(roundhouse: &Path, words: &[&str]) -> anyhow::Result<(Server, String)> {
        let mut command = Command::new(roundhouse);
        command.args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("start a server")?;
        let (input, out) = (child.stdin.take(), child.stdout.take());
        let server = Server { child, address: String::new(), _input: input };
        let mut line = String::new();
        let mut out = BufReader::new(out.context("its output was piped")?);
        out.read_line(&mut line).context("read where it listens")?;
        ensure!(!line.is_empty(), "expected a server that says where it listens, found none");
        Ok((server, line))
    }

    /// Nanoseconds for each packet under stress.
    fn packet_ns(&self, roundhouse: &Path) -> anyhow::Result<f64> {
        let target = format!("echo://{}", self.address);
        let mut command = Command::new(roundhouse);
        command.args(["load", &target, "-c", "100", "--window", "100"]);
        command.args(["--reconnect", "500ms", "--for", SECONDS, "--json"]);
        let output = command.stderr(Stdio::null()).output().context("start the generator")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let report: serde_json::Value = serde_json::from_str(text.trim())
            .with_context(|| format!("expected a report, found `{text}`"))?;
        if report["check"]["ok"] != true || report["stress"]["invalid"] != 0 {
            bail!("wrong echoes: {} {}", report["check"]["detail"], report["stress"]);
        }
        let rate = report["throughput_rps"].as_f64().filter(|&rate| rate > 0.0);
        Ok(1e9 / rate.context("expected packets, found none")?)
    }
}
