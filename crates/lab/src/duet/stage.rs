//! Duets with real processes on this machine.

use super::silent::Silent;
use super::{Fresh, Part, Plan, Players, Side, Silence};
use crate::machine::{Placement, Watch};
use crate::plan::fnv1a;
use crate::runner::provide;
use crate::runner::words::{self, Request};
use crate::server::Server;
use crate::trial::pin;
use crate::turns::{Played, Taken, Turns};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
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

    /// The generator's arguments for one of the servers.
    fn run(&self, part: &Part, server: &Server, seed: u64) -> Vec<String> {
        let (plan, point) = (self.plan, &self.plan.point);
        let arm = &part.arm.at(point);
        let (warmup_ms, window_ms) = (plan.warmup_ms, plan.window_ms);
        words::run(
            &Request { arm, point, warmup_ms, window_ms, seed, rate: None, watch: true },
            server,
        )
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
        let turns = Turns {
            exe: &self.exe,
            dir: &self.room,
            windows: self.plan.windows,
            window_ms: self.plan.window_ms,
            warmup_ms: self.plan.warmup_ms,
            seed,
            cpu: cores.map(|cores| cores.1),
        };
        let runs = [0, 1].map(|at| self.run(parts[at], &servers[at], seed));
        let taken = turns.take(&runs, self.stop);
        let [a_idle, b_idle] = silent.map(|it| it.map(Silent::end).transpose());
        for server in servers {
            server.process.stop(PATIENCE);
        }
        let loads = match taken {
            Taken::Interrupted => return None,
            Taken::Nothing(reason) => return Some(Err(reason)),
            Taken::Loads(loads) => loads,
        };
        let sides: Result<Vec<(Side, Vec<String>)>, String> =
            loads.into_iter().map(|load| Side::of(load?)).collect();
        let played = sides.and_then(|sides| {
            let both: [(Side, Vec<String>); 2] =
                sides.try_into().map_err(|_| "expected two reports".to_string())?;
            let [(a, mut doubts), (b, more)] = both;
            doubts.extend(more);
            let (a_idle, b_idle) = (a_idle?, b_idle?);
            Ok(PairResult { a, b, doubts, swapped, a_idle, b_idle })
        });
        Some(played)
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

/// The result of one fresh pair.
struct PairResult {
    a: Side,
    b: Side,
    doubts: Vec<String>,
    swapped: bool,
    a_idle: Option<Silence>,
    b_idle: Option<Silence>,
}

impl Side {
    /// The side that the generator's report describes, and the report's doubts.
    fn of(Played { load, p99_ns }: Played) -> Result<(Side, Vec<String>), String> {
        let usage = load.server.as_ref().ok_or("the generator did not watch the server")?;
        let cpu = usage.cpu_ns_per_request.ok_or("no request was answered")?;
        let side = Side {
            requests: load.requests,
            cpu_ns_per_request: cpu,
            switches_per_request: usage.switches_per_request,
            p99_ns,
            throughput_rps: Some(load.throughput_rps),
            errors: load.errors,
            check: load.check,
        };
        // Whether the generator was the limit is no matter where CPU time is compared.
        let health = load.health.unwrap_or_default();
        let doubts = load.doubts.into_iter().filter(|text| !health.reasons.contains(text));
        Ok((side, doubts.collect()))
    }
}

impl Players for Stage<'_> {
    fn play(&mut self, pairing: (usize, usize), number: u32) -> Option<Result<Fresh, String>> {
        let watch = Watch::start();
        let result = self.fresh(pairing, number)?;
        let conditions = watch.stop();
        Some(result.map(|PairResult { a, b, doubts, swapped, a_idle, b_idle }| Fresh {
            number,
            swapped,
            ratio: a.cpu_ns_per_request / b.cpu_ns_per_request,
            a,
            b,
            a_idle,
            b_idle,
            conditions,
            doubts,
        }))
    }
}
