//! Rounds in which every arm runs once, in random order, and the statistics of their ratios.
//!
//! A shared machine has no steady speed, but its phases last longer than one round. So each round
//! gives one ratio for each pair of arms, and the result is their median with its exact interval,
//! as everywhere in this tree (`stats`). A goal inside the interval is neither reached nor missed,
//! and is printed as unresolved.

use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use stats::Goal;

pub use stats::Rng;

/// The processor time of this thread: preemption by others does not add to it.
#[must_use]
pub fn thread_time() -> Duration {
    elapsed(ClockId::ThreadCPUTime)
}

/// The processor time that all threads of this process have used.
#[must_use]
pub fn process_time() -> Duration {
    elapsed(ClockId::ProcessCPUTime)
}

fn elapsed(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Nanoseconds of this thread's processor time that `work` takes, divided by `operations`.
pub fn ns_each(operations: u64, work: impl FnOnce()) -> f64 {
    let start = thread_time();
    work();
    (thread_time() - start).as_nanos() as f64 / operations.max(1) as f64
}

/// An arm: a name, and a run that returns its cost (any unit, less is better).
pub struct Arm<'a> {
    name: String,
    run: Box<dyn FnMut() -> f64 + 'a>,
}

impl<'a> Arm<'a> {
    /// An arm; `run` is called once a round and returns a cost above 0.
    pub fn new(name: &str, run: impl FnMut() -> f64 + 'a) -> Arm<'a> {
        Arm { name: name.to_owned(), run: Box::new(run) }
    }
}

/// The costs of all arms, round by round.
#[derive(Clone, Debug)]
pub struct Rounds {
    names: Vec<String>,
    /// `costs[arm][round]`.
    costs: Vec<Vec<f64>>,
}

impl Rounds {
    /// Runs every arm once as warm-up and then `rounds` times, in an order that `seed`
    /// draws for each round.
    pub fn run(arms: &mut [Arm<'_>], rounds: usize, seed: u64) -> Rounds {
        let mut costs = vec![Vec::with_capacity(rounds); arms.len()];
        let mut rng = Rng::new(seed);
        for round in 0..=rounds {
            for arm in rng.order(arms.len()) {
                let cost = (arms[arm].run)();
                if round > 0 {
                    costs[arm].push(cost);
                }
            }
        }
        Rounds { names: arms.iter().map(|arm| arm.name.clone()).collect(), costs }
    }

    /// The median cost of the arm called `name`.
    ///
    /// # Panics
    /// If no arm has that name.
    #[must_use]
    pub fn median(&self, name: &str) -> f64 {
        stats::median(self.of(name)).expect("at least one round")
    }

    /// The cost of `ours` over that of `theirs`, round by round.
    ///
    /// # Panics
    /// If no arm has one of the names.
    #[must_use]
    pub fn ratio(&self, ours: &str, theirs: &str) -> Ratio {
        let pairs = self.of(ours).iter().zip(self.of(theirs));
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
        Ratio::of(&ratios)
    }

    fn of(&self, name: &str) -> &[f64] {
        let at = self.names.iter().position(|known| known == name);
        &self.costs[at.unwrap_or_else(|| panic!("expected one of {:?}, found {name}", self.names))]
    }
}

/// A median of paired ratios with an interval that holds the true one in at least 95 of 100 runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The lower end of the interval; 0 where there are too few rounds for one.
    pub low: f64,
    /// The upper end; infinite where there are too few rounds.
    pub high: f64,
}

impl Ratio {
    /// The median of `ratios`, which is not empty.
    ///
    /// # Panics
    /// If `ratios` is empty.
    #[must_use]
    pub fn of(ratios: &[f64]) -> Ratio {
        let median = stats::median(ratios).expect("at least one round");
        match stats::median_interval(ratios) {
            Some(it) => Ratio { median, low: it.low, high: it.high },
            None => Ratio { median, low: 0.0, high: f64::INFINITY },
        }
    }

    /// The verdict on a cost that must not be above `goal` times the other's.
    #[must_use]
    pub fn against(&self, goal: f64) -> &'static str {
        let interval = stats::Interval { low: self.low, high: self.high, cover: stats::CONFIDENCE };
        Goal::word(Goal::AtMost(goal).decide(Some(&interval)))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.median, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_inside_the_interval_is_unresolved() {
        let ratio = Ratio::of(&(0..20).map(|at| 0.9 + f64::from(at) * 0.01).collect::<Vec<_>>());
        assert_eq!(ratio.against(0.8), "missed");
        assert_eq!(ratio.against(1.0), "unresolved");
        assert_eq!(ratio.against(1.2), "reached");
    }

    #[test]
    fn moods_that_last_a_round_cancel() {
        let mood = std::cell::Cell::new(1.0);
        let tick = || mood.set(mood.get() * 1.001);
        let mut arms = [
            Arm::new("ours", || (tick(), 2.0 * mood.get()).1),
            Arm::new("theirs", || (tick(), 4.0 * mood.get()).1),
        ];
        let rounds = Rounds::run(&mut arms, 30, 1);
        let ratio = rounds.ratio("ours", "theirs");
        assert!((0.49..0.51).contains(&ratio.median), "{ratio}");
        assert!(rounds.median("theirs") > 4.0);
    }
}
