//! The supervisor: one loop on one thread, which may fork while it serves.
//!
//! It receives the signals, replaces workers that end, saves the state, and leads the server
//! through its phases: Starting, Ready, (Leaving,) Draining, Forced, Done. It serves no connection;
//! where each connection has a separate worker, it accepts the connection and starts that worker.
//!
//! A round of the loop waits for a few descriptors or the earliest deadline ([`Supervisor::wait`]),
//! and then gives each task its chance, in a fixed order: signals, the successor, ended workers,
//! the administration, workers to start, the load, connections, the scoreboard, the state. Each
//! task compares its own deadline with the clock and returns at once if nothing is due. So no task
//! knows another one, and a late wake-up costs only time.
//!
//! The supervisor and its workers meet in two places only: the scoreboard, which both read, and two
//! event descriptors, `bell` (a worker: look at the board) and `stop` (the supervisor: the phase is
//! no longer Ready). Starting and reaping workers is the container's part ([`Crew`]).
//!
//! The data is in `state`, by what changes together; each other file holds the methods of one task.

mod closing;
pub mod crew;
mod entries;
mod event_log;
mod govern;
mod governing;
mod keep;
mod receive;
mod reception;
mod reload;
mod reserve;
mod sample;
mod spares;
mod state;
mod succeed;
mod visitors;
mod windows;
mod worker_entry;

use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use language::eprintln;
use memory::{Phase, SlotState};
use seam::Instant;
use sys::poll::{PollFd, poll};
use sys::signal::{self, Signal, SignalFd};

use self::crew::Crew;
use self::event_log::Birth;
use self::reception::Reception;
use self::state::{Supervisor, clock};
use crate::admin::Admin;
use crate::common::Common;
use crate::fault::Fault;
use crate::handover::Successor;
use crate::limits::WAIT_RETRY;
use crate::server::{Report, StateStore};
use crate::spare::Spare;

/// The signals that a server obeys.
pub(crate) const SIGNALS: &[Signal] = &[Signal::TERM, Signal::INT, Signal::HUP, Signal::USR2];

/// The time to wait for another connection after the last disconnect, before saving.
const SAVE_DELAY: Duration = Duration::from_millis(50);
/// The descriptors that are ready after a wait.
struct Readiness {
    bell: bool,
    /// The control of the server, in this process.
    control: bool,
    signals: bool,
    /// A worker's end.
    ends: bool,
    /// The pipe of the binary that takes over.
    successor: bool,
    /// The administration's socket, or one of its clients.
    admin: bool,
}

impl Readiness {
    /// After a wait that failed, anything may be ready that costs nothing to look at.
    const UNKNOWN: Readiness = Readiness {
        bell: true,
        control: true,
        signals: true,
        ends: true,
        successor: false,
        admin: false,
    };
}

/// The wait for a descriptor to become readable, if there is one.
fn read(fd: Option<BorrowedFd<'_>>) -> PollFd<'_> {
    fd.map_or(PollFd::none(), |fd| PollFd::new(fd, true, false))
}

/// Leads the server from its first worker to its last.
pub(crate) fn supervise<C: Crew>(
    common: &Common<'_>,
    crew: &mut C,
    store: &mut dyn StateStore<()>,
    admin: Admin<'_>,
    ready: &mut dyn FnMut(),
) -> Result<Report, Fault> {
    let signals = match common.host.signals {
        true => Some(SignalFd::new(SIGNALS).map_err(Fault::Wait)?),
        false => None,
    };
    let mut this = Supervisor::new(common, crew, store, admin);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        for index in 0..common.entries() {
            this.add_entry();
            if common.starts_at_once(index) {
                this.start(index, Birth::Start, None).map_err(Fault::Spawn)?;
            }
        }
        this.lead(signals.as_ref(), ready)
    }));
    if !matches!(outcome, Ok(Ok(()))) {
        // The state of a successor that never served belongs to its predecessor.
        let is_ours = this.phase() > Phase::Starting || common.host.handover.is_none();
        this.abandon();
        if is_ours {
            this.save_at_last();
        }
    }
    this.close_handler();
    outcome.unwrap_or_else(|panic| resume_unwind(panic)).map(|()| this.report)
}

