//! If each connection has a separate worker, the supervisor accepts and starts the worker, as the
//! parent does in the classic server.

use std::io;
use std::os::fd::BorrowedFd;

use language::eprintln;
use memory::{Phase, Refusal};
use seam::Instant;

use super::crew::Crew;
use super::event_log::Birth;
use super::state::Supervisor;
use crate::limits::ACCEPTS;
use crate::parts::admission::Attempt;

impl<C: Crew> Supervisor<'_, C> {
    /// The listener, while connections are accepted.
    pub(super) fn listens(&self) -> Option<BorrowedFd<'_>> {
        let takes = self.common.board.accepts()
            && self.phase() != Phase::Starting
            && self.reception.as_ref().is_some_and(|reception| reception.admission.was_open());
        takes.then(|| self.common.listeners.of_worker(0).fd())
    }

    /// Whether clients wait that the supervisor may still accept although the server drains.
    pub(super) fn has_queue(&self) -> bool {
        self.reception.is_some() && self.common.board.accepts() && self.queue().length > 0
    }

    /// Accepts up to [`ACCEPTS`] connections, and starts a worker for each.
    pub(super) fn receive(&mut self, now: Instant) {
        let Some(reception) = &mut self.reception else { return };
        reception.tick(now);
        if !self.common.board.accepts() || self.phase() == Phase::Starting {
            return;
        }
        let visitors = self.entries.iter().skip(usize::from(self.common.extra.is_some()));
        let mut live = visitors.filter(|entry| entry.alive).count();
        for _ in 0..ACCEPTS {
            let Some(reception) = &mut self.reception else { return };
            reception.admission.set_limit(self.common.sessions_max());
            if !reception.admission.is_open(live, now) {
                return;
            }
            let slot = self.common.board.slot(reception.me.slot());
            let accepted = self.common.listeners.of_worker(0).accept(false);
            let arrival = match reception.admission.sort(accepted, now, slot) {
                Attempt::Taken(arrival) => arrival,
                Attempt::Gone => continue,
                Attempt::Empty | Attempt::Exhausted => return,
            };
            let index = self.vacancy();
            if let Err(error) = self.start(index, Birth::Visit, Some(arrival)) {
                self.turn_away(index, &error, now);
                return;
            }
            live += 1;
        }
    }

    /// Closes a connection for which no worker could be started, and pauses accepting.
    fn turn_away(&mut self, index: usize, error: &io::Error, now: Instant) {
        eprintln!("a connection was closed because no worker can be started: {error}");
        if let Some(reception) = &mut self.reception {
            reception.vacant.push(index);
            reception.admission.back_off(now);
            self.common.board.slot(reception.me.slot()).refuse(Refusal::NoWorker);
        }
    }
}
