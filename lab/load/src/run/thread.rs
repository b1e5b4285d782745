//! One thread's part of a run.
//!
//! A run with N threads has N of these, each with its share of connections and arrivals and its own
//! `Driver`; they share a start time, a stop flag and a board for snapshots. `work` executes the
//! phases: warm-up, window, drain. At each boundary the tally is taken out of the driver, so a
//! figure of the window cannot contain a request of the warm-up; requests of the window that end in
//! the drain count through `late`. Reading the server's counters in `/proc` takes time, so a thread
//! reads them itself only if it has no schedule to miss.

use super::workload::Prepared;
use super::{Failure, Plan, Sums, Window, now, phase, share};
use crate::Instant;
use crate::arrive::ArrivalProcess;
use crate::drive::{Driver, Guests, Parts, Settings};
use crate::model::Arrivals;
use crate::parse::Usage;
use crate::snapshot::{Board, Phase};
use crate::stages::Presence;
use crate::stop::{Most, Stop};
use crate::timeline::Timeline;
use crate::watch::{self, Reading, Watch};
use meter::ProcError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// The time limit of the drain of a run that was ended early.
const DRAIN_STOPPED: Duration = Duration::from_secs(1);

/// A generator, its task, and its results.
pub(super) struct RunThread {
    pub(super) drive: Driver,
    warmup: Duration,
    rule: Window,
    part: usize,
    parts: usize,
    /// The server's counters, if this thread may take the time to read them.
    watch: Option<Watch>,
    pub(super) board: Option<Board>,
    /// Ends the current phase.
    pub(super) stop: Option<Arc<AtomicBool>>,
    /// All but the counts of the driver.
    pub(super) sums: Sums,
    pub(super) timeline: Option<Timeline>,
    /// The server's process tree over the window.
    pub(super) reading: Option<Result<Reading, ProcError>>,
}

impl RunThread {
    pub(super) fn new(plan: &Plan, prepared: &Prepared, part: usize) -> Result<Self, Failure> {
        let parts = plan.threads;
        let own = |whole: usize| share(whole, part, parts);
        let connections = own(plan.settings.connections);
        if connections == 0 {
            return Err(Failure::Usage(Usage(format!(
                "expected a connection for each of {parts} threads, found {}",
                plan.settings.connections
            ))));
        }
        let guests = plan.settings.guests.map(|all| Guests { count: own(all.count), ..all });
        let settings = Settings {
            connections,
            guests,
            idle: own(plan.settings.idle),
            outstanding_max: own(plan.settings.outstanding_max).max(1),
            ..plan.settings
        };
        let mut script = prepared.script(&plan.workload, &settings, part)?;
        if parts > 1 {
            script.share();
        }
        let (arrive, presence) = arrivals(plan, connections, (part, parts));
        let drive = Driver::new(Parts {
            addresses: plan.target.addresses(),
            unix: plan.target.unix.clone(),
            sources: plan.sources.clone(),
            tls: prepared.tls.clone(),
            settings,
            arrive,
            presence,
            work: plan.model.work(),
            script,
            seed: plan.seed.wrapping_add(part as u64),
            scheduled: plan.model.is_scheduled(),
        })
        .map_err(|error| Failure::Machinery { doing: "making a generator", error })?;
        let watched = plan.watch.as_ref();
        let watched = watched.filter(|_| part == 0 && !plan.model.is_scheduled());
        let watch = watched.map(Watch::open).transpose().map_err(Failure::Watch)?;
        Ok(Self {
            drive,
            warmup: plan.warmup,
            rule: plan.window,
            part,
            parts,
            watch,
            board: None,
            stop: None,
            sums: Sums::default(),
            timeline: None,
            reading: None,
        })
    }

    /// Warm-up, window and drain; the first begins at `start`. Sends on `over` when the window
    /// ends.
    pub(super) fn work(&mut self, start: Instant, over: &Sender<()>) -> Result<(), Failure> {
        watch::wake_on_time();
        std::thread::sleep(start.since(now()));
        self.drive.start_at(start);
        if let Some(board) = &self.board {
            self.drive.publish_to(board, self.part);
        }
        let start = start + self.warmup;
        if !self.warmup.is_zero() {
            self.phase(Stop::at(start, Most::Any))?;
        }
        self.sums.warm = self.drive.take_tally();
        let before = self.watch.as_ref().map(Watch::sample).transpose().map_err(Failure::Watch)?;
        // Reading took a while; without a schedule the window begins after it.
        let start = if before.is_some() { now() } else { start };
        let own_ns = sys::clock::thread_cpu_ns();
        self.drive.measure_from(start);
        self.drive.enter(Phase::Window, start);
        self.phase(self.rule.rule(start, self.part, self.parts))?;
        let sums = &mut self.sums;
        sums.window_ns = now().since(start).as_nanos() as u64;
        self.timeline = self.drive.take_timeline();
        sums.cpu_ns = sys::clock::thread_cpu_ns().saturating_sub(own_ns);
        let watch = self.watch.as_ref().zip(before);
        self.reading = watch.map(|(watch, before)| watch.since(&before));
        // The coordinator lives at least as long as this thread.
        let _ = over.send(());
        sums.delays = self.drive.counts.delays.clone();
        let worked = sums.cpu_ns.saturating_sub(sums.delays.spun_ns);
        sums.busy = worked as f64 / sums.window_ns.max(1) as f64;
        sums.window = self.drive.take_tally();
        self.drive.enter(Phase::Drain, now());
        self.drive.part(true);
        let stopped = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        let stopped = stopped || self.drive.has_failed();
        let most = if stopped { DRAIN_STOPPED } else { Duration::MAX };
        let drain = self.drive.settings().drain.min(most);
        phase(&mut self.drive, &Stop::at(now() + drain, Most::Drain))?;
        sums.late = self.drive.take_tally();
        self.drive.enter(Phase::Drain, now());
        sums.censored = self.drive.censored();
        sums.idle = self.drive.idle();
        sums.unanswered = self.drive.close();
        Ok(())
    }

    fn phase(&mut self, rule: Stop) -> Result<(), Failure> {
        phase(&mut self.drive, &Stop { flag: self.stop.clone(), ..rule })
    }
}

/// The arrivals of one of the threads, and by which stages its users are present.
fn arrivals(plan: &Plan, users: usize, of: (usize, usize)) -> (ArrivalProcess, Option<Presence>) {
    match &plan.stages {
        Some(stages) if stages.is_rate => {
            let process = plan.model.process().unwrap_or(Arrivals::Poisson);
            (ArrivalProcess::staged(Arc::clone(stages), process, plan.seed, of), None)
        }
        stages => {
            let (part, parts) = of;
            let presence = stages.clone().map(|stages| Presence { stages, part, parts });
            (plan.model.arrivals(users, plan.seed, of), presence)
        }
    }
}
