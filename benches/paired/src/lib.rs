//! Rounds in which every arm runs once, in random order, and what their ratios say.
//!
//! A machine that others use has no steady speed, but its moods last longer than one round. So
//! each round gives one ratio for each pair of arms, and the answer is the median of those with
//! the order-statistic interval of a median (David and Nagaraja, "Order Statistics", 3rd ed.,
//! section 7.1): no distribution is assumed. The surprising thing: an interval that lies on both
//! sides of a goal is neither reached nor missed, and is printed as what it is.

use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time that this thread has used: what preemption by others does not add to.
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

/// Something that is measured: a name, and a run that returns its cost (any unit, below is better).
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
    /// Runs every arm once as warm-up and then `rounds` times, in an order that `seed` shuffles
    /// anew for each round.
    pub fn run(arms: &mut [Arm<'_>], rounds: usize, seed: u64) -> Rounds {
        let mut order: Vec<usize> = (0..arms.len()).collect();
        let mut costs = vec![Vec::with_capacity(rounds); arms.len()];
        let mut rng = Rng(seed);
        for round in 0..=rounds {
            for last in (1..order.len()).rev() {
                order.swap(last, rng.below(last + 1));
            }
            for &arm in &order {
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
        let mut sorted = self.of(name).to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// The cost of `ours` over that of `theirs`, round by round.
    ///
    /// # Panics
    /// If no arm has one of the names.
    #[must_use]
    pub fn ratio(&self, ours: &str, theirs: &str) -> Ratio {
        let pairs = self.of(ours).iter().zip(self.of(theirs));
        Ratio::of(pairs.map(|(ours, theirs)| ours / theirs).collect())
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
    pub fn of(mut ratios: Vec<f64>) -> Ratio {
        assert!(!ratios.is_empty(), "expected at least one round");
        ratios.sort_by(f64::total_cmp);
        let (count, middle) = (ratios.len(), ratios.len() / 2);
        let median = if count % 2 == 1 {
            ratios[middle]
        } else {
            f64::midpoint(ratios[middle - 1], ratios[middle])
        };
        match outer_rank(count) {
            Some(rank) => Ratio { median, low: ratios[rank], high: ratios[count - 1 - rank] },
            None => Ratio { median, low: 0.0, high: f64::INFINITY },
        }
    }

    /// What this says about a cost that must not be above `goal` times the other's.
    #[must_use]
    pub fn against(&self, goal: f64) -> Verdict {
        if self.high <= goal {
            Verdict::Reached
        } else if self.low > goal {
            Verdict::Missed
        } else {
            Verdict::Unresolved
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.median, self.low, self.high)
    }
}

/// What a ratio says about a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is at or below the goal.
    Reached,
    /// The whole interval is above the goal.
    Missed,
    /// The interval lies on both sides.
    Unresolved,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "MISSED",
            Verdict::Unresolved => "unresolved",
        })
    }
}

/// The largest rank, from 0, whose order statistic and its mirror enclose the median of `count`
/// samples with 95 % confidence: the binomial tail below it is at most 2.5 %.
fn outer_rank(count: usize) -> Option<usize> {
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut tail = 0.0;
    let mut rank = None;
    for at in 0..count / 2 {
        tail += term;
        if tail > 0.025 {
            break;
        }
        rank = Some(at);
        term *= (count - at) as f64 / (at + 1) as f64;
    }
    rank
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), for shuffles and workloads.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`; `bound` is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_tabulated_one() {
        // Conover, "Practical Nonparametric Statistics": for n = 20 the 6th and the 15th.
        assert_eq!(outer_rank(20), Some(5));
        assert_eq!((outer_rank(5), outer_rank(6)), (None, Some(0)));
    }

    #[test]
    fn a_goal_inside_the_interval_is_unresolved() {
        let ratio = Ratio::of((0..20).map(|at| 0.9 + f64::from(at) * 0.01).collect());
        assert_eq!(ratio.against(0.8), Verdict::Missed);
        assert_eq!(ratio.against(1.0), Verdict::Unresolved);
        assert_eq!(ratio.against(1.2), Verdict::Reached);
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
