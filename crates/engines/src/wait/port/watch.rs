//! What is due when, and who is inside: under one lock, for whoever leads and whoever ends a
//! session.

use std::sync::atomic::Ordering;
use std::time::Duration;

use memory::{Board, Phase};
use seam::{Instant, Service};

use super::Hand;
use super::completion_port::{Errand, Mail, lock};
use super::door::Arrivals;
use crate::parts::deadlines::Deadlines;
use crate::parts::door::Door;
use crate::parts::event_loop::sweep_every;
use crate::wait::uring::tactics::Tactics;

/// The times of a port, its door and its census.
pub(super) struct Watch {
    pub deadlines: Deadlines,
    pub door: Door,
    pub arrivals: Arrivals,
    /// Sessions, and those who are about to have one.
    pub inside: usize,
    pub next_tick: Option<Instant>,
    next_sweep: Instant,
    /// Which edition of the settings the door knows.
    edition: u32,
    /// Everyone was told that the server drains.
    pub drained: bool,
    /// Everyone was told that the server is forced.
    pub forced: bool,
}

impl Watch {
    pub fn new(board: &Board, sessions_max: usize, tactics: Tactics) -> Watch {
        Watch {
            deadlines: Deadlines::default(),
            door: Door::new(sessions_max),
            arrivals: Arrivals::new(tactics.acceptance()),
            inside: 0,
            next_tick: Some(Instant::ZERO),
            next_sweep: Instant::ZERO,
            edition: board.edition(),
            drained: false,
            forced: false,
        }
    }

    /// When the leader must look again whatever happens.
    fn soonest(&self) -> Instant {
        let mut soonest = if self.inside > 0 { self.next_sweep } else { Instant::NEVER };
        for moment in [self.deadlines.next(), self.door.opens_at(), self.next_tick] {
            soonest = soonest.min(moment.unwrap_or(Instant::NEVER));
        }
        soonest
    }
}

impl<S: Service> Hand<'_, '_, S> {
    /// The leader's look at the clock and the server, before it waits. How long it may sleep;
    /// `None` if there is something to do at once.
    pub(super) fn make_round(&mut self) -> Option<Option<Duration>> {
        let completion_port = self.completion_port;
        let mut watch = lock(&completion_port.watch);
        self.follow_settings(&mut watch);
        let leaves = self.follow_phase(&mut watch);
        while let Some((entry, id)) = watch.deadlines.due(self.now) {
            self.context.note_late(entry, self.now);
            self.entry(id, Mail::Due(entry));
        }
        if watch.next_tick.is_some_and(|moment| moment <= self.now) {
            watch.next_tick = None;
            // From here on the world is a successor's to move, if there is one.
            if self.context.phase() != Phase::Leaving {
                self.brought.push(Errand::Tick);
            }
        }
        if watch.next_sweep <= self.now {
            if watch.inside > 0 {
                self.context.note_late(watch.next_sweep, self.now);
            }
            watch.next_sweep = self.now + sweep_every(self.context);
            self.tell_all(|| Mail::Look);
        }
        self.watch_door(&mut watch);
        // An accept that is armed may still bring somebody.
        if leaves && watch.inside == 0 && !watch.arrivals.is_armed() {
            lock(&completion_port.shift).close();
            return None;
        }
        if !self.brought.is_empty() {
            return None;
        }
        let soonest = watch.soonest();
        // Under the lock: who asks for an earlier moment from now on sees that nobody would look.
        completion_port.until.store(soonest.ns(), Ordering::Relaxed);
        Some((soonest != Instant::NEVER).then(|| soonest.since(self.now)))
    }

    fn follow_settings(&mut self, watch: &mut Watch) {
        let edition = self.context.board.edition();
        if std::mem::replace(&mut watch.edition, edition) != edition {
            watch.door.set_limit(self.context.sessions_max());
            watch.next_sweep = watch.next_sweep.min(self.now + sweep_every(self.context));
        }
    }

    /// Tells everyone how far the server is; true when it is left.
    fn follow_phase(&mut self, watch: &mut Watch) -> bool {
        let phase = self.context.phase();
        if phase <= Phase::Ready {
            return false;
        }
        let is_over = self.context.is_over();
        if is_over {
            watch.door.drain();
        }
        if phase >= Phase::Draining && !std::mem::replace(&mut watch.drained, true) {
            self.tell_all(|| Mail::Drain);
        }
        if phase >= Phase::Forced && !std::mem::replace(&mut watch.forced, true) {
            watch.arrivals.forget();
            self.tell_all(|| Mail::Force);
        }
        is_over
    }

    fn tell_all(&mut self, letter: impl Fn() -> Mail<S::Outcome>) {
        let completion_port = self.completion_port;
        for id in completion_port.table.ids() {
            self.entry(id, letter());
        }
    }
}
