//! The leader's duties: deadlines, admission, the number of sessions, the server's phase.

use std::sync::atomic::Ordering;
use std::time::Duration;

use memory::Phase;
use seam::Instant;

use super::completion_port::{Message, WorkItem};
use super::leader::LeaderState;
use super::thread::PortThread;
use crate::limits::{SHORT_LOOK, WAIT};
use crate::parts::event_loop::sweep_every;
use crate::parts::lock::lock;

impl PortThread<'_, '_> {
    /// The leader's work before it waits: deadlines, ticks, sweeps, accepts. Returns how long it
    /// may sleep; `None` if there is work to do at once.
    pub(super) fn before_wait(&mut self) -> Option<Option<Duration>> {
        let port = self.port;
        let mut leader = lock(&port.leader);
        self.follow_settings(&mut leader);
        if self.context.board.is_short() != leader.was_short {
            leader.was_short = !leader.was_short;
            leader.next_sweep = leader.next_sweep.min(self.now + SHORT_LOOK);
        }
        let leaves = self.follow_phase(&mut leader);
        while let Some((entry, id)) = leader.deadlines.due(self.now) {
            self.context.note_late(entry, self.now);
            self.post(id, Message::Due(entry));
        }
        if leader.next_tick.is_some_and(|moment| moment <= self.now) {
            leader.next_tick = None;
            self.new_items.push(WorkItem::Tick);
        }
        if leader.next_sweep <= self.now {
            if leader.inside > 0 {
                self.context.note_late(leader.next_sweep, self.now);
            }
            leader.next_sweep = self.now + sweep_every(self.context);
            self.post_to_all(|| Message::Look);
        }
        self.make_room(&mut leader);
        self.accept(&mut leader);
        // An armed accept may still bring a connection.
        if leaves && leader.inside == 0 && !leader.accepting.is_armed() {
            lock(&port.scheduler).close();
            return None;
        }
        if !self.new_items.is_empty() {
            return None;
        }
        let soonest = leader.soonest();
        // This is stored under the lock, so that a thread that needs an earlier moment from now on
        // sees it.
        port.until.store(soonest.ns(), Ordering::Relaxed);
        Some((soonest != Instant::NEVER).then(|| soonest.since(self.now)))
    }

    fn follow_settings(&mut self, leader: &mut LeaderState) {
        let edition = self.context.board.edition();
        if std::mem::replace(&mut leader.edition, edition) != edition {
            leader.admission.set_limit(self.context.sessions_max());
            leader.next_sweep = leader.next_sweep.min(self.now + sweep_every(self.context));
        }
    }

    /// Tells all sessions the server's phase; true when no more connections can come.
    fn follow_phase(&mut self, leader: &mut LeaderState) -> bool {
        let phase = self.context.phase();
        if phase <= Phase::Ready {
            return false;
        }
        let is_over = self.context.is_over();
        if is_over {
            leader.admission.drain();
        }
        if phase >= Phase::Draining && !std::mem::replace(&mut leader.drained, true) {
            leader.next_sweep = leader.next_sweep.min(self.now + sweep_every(self.context));
            self.post_to_all(|| Message::Drain);
        }
        if phase >= Phase::Forced && !std::mem::replace(&mut leader.forced, true) {
            leader.accepting.clear();
            self.post_to_all(|| Message::Force);
        }
        is_over
    }

    /// At the limit, while others wait: tells the sessions after which silence they end.
    fn make_room(&mut self, leader: &mut LeaderState) {
        if !leader.admission.is_full() || self.now < leader.next_room {
            return;
        }
        leader.next_room = self.now + WAIT;
        let is_awaited = leader.accepting.has_waiting() || self.context.is_awaited();
        if let Some(bound) = leader.silence.bound(is_awaited, self.now) {
            self.post_to_all(|| Message::MakeRoom(bound));
        }
    }

    fn post_to_all(&mut self, message: impl Fn() -> Message) {
        let port = self.port;
        for id in port.table.ids() {
            self.post(id, message());
        }
    }
}
