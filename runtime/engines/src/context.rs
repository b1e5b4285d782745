//! A worker's context: everything that a loop of `wait/` may ask for besides its own sessions.
//!
//! A container makes one for each worker and hands it to the mechanism; a loop borrows it for its
//! whole life and passes it down by reference. It holds no session. The fields are of three kinds:
//! what all workers share (service, files, settings, scoreboard, the event descriptors), what this
//! worker is (its id, its listener, its part of the connections), and what its sessions leave
//! behind in a turn (effects, grown memory, the edition of the settings that it has seen).
//!
//! A turn of any loop is framed by two calls. [`WorkerContext::turn`] comes after the wait: it
//! counts the turn, shows that the worker lives, and says whether settings have changed.
//! [`WorkerContext::rest`] comes before the wait: it adds the answered requests to the scoreboard
//! and shows what the worker waits for. Between them a loop reports each connection once
//! ([`WorkerContext::opened`], [`WorkerContext::closed`]). The supervisor reads all of this from
//! the scoreboard and never calls into a worker.
//!
//! The phase of the server is read here and nowhere else, because to a worker that is dismissed
//! alone the server drains.

pub mod carrier;
mod governed;
mod pooled;

use std::cell::Cell;
use std::io;
use std::time::Duration;

use language::eprintln;
use memory::{Board, Doing, Phase, Slot, SlotState};
use seam::{Cx, Effects, Instant, SessionId, WorkerId};
use sys::eventfd::EventFd;
use sys::socket;

use self::carrier::Governed;
use crate::accept::set::WorkerListener;
use crate::accept::source::AcceptSource;
use crate::admin::Renew;
use crate::erased::ErasedService;
use crate::knobs::{InForce, Knobs};
use crate::limits::{HELD_LOOK, WAIT_RETRY};
use crate::parts::assets::Assets;

/// One worker's place in the server. Made by the container, used by a loop of `wait/`.
pub struct WorkerContext<'a> {
    pub service: &'a dyn ErasedService,
    pub assets: &'a Assets,
    pub knobs: &'a Knobs,
    pub id: WorkerId,
    /// The worker calls the service's tick.
    pub is_first: bool,
    pub board: &'a Board,
    pub listener: WorkerListener<'a>,
    /// The source of this worker's connections.
    pub accept_source: &'a dyn AcceptSource,
    pub polls: bool, // A ring polls, and calls accept.
    /// Readable from the moment the server leaves [`Phase::Ready`].
    pub stop: &'a EventFd,
    /// Rung when the supervisor should look at the board.
    pub bell: &'a EventFd,
    /// The extra worker's bell, where there is such a worker.
    pub orders: Option<&'a EventFd>,
    pub effects: Effects,
    /// The worker ends with its connection, and the supervisor notices that end.
    pub is_visit: bool,
    /// The worker's share of the server's connections.
    pub quota: Quota,
    /// The number of connections after which its process is replaced.
    pub lifetime: u64,
    /// Where its jobs run.
    pub helping: Helping,
    /// The edition of the settings that the worker knows.
    pub edition: Cell<u32>,
    /// Bytes by which its connections have grown since it last looked at the server's memory.
    pub grown: Cell<usize>,
    /// Its record for the governor, where one watches the requests.
    pub governed: Governed,
    /// The worker's step when there is a newer one.
    pub renew: Option<&'a Renew<'a>>,
}

/// Where a worker's jobs run.
#[derive(Clone, Copy)]
pub struct Helping {
    /// The most helpers; 0: the worker runs jobs itself.
    pub most: usize,
    /// The helpers start with the worker, not with the first jobs.
    pub is_beforehand: bool,
}

/// A worker's share of the connections.
#[derive(Clone, Copy)]
pub struct Quota {
    /// The number of processes among which connections are divided first.
    pub parts: usize,
    /// The number of workers among which a process's part is divided.
    pub workers: usize,
    /// Its number among them: the first ones take the remainder, so that the sum is the limit.
    pub index: usize,
    /// The most connections under any settings, because its tables were made for this many.
    pub most: usize,
}

