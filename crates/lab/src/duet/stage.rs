//! Duets with real processes on this machine.

use super::silent::Silent;
use super::{Fresh, PAIR_SCHEMA, Part, Plan, Players, Side, Silence};
use crate::machine::{Placement, Watch};
use crate::plan::fnv1a;
use crate::runner::provide;
use crate::server::Server;
use crate::trial::{WaitResult, pin, wait_for};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The time limit for a server's end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Targets that understand the market's commands.
const STOCK: &str = "stock://";
/// The request that a silent connection to a market sends before it falls silent.
const GREETING: &str = "show\n";

/// Runs duets with processes.
pub struct Stage<'a> {
    plan: &'a Plan,
    exe: PathBuf,
    room: PathBuf,
    placement: Option<Placement>,
    stop: &'a AtomicBool,
}

impl<'a> Stage<'a> {
    /// Prepares to run `plan`; arguments as in [`crate::trial::Runner::new`].
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
        provide(&self.plan.files, &dir)?;
        let prefix = core.map(|core| pin(&self.exe, core)).unwrap_or_default();
        let arm = part.arm.at(&self.plan.point);
        Server::boot(&prefix, &arm, &dir, "server", arm.boot_max())
            .map_err(|reason| format!("{}: {reason}", arm.name))
    }

    fn generator(&self, parts: [&Part; 2], servers: &[Server; 2], seed: u64) -> Vec<String> {
        let (plan, point) = (self.plan, &self.plan.point);
        let arms = parts.map(|part| part.arm.at(point));
        let target = |at: usize| arms[at].target.replace("{address}", &servers[at].address);
        let mut words = vec![self.exe.display().to_string(), "load".to_string(), target(0)];
        let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
        flag("--duet", target(1));
        flag("--watch", servers[0].process.id().to_string());
        flag("--watch-b", servers[1].process.id().to_string());
        for (suffix, arm) in [("", &arms[0]), ("-b", &arms[1])] {
            for pair in arm.load.chunks_exact(2) {
                flag(&format!("{}{suffix}", pair[0]), pair[1].clone());
            }
        }
        // Without an end of its own the second server's replies would end as the first's do.
        let ends = arms.each_ref().map(|arm| arm.load.iter().any(|word| word == "--terminator"));
        if ends == [true, false] {
            flag("--terminator-b", "\\n".to_string());
        }
        flag("--closed", point.connections.to_string());
        flag("--depth", point.depth.to_string());
        if point.requests_per_connection > 0 {
            flag("--requests-per-connection", point.requests_per_connection.to_string());
        }
        if !point.mix.is_empty() && arms.iter().any(|arm| arm.target.starts_with(STOCK)) {
            flag("--mix", point.mix.clone());
        }
        flag("--windows", plan.windows.to_string());
        flag("--window", format!("{}ms", plan.window_ms));
        flag("--warmup", format!("{}ms", plan.warmup_ms));
        flag("--seed", seed.to_string());
        words.extend(point.load.iter().cloned());
        words
    }

    /// Starts both servers, the silent connections and the generator, and returns its report. The
    /// outer option is `None` if it was interrupted.
    fn fresh(&self, pair: (usize, usize), number: u32) -> Option<Result<PairResult, String>> {
        let parts = [&self.plan.parts[pair.0], &self.plan.parts[pair.1]];
        let swapped = number % 2 == 1;
        let cores = self.placement.map(|placement| placement.cores(swapped));
        let seed = fnv1a(&[self.plan.seed.to_le_bytes(), u64::from(number).to_le_bytes()].concat());
        let seed = seed & 0xffff_ffff;
        let both = self.start(parts, seed, cores.map(|cores| cores.0)).and_then(|servers| {
            let [a, b] = &servers;
            let hush = |part: &Part, server: &Server| {
                (part.idle > 0).then(|| self.hush(part, server)).transpose()
            };
            let silent = [hush(parts[0], a)?, hush(parts[1], b)?];
            Ok((servers, silent))
        });
        let (servers, silent) = match both {
            Ok(both) => both,
            Err(reason) => return Some(Err(reason)),
        };
        let mut command = self.generator(parts, &servers, seed);
        if let Some((_, generator)) = cores {
            command.extend(["--cpu".to_string(), generator.to_string()]);
        }
        command.push("--json".to_string());
        let millis = 2 * (self.plan.warmup_ms + u64::from(self.plan.windows) * self.plan.window_ms);
        let longest = Duration::from_millis(4 * millis + 20_000);
        let waited = wait_for(&command, &self.room, "load", longest, self.stop);
        let [a_idle, b_idle] = silent.map(|it| it.map(Silent::end).transpose());
        for server in servers {
            server.process.stop(PATIENCE);
        }
        match waited {
            WaitResult::Interrupted => None,
            WaitResult::Nothing(reason) => Some(Err(reason)),
            WaitResult::Output { text, complaint } => {
                let report = Report::parse(&text)
                    .map_err(|reason| if complaint.is_empty() { reason } else { complaint });
                let played = report.and_then(|report| {
                    Ok(PairResult { report, swapped, a_idle: a_idle?, b_idle: b_idle? })
                });
                Some(played)
            }
        }
    }

    /// The order of the two starts is random too: the later server finds warmer caches.
    fn start(
        &self,
        parts: [&Part; 2],
        seed: u64,
        core: Option<usize>,
    ) -> Result<[Server; 2], String> {
        let start = |at: usize| self.server(parts[at], ["a", "b"][at], core);
        if Pcg64::seed_from_u64(seed).random::<bool>() {
            Ok([start(0)?, start(1)?])
        } else {
            let b = start(1)?;
            Ok([start(0)?, b])
        }
    }

    fn hush(&self, part: &Part, server: &Server) -> Result<Silent, String> {
        let greeting = if part.arm.target.starts_with(STOCK) { GREETING } else { "" };
        Silent::hush(server, part.idle, greeting, self.plan.point.connections)
            .map_err(|reason| format!("{}: {reason}", part.arm.name))
    }
}

