//! What a worker is given: the service, the state, its seat on the scoreboard, its listener.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use memory::{Board, Doing, Phase, Seat, SeatState};
use seam::{Cx, Effects, Instant, Service, SessionId, WorkerId};
use sys::eventfd::EventFd;

use crate::accept::Entrance;
use crate::house::Renew;
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
    /// The caster's bell, where there is a caster.
    pub orders: Option<&'a EventFd>,
    pub effects: Effects,
    /// It ends with its connection, which tells the supervisor enough.
    pub is_visit: bool,
    /// Which part of the server's connections this worker may have.
    pub share: Share,
    /// After how many connections its process is replaced.
    pub lifetime: u64,
    /// Who works on its jobs.
    pub helping: Helping,
    /// Which edition of the settings it knows.
    pub edition: Cell<u32>,
    /// What it does when there is another.
    pub renew: Option<&'a Renew<'a>>,
}

/// Who works on a worker's jobs.
#[derive(Clone, Copy)]
pub struct Helping {
    /// How many helpers there are at the most; 0: the worker does so itself.
    pub most: usize,
    /// They come with the worker, not with the first jobs.
    pub is_beforehand: bool,
}

/// A worker's part of the connections.
#[derive(Clone, Copy)]
pub struct Share {
    /// Among how many processes they are divided first.
    pub parts: usize,
    /// Among how many workers of the process.
    pub workers: usize,
    /// Which of them it is: the first ones take what does not divide, so that the sum is the limit.
    pub index: usize,
    /// Never more than this, whatever the settings say: what it began with has room for no more.
    pub most: usize,
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

    /// A turn of the loop begins; true if the settings have changed since the last one.
    #[inline]
    pub fn turn(&self, now: Instant) -> bool {
        let seat = self.seat();
        seat.turns.add(1);
        seat.beat_ns.set(now.ns());
        seat.set_doing(Doing::Working);
        self.count();
        self.board.edition() != self.edition.get() && self.follow_edition()
    }

    /// The turn is over, and the worker is about to wait, as what `doing` says.
    #[inline]
    pub fn rest(&self, doing: Doing) {
        self.count();
        self.seat().set_doing(doing);
    }

    /// Puts what was answered since the last time on the board.
    #[inline]
    fn count(&self) {
        let answered = self.effects.take_answered();
        if answered > 0 {
            self.seat().answered.add(answered);
        }
    }

    #[cold]
    fn follow_edition(&self) -> bool {
        let edition = self.board.edition();
        self.edition.set(edition);
        if let Some(renew) = self.renew {
            // The supervisor has said it already.
            let _ = renew(edition);
        }
        true
    }

    /// Connections that this worker may hold at one time, by the settings in force.
    pub fn sessions_max(&self) -> usize {
        let Share { parts, workers, index, most } = self.share;
        let all = (self.board.settings().sessions_max() / parts).max(1);
        let spare = usize::from(index < all % workers);
        (all / workers + spare).clamp(1, most)
    }

    /// How long nothing may move on a connection.
    pub fn idle(&self) -> Duration {
        self.board.settings().idle()
    }

    /// How long a peer may take no output.
    pub fn write_stall(&self) -> Duration {
        self.board.settings().write_stall()
    }

    /// Something was due at `due` and is done at `now`.
    #[inline]
    pub fn note_late(&self, due: Instant, now: Instant) {
        let late = now.since(due).as_nanos();
        self.seat().note_late(u64::try_from(late).unwrap_or(u64::MAX));
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
        self.ring_caster();
        if is_last && !self.is_visit && self.board.is_empty_now() {
            self.bell.ring();
        }
    }

    /// Rings the caster if a session changed an order since the last call.
    fn ring_caster(&self) {
        if self.effects.is_filled()
            && self.effects.take_ring()
            && let Some(orders) = self.orders
        {
            orders.ring();
        }
    }

    /// Rings the caster if it is to be rung, and prints what the sessions noted.
    pub fn see_to_wishes(&self) {
        self.ring_caster();
        for note in self.effects.take_notes() {
            say!("{note}");
        }
    }
}
