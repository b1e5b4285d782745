//! `cargo xtask bench governor`: what each engine carries out at twice its capacity, with a
//! governor that holds the response time.
//!
//! Server and generator have a core each. A closed load of a server without a governor measures
//! the peak; an open load of twice that meets a server with one, then half of it in short probes
//! until a probe has no refusal and no late answer. The surprising thing: the percentile is that
//! of requests that were carried out; refused ones have no response time.

use super::goals::{self, Figure, Values};
use super::{Ask, at_least, at_most, program, record};
use crate::steps;
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use stats::words::short;
use stats::{Goal, median};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The engines, and whether each request has a connection of its own: a worker of `prefork` serves
/// one connection until it ends.
const ENGINES: [(&str, bool); 5] =
    [("epoll", false), ("event", false), ("thread", false), ("prefork", true), ("uring", false)];
/// The deadline, and the request, which computes for a millisecond.
const DEADLINE: Duration = Duration::from_millis(100);
const PATH: &str = "work?ms=1";
/// The factor of the overload, and the share of the peak in a probe afterwards.
const FACTOR: f64 = 2.0;
const CALM: f64 = 0.5;
/// Blocks, and the length of the overload: 1,800 requests carried out give their 99th percentile
/// 18 samples above it, six blocks 108.
const BLOCKS: usize = 6;
const STORM: &str = "3s";
/// The file of the distribution of response times, as HdrHistogram prints it.
const TABLE: &str = "response.hgrm";
/// The length of a probe, and the time after which a server counts as not recovered.
const PROBE: &str = "200ms";
const PATIENCE: Duration = Duration::from_secs(20);

const NOTE: &str = "`/work?ms=1` at twice the capacity of each engine without a governor, 256 \
    connections (prefork: a connection a request), `--governor on --deadline 100ms`, 3 s a block; \
    server and generator on a core each. Goodput counts requests that were carried out.";

/// The figures of one block.
struct Found {
    goodput: f64,
    p99: f64,
    recovery_s: f64,
}

/// Builds, measures, prints a table, and with `--save` keeps it in `runs/`.
///
/// # Errors
/// If a build fails or the arguments are invalid.
pub(super) fn run(args: &[String]) -> anyhow::Result<()> {
    let usage = ["--save", "--quick", "--blocks N", "--only ENGINES"];
    let Ask { save, only, blocks, .. } = Ask::parse(args, &usage, BLOCKS)?;
    let roundhouse = program()?;
    let doubts: Vec<String> = record::busy().into_iter().collect();
    let mut figures = Vec::new();
    for (engine, alone) in ENGINES {
        if only.is_empty() || only.iter().any(|it| it == engine) {
            eprintln!("── {engine}");
            figures.extend(rows(&roundhouse, engine, alone, blocks));
        }
    }
    ensure!(!figures.is_empty(), "expected engines among epoll, event, thread, prefork, uring");
    let title = "The governor at twice the capacity";
    goals::show(["governor", title, NOTE], &figures, &doubts, save)
}

/// The three rows of an engine.
fn rows(roundhouse: &Path, engine: &str, alone: bool, blocks: usize) -> Vec<Figure> {
    let found: anyhow::Result<Vec<(f64, Found)>> =
        (0..blocks).map(|_| block(roundhouse, engine, alone)).collect();
    let row = |what: &str, wanted: Option<Goal>, of: &dyn Fn(&Found) -> f64| {
        let found = found.as_ref().map_err(|why| format!("{why:#}")).map(|all| {
            let peaks: Vec<f64> = all.iter().map(|it| it.0).collect();
            let from = format!("peak {}/s", short(median(&peaks).unwrap_or(f64::NAN)));
            Values { blocks: all.iter().map(|it| of(&it.1)).collect(), from }
        });
        let [goal, name, what, because] = ["", engine, what, ""].map(str::to_owned);
        Figure { goal, name, what, load: format!("{FACTOR} x"), wanted, because, found }
    };
    vec![
        row("goodput / peak", at_least(0.9), &|it| it.goodput),
        row("p99 / deadline", at_most(2.0), &|it| it.p99),
        row("recovery, s", at_most(2.0), &|it| it.recovery_s),
    ]
}

