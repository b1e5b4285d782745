//! What a worker is given: the service, the state, its seat on the scoreboard, its listener.

use std::os::fd::BorrowedFd;

use memory::{Board, Phase, Seat, SeatState};
use seam::{Cx, Effects, Instant, Service, SessionId, WorkerId};
use sys::eventfd::EventFd;

use crate::accept::Entrance;
use crate::knobs::Knobs;
use crate::parts::assets::Assets;
use crate::say::say;

/// One worker's place in the house. Made by the container, used by a loop of `wait/`.
pub struct Desk<'a, S: Service> {
    pub service: &'a S,
    pub state: &'a S::State,
    pub assets: &'a Assets,
    pub knobs: &'a Knobs,
    pub id: WorkerId,
    /// It is the worker that lets the world tick.
    pub is_first: bool,
    pub board: &'a Board,
    pub listener: BorrowedFd<'a>,
    /// Where this worker's connections come from.
    pub entrance: &'a dyn Entrance,
    /// Readable from the moment the house leaves [`Phase::Ready`].
    pub stop: &'a EventFd,
    /// Rung when the supervisor should look at the board.
    pub bell: &'a EventFd,
    pub effects: Effects,
    /// It ends with its connection, which tells the supervisor enough.
    pub is_visit: bool,
    /// Connections that this worker holds at one time.
    pub sessions_max: usize,
    /// After how many connections its process is replaced.
    pub lifetime: u64,
}

impl<S: Service> Desk<'_, S> {
    /// The time; read once a turn.
    pub fn now(&self) -> Instant {
        Instant::from_ns(sys::clock::now_ns())
    }

    /// The context of a call for session `me`.
    pub fn cx(&self, now: Instant, me: SessionId) -> Cx<'_, S::State> {
        Cx::new(now, me, self.id, self.state, &self.effects)
    }

    pub fn seat(&self) -> &Seat {
        self.board.seat(self.id.slot())
    }

    /// How far the house is, as far as this worker is concerned: one that was dismissed leaves.
    #[inline]
    pub fn phase(&self) -> Phase {
        let phase = self.board.phase();
        if self.seat().is_dismissed() { phase.max(Phase::Leaving) } else { phase }
    }

    /// The worker can take connections from here on.
    pub fn ready(&self) {
        self.seat().set_state(SeatState::Ready);
        self.bell.ring();
    }

    /// Whether nobody will come any more, as far as this worker can know who has just found nobody.
    pub fn is_over(&self) -> bool {
        let phase = self.phase();
        phase > Phase::Ready && (phase >= Phase::Forced || self.entrance.is_over())
    }

    /// A turn of the loop begins.
    pub fn turn(&self, now: Instant) {
        self.seat().turns.add(1);
        self.seat().beat_ns.set(now.ns());
    }

    /// A connection has come.
    pub fn opened(&self, now: Instant) {
        // In this order, who reads `accepted` first never takes it for over already.
        self.seat().open.add(1);
        self.seat().accepted.add(1);
        self.board.began(now.ns());
    }

    /// A connection is over. The supervisor is told when this was the last of all.
    pub fn closed(&self, now: Instant) {
        let is_last = self.seat().open.read() == 1;
        if is_last {
            // Whoever sees that nobody is left must see since when.
            self.board.ended(now.ns());
        }
        self.seat().open.sub(1);
        self.entrance.left();
        if is_last && !self.is_visit && self.board.is_empty_now() {
            self.bell.ring();
        }
    }

    /// Prints what the sessions noted since the last call.
    pub fn print_notes(&self) {
        for note in self.effects.take_notes() {
            say!("{note}");
        }
    }
}
