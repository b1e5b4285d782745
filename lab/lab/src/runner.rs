//! Servers and generators as processes on this machine.
//!
//! One slot of the race becomes one or more servers. Each starts fresh in its own directory and
//! control group, and a generator on the other core loads it. A closed or open point is one server
//! and one generator; an overload has a second generator that starts later and ends earlier; a
//! capacity search uses a fresh server for every probe. The capacity search as a whole is the
//! trial, not its probes: a block holds one capacity for each arm, so it is compared like any other
//! number.

mod census;
mod overload;
mod search;
mod turns;
pub(crate) mod words;

use crate::block::Slot;
use crate::census::{Census, OwnFigures};
use crate::cost::CostWatch;
use crate::far::Far;
use crate::idle::IdleSockets;
use crate::load::Load;
use crate::machine::{Conditions, Placement, Watch};
use crate::observations::{Observations, TreeLife};
use crate::plan::{Arm, LoadPoint, Model, Plan, Provision, Rate};
use crate::server::{LOCALHOST, ProcessExit, Server};
use crate::trial::{Ending, Trial, Trials, generate, objections};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use words::Request;

pub use words::pin;

/// The time limit for a server's end.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time that a generator may take beyond its warm-up and window.
const SLACK_MS: u64 = 15_000;
/// The minimum number of connections of a pilot; fewer could leave a server idle between requests.
const PILOT_CONNECTIONS: u32 = 32;

/// Processes on this machine.
pub struct Runner {
    plan: Plan,
    entrants: Vec<Arm>,
    exe: PathBuf,
    room: PathBuf,
    placement: Option<Placement>,
    stop: Arc<AtomicBool>,
    capacities: BTreeMap<String, f64>,
    far: Option<Arc<Far>>,
    own: fn(u32) -> Option<OwnFigures>,
    /// The time that servers with short accept queues took for idle connections, milliseconds.
    idle_ms: AtomicU64,
}

/// The result of a trial: everything but the environment.
#[derive(Default)]
struct Attempt {
    ending: Option<Ending>,
    boot_ms: Option<f64>,
    exit: Option<String>,
    exit_clean: bool,
    seen: Observations,
}

/// A running server and its watchers.
struct Up {
    server: Server,
    cost: CostWatch,
    held: Option<IdleSockets>,
    far: Option<Arc<Far>>,
    /// (server's core, generator's core).
    cores: Option<(usize, usize)>,
}

impl Runner {
    /// Prepares to run `plan`. `exe` is the program that offers `load` and `pin`; `room` an empty
    /// directory for the trials' files; `stop` ends the running trial when it becomes true.
    pub fn new(
        plan: &Plan,
        exe: &Path,
        room: &Path,
        placement: Option<Placement>,
        stop: Arc<AtomicBool>,
    ) -> Runner {
        Runner {
            plan: plan.clone(),
            entrants: plan.entrants(),
            exe: exe.to_path_buf(),
            room: room.to_path_buf(),
            placement,
            stop,
            capacities: BTreeMap::new(),
            far: None,
            own: |_| None,
            idle_ms: AtomicU64::new(0),
        }
    }

    /// The same runner with its generator on another machine.
    pub fn far(self, far: Option<Arc<Far>>) -> Runner {
        Runner { far, ..self }
    }

    /// The same runner, which asks a server by its process what it tells about itself.
    pub fn own(self, own: fn(u32) -> Option<OwnFigures>) -> Runner {
        Runner { own, ..self }
    }

    fn boot(&self, arm: &Arm, swapped: bool, dir: &Path) -> Result<Up, String> {
        provide(&self.plan.files, dir)?;
        let cores = self.placement.map(|placement| placement.cores(swapped));
        let cost = CostWatch::new(&arm.name);
        let mut prefix = cost.prefix();
        prefix.extend(cores.map(|(server, _)| pin(&self.exe, server)).unwrap_or_default());
        let host = self.far.as_ref().map_or(LOCALHOST, |far| far.host);
        let server = Server::boot((host, 0), &prefix, arm, dir, "server", arm.boot_max())?;
        Ok(Up { server, cost, held: None, far: self.far.clone(), cores })
    }

    /// Runs one generator against one server to its end. `None` when it was interrupted.
    fn ask(&self, up: &Up, request: &Request<'_>, dir: &Path) -> Option<Result<Box<Load>, String>> {
        let mut command = words::generator(&self.exe, request, &up.server, up.cores);
        let far = self.far.as_deref();
        command.extend(far.filter(|_| request.watch).iter().flat_map(|far| far.flags()));
        let longest = Duration::from_millis(request.warmup_ms + request.window_ms + SLACK_MS);
        let parse = |text: &str| Load::parse(text).map(Box::new);
        generate(far, &command, dir, longest, &self.stop, parse)
    }