/// The part of the generator's report about one pair that the laboratory reads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Report {
    schema: String,
    a: Side,
    b: Side,
    ratio: f64,
    #[serde(default)]
    windows: Vec<Window>,
    #[serde(default)]
    doubts: Vec<String>,
}

/// One measured window of a report.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Window {
    /// `a` or `b`.
    arm: String,
    requests: u64,
    elapsed_ns: u64,
}

/// The result of one fresh pair.
struct PairResult {
    report: Report,
    swapped: bool,
    a_idle: Option<Silence>,
    b_idle: Option<Silence>,
}

impl Report {
    /// Replies per second in the windows of one side.
    fn rate(&self, side: &str) -> Option<f64> {
        let windows = || self.windows.iter().filter(|window| window.arm == side);
        let elapsed_ns: u64 = windows().map(|window| window.elapsed_ns).sum();
        let requests: u64 = windows().map(|window| window.requests).sum();
        (elapsed_ns > 0).then(|| requests as f64 * 1e9 / elapsed_ns as f64)
    }

    fn parse(text: &str) -> Result<Report, String> {
        let line = text.lines().rev().find(|line| line.starts_with('{'));
        let line = line.ok_or("expected a line of JSON from the generator, found none")?;
        let mut report: Report = serde_json::from_str(line)
            .map_err(|why| format!("the generator's report cannot be read: {why}"))?;
        (report.a.throughput_rps, report.b.throughput_rps) = (report.rate("a"), report.rate("b"));
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
        Some(result.map(|PairResult { report, swapped, a_idle, b_idle }| Fresh {
            number,
            swapped,
            ratio: report.ratio,
            a: report.a,
            b: report.b,
            a_idle,
            b_idle,
            conditions,
            doubts: report.doubts,
        }))
    }
}
