//! The duties of the loop towards all coroutines: times, sweeps, room, and the server's phase.

use memory::Phase;
use seam::Instant;

use super::Loop;
use crate::limits::{DRAIN_LOOK, SWEEP_CLOSES, SWEEP_PAUSE, SWEEP_SESSIONS, WAIT, WAKES};
use crate::parts::event_loop::sweep_every;

impl Loop<'_, '_> {
    /// Resumes up to [`WAKES`] coroutines whose time has come.
    pub(super) fn wake_due(&mut self) {
        let mut woken = 0;
        while woken < WAKES
            && let Some((entry, id)) = self.deadlines.due(self.now)
        {
            let Some(fiber) = self.table.lookup(id) else { continue };
            if fiber.scheduled != entry {
                continue;
            }
            fiber.scheduled = Instant::NEVER;
            let until = fiber.seat.until.get();
            if until > self.now {
                self.deadlines.ask(id, Some(until), &mut fiber.scheduled);
                continue;
            }
            self.worker.context.note_late(entry, self.now);
            self.resume(id);
            woken += 1;
        }
    }

    /// Resumes all coroutines periodically, and in parts: each looks whether it is overdue.
    pub(super) fn sweep(&mut self) {
        if self.now < self.next_sweep {
            return;
        }
        let context = self.worker.context;
        if self.table.len() > 0 {
            context.note_late(self.next_sweep, self.now);
        }
        let (mut closed, mut reached) = (0, self.sweep_from + SWEEP_SESSIONS);
        for id in self.table.ids_within(self.sweep_from..reached) {
            if closed == SWEEP_CLOSES {
                reached = id.index() as usize;
                break;
            }
            closed += usize::from(self.resume(id));
        }
        let is_last = reached >= self.table.slots();
        self.sweep_from = if is_last { 0 } else { reached };
        self.next_sweep = self.now + if is_last { sweep_every(context) } else { SWEEP_PAUSE };
    }

    /// At the limit, while others wait: the silent look whether they must leave.
    pub(super) fn make_room(&mut self) {
        if !self.admission.is_full() {
            self.worker.is_full.set(false);
        } else if self.now >= self.next_room {
            self.next_room = self.now + WAIT;
            self.worker.is_full.set(self.worker.context.is_awaited());
            self.next_sweep = self.now;
        }
    }

    /// Resumes all coroutines when the server drains, and when it is forced.
    pub(super) fn follow_phase(&mut self) {
        let context = self.worker.context;
        let phase = context.phase();
        if phase > Phase::Ready && context.is_over() || phase >= Phase::Forced {
            self.admission.drain();
        }
        if phase >= Phase::Draining && phase > self.seen {
            self.seen = phase;
            self.next_sweep = self.next_sweep.min(self.now + DRAIN_LOOK);
            for id in self.table.ids() {
                self.resume(id);
            }
        }
    }
}