    /// A closed or an open point.
    fn plain(&self, arm: &Arm, point: &LoadPoint, slot: &Slot, dir: &Path) -> Attempt {
        let offered_rps = match point.model {
            Model::Open { rate, .. } => match self.rate(&arm.name, rate) {
                Ok(rate) => Some(rate),
                Err(reason) => return Attempt::failed(reason),
            },
            _ => None,
        };
        self.at_rate(arm, point, slot, dir, offered_rps)
    }

    /// A fresh server under an open load, or without a rate under a closed one.
    fn at_rate(
        &self,
        arm: &Arm,
        point: &LoadPoint,
        slot: &Slot,
        dir: &Path,
        offered_rps: Option<f64>,
    ) -> Attempt {
        let mut up = match self.boot(arm, slot.swapped, dir) {
            Ok(up) => up,
            Err(reason) => return Attempt::unavailable(reason),
        };
        let mut run = up.run();
        run.seen.offered_rps = offered_rps;
        up.hold(arm.idle);
        up.cost.mark();
        let request = Request::of(&self.plan, arm, point, slot.seed, offered_rps);
        let asked = self.ask(&up, &request, dir);
        run.end(asked, up);
        run
    }

    /// An offered rate in requests per second for one arm.
    fn rate(&self, arm: &str, rate: Rate) -> Result<f64, String> {
        match rate {
            Rate::Absolute(rate) => Ok(rate),
            Rate::Own(share) => Ok(share * self.capacity(arm)?),
            Rate::Slowest(share) => {
                let least = self.capacities.values().copied().min_by(f64::total_cmp);
                let least = least.ok_or("no pilot says what the slowest arm can do")?;
                Ok(share * least)
            }
        }
    }

    /// The capacity that the pilot measured for an arm; for the twin, the capacity of the baseline.
    fn capacity(&self, arm: &str) -> Result<f64, String> {
        let name = if arm == self.plan.twin_name() { &self.plan.baseline } else { arm };
        let found = self.capacities.get(name).copied();
        found.ok_or_else(|| format!("no pilot says what `{name}` can do"))
    }

    /// The closed point that a pilot runs.
    fn pilot_point(&self) -> LoadPoint {
        let like = self.plan.points.iter().find(|point| point.needs_pilot());
        let like = like.or(self.plan.points.first()).cloned().unwrap_or_default();
        LoadPoint {
            name: "pilot".to_string(),
            connections: like.connections.max(PILOT_CONNECTIONS),
            depth: 1,
            model: Model::Closed,
            idle: 0,
            ..like
        }
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.room.join(name)
    }
}

impl Attempt {
    fn failed(reason: String) -> Attempt {
        Attempt { ending: Some(Ending::Failed { reason }), ..Attempt::default() }
    }

    fn unavailable(reason: String) -> Attempt {
        Attempt { ending: Some(Ending::Unavailable { reason }), ..Attempt::default() }
    }

    /// Takes the generator's report and ends the server.
    fn end(&mut self, asked: Option<Result<Box<Load>, String>>, mut up: Up) {
        let requests = match &asked {
            Some(Ok(load)) => load.requests_total.max(load.requests),
            _ => 0,
        };
        up.cost.unloaded(requests);
        self.seen.idle = up.held.take().map(IdleSockets::close);
        let (exit, life) = up.stop(requests);
        (self.exit, self.exit_clean) = (Some(exit.how), exit.clean);
        self.seen.cost = Some(life);
        self.ending = match asked {
            None => None,
            Some(Ok(load)) => Some(Ending::Measured { load }),
            Some(Err(reason)) => Some(Ending::Failed { reason }),
        };
    }
}

impl Up {
    fn boot_ms(&self) -> f64 {
        self.server.boot.as_secs_f64() * 1e3
    }

    /// A run of which no more is known than that the server is ready.
    fn run(&self) -> Attempt {
        Attempt { boot_ms: Some(self.boot_ms()), ..Attempt::default() }
    }

    /// Opens idle connections and measures their memory.
    fn hold(&mut self, wanted: u32) {
        if wanted > 0 {
            let pid = self.server.process.id();
            let far = self.far.as_ref();
            let mut held = IdleSockets::open(&self.server.address, pid, wanted, far);
            held.weigh(pid);
            self.held = Some(held);
        }
    }

    /// Stops the server gracefully: its end, and its cost.
    fn stop(mut self, requests: u64) -> (ProcessExit, TreeLife) {
        let exit = match self.server.process.ended() {
            Some(ProcessExit { how, .. }) => {
                ProcessExit { how: format!("died during the trial ({how})"), clean: false }
            }
            None => self.server.process.stop(PATIENCE),
        };
        (exit, self.cost.ended(requests))
    }
}

