//! The echo of a game server's library: CPU per packet beside the same echo on tokio, and packets
//! per second beside the library's own design before its optimisation.

use super::arm::Arm;
use super::duet::{Duet, Length, Load};
use super::{Outcome, Reading, Row, Tools, at_least, reading};
use anyhow::{Context, bail, ensure};
use stats::median;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

/// The note for the reader.
pub const NOTE: &str = "\
    CPU per packet of the same echo (packets of ten bytes, 64 connections) on tokio, one thread, \
    and on our engines: above 1, tokio needs more. The last rows are nanoseconds of a whole \
    second's work for each packet: 100 connections with 100 packets outstanding each, one of \
    them closed and made anew every 500 ms. Server and generator share all cores: on a core \
    of its own no worker of a server waits for another's lock. On the left is the library's \
    design before its optimisation: four workers at one queue, one lock held from finding a \
    session until its send is over, a hash map, and a new buffer of 20,000 bytes for each message \
    of about 50 packets. Ours should do twice as much.";

/// Our engines.
const ENGINES: [&str; 3] = ["reactor", "uring", "port"];
/// The duration of one run (seconds).
const SECONDS: &str = "2s";

/// Every comparison by duet.
pub fn duets() -> Vec<Duet> {
    let mut duets = Vec::new();
    for depth in [1, 100] {
        for engine in ENGINES {
            duets.push(Duet {
                left: Arm::EchoTokio,
                right: Arm::Echo(engine),
                load: Load { depth, ..Load::default() },
                wanted: at_least(1.0),
                bytes: None,
                p99: None,
            });
        }
    }
    duets
}

/// Packets a second against the design of the library, for each engine.
pub fn rates(length: &Length, tools: &Tools, outcome: &mut Outcome) {
    for engine in ENGINES {
        let name = format!("unoptimised / {engine}, wall time");
        eprintln!("── {name}");
        let found = pairs(engine, length.fresh_pairs, tools).map_err(|error| format!("{error:#}"));
        let load = "100 x 100, reconnects".to_owned();
        outcome.rows.push(Row { name, load, wanted: at_least(2.0), found });
    }
}

fn pairs(engine: &str, count: u32, tools: &Tools) -> anyhow::Result<Reading> {
    let (mut ratios, mut before, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..count {
        let mut each = [0.0; 2];
        // The order alternates, because the machine drifts.
        for at in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            let server = match at {
                0 => Server::unoptimised(tools)?,
                _ => Server::ours(engine, tools)?,
            };
            each[at] = server.packet_ns(tools)?;
        }
        eprintln!("   {:.0} ns / {:.0} ns", each[0], each[1]);
        ratios.push(each[0] / each[1]);
        before.push(each[0]);
        ours.push(each[1]);
    }
    reading(&ratios, median(&before).zip(median(&ours)))
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
    fn unoptimised(tools: &Tools) -> anyhow::Result<Server> {
        let (mut server, line) = Server::start(tools, &["artefact", "echo", "00000"])?;
        let port: u16 = line.trim().parse().with_context(|| format!("no port: `{line}`"))?;
        server.address = format!("127.0.0.1:{port}");
        Ok(server)
    }

    fn ours(engine: &str, tools: &Tools) -> anyhow::Result<Server> {
        let words = ["serve", "echo", "--port", "0", "--engine", engine];
        let (mut server, line) = Server::start(tools, &words)?;
        let ready: serde_json::Value =
            serde_json::from_str(&line).with_context(|| format!("no announcement: `{line}`"))?;
        let address = ready["listening"].as_str().context("expected an address")?.to_owned();
        server.address = address;
        Ok(server)
    }

    /// Starts it, and returns its first line.
    fn start(tools: &Tools, words: &[&str]) -> anyhow::Result<(Server, String)> {
        let mut command = Command::new(&tools.roundhouse);
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
    fn packet_ns(&self, tools: &Tools) -> anyhow::Result<f64> {
        let target = format!("echo://{}", self.address);
        let mut command = Command::new(&tools.roundhouse);
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
