//! The workers' places: who holds them, and when they are filled again.

use std::io;
use std::time::Duration;

use memory::Phase;
use seam::{Instant, Service, WorkerId};

use super::{Crew, Ended, Supervisor, clock};
use crate::accept::Arrival;
use crate::fault::Fault;
use crate::say::say;

/// The first delay before a worker is replaced that did not live for a second; it doubles.
const RESPAWN_FIRST: Duration = Duration::from_millis(10);
/// The longest such delay.
pub(super) const RESPAWN_MAX: Duration = Duration::from_millis(800);
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
    /// It was asked to leave because there are too many.
    pub retiring: bool,
}

impl Post {
    fn new(generation: u32) -> Post {
        let (born, respawn_at) = (clock(), None);
        Post { generation, born, failures: 0, respawn_at, alive: false, retiring: false }
    }
}

impl<S: Service, C: Crew> Supervisor<'_, S, C> {
    /// Makes the places and fills those that are wanted at the start.
    pub(super) fn open(&mut self) -> io::Result<()> {
        let (shape, generation) = (self.common.shape, self.common.epoch.generation());
        let start = shape.staffing().map_or(usize::MAX, |staffing| staffing.start);
        let processes = shape.posts() - shape.acceptors();
        for index in 0..shape.posts() {
            self.posts.push(Post::new(generation));
            if index < start || index >= processes {
                self.start(index, None)?;
            }
        }
        Ok(())
    }

    /// A place for a worker of one connection.
    pub(super) fn vacancy(&mut self) -> usize {
        if let Some(index) = self.reception.as_mut().and_then(|room| room.vacant.pop()) {
            return index;
        }
        self.posts.push(Post::new(self.common.epoch.generation()));
        self.posts.len() - 1
    }

    pub(super) fn start(&mut self, index: usize, visitor: Option<Arrival>) -> io::Result<()> {
        let common = self.common;
        let post = &mut self.posts[index];
        post.generation = post.generation % WorkerId::GENERATION_MAX + 1;
        post.born = clock();
        post.respawn_at = None;
        post.retiring = false;
        let id = WorkerId::new(common.seat_of(index), post.generation);
        self.crew.start(id, visitor)?;
        self.posts[index].alive = true;
        common.board.turnover().spawned.add(1);
        Ok(())
    }

    /// Clears up after workers that have ended and decides when they are replaced.
    pub(super) fn bury(&mut self) -> Result<(), Fault> {
        for Ended { id, fault } in self.crew.reap() {
            let (common, turnover) = (self.common, self.common.board.turnover());
            let index = common.post_of(id);
            let was_dismissed = common.board.seat(id.slot()).is_dismissed();
            common.heal(id);
            // Its connections are gone with it.
            common.board.ended(clock().ns());
            let post = &mut self.posts[index];
            post.alive = false;
            let phase = common.board.phase();
            if let Some(reception) = &mut self.reception {
                reception.vacant.push(index);
                if let Some(fault) = fault {
                    say!("worker {index} {fault}");
                }
                continue;
            }
            if phase > Phase::Ready {
                if index >= common.shape.posts() - common.shape.acceptors() {
                    // Those it fed learn that nobody comes any more.
                    common.stop.ring();
                }
                continue;
            }
            if fault.is_none() && post.retiring {
                turnover.retired.add(1);
                continue;
            }
            if fault.is_none() && was_dismissed {
                turnover.recycled.add(1);
                post.respawn_at = Some(clock());
                continue;
            }
            turnover.crashed.add(1);
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
