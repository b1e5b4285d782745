//! One trial: a fresh server on one core, the generator on the other, one report.
//!
//! The environment's gates are decided from `/proc` and from whether the generator itself worked,
//! never from the numbers it brought home. [`Trials`] is the seam: the race only knows that
//! something runs a slot and returns a [`Trial`], so the machinery is tested without a server.

use crate::block::Slot;
use crate::load::Load;
use crate::machine::{Conditions, Placement, Watch};
use crate::plan::{Arm, Gates, LoadPoint, Plan};
use crate::seen::Seen;
use crate::server::{Process, Server};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to become ready, and to end after TERM.
const PATIENCE: Duration = Duration::from_secs(5);

/// What happened in one slot of the race; a row of the raw file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Place in the order of running.
    pub order: u32,
    /// Block, from 0.
    pub block: u32,
    /// Name of the load point.
    pub point: String,
    /// Name of the arm.
    pub arm: String,
    /// 1 for the first attempt at this slot.
    pub attempt: u32,
    /// Seed of arrivals and mix, shared by the block.
    pub seed: u64,
    /// Server and generator had changed cores.
    pub swapped: bool,
    /// Since the race began, milliseconds.
    pub begun_ms: f64,
    /// From server start to server end, milliseconds.
    pub took_ms: f64,
    /// From server start to readiness, milliseconds.
    pub boot_ms: Option<f64>,
    /// What else the machine did.
    pub conditions: Conditions,
    /// Gates that failed, in words; decided before the outcome is looked at.
    pub objections: Vec<String>,
    /// Whether this attempt is the slot's result.
    pub counted: bool,
    /// How the server ended after TERM, if it had to.
    pub exit: Option<String>,
    /// The server ended by itself with status 0.
    pub exit_clean: bool,
    /// The outcome.
    pub ending: Ending,
    /// What the laboratory itself saw.
    #[serde(default)]
    pub seen: Seen,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ending {
    /// The generator reported.
    Measured {
        /// Its report.
        load: Box<Load>,
    },
    /// The server did not start.
    Unavailable {
        /// Its last words.
        reason: String,
    },
    /// The generator did not report.
    Failed {
        /// Its last words.
        reason: String,
    },
}

impl Trial {
    /// The generator's report, if this attempt counts.
    pub fn result(&self) -> Option<&Load> {
        match &self.ending {
            Ending::Measured { load } if self.counted => Some(load),
            _ => None,
        }
    }
}

/// Something that can run a slot. `None` when it was interrupted.
pub trait Trials {
    /// Runs `slot` for the `attempt`th time. `begun` is when the race began.
    fn run(&mut self, slot: &Slot, attempt: u32, begun: Instant) -> Option<Trial>;
}

/// The real thing: processes on this machine.
pub struct Floor {
    plan: Plan,
    entrants: Vec<Arm>,
    exe: PathBuf,
    room: PathBuf,
    placement: Option<Placement>,
    stop: Arc<AtomicBool>,
}

impl Floor {
    /// Prepares to run `plan`. `exe` is the program that offers `load` and `pin`; `room` an empty
    /// directory for the trials' files; `stop` ends the running trial when it becomes true.
    pub fn new(
        plan: &Plan,
        exe: &Path,
        room: &Path,
        placement: Option<Placement>,
        stop: Arc<AtomicBool>,
    ) -> Floor {
        let entrants = plan.entrants();
        let (exe, room) = (exe.to_path_buf(), room.to_path_buf());
        Floor { plan: plan.clone(), entrants, exe, room, placement, stop }
    }

    /// Server and generator in `dir`; everything but the environment.
    fn measure(&self, slot: &Slot, dir: &Path) -> Run {
        let arm = &self.entrants[slot.entrant];
        let cores = self.placement.map(|placement| placement.cores(slot.swapped));
        let prefix = match cores {
            Some((server, _)) => pin(&self.exe, server),
            None => Vec::new(),
        };
        let mut run = Run::default();
        let mut server = match Server::start(&prefix, &arm.command, dir, "server", PATIENCE) {
            Ok(server) => server,
            Err(reason) => {
                run.ending = Some(Ending::Unavailable { reason });
                return run;
            }
        };
        run.boot_ms = Some(server.boot.as_secs_f64() * 1e3);
        let command = self.generator(arm, &self.plan.points[slot.point], slot, &server, cores);
        let longest = self.plan.warmup_ms + self.plan.window_ms + 15_000;
        let ended = generate(&command, dir, Duration::from_millis(longest), &self.stop);
        run.ending = match ended {
            Generated::Interrupted => None,
            Generated::Report(load) => Some(Ending::Measured { load }),
            Generated::Nothing(reason) => Some(Ending::Failed { reason }),
        };
        let died = server.process.ended();
        let ended = died.clone().unwrap_or_else(|| server.process.stop(PATIENCE));
        run.exit_clean = ended.clean && died.is_none();
        run.exit = Some(match died {
            Some(_) => format!("died during the trial ({})", ended.how),
            None => ended.how,
        });
        run
    }