impl WorkerContext<'_> {
    /// The time; read once a turn.
    pub fn now(&self) -> Instant {
        Instant::from_ns(sys::clock::now_ns())
    }

    /// The context of a call for session `me`.
    pub fn cx(&self, now: Instant, me: SessionId) -> Cx<'_, ()> {
        Cx::new(now, me, self.id, &(), &self.effects)
    }

    pub fn slot(&self) -> &Slot {
        self.board.slot(self.id.slot())
    }

    /// The server's phase as it concerns this worker: to a dismissed worker the server drains.
    #[inline]
    pub fn phase(&self) -> Phase {
        let phase = self.board.phase();
        if self.slot().is_dismissed() { phase.max(Phase::Leaving) } else { phase }
    }

    /// Reports that the worker, which is this thread, can accept connections.
    pub fn ready(&self) {
        self.id.enter();
        self.slot().set_state(SlotState::Ready);
        self.bell.ring();
    }

    /// Whether no more connections will come; for a worker that has just found none.
    pub fn is_over(&self) -> bool {
        let phase = self.phase();
        let is_last = || self.accept_source.is_over() && !self.has_queue();
        phase > Phase::Ready && (phase >= Phase::Forced || is_last())
    }

    /// Whether clients wait that this worker may still accept although the server drains.
    fn has_queue(&self) -> bool {
        !self.accept_source.is_given()
            && self.phase() == Phase::Draining
            && self.board.accepts()
            && socket::has_queue(self.listener)
    }

    /// Whether clients wait for a worker.
    pub fn is_awaited(&self) -> bool {
        let queued = || socket::has_queue(self.listener);
        self.accept_source.is_filled() || queued()
    }

    /// A turn of the loop begins; true if the settings have changed since the last one.
    #[inline]
    pub fn turn(&self, now: Instant) -> bool {
        let slot = self.slot();
        slot.turns.add(1);
        slot.beat_ns.set(now.ns());
        slot.set_doing(Doing::Working);
        self.count();
        self.board.edition() != self.edition.get() && self.follow_edition()
    }

    /// A wait has failed: without memory it is tried again after a pause.
    ///
    /// # Errors
    /// The wait's error, if trying again does not help.
    #[cold]
    pub fn endure(&self, error: io::Error) -> io::Result<()> {
        if error.kind() != io::ErrorKind::OutOfMemory {
            return Err(error);
        }
        std::thread::sleep(WAIT_RETRY);
        Ok(())
    }

    /// The turn is over, and the worker is about to wait; `doing` names its state.
    #[inline]
    pub fn rest(&self, doing: Doing) {
        self.count();
        if self.governed.is_on() {
            self.end_governed_turn();
        }
        self.slot().set_doing(doing);
    }

    /// Adds the requests answered since the last time to the scoreboard.
    #[inline]
    fn count(&self) {
        let answered = self.effects.take_answered();
        if answered > 0 {
            self.slot().answered.add(answered);
        }
        if self.governed.is_on() {
            let refused = self.effects.take_refused();
            if refused > 0 {
                self.slot().requests_refused.add(refused);
            }
        }
    }

    #[cold]
    fn follow_edition(&self) -> bool {
        let edition = self.board.edition();
        self.edition.set(edition);
        if let Some(renew) = self.renew {
            // The supervisor has printed the report already.
            let _ = renew(edition);
        }
        true
    }

    /// The settings in force.
    pub fn in_force(&self) -> InForce<'_> {
        InForce(self.board.settings())
    }

    /// Connections that this worker may hold at once, by the settings in force.
    pub fn sessions_max(&self) -> usize {
        let Quota { parts, workers, index, most } = self.quota;
        let all = (self.in_force().sessions_max().unwrap_or(usize::MAX) / parts).max(1);
        let spare = usize::from(index < all % workers);
        (all / workers + spare).clamp(1, most)
    }

    /// The longest time without a byte on a connection.
    pub fn idle(&self) -> Duration {
        self.in_force().idle()
    }

    /// The longest time in which a peer may take no output.
    pub fn write_stall(&self) -> Duration {
        self.in_force().write_stall()
    }

    /// The stall time, and the least rate at which a peer takes output, in bytes a second.
    pub fn pace(&self) -> (Duration, u64) {
        (self.write_stall(), self.knobs.limits.write_rate)
    }

    /// A connection held `before` bytes of memory, and holds `after`.
    #[cold]
    pub fn hold(&self, before: usize, after: usize, now: Instant) {
        self.slot().held.add((after as u64).wrapping_sub(before as u64));
        let grown = self.grown.get() + after.saturating_sub(before);
        let is_due = grown >= HELD_LOOK || (after < before && self.board.is_short());
        self.grown.set(if is_due { 0 } else { grown });
        if is_due {
            self.board.judge_memory(now.ns());
        }
    }

    /// Something was due at `due` and is noticed at `now`.
    #[inline]
    pub fn note_late(&self, due: Instant, now: Instant) {
        let late = now.since(due).as_nanos();
        self.slot().note_late(u64::try_from(late).unwrap_or(u64::MAX));
    }

    /// Counts a new connection.
    pub fn opened(&self, now: Instant) {
        // In this order, a reader that reads `accepted` first never takes the server for idle.
        self.slot().open.add(1);
        self.slot().accepted.add(1);
        self.board.began(now.ns());
        self.expect_first_input();
    }

    /// Counts the end of a connection. The bell tells the supervisor if it was the last of all.
    pub fn closed(&self, now: Instant) {
        let is_last = self.slot().open.read() == 1;
        if is_last {
            // A reader that sees no connection must also see since when.
            self.board.ended(now.ns());
        }
        self.slot().open.sub(1);
        self.accept_source.left();
        self.ring_orders();
        if is_last && !self.is_visit && self.board.is_empty_now() {
            self.bell.ring();
        }
    }

    /// Rings the extra worker if a session changed an order since the last call.
    fn ring_orders(&self) {
        if self.effects.is_filled()
            && self.effects.take_ring()
            && let Some(orders) = self.orders
        {
            orders.ring();
        }
    }

    /// Rings the extra worker if a session requested it, and prints what the sessions noted.
    pub fn carry_out_effects(&self) {
        self.ring_orders();
        for note in self.effects.take_notes() {
            eprintln!("{note}");
        }
    }
}
