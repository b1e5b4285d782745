//! One thread's part of a run.

use super::talk::Prepared;
use super::{Failure, Plan, Window, now, phase, share};
use crate::beat::{Board, Phase};
use crate::drive::{Drive, Parts, Pulse, Settings};
use crate::parse::Usage;
use crate::report::Server;
use crate::stop::{ByTime, Drained, Stop, Unless};
use crate::tally::Tally;
use crate::timeline::Timeline;
use crate::watch::{self, Watch};
use meter::{Histogram, ProcError};
use seam::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Whoever ends a run early does not wait long for the last replies.
const DRAIN_STOPPED: Duration = Duration::from_secs(1);

/// A generator, what it shall do, and afterwards what came of it.
pub(super) struct Shift {
    pub(super) drive: Drive,
    warmup: Duration,
    rule: Window,
    part: usize,
    parts: usize,
    /// Root of the server's process tree, where this thread may take the time to read it.
    watch: Option<u32>,
    /// Where beats are left.
    pub(super) board: Option<Board>,
    /// Ends the phase that runs.
    pub(super) stop: Option<Arc<AtomicBool>>,
    pub(super) warm: Tally,
    pub(super) window: Tally,
    pub(super) late: Tally,
    /// Measured requests that are unanswered, with the least that their times can be.
    pub(super) censored: Histogram,
    /// All requests that are unanswered.
    pub(super) unanswered: u64,
    pub(super) pulse: Pulse,
    pub(super) cpu_ns: u64,
    pub(super) window_ns: u64,
    pub(super) idle: (usize, u64),
    pub(super) timeline: Option<Timeline>,
    pub(super) reading: Option<Reading>,
    pub(super) reached: Option<Reached>,
}

/// The server's process tree over the window.
pub(super) struct Reading(Result<watch::Reading, ProcError>);

/// How well the number of a window by precision is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    pub(super) share: Option<f64>,
    wanted: f64,
}

impl Shift {
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
        let settings = Settings {
            connections,
            idle: own(plan.settings.idle),
            outstanding_max: own(plan.settings.outstanding_max).max(1),
            interval: plan.interval(),
            ..plan.settings
        };
        let mut script = prepared.script(&plan.talk, connections, part)?;
        if parts > 1 {
            script.share();
        }
        let drive = Drive::new(Parts {
            address: plan.target.address,
            sources: plan.sources.clone(),
            settings,
            arrive: plan.model.arrivals(connections, plan.seed, (part, parts))?,
            work: plan.model.work(),
            script,
            seed: plan.seed.wrapping_add(part as u64),
            scheduled: plan.model.is_scheduled(),
        })
        .map_err(|error| Failure::Machinery { doing: "making a generator", error })?;
        Ok(Self {
            drive,
            warmup: plan.warmup,
            rule: plan.window,
            part,
            parts,
            watch: plan.watch.filter(|_| part == 0 && !plan.model.is_scheduled()),
            board: None,
            stop: None,
            warm: Tally::default(),
            window: Tally::default(),
            late: Tally::default(),
            censored: Histogram::new(),
            unanswered: 0,
            pulse: Pulse::default(),
            cpu_ns: 0,
            window_ns: 0,
            idle: (0, 0),
            timeline: None,
            reading: None,
            reached: None,
        })
    }

    /// Warm-up, window and drain, of which the first begins at `start`. Says by `over` that the
    /// window is over.
    pub(super) fn work(&mut self, start: Instant, over: &Sender<()>) -> Result<(), Failure> {
        watch::wake_on_time();
        std::thread::sleep(start.since(now()));
        self.drive.start_at(start);
        if let Some(board) = &self.board {
            self.drive.beat_on(board, self.part);
        }
        let start = start + self.warmup;
        if !self.warmup.is_zero() {
            self.phase(&ByTime { end: start })?;
        }
        self.warm = self.drive.take_tally();
        let watch = self.watch.map(Watch::start).transpose().map_err(Failure::Watch)?;
        // Reading took a while; where there is no schedule the window begins behind it.
        let start = if watch.is_some() { now() } else { start };
        let own_ns = watch::own_cpu_ns();
        self.drive.measure_from(start);
        self.drive.enter(Phase::Window, start);
        let rule = self.rule.rule(start, self.part, self.parts);
        self.phase(&*rule)?;
        self.window_ns = now().since(start).as_nanos() as u64;
        self.timeline = self.drive.take_timeline();
        self.cpu_ns = watch::own_cpu_ns().saturating_sub(own_ns);
        self.reached = rule.reached().map(|(share, wanted)| Reached { share, wanted });
        self.reading = watch.as_ref().map(Reading::of);
        // The coordinator is there as long as this thread is.
        let _ = over.send(());
        self.pulse = self.drive.pulse.clone();
        self.window = self.drive.take_tally();
        self.drive.enter(Phase::Drain, now());
        self.drive.part(true);
        let stopped = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        let most = if stopped { DRAIN_STOPPED } else { Duration::MAX };
        let drain = self.drive.settings().drain.min(most);
        phase(&mut self.drive, &Drained { end: now() + drain })?;
        self.late = self.drive.take_tally();
        self.drive.enter(Phase::Drain, now());
        self.censored = self.drive.censored();
        self.idle = self.drive.idle();
        self.unanswered = self.drive.close();
        Ok(())
    }

    fn phase(&mut self, rule: &dyn Stop) -> Result<(), Failure> {
        match self.stop.clone() {
            Some(stop) => phase(&mut self.drive, &Unless { stop: &stop, rule }),
            None => phase(&mut self.drive, rule),
        }
    }

    /// The share of the window in which it was at work.
    pub(super) fn busy(&self) -> f64 {
        let worked = self.cpu_ns.saturating_sub(self.pulse.spun_ns);
        worked as f64 / self.window_ns.max(1) as f64
    }
}

impl Reading {
    pub(super) fn of(watch: &Watch) -> Self {
        Self(watch.read())
    }

    /// What was used, for a report. A server that is gone by now is a doubt and no failure.
    pub(super) fn report(self, requests: u64, doubts: &mut Vec<String>) -> Option<Server> {
        match self.0 {
            Ok(reading) => Some(reading.report(requests, doubts)),
            Err(error) => {
                doubts.push(error.to_string());
                None
            }
        }
    }
}

impl Reached {
    pub(super) fn doubt(self) -> Option<String> {
        let wanted = self.wanted * 100.0;
        match self.share {
            Some(share) if share <= self.wanted => None,
            Some(share) => {
                let found = share * 100.0;
                let what = "when the time was over; raise --for";
                Some(format!("expected a precision of {wanted}%, found {found:.1}% {what}"))
            }
            None => Some(format!(
                "expected a precision of {wanted}%, found too few values to tell; raise --for"
            )),
        }
    }
}
