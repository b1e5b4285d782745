//! The supervisor's resources for accepting connections.

use language::eprintln;
use memory::{Phase, SlotState};
use seam::{Cx, Effects, Instant, SessionId, WorkerId};
use sys::process;

use crate::common::Common;
use crate::parts::admission::Admission;
use crate::shape::SLOTS;

/// The supervisor's resources for accepting connections.
pub(super) struct Reception<'a> {
    common: &'a Common<'a>,
    pub admission: Admission,
    /// Entries whose worker has ended.
    pub vacant: Vec<usize>,
    /// The time of the service's next tick. The supervisor calls it, because there may be no
    /// worker.
    next_tick: Option<Instant>,
    effects: Effects,
    /// The supervisor's own name on the scoreboard, for its counts.
    pub me: WorkerId,
}

impl<'a> Reception<'a> {
    /// The reception, if connections have separate workers.
    pub fn new(common: &'a Common<'a>) -> Option<Reception<'a>> {
        if !common.shape.container.is_per_connection() {
            return None;
        }
        let me = WorkerId::new(common.epoch.slot() + SLOTS - 1, common.epoch.generation() + 1);
        common.board.sit(me, process::this()).set_state(SlotState::Ready);
        Some(Reception {
            common,
            admission: Admission::new(common.sessions_max()),
            vacant: Vec::new(),
            next_tick: Some(Instant::ZERO),
            effects: Effects::new(false, common.host.verbose),
            me,
        })
    }

    /// When the reception has its next task.
    pub fn wakes_at(&self) -> Option<Instant> {
        let resumes_at =
            self.admission.resumes_at().filter(|_| self.common.board.phase() == Phase::Ready);
        [resumes_at, self.next_tick].into_iter().flatten().min()
    }

    pub fn tick(&mut self, now: Instant) {
        let common = self.common;
        if common.board.phase() == Phase::Leaving {
            // The successor calls it.
            self.next_tick = None;
        }
        if self.next_tick.is_some_and(|moment| moment <= now) {
            self.me.enter();
            let cx = Cx::new(now, SessionId::NONE, self.me, &(), &self.effects);
            self.next_tick = common.service.tick(&cx);
            if self.effects.take_ring()
                && let Some(extra) = common.extra
            {
                extra.orders.ring();
            }
            for note in self.effects.take_notes() {
                eprintln!("{note}");
            }
        }
    }
}