    fn generator(
        &self,
        arm: &Arm,
        point: &LoadPoint,
        slot: &Slot,
        server: &Server,
        cores: Option<(usize, usize)>,
    ) -> Vec<String> {
        let mut words = vec![self.exe.display().to_string(), "load".to_string()];
        words.push(arm.target.replace("{address}", &server.address));
        let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
        flag("--closed", point.connections.to_string());
        flag("--depth", point.depth.to_string());
        if point.requests_per_connection > 0 {
            flag("--requests-per-connection", point.requests_per_connection.to_string());
        }
        flag("--warmup", format!("{}ms", self.plan.warmup_ms));
        flag("--for", format!("{}ms", self.plan.window_ms));
        if !point.mix.is_empty() {
            flag("--mix", point.mix.clone());
        }
        flag("--seed", slot.seed.to_string());
        if let Some((_, generator)) = cores {
            flag("--cpu", generator.to_string());
        }
        flag("--watch", server.process.id().to_string());
        words.push("--json".to_string());
        words.extend(arm.load.iter().cloned());
        words
    }
}

/// The words that pin what follows them to one core.
pub(crate) fn pin(exe: &Path, core: usize) -> Vec<String> {
    [&exe.display().to_string(), "pin", &core.to_string(), "--"].map(String::from).to_vec()
}

/// What [`Floor::measure`] knows.
#[derive(Default)]
struct Run {
    ending: Option<Ending>,
    boot_ms: Option<f64>,
    exit: Option<String>,
    exit_clean: bool,
}

impl Trials for Floor {
    fn run(&mut self, slot: &Slot, attempt: u32, begun: Instant) -> Option<Trial> {
        let start = Instant::now();
        let dir = self.room.join(format!("trial-{}-{attempt}", slot.order));
        let watch = Watch::start();
        let run = match provide(&self.plan, &dir) {
            Ok(()) => self.measure(slot, &dir),
            Err(reason) => Run { ending: Some(Ending::Failed { reason }), ..Run::default() },
        };
        let conditions = watch.stop();
        let _ = fs::remove_dir_all(&dir);
        let ending = run.ending?;
        Some(Trial {
            order: slot.order,
            block: slot.block,
            point: self.plan.points[slot.point].name.clone(),
            arm: self.entrants[slot.entrant].name.clone(),
            attempt,
            seed: slot.seed,
            swapped: slot.swapped,
            begun_ms: start.duration_since(begun).as_secs_f64() * 1e3,
            took_ms: start.elapsed().as_secs_f64() * 1e3,
            boot_ms: run.boot_ms,
            conditions,
            objections: objections(&self.plan.gates, &conditions, &ending),
            counted: false,
            exit: run.exit,
            exit_clean: run.exit_clean,
            ending,
            seen: Seen::default(),
        })
    }
}

/// Gives a trial its directory and files.
fn provide(plan: &Plan, dir: &Path) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("cannot prepare {}: {why}", dir.display());
    fs::create_dir_all(dir).map_err(failed)?;
    for file in &plan.files {
        fs::write(dir.join(&file.name), &file.text).map_err(failed)?;
    }
    Ok(())
}

/// Which gates a trial failed. Of the outcome only this is asked: did the generator report at all?
fn objections(gates: &Gates, conditions: &Conditions, ending: &Ending) -> Vec<String> {
    let mut found = Vec::new();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    if let Some(steal) = conditions.steal.filter(|&share| share > gates.steal_max) {
        found.push(format!("the hypervisor took {} of the machine", percent(steal)));
    }
    if let Some(foreign) = conditions.foreign.filter(|&share| share > gates.foreign_max) {
        found.push(format!("other processes took {} of the machine", percent(foreign)));
    }
    if conditions.clock_step_ms.abs() > gates.clock_step_ms_max {
        found.push(format!("the wall clock moved by {:.0} ms", conditions.clock_step_ms));
    }
    if let Ending::Failed { reason } = ending {
        found.push(format!("the generator failed: {reason}"));
    }
    found
}

/// What a generator process came to.
pub(crate) enum Generated {
    /// Its report.
    Report(Box<Load>),
    /// No report, and why.
    Nothing(String),
    /// `stop` became true.
    Interrupted,
}

fn generate(command: &[String], dir: &Path, longest: Duration, stop: &AtomicBool) -> Generated {
    match wait_for(command, dir, "load", longest, stop) {
        Waited::Interrupted => Generated::Interrupted,
        Waited::Nothing(reason) => Generated::Nothing(reason),
        // A failed model check makes the generator's status 1; its report says so itself.
        Waited::Output { text, complaint } => match Load::parse(&text) {
            Ok(load) => Generated::Report(Box::new(load)),
            Err(reason) if complaint.is_empty() => Generated::Nothing(reason),
            Err(_) => Generated::Nothing(complaint),
        },
    }
}