/// The peak, requests a second, and what is left at twice that.
fn block(roundhouse: &Path, engine: &str, alone: bool) -> anyhow::Result<(f64, Found)> {
    let plain = Server::start(roundhouse, engine, &[])?;
    let each: &[&str] = if alone { &["--requests-per-connection", "1"] } else { &[] };
    let flags = [&["-c", "16", "-d", "2s"], each].concat();
    let peak = number(&plain.load(&flags)?, "throughput_rps")?;
    drop(plain);
    let deadline = format!("{}ms", DEADLINE.as_millis());
    let server = Server::start(roundhouse, engine, &["--governor", "on", "--deadline", &deadline])?;
    let connections = if alone { "1000" } else { "256" };
    let open = |factor: f64, span: &str| {
        let rate = (factor * peak).to_string();
        let flags = ["-q", &rate, "-c", connections, "-d", span, "--warmup", "0s"];
        server.load(&[&flags, each].concat())
    };
    let storm = open(FACTOR, STORM)?;
    let p99_ms = server.p99_ms()?;
    let end = Instant::now();
    let limit_ns = DEADLINE.as_nanos() as f64;
    let recovery_s = loop {
        let probe = open(CALM, PROBE)?;
        let slowest = number(&probe["response"], "max_ns")?;
        if number(&probe, "failed")? == 0.0 && slowest <= limit_ns {
            break end.elapsed().as_secs_f64();
        }
        ensure!(end.elapsed() < PATIENCE, "expected it to recover within {PATIENCE:?}: {probe}");
    };
    let goodput = number(&storm, "throughput_rps")? / peak;
    let p99 = 1e6 * p99_ms / limit_ns;
    eprintln!("   peak {peak:.0}/s: {goodput:.2} of it, p99 {p99:.2} deadlines, {recovery_s:.2} s");
    Ok((peak, Found { goodput, p99, recovery_s }))
}

fn number(report: &Value, key: &str) -> anyhow::Result<f64> {
    report[key].as_f64().with_context(|| format!("expected `{key}` in {report}"))
}

/// A server that ends with this value.
struct Server {
    child: Child,
    roundhouse: PathBuf,
    url: String,
    /// For the table of response times of the last load.
    room: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // A drain, so that processes of its own end too.
        let pid = self.child.id().to_string();
        let _ = steps::run(Command::new("kill").args(["-TERM", &pid]), "coreutils");
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts it on the second core.
    fn start(roundhouse: &Path, engine: &str, flags: &[&str]) -> anyhow::Result<Server> {
        let mut command = pinned(roundhouse, 1);
        command.arg(roundhouse).args(["serve", "http", "--demo", "--json", "--admin", "none"]);
        command.args(["--port", "0", "--drain", "1s", "--engine", engine]).args(flags);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let child = child.context("start the server")?;
        let (url, room) = (String::new(), tempfile::tempdir().context("a temporary directory")?);
        let mut server = Server { child, roundhouse: roundhouse.to_owned(), url, room };
        let out = server.child.stdout.take().context("its output was piped")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).context("read where it listens")?;
        let ready: Value = serde_json::from_str(&line)
            .with_context(|| format!("expected where {engine} listens, found `{line}`"))?;
        let address = ready["listening"].as_str().context("expected an address")?;
        server.url = format!("http://{address}/{PATH}");
        Ok(server)
    }

    /// The 99th percentile of the last load's response times. The report leaves it out below ten
    /// thousand samples; here the blocks repeat it.
    fn p99_ms(&self) -> anyhow::Result<f64> {
        let text = std::fs::read_to_string(self.room.path().join(TABLE)).context("the table")?;
        let rows = text.lines().map(|line| line.split_whitespace().map(str::parse::<f64>));
        let row = |mut row: Vec<f64>| (row.len() > 2 && row[1] >= 0.99).then(|| row.swap_remove(0));
        let mut rows = rows.filter_map(|row| row.collect::<Result<Vec<f64>, _>>().ok());
        rows.find_map(row).with_context(|| format!("expected a row from 0.99 on in {text}"))
    }

    /// The report of a load from the first core.
    fn load(&self, flags: &[&str]) -> anyhow::Result<Value> {
        let mut command = pinned(&self.roundhouse, 0);
        command.arg(&self.roundhouse).args(["load", &self.url, "--json"]).args(flags);
        command.arg("--hgrm").arg(self.room.path().join(TABLE));
        let output = command.stderr(Stdio::piped()).output().context("start the generator")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(line) = text.lines().find(|line| line.starts_with('{')) else {
            bail!("no report: {}", String::from_utf8_lossy(&output.stderr));
        };
        serde_json::from_str(line).context("the report")
    }
}

fn pinned(roundhouse: &Path, core: usize) -> Command {
    let mut command = Command::new(roundhouse);
    command.args(["pin", &core.to_string(), "--"]).stdin(Stdio::null());
    command
}
