//! Where each connection has a worker of its own, the supervisor is the one that accepts, as the
//! parent does in the classic server, and starts the worker.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use memory::{Phase, Refusal, SlotState};
use seam::{Cx, Effects, Instant, Service, SessionId, WorkerId};
use sys::process;
use sys::socket;

use super::event_log::Birth;
use super::{Crew, Supervisor};
use crate::parts::door::{Door, Failure};
use crate::say::say;
use crate::server::Common;
use crate::shape::SLOTS;

/// What the supervisor keeps for those who come.
pub(super) struct Reception<'a, S: Service> {
    common: &'a Common<'a, S>,
    door: Door,
    /// Places whose worker has ended.
    pub vacant: Vec<usize>,
    /// When the world wants to tick: nobody else is always there.
    next_tick: Option<Instant>,
    effects: Effects,
    /// Its own name on the scoreboard, for what it counts.
    me: WorkerId,
}

impl<'a, S: Service> Reception<'a, S> {
    /// The reception, if connections have workers of their own.
    pub fn new(common: &'a Common<'a, S>) -> Option<Reception<'a, S>> {
        if !common.shape.container.is_per_connection() {
            return None;
        }
        let me = WorkerId::new(common.epoch.slot() + SLOTS - 1, common.epoch.generation() + 1);
        common.board.sit(me, process::this()).set_state(SlotState::Ready);
        Some(Reception {
            common,
            door: Door::new(common.sessions_max()),
            vacant: Vec::new(),
            next_tick: Some(Instant::ZERO),
            effects: Effects::new(false, common.server.verbose),
            me,
        })
    }

    /// When something is due here.
    pub fn wakes_at(&self) -> Option<Instant> {
        let opens_at = self.door.opens_at().filter(|_| self.common.board.phase() == Phase::Ready);
        [opens_at, self.next_tick].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant) {
        let common = self.common;
        if common.board.phase() == Phase::Leaving {
            // The world is the successor's to move.
            self.next_tick = None;
        }
        if self.next_tick.is_some_and(|moment| moment <= now) {
            let cx = Cx::new(now, SessionId::NONE, self.me, common.server.state, &self.effects);
            self.next_tick = common.server.service.tick(&cx);
            if self.effects.take_ring()
                && let Some(extra) = common.extra
            {
                extra.orders.ring();
            }
            for note in self.effects.take_notes() {
                say!("{note}");
            }
        }
    }
}

impl<S: Service, C: Crew> Supervisor<'_, S, C> {
    /// The listener, while connections are taken.
    pub(super) fn listens(&self) -> Option<BorrowedFd<'_>> {
        let takes = self.phase() == Phase::Ready
            && self.reception.as_ref().is_some_and(|reception| reception.door.was_open());
        takes.then(|| self.common.listeners.sockets[0].as_fd())
    }

    /// Takes those who wait, a bounded number, and starts a worker for each.
    pub(super) fn receive(&mut self, now: Instant) {
        let Some(reception) = &mut self.reception else { return };
        reception.tick(now);
        if self.common.board.phase() != Phase::Ready {
            return;
        }
        for _ in 0..self.common.shape.knobs.turn_accepts {
            let visitors = self.entries.iter().skip(usize::from(self.common.extra.is_some()));
            let live = visitors.filter(|entry| entry.alive).count();
            let Some(reception) = &mut self.reception else { return };
            reception.door.set_limit(self.common.sessions_max());
            if !reception.door.is_open(live, now) {
                return;
            }
            let slot = self.common.board.slot(reception.me.slot());
            if !self.crew.has_room() {
                // Who were accepted now could only be sent away.
                reception.door.shut(now);
                slot.refuse(Refusal::Exhausted);
                return;
            }
            let arrival = match socket::accept(&self.common.listeners.sockets[0], false) {
                Ok(arrival) => arrival,
                Err(error) => match reception.door.failed(&error, now) {
                    Failure::Empty => return,
                    Failure::Peer => {
                        slot.refuse(Refusal::Gone);
                        continue;
                    }
                    Failure::Exhausted => {
                        slot.refuse(Refusal::Exhausted);
                        return;
                    }
                },
            };
            let index = self.vacancy();
            if let Err(error) = self.start(index, Birth::Visit, Some(arrival)) {
                self.turn_away(index, &error, now);
                return;
            }
        }
    }

    /// No worker could be started: the visitor is gone, and the next ones wait.
    fn turn_away(&mut self, index: usize, error: &io::Error, now: Instant) {
        say!("a connection was closed, for no worker can be started: {error}");
        if let Some(reception) = &mut self.reception {
            reception.vacant.push(index);
            reception.door.shut(now);
            self.common.board.slot(reception.me.slot()).refuse(Refusal::NoWorker);
        }
    }
}
