//! The entries for workers: which worker is in each, and when an empty one is filled again.

use std::io;
use std::time::Duration;

use language::eprintln;
use memory::{Phase, SlotState};
use seam::{Instant, WorkerId};
use sys::signal::Signal;

use super::crew::{Crew, End, Ended};
use super::event_log::{Birth, Death};
use super::state::{GRACE, Supervisor, clock};
use super::worker_entry::WorkerEntry;
use crate::accept::source::Arrival;
use crate::fault::Fault;

/// The first delay before a worker that did not live for a second is replaced; it doubles.
const RESPAWN_FIRST: Duration = Duration::from_millis(10);
/// The longest such delay.
pub(super) const RESPAWN_MAX: Duration = Duration::from_millis(800);
/// Workers killed in a row in one place while the server starts; then it gives up.
const KILLS_AT_START: u32 = 5;
/// A worker that lived this long did not die of its start.
const LIFE_MIN: Duration = Duration::from_secs(1);

impl<C: Crew> Supervisor<'_, C> {
    /// Makes the entry of a worker that is not started yet.
    pub(super) fn add_entry(&mut self) {
        self.entries.push(WorkerEntry::new(self.common.epoch.generation(), clock()));
    }

    /// An entry for a worker of one connection.
    pub(super) fn vacancy(&mut self) -> usize {
        if let Some(index) = self.reception.as_mut().and_then(|room| room.vacant.pop()) {
            return index;
        }
        self.add_entry();
        self.entries.len() - 1
    }

    pub(super) fn start(
        &mut self,
        index: usize,
        why: Birth,
        visitor: Option<Arrival>,
    ) -> io::Result<()> {
        let common = self.common;
        let entry = &mut self.entries[index];
        entry.generation = entry.generation % WorkerId::GENERATION_MAX + 1;
        entry.born = clock();
        entry.respawn_at = None;
        entry.retiring = false;
        let id = WorkerId::new(common.slot_of(index), entry.generation);
        self.crew.start(id, visitor)?;
        let entry = &mut self.entries[index];
        entry.alive = true;
        entry.recycled = false;
        common.board.turnover().spawned.add(1);
        // The process itself takes its slot, so its pid is not known here yet.
        self.event_log.born(self.entries[index].born, index, None, why);
        Ok(())
    }

    /// Cleans up after workers that have ended, and decides when they are replaced.
    pub(super) fn reap(&mut self) -> Result<(), Fault> {
        for Ended { id, end } in self.crew.reap() {
            let (common, turnover) = (self.common, self.common.board.turnover());
            let index = common.entry_of(id);
            let slot = common.board.slot(id.slot());
            let (was_dismissed, was_ready) =
                (slot.is_dismissed(), matches!(slot.state(), SlotState::Ready));
            let death = self.cause(index, &end, was_dismissed);
            let pid = common.board.slot(id.slot()).pid();
            match death {
                // It has closed its only session and holds nothing.
                Death::Visit if !common.is_extra_entry(index) => common.board.heal(id),
                _ => common.heal(id),
            }
            let now = clock();
            self.event_log.died(now, (index, pid), death, &end);
            // Its connections are gone with it.
            common.board.ended(now.ns());
            let entry = &mut self.entries[index];
            entry.alive = false;
            let phase = common.board.phase();
            if let Some(reception) = &mut self.reception
                && !common.is_extra_entry(index)
            {
                reception.vacant.push(index);
                if end != End::Left {
                    eprintln!("worker {index} {end}");
                }
                continue;
            }
            if phase > Phase::Ready {
                if index >= common.shape.entries() - common.shape.acceptors() {
                    // This tells the acceptor's workers that no more connections come.
                    common.stop.ring();
                }
                continue;
            }
            match death {
                Death::Spare => {
                    turnover.retired.add(1);
                    continue;
                }
                Death::Recycle => {
                    turnover.recycled.add(1);
                    (entry.respawn_at, entry.recycled) = (Some(now), true);
                    continue;
                }
                _ => {}
            }
            turnover.crashed.add(1);
            common.board.slot(id.slot()).set_failed();
            // A worker that served, or that another program killed, did not fail to start.
            let is_killed = matches!(end, End::Signal(_)) && entry.failures < KILLS_AT_START;
            if phase == Phase::Starting && !was_ready && !is_killed {
                eprintln!("worker {index} {end}");
                return Err(Fault::DiedAtStartup(index));
            }
            let young = now.since(entry.born) < LIFE_MIN;
            entry.failures = if young { entry.failures + 1 } else { 0 };
            let delay = match entry.failures {
                0 => Duration::ZERO,
                times => (RESPAWN_FIRST * (1 << (times - 1).min(10))).min(RESPAWN_MAX),
            };
            eprintln!("worker {index} {end}; a new one starts in {} ms", delay.as_millis());
            entry.respawn_at = Some(now + delay);
            self.report.replaced += 1;
        }
        Ok(())
    }

    /// The reason why the worker of the entry `index` has ended.
    fn cause(&self, index: usize, end: &End, was_dismissed: bool) -> Death {
        let phase = self.phase();
        match end {
            // The supervisor killed it, because it did not end in time or had to end at once.
            End::Signal(Signal::KILL) if phase == Phase::Forced => Death::Forced,
            End::Left if self.reception.is_some() => Death::Visit,
            End::Left if phase == Phase::Forced => Death::Forced,
            End::Left if phase > Phase::Ready => Death::Shutdown,
            End::Left if self.entries[index].retiring => Death::Spare,
            End::Left if was_dismissed => Death::Recycle,
            other => Death::of(other),
        }
    }

    pub(super) fn respawn(&mut self, now: Instant) {
        for index in 0..self.entries.len() {
            let why = if self.entries[index].recycled { Birth::Recycle } else { Birth::Respawn };
            if self.entries[index].respawn_at.is_some_and(|moment| moment <= now)
                && let Err(error) = self.start(index, why, None)
            {
                eprintln!("worker {index} cannot be replaced: {error}; trying again");
                self.entries[index].respawn_at = Some(now + RESPAWN_MAX);
            }
        }
    }

    /// Ends the workers that did start, because the server could not.
    pub(super) fn abandon(&mut self) {
        self.enter(Phase::Forced, GRACE);
        self.crew.kill();
        let until = clock() + GRACE;
        while self.entries.iter().any(|entry| entry.alive) && clock() < until {
            for ended in self.crew.reap() {
                self.entries[self.common.entry_of(ended.id)].alive = false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