/// What waiting for a process came to.
pub(crate) enum Waited {
    /// It ended, whatever its status.
    Output {
        /// Its standard output.
        text: String,
        /// The last lines of its standard error.
        complaint: String,
    },
    /// It did not start or did not end.
    Nothing(String),
    /// `stop` became true.
    Interrupted,
}

/// Runs `command` to its end, at most `longest`.
pub(crate) fn wait_for(
    command: &[String],
    dir: &Path,
    name: &str,
    longest: Duration,
    stop: &AtomicBool,
) -> Waited {
    let mut process = match Process::start(command, dir, name) {
        Ok(process) => process,
        Err(reason) => return Waited::Nothing(reason),
    };
    let begun = Instant::now();
    while process.ended().is_none() {
        if stop.load(Ordering::Relaxed) {
            return Waited::Interrupted;
        }
        if begun.elapsed() > longest {
            let limit = longest.as_millis();
            return Waited::Nothing(format!("the generator did not end within {limit} ms"));
        }
        // Coarse on purpose: the laboratory shares the cores that are being measured.
        std::thread::sleep(Duration::from_millis(5));
    }
    Waited::Output { text: process.output(), complaint: process.complaint() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::Room;
    use std::os::unix::fs::PermissionsExt;

    /// Writes a shell script that stands in for the program with `load`.
    fn stand_in(room: &Room, body: &str) -> PathBuf {
        let path = room.0.join("exe");
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("the room is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        path
    }

    fn plan(script: &str) -> Plan {
        let mut plan = crate::plan::tests::plan();
        plan.arms.truncate(1);
        plan.arms[0].command = ["sh", "-c", script].map(String::from).to_vec();
        plan.gates.foreign_max = 1.0;
        plan.gates.steal_max = 1.0;
        plan.files.push(crate::plan::Provision { name: "stock.txt".into(), text: "1 2 3".into() });
        plan
    }

    fn run(plan: &Plan, exe: &Path, room: &Room) -> Option<Trial> {
        let stop = Arc::new(AtomicBool::new(false));
        let slot = &crate::block::schedule(plan)[0];
        Floor::new(plan, exe, &room.0, None, stop).run(slot, 1, Instant::now())
    }

    const READY: &str = "cat {dir}/stock.txt >&2; trap 'exit 0' TERM; \
        echo '{\"listening\":\"127.0.0.1:9\"}'; while :; do sleep 0.01; done";

    #[test]
    fn a_trial_brings_home_a_report_and_passes_its_arguments_on() {
        let room = Room::new("trial");
        let exe = stand_in(
            &room,
            "echo '{\"schema\":\"roundhouse.load/1\",\"requests\":3,\
             \"throughput_rps\":9.0,\"service\":{},\
             \"errors\":[{\"kind\":\"'\"$*\"'\",\"count\":0}]}'",
        );
        let trial = run(&plan(READY), &exe, &room).expect("not interrupted");
        let Ending::Measured { load } = &trial.ending else { panic!("{trial:?}") };
        let words = &load.errors[0].kind;
        let want = "load stock://127.0.0.1:9 --closed 8 --depth ";
        assert!(words.starts_with(want) && words.ends_with("--json"), "{words}");
        assert!(words.contains("--requests-per-connection 64 --warmup 1ms --for 1ms --seed "));
        assert_eq!(trial.objections, Vec::<String>::new());
        assert!(trial.exit_clean && trial.boot_ms.is_some(), "{trial:?}");
        assert!(!room.0.join("trial-0-1").exists(), "the trial's directory is removed");
    }

    #[test]
    fn a_failed_generator_is_a_gate_and_an_absent_server_is_not() {
        let room = Room::new("failed");
        let exe = stand_in(&room, "echo cannot connect >&2; exit 1");
        let trial = run(&plan(READY), &exe, &room).expect("not interrupted");
        assert_eq!(trial.ending, Ending::Failed { reason: "cannot connect".to_string() });
        assert_eq!(trial.objections, ["the generator failed: cannot connect"]);
        let trial = run(&plan("echo no ring >&2; exit 1"), &exe, &room).expect("not interrupted");
        assert!(
            matches!(&trial.ending, Ending::Unavailable { reason } if reason.contains("no ring"))
        );
        assert_eq!(trial.objections, Vec::<String>::new());
    }

    #[test]
    fn gates_are_named_with_their_figures() {
        let ending = Ending::Unavailable { reason: String::new() };
        let conditions = Conditions {
            steal: Some(0.02),
            foreign: Some(0.25),
            clock_step_ms: -500.0,
            ..Conditions::default()
        };
        let found = objections(&Gates::default(), &conditions, &ending);
        assert_eq!(
            found,
            [
                "the hypervisor took 2.0 % of the machine",
                "other processes took 25.0 % of the machine",
                "the wall clock moved by -500 ms"
            ]
        );
    }
}
