//! Processes that come and go with the load: the supervisor gives the scoreboard's counts to the
//! controller and executes its decision.
//!
//! A surplus process is told to leave, never killed: it accepts no new connection and leaves with
//! its last one. The supervisor chooses the process with the fewest connections, and among equals
//! the last in the table.

use language::eprintln;
use seam::Instant;

use memory::{Phase, SlotState};

use super::crew::Crew;
use super::entries::RESPAWN_MAX;
use super::event_log::Birth;
use super::state::Supervisor;
use crate::spare::{Act, Census, Spare};

impl<C: Crew> Supervisor<'_, C> {
    /// Lets the governor decide, and starts or retires processes, if that is due.
    pub(super) fn follow_load(&mut self, now: Instant) {
        self.govern(now);
        let due = |spare: &Spare| spare.wakes_at() <= now;
        if self.phase() != Phase::Ready || !self.spare.as_ref().is_some_and(due) {
            return;
        }
        let census = self.census(now);
        let Some(spare) = &mut self.spare else { return };
        let verdict = spare.look(now, &census);
        if verdict.act != Act::Hold {
            let words = format!("{:?}: {}", verdict.act, verdict.why).to_lowercase();
            self.event_log.note(now, "spare", None, words, false);
        }
        match verdict.act {
            Act::Hold => {}
            Act::Spawn(count) => {
                for _ in 0..count {
                    self.add(now);
                }
            }
            Act::Retire(count) => {
                for _ in 0..count {
                    self.retire_one();
                }
            }
        }
    }

    /// Counts workers and processes.
    fn census(&self, now: Instant) -> Census {
        let waiting = usize::try_from(self.queue().length).unwrap_or(usize::MAX);
        let mut census = Census { waiting, ..Census::default() };
        let processes = self.entries.iter().take(self.common.shape.entries());
        for (index, entry) in processes.enumerate().filter(|(_, entry)| entry.alive) {
            census.processes += 1;
            if self.is_leaving(index) || entry.retiring {
                census.retiring += 1;
                continue;
            }
            let slot = self.common.board.slot(self.common.slot_of(index));
            if slot.state() == SlotState::Starting {
                census.starting = census.starting.max(now.since(entry.born));
            }
            let busy = self.busy(index);
            census.busy += busy;
            census.idle += self.common.shape.threads() - busy;
        }
        census
    }

    /// Workers of a process that have a connection.
    fn busy(&self, index: usize) -> usize {
        let first = self.common.slot_of(index);
        let slots = first..first + self.common.shape.threads();
        let is_busy = |slot: &usize| {
            let slot = self.common.board.slot(*slot);
            slot.open.read() + slot.serving.read() > 0
        };
        slots.filter(is_busy).count()
    }

    /// Whether the process leaves, by itself or because it was told to.
    fn is_leaving(&self, index: usize) -> bool {
        let slot = self.common.board.slot(self.common.slot_of(index));
        slot.is_dismissed() || slot.state() == SlotState::Gone
    }

    fn add(&mut self, now: Instant) {
        let vacant =
            |at: &usize| !self.entries[*at].alive && self.entries[*at].respawn_at.is_none();
        let Some(index) = (0..self.common.shape.entries()).find(vacant) else { return };
        if let Err(error) = self.start(index, Birth::Demand, None) {
            eprintln!("worker {index} cannot be started: {error}; trying again");
            self.entries[index].respawn_at = Some(now + RESPAWN_MAX);
        }
    }

    fn retire_one(&mut self) {
        let stays = |at: &usize| self.entries[*at].alive && !self.is_leaving(*at);
        let chosen =
            (0..self.common.shape.entries()).rev().filter(stays).min_by_key(|at| self.busy(*at));
        let Some(index) = chosen else { return };
        self.entries[index].retiring = true;
        let first = self.common.slot_of(index);
        for slot in first..first + self.common.shape.stride() {
            self.common.board.slot(slot).dismiss();
        }
    }
}