impl<C: Crew> Supervisor<'_, C> {
    fn lead(&mut self, signals: Option<&SignalFd>, ready: &mut dyn FnMut()) -> Result<(), Fault> {
        loop {
            let readiness = self.wait(signals);
            if readiness.control || readiness.signals {
                self.handle_signals(signals);
            }
            self.follow_successor(readiness.successor);
            self.retry_hand_over();
            if readiness.bell {
                self.common.bell.clear();
            }
            if readiness.bell || readiness.ends {
                self.reap()?;
            }
            let now = clock();
            self.pulse(now);
            self.administer(now, readiness.admin);
            self.respawn(now);
            self.follow_load(now);
            self.receive(now);
            self.look_at_board(now, ready);
            self.keep(now);
            self.empty_queue(now);
            let is_over = self.phase() > Phase::Ready && !self.has_queue();
            if is_over && self.entries.iter().all(|entry| !entry.alive) {
                self.finish();
                return Ok(());
            }
            // After the check: a save on a busy disk can outlast the drain.
            self.press(now);
        }
    }

    fn phase(&self) -> Phase {
        self.common.board.phase()
    }

    /// Sleeps until an event or a deadline.
    fn wait(&mut self, signals: Option<&SignalFd>) -> Readiness {
        let respawns = self.entries.iter().filter_map(|entry| entry.respawn_at);
        let connections = self.reception.as_ref().and_then(Reception::wakes_at);
        let looks_at = self.spare.as_ref().filter(|_| self.phase() == Phase::Ready);
        let looks_at = looks_at.map(Spare::wakes_at);
        let (window, visitors) =
            (self.administration.windows.wakes_at(), self.administration.queue.wakes_at());
        let closing = self.stopping.closing.map(|closing| closing.looks_at);
        let pressing =
            [self.stopping.deadline, closing, connections, looks_at, self.takeover.retry_at];
        let calm = [
            self.saving.at,
            self.saving.next,
            window,
            visitors,
            self.administration.pulse_at,
            self.governs_at(),
        ];
        let others = pressing.into_iter().chain(calm);
        let soonest = others.flatten().chain(respawns).min();
        let timeout = soonest.map(|moment| moment.since(clock()));
        let successor = self.takeover.successor.as_ref().map(Successor::watched);
        let mut list = vec![
            read(Some(self.common.bell.as_fd())),
            read(Some(self.common.host.control.bell.as_fd())),
            read(signals.map(AsFd::as_fd)),
            read(self.crew.watched()),
            read(successor),
            read(self.listens()),
        ];
        list.extend(self.watched_clients());
        if let Err(error) = poll(&mut list, timeout) {
            // Without memory for the call it is only late: everything is looked at after a pause.
            eprintln!("the supervisor cannot wait: {error}; trying again");
            std::thread::sleep(WAIT_RETRY);
            return Readiness::UNKNOWN;
        }
        let [bell, control, signals, ends, successor, _, clients @ ..] = &list[..] else {
            unreachable!("the list begins with six descriptors");
        };
        Readiness {
            bell: bell.readable(),
            control: control.readable(),
            signals: signals.readable(),
            ends: ends.readable(),
            successor: successor.readable() || successor.hangup(),
            admin: clients.iter().any(|fd| fd.readable() || fd.writable()),
        }
    }

    /// Handles signals and the control.
    fn handle_signals(&mut self, signals: Option<&SignalFd>) {
        for _ in 0..self.common.host.control.take() {
            self.stop();
        }
        while let Some(Ok(Some(signal))) = signals.map(SignalFd::read) {
            match signal {
                Signal::HUP => {
                    self.reload();
                }
                Signal::USR2 => self.hand_over(),
                _ => self.stop(),
            }
        }
    }

    fn enter(&mut self, phase: Phase, at_most: Duration) {
        self.common.board.advance(phase);
        self.common.stop.ring();
        let now = clock();
        self.event_log.note(now, "phase", None, phase.to_string(), false);
        self.stopping.deadline = Some(now + at_most);
        for entry in &mut self.entries {
            entry.respawn_at = None;
        }
    }

    /// Checks whether the workers are ready, and whether the last connection has ended.
    fn look_at_board(&mut self, now: Instant, ready: &mut dyn FnMut()) {
        let board = self.common.board;
        if self.phase() == Phase::Starting {
            let alive = |index: &usize| self.entries[*index].alive;
            let mut slots = (0..self.entries.len()).filter(alive).flat_map(|index| {
                let first = self.common.slot_of(index);
                (first..first + self.common.shape.stride()).map(|slot| board.slot(slot))
            });
            if slots.all(|slot| slot.state() == SlotState::Ready) {
                if self.common.host.signals {
                    // The C library restores the mask around a thread's start, and may fail to.
                    let _ = signal::block(SIGNALS);
                }
                board.advance(Phase::Ready);
                ready();
                self.report_ready();
            }
        }
        if !board.is_idle() {
            return;
        }
        if let Some(busy) = board.take_busy()
            && self.common.host.timer
        {
            eprintln!("elapsed time: {:.3} s", busy.as_secs_f64());
        }
        if self.saving.at.is_none() && self.store.is_changed(&()) {
            self.saving.at = Some(now + SAVE_DELAY);
        }
    }
}