impl Runner {
    /// One slot with a separate server. `begun` is when the race began. `None` if it was
    /// interrupted.
    pub fn run(&self, slot: &Slot, begun: Instant) -> Option<Trial> {
        let start = Instant::now();
        let dir = self.dir(&format!("trial-{}", slot.order));
        let point = &self.plan.points[slot.point];
        let arm = &self.entrants[slot.entrant].at(point);
        let watch = Watch::start();
        let run = match point.model {
            Model::Closed | Model::Open { .. } => self.plain(arm, point, slot, &dir),
            Model::Overload { factor } => self.overload(arm, point, factor, slot, &dir),
            Model::Capacity { .. } => self.search(arm, point, slot, &dir),
        };
        let conditions = watch.stop();
        let _ = fs::remove_dir_all(&dir);
        self.trial(slot, [begun, start], conditions, run)
    }

    /// The trial of a slot that started in a race that had `begun`; `None` if it was interrupted.
    fn trial(
        &self,
        slot: &Slot,
        [begun, start]: [Instant; 2],
        conditions: Conditions,
        run: Attempt,
    ) -> Option<Trial> {
        let (point, ending) = (&self.plan.points[slot.point], run.ending?);
        Some(Trial {
            order: slot.order,
            block: slot.block,
            point: point.name.clone(),
            arm: self.entrants[slot.entrant].name.clone(),
            seed: slot.seed,
            swapped: slot.swapped,
            begun_ms: start.duration_since(begun).as_secs_f64() * 1e3,
            took_ms: start.elapsed().as_secs_f64() * 1e3,
            boot_ms: run.boot_ms,
            conditions,
            objections: objections(&self.plan.gates, &conditions, point, &ending),
            exit: run.exit,
            exit_clean: run.exit_clean,
            ending,
            seen: run.seen,
        })
    }

    /// Whether the servers of two load points are the same: closed loops without silent
    /// connections, and no command or file that names the point.
    fn share_servers(&self, first: &LoadPoint, second: &LoadPoint) -> bool {
        let is_plain = |point: &LoadPoint| !point.is_open() && point.idle == 0;
        let same = |arm: &Arm| {
            let (one, other) = (arm.at(first), arm.at(second));
            (one.command, one.files) == (other.command, other.files)
        };
        is_plain(first) && is_plain(second) && self.entrants.iter().all(same)
    }
}

impl Trials for Runner {
    /// The slots of neighbouring load points that share their servers take turns; the others have a
    /// server each, one after the other.
    fn block(&mut self, slots: &[Slot], begun: Instant) -> Option<Vec<Trial>> {
        let points = &self.plan.points;
        let shared = |a: &Slot, b: &Slot| {
            a.point == b.point || self.share_servers(&points[a.point], &points[b.point])
        };
        let mut trials = Vec::new();
        for (nth, group) in slots.chunk_by(shared).enumerate() {
            let point = &points[group[0].point];
            if !self.share_servers(point, point) {
                for slot in group {
                    trials.push(self.run(slot, begun)?);
                }
                continue;
            }
            let dir = self.dir(&format!("block-{}", slots[0].block));
            let played = self.take_turns(group, nth == 0, &dir, begun);
            let _ = fs::remove_dir_all(&dir);
            trials.extend(played?);
        }
        Some(trials)
    }

    fn pilot(&mut self, entrant: usize, round: u32) -> Option<Result<Load, String>> {
        let point = self.pilot_point();
        let dir = self.dir(&format!("pilot-{entrant}-{round}"));
        let slot = Slot {
            order: 0,
            block: round,
            point: 0,
            entrant,
            seed: self.plan.seed & 0xffff_ffff,
            swapped: round % 2 == 1,
        };
        let run = self.plain(&self.entrants[entrant].at(&point), &point, &slot, &dir);
        let _ = fs::remove_dir_all(&dir);
        Some(match run.ending? {
            Ending::Measured { load } => Ok(*load),
            Ending::Unavailable { reason } | Ending::Failed { reason } => Err(reason),
        })
    }

    fn capacities(&mut self, found: &BTreeMap<String, f64>) {
        self.capacities = found.clone();
    }

    fn census(&mut self, entrant: usize, point: usize) -> Option<Census> {
        let dir = self.dir(&format!("census-{entrant}-{point}"));
        let census = self.count_calls(entrant, point, &dir);
        let _ = fs::remove_dir_all(&dir);
        census
    }
}

/// Gives a trial its directory and files.
pub(crate) fn provide(files: &[Provision], dir: &Path) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("cannot prepare {}: {why}", dir.display());
    fs::create_dir_all(dir).map_err(failed)?;
    for file in files {
        let path = dir.join(&file.name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(path, &file.text).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
