//! The state of the leader, whichever thread leads. It is under one lock, because threads that end
//! a session change it too.

use memory::Board;
use seam::Instant;

use crate::parts::admission::Admission;
use crate::parts::deadlines::Deadlines;
use crate::parts::ring::accepting::Accepting;
use crate::parts::silence::SilenceBound;

/// The state of the leader, whichever thread leads.
pub(super) struct LeaderState {
    pub deadlines: Deadlines,
    pub admission: Admission,
    pub accepting: Accepting,
    /// Sessions, and connections that are about to have one.
    pub inside: usize,
    pub next_tick: Option<Instant>,
    pub next_sweep: Instant,
    /// When the silent may next have to make room, and after which silence.
    pub next_room: Instant,
    pub silence: SilenceBound,
    /// Memory was short at the last look.
    pub was_short: bool,
    /// The edition of the settings that the admission knows.
    pub edition: u32,
    /// All sessions have been told that the server drains.
    pub drained: bool,
    /// All sessions have been told that the server is forced.
    pub forced: bool,
}

impl LeaderState {
    pub fn new(board: &Board, sessions_max: usize, polls: bool) -> LeaderState {
        LeaderState {
            deadlines: Deadlines::default(),
            admission: Admission::new(sessions_max),
            accepting: Accepting::new(polls),
            inside: 0,
            next_tick: Some(Instant::ZERO),
            next_sweep: Instant::ZERO,
            next_room: Instant::ZERO,
            silence: SilenceBound::default(),
            was_short: false,
            edition: board.edition(),
            drained: false,
            forced: false,
        }
    }

    /// The time by which the leader must check again.
    pub fn soonest(&self) -> Instant {
        let is_watched = self.inside > 0 || self.drained;
        let mut soonest = if is_watched { self.next_sweep } else { Instant::NEVER };
        if self.admission.is_full() {
            soonest = soonest.min(self.next_room);
        }
        for moment in [self.deadlines.next(), self.admission.resumes_at(), self.next_tick] {
            soonest = soonest.min(moment.unwrap_or(Instant::NEVER));
        }
        soonest
    }
}
