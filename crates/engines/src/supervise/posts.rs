//! The workers' places: who holds them, and when they are filled again.

use std::io;
use std::time::Duration;

use memory::Phase;
use seam::{Instant, Service, Share, WorkerId};

use super::{Crew, Ended, Supervisor, clock};
use crate::accept::Arrival;
use crate::fault::Fault;
use crate::say::say;

/// The first delay before a worker is replaced that did not live for a second; it doubles.
const RESPAWN_FIRST: Duration = Duration::from_millis(10);
/// The longest such delay.
const RESPAWN_MAX: Duration = Duration::from_millis(800);
/// A worker that lived this long did not die of its birth.
const LIFE_MIN: Duration = Duration::from_secs(1);

/// One worker's place, whoever holds it.
pub(super) struct Post {
    pub generation: u32,
    pub born: Instant,
    /// Deaths in a row shortly after birth.
    pub failures: u32,
    pub respawn_at: Option<Instant>,
    pub alive: bool,
}

impl<S: Service, C: Crew> Supervisor<'_, S, C> {
    /// Makes the places and fills them.
    pub(super) fn open(&mut self) -> io::Result<()> {
        let generation = self.common.epoch.generation();
        for index in 0..self.common.shape.posts() {
            let born = clock();
            let post = Post { generation, born, failures: 0, respawn_at: None, alive: false };
            self.posts.push(post);
            self.start(index, None)?;
        }
        Ok(())
    }

    /// A place for a worker of one connection.
    pub(super) fn vacancy(&mut self) -> usize {
        if let Some(index) = self.reception.as_mut().and_then(|room| room.vacant.pop()) {
            return index;
        }
        let generation = self.common.epoch.generation();
        let born = clock();
        self.posts.push(Post { generation, born, failures: 0, respawn_at: None, alive: false });
        self.posts.len() - 1
    }

    pub(super) fn start(&mut self, index: usize, visitor: Option<Arrival>) -> io::Result<()> {
        let post = &mut self.posts[index];
        post.generation += 1;
        post.born = clock();
        post.respawn_at = None;
        let id = WorkerId::new(self.common.epoch.seat() + index, post.generation);
        self.crew.start(id, visitor)?;
        self.posts[index].alive = true;
        Ok(())
    }

    /// Clears up after workers that have ended and decides when they are replaced.
    pub(super) fn bury(&mut self) -> Result<(), Fault> {
        for Ended { id, fault } in self.crew.reap() {
            let index = id.slot() - self.common.epoch.seat();
            let state = self.common.house.state;
            state.heal(id);
            self.common.hall.heal(id);
            self.common.board.heal(id);
            // Its connections are gone with it.
            self.common.board.ended(clock().ns());
            let post = &mut self.posts[index];
            post.alive = false;
            let phase = self.common.board.phase();
            if let Some(reception) = &mut self.reception {
                reception.vacant.push(index);
                if let Some(fault) = fault {
                    say!("worker {index} {fault}");
                }
                continue;
            }
            if phase > Phase::Ready {
                if index >= self.common.shape.workers {
                    // Those it fed learn that nobody comes any more.
                    self.common.stop.ring();
                }
                continue;
            }
            let reason = fault.as_deref().unwrap_or("left without being told to");
            if phase == Phase::Starting {
                say!("worker {index} {reason}");
                return Err(Fault::Stillborn(index));
            }
            let now = clock();
            let young = now.since(post.born) < LIFE_MIN;
            post.failures = if young { post.failures + 1 } else { 0 };
            let delay = match post.failures {
                0 => Duration::ZERO,
                times => (RESPAWN_FIRST * (1 << (times - 1).min(10))).min(RESPAWN_MAX),
            };
            say!("worker {index} {reason}; a new one comes in {} ms", delay.as_millis());
            post.respawn_at = Some(now + delay);
            self.report.replaced += 1;
        }
        Ok(())
    }

    pub(super) fn respawn(&mut self, now: Instant) {
        for index in 0..self.posts.len() {
            if self.posts[index].respawn_at.is_some_and(|moment| moment <= now)
                && let Err(error) = self.start(index, None)
            {
                say!("worker {index} cannot be replaced: {error}; trying again");
                self.posts[index].respawn_at = Some(now + RESPAWN_MAX);
            }
        }
    }
}
