//! A server in virtual time, whose processes take a moment to start and retire by draining.

use std::time::Duration;

use super::super::*;

const MS: u64 = 1_000_000;
/// The usual time from a process's start until its workers are ready.
const BIRTH: Duration = Duration::from_millis(40);
/// A server whose load is a number of busy workers at each moment.
pub(super) struct Server {
    pub spare: Spare,
    /// Processes that serve.
    pub serving: usize,
    /// The times at which retiring processes are gone: their connections last a second.
    retiring: Vec<Instant>,
    births: Vec<Instant>,
    /// The time from a process's start until its workers are ready.
    pub birth: Duration,
    now: Instant,
    pub spawned: usize,
    pub retired: usize,
    /// How many times a client had to wait: workers missing, summed over the steps.
    pub starved: usize,
}

impl Server {
    pub fn new(policy: Policy, terms: Terms, start: usize) -> Server {
        let now = Instant::from_ns(1);
        let spare = super::spare(policy, terms);
        let (retiring, births, birth) = (Vec::new(), Vec::new(), BIRTH);
        let (spawned, retired, starved) = (0, 0, 0);
        Server { spare, serving: start, retiring, births, birth, now, spawned, retired, starved }
    }

    pub fn census(&self, load: usize) -> Census {
        let size = self.spare.terms().size;
        let ready = self.serving * size;
        let starting = self.births.len() * size;
        Census {
            idle: ready.saturating_sub(load) + starting,
            busy: load.min(ready),
            processes: self.serving + self.births.len() + self.retiring.len(),
            retiring: self.retiring.len(),
            waiting: load.saturating_sub(ready),
            starting: self
                .births
                .first()
                .map_or(Duration::ZERO, |moment| self.birth.saturating_sub(moment.since(self.now))),
        }
    }

    /// Lets 10 ms pass.
    pub fn step(&mut self, load: usize) {
        let now = self.now + Duration::from_nanos(10 * MS);
        self.now = now;
        let before = self.births.len();
        self.births.retain(|moment| *moment > now);
        self.serving += before - self.births.len();
        self.retiring.retain(|moment| *moment > now);
        self.starved += load.saturating_sub(self.serving * self.spare.terms().size);
        let census = self.census(load);
        match self.spare.look(now, &census).act {
            Act::Hold => {}
            Act::Spawn(count) => {
                self.spawned += count;
                self.births.extend(std::iter::repeat_n(now + self.birth, count));
            }
            Act::Retire(count) => {
                assert!(count <= self.serving + self.births.len(), "as many as there are");
                self.retired += count;
                let serving = count.min(self.serving);
                self.serving -= serving;
                self.births.truncate(self.births.len() - (count - serving));
                let gone = now + Duration::from_secs(1);
                self.retiring.extend(std::iter::repeat_n(gone, count));
            }
        }
    }

    pub fn run(&mut self, seconds: usize, mut load: impl FnMut(f64) -> usize) {
        for step in 0..seconds * 100 {
            self.step(load(step as f64 / 100.0));
        }
    }

    /// Workers that were started and ended.
    pub fn churn(&self) -> usize {
        (self.spawned + self.retired) * self.spare.terms().size
    }
}
