//! The supervisor: one loop on one thread, which may fork while it serves.
//!
//! The supervisor receives the signals, replaces workers that end, saves the state, and leads the
//! server through its phases: Starting, Ready, (Leaving,) Draining, Forced, Done. It serves no
//! connection; where each connection has a worker of its own, it accepts the connection and starts
//! that worker.

mod closing;
mod crew;
mod entries;
mod event_log;
mod govern;
mod keep;
mod receive;
mod reload;
mod sample;
mod spares;
mod succeed;
mod visitors;

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use language::eprintln;
use memory::{Phase, SlotState};
use seam::Instant;
use sys::poll::{PollFd, poll};
use sys::signal::{self, Signal, SignalFd};

use self::closing::Closing;
pub(crate) use self::crew::{Crew, End, Ended};
use self::entries::WorkerEntry;
use self::event_log::EventLog;
use self::govern::{Governing, clock};
use self::keep::Reserve;
use self::receive::Reception;
use self::sample::Windows;
use crate::admin::{Admin, AdminQueue};
use crate::fault::Fault;
use crate::handover::Successor;
use crate::limits::WAIT_RETRY;
use crate::server::{Common, Report, StateStore};
use crate::spare::Spare;

/// The signals that a server obeys.
pub(crate) const SIGNALS: &[Signal] = &[Signal::TERM, Signal::INT, Signal::HUP, Signal::USR2];

/// The time to wait for another connection after the last disconnect, before saving.
const SAVE_DELAY: Duration = Duration::from_millis(50);
/// The time that workers have to end by themselves after a force.
const GRACE: Duration = Duration::from_secs(2);

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

struct Supervisor<'a, C: Crew> {
    common: &'a Common<'a>,
    crew: &'a mut C,
    store: &'a mut dyn StateStore<()>,
    entries: Vec<WorkerEntry>,
    reception: Option<Reception<'a>>,
    /// Decides how many processes there are, where that changes.
    spare: Option<Spare>,
    /// Decides how many requests are carried out at one time, where that is limited.
    governing: Option<Governing>,
    save_at: Option<Instant>,
    save_next: Option<Instant>,
    reserve: Reserve,
    /// The server is stopping, and connections may still wait in the kernel's queue.
    closing: Option<Closing>,
    /// The time of the last stop that counted.
    stopped_at: Option<Instant>,
    /// The time when the present phase ends by force.
    deadline: Option<Instant>,
    /// A binary that was started to take over.
    successor: Option<Successor>,
    /// The time to try a hand-over that could not begin yet.
    hand_over_at: Option<Instant>,
    /// The process of the successor, which saves the state from now on.
    handed_over: Option<u32>,
    /// The longest drain.
    drain: Duration,
    /// The time when the server started.
    begun: Instant,
    admin: Admin<'a>,
    /// The time of the next sign of life.
    pulse_at: Option<Instant>,
    /// Clients of the administration.
    admin_queue: AdminQueue,
    event_log: EventLog,
    windows: Windows,
    report: Report,
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
    let now = clock();
    let save_next = store.every().map(|every| now + every);
    let mut this = Supervisor {
        common,
        crew,
        store,
        entries: Vec::new(),
        reception: Reception::new(common),
        spare: spares::controller(common.shape, now),
        governing: govern::governing(common.shape, now),
        save_at: None,
        save_next,
        reserve: Reserve::take(),
        closing: None,
        stopped_at: None,
        deadline: None,
        successor: None,
        hand_over_at: None,
        handed_over: None,
        drain: common.shape.knobs.drain,
        begun: now,
        event_log: EventLog::new(admin.handler.is_some()),
        pulse_at: admin.pulse.is_some().then_some(now),
        admin,
        admin_queue: AdminQueue::default(),
        windows: Windows::default(),
        report: Report::default(),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| this.lead(signals.as_ref(), ready)));
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
        self.open().map_err(Fault::Spawn)?;
        loop {
            let readiness = self.wait(signals);
            if readiness.control || readiness.signals {
                self.obey_signals(signals);
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
        let looks_at = looks_at.and_then(Spare::wakes_at);
        let (window, visitors) = (self.windows.wakes_at(), self.admin_queue.wakes_at());
        let closing = self.closing.as_ref().map(Closing::wakes_at);
        let pressing = [self.deadline, closing, connections, looks_at, self.hand_over_at];
        let calm =
            [self.save_at, self.save_next, window, visitors, self.pulse_at, self.governs_at()];
        let others = pressing.into_iter().chain(calm);
        let soonest = others.flatten().chain(respawns).min();
        let timeout = soonest.map(|moment| moment.since(clock()));
        let fds = [
            Some(self.common.bell.as_fd()),
            Some(self.common.host.control.bell.as_fd()),
            signals.map(AsFd::as_fd),
            self.crew.watched(),
            self.successor.as_ref().map(Successor::watched),
            self.listens(),
        ];
        let read = |fd: Option<_>| fd.map_or(PollFd::none(), |fd| PollFd::new(fd, true, false));
        let mut list = fds.map(read).to_vec();
        list.extend(self.watched_clients());
        if let Err(error) = poll(&mut list, timeout) {
            // Without memory for the call it is only late: everything is looked at after a pause.
            eprintln!("the supervisor cannot wait: {error}; trying again");
            std::thread::sleep(WAIT_RETRY);
            let (bell, control, signals, ends) = (true, true, true, true);
            return Readiness { bell, control, signals, ends, successor: false, admin: false };
        }
        let clients = &list[fds.len()..];
        Readiness {
            bell: list[0].readable(),
            control: list[1].readable(),
            signals: list[2].readable(),
            ends: list[3].readable(),
            successor: list[4].readable() || list[4].hangup(),
            admin: clients.iter().any(|fd| fd.readable() || fd.writable()),
        }
    }

    /// Handles signals and the control.
    fn obey_signals(&mut self, signals: Option<&SignalFd>) {
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
        self.event_log.note(now, "phase", None, sample::word(phase).to_owned(), false);
        self.deadline = Some(now + at_most);
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
                self.say_ready();
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
        if self.save_at.is_none() && self.store.is_changed(&()) {
            self.save_at = Some(now + SAVE_DELAY);
        }
    }
}
