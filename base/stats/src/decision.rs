//! The decision on one paired comparison, the only place where evidence becomes a word.
//!
//! Better and worse need an interval that excludes no difference, and an estimate that is farther
//! from 1 than the baseline's own twin (A/A). Equal needs an interval wholly inside the margin that
//! was declared beforehand. Everything else is open, with a forecast of the blocks that would
//! settle it. Headlines, tables, gates and exports all ask [`decide`], so they cannot disagree.

use crate::{Comparison, Interval, VALUES_MIN, settles_after};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The decision that evidence allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Better than the baseline, or than a goal demands.
    Better,
    /// Worse than the baseline, or than a goal allows.
    Worse,
    /// The same, within the margin.
    #[serde(rename = "equivalent")]
    Equal,
    /// Nothing can be concluded.
    #[serde(rename = "unresolved")]
    Open,
}

/// The direction that is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better: requests per second.
    More,
    /// Less is better: time, memory.
    Less,
}

/// The thresholds that a difference has to exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The direction that is better.
    pub better: Better,
    /// The noise floor, a log-ratio; see [`Comparison::floor`]. 0 without a twin.
    pub floor: f64,
    /// The largest share that counts as no difference: 0.03 = 3 %.
    pub margin: f64,
}

impl Decision {
    /// Whether the arms differ.
    pub fn is_difference(self) -> bool {
        matches!(self, Decision::Better | Decision::Worse)
    }

    /// The decision on a value that should be on this side of a bound.
    pub(crate) fn by_side(side: Option<Ordering>, better: Better) -> Decision {
        match (side, better) {
            (None | Some(Ordering::Equal), _) => Decision::Open,
            (Some(Ordering::Greater), Better::More) | (Some(Ordering::Less), Better::Less) => {
                Decision::Better
            }
            (Some(_), _) => Decision::Worse,
        }
    }
}

impl Interval {
    /// The side of `bound` on which the whole interval lies.
    pub fn side(&self, bound: f64) -> Option<Ordering> {
        match (self.low > bound, self.high < bound) {
            (true, _) => Some(Ordering::Greater),
            (_, true) => Some(Ordering::Less),
            _ => None,
        }
    }
}

/// Decides on a comparison; without an interval it is open.
pub fn decide(comparison: &Comparison, terms: Terms) -> Decision {
    let Some(interval) = comparison.interval else { return Decision::Open };
    let room = 1.0 + terms.margin;
    if interval.low > 1.0 / room && interval.high < room {
        return Decision::Equal;
    }
    Decision::by_side(comparison.beyond(1.0, terms.floor), terms.better)
}

/// The number of blocks in all that would probably settle an open comparison.
pub fn forecast(comparison: &Comparison, terms: Terms) -> Option<u32> {
    let Some(interval) = comparison.interval else { return Some(VALUES_MIN as u32) };
    let (blocks, centre) = (comparison.log_ratios.len(), comparison.ratio.ln());
    let half = (interval.high.ln() - interval.low.ln()) / 2.0;
    let room = terms.margin.ln_1p();
    (decide(comparison, terms) == Decision::Open)
        .then(|| settles_after(blocks, centre, half, terms.floor, room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::tests::normal;
    use crate::{Rng, compare, compare_all};

    #[test]
    fn a_difference_exceeds_the_floor_and_equality_stays_inside_the_margin() {
        fn check(low: f64, high: f64, floor: f64, want: Decision) {
            let pairs: Vec<(f64, f64)> =
                (0..6).map(|at| (low + (high - low) * f64::from(at) / 5.0, 1.0)).collect();
            let found = compare(&pairs).expect("six pairs");
            let terms = Terms { better: Better::Less, floor: floor.ln_1p(), margin: 0.05 };
            assert_eq!(decide(&found, terms), want, "{low} {high} {floor}");
            assert_eq!(forecast(&found, terms).is_some(), want == Decision::Open);
        }
        check(2.0, 2.2, 0.01, Decision::Worse);
        check(0.5, 0.6, 0.01, Decision::Better);
        check(0.99, 1.02, 0.03, Decision::Equal);
        check(1.2, 1.4, 0.5, Decision::Open);
        check(0.9, 1.1, 0.0, Decision::Open);
        let found = compare(&[(2.0, 1.0)]).expect("a pair");
        let terms = Terms { better: Better::More, floor: 0.0, margin: 0.05 };
        assert_eq!((decide(&found, terms), forecast(&found, terms)), (Decision::Open, Some(6)));
    }

    /// A pair of arms and its log-ratio of each block.
    type Pair = (usize, Vec<Option<f64>>);

    /// Log-ratios of all pairs of arms, each with a noise of 2 % and a separate shift, and the
    /// noise floor: the distance of the first one's twin from it.
    fn pairs(shifts: &[f64], blocks: usize, rng: &mut Rng) -> (Vec<Pair>, f64) {
        let mut arm =
            |shift: &f64| -> Vec<f64> { (0..blocks).map(|_| shift + 0.02 * normal(rng)).collect() };
        let arms: Vec<Vec<f64>> = shifts.iter().map(&mut arm).collect();
        let twin = arm(&0.0).iter().zip(&arms[0]).map(|(a, b)| a - b).collect();
        let floor = Comparison::of(twin).map_or(0.0, |it| it.floor());
        let mut found = Vec::new();
        for (at, first) in arms.iter().enumerate() {
            for second in &arms[at + 1..] {
                found.push((0, first.iter().zip(second).map(|(a, b)| Some(b - a)).collect()));
            }
        }
        (found, floor)
    }

    /// How many of `races` have a difference in any comparison, and in the first.
    fn races(races: u64, shifts: &[f64], blocks: usize) -> (usize, usize) {
        let mut rng = Rng::new(blocks as u64 + 100 * shifts.len() as u64);
        let (mut any, mut first) = (0, 0);
        for race in 0..races {
            let (pairs, floor) = pairs(shifts, blocks, &mut rng);
            let terms = Terms { better: Better::Less, floor, margin: 1e-9 };
            let found = compare_all(&pairs, race);
            let differs: Vec<bool> =
                found.iter().flatten().map(|it| decide(it, terms).is_difference()).collect();
            any += usize::from(differs.contains(&true));
            first += usize::from(differs[0]);
        }
        (any, first)
    }

    #[test]
    fn a_thousand_races_of_twins_have_a_false_winner_in_fifty_at_the_most() {
        for blocks in [6, 10, 22] {
            let (wrong, _) = races(1_000, &[0.0; 2], blocks);
            assert!(wrong <= 50, "{wrong} of 1000 pairs, {blocks} blocks");
        }
        let (wrong, _) = races(1_000, &[0.0; 4], 10);
        assert!(wrong <= 50, "{wrong} of 1000 races of four arms");
        let (wrong, _) = races(100, &[0.0; 15], 10);
        assert!(wrong <= 9, "{wrong} of 100 races of fifteen arms");
    }

    #[test]
    fn planted_differences_are_found() {
        // Noise of 2 % an arm, 2.8 % a ratio: (blocks, difference, share found).
        for (blocks, difference, least) in [(22, 0.03, 0.9), (10, 0.05, 0.9), (6, 0.10, 0.9)] {
            let (_, found) = races(200, &[0.0, difference], blocks);
            let share = found as f64 / 200.0;
            assert!(share >= least, "{share} of {difference} in {blocks} blocks");
        }
        let mut shifts = [0.06; 15];
        (shifts[0], shifts[14]) = (0.0, 0.5);
        let (_, found) = races(20, &shifts, 10);
        assert!(found >= 15, "{found} of 20 races of fifteen arms");
    }

    #[test]
    fn gaps_and_few_blocks_have_no_interval() {
        let gaps = vec![Some(1.0), None, Some(-1.0), None, Some(0.0)];
        let found = compare_all(&[(0, vec![None; 5]), (1, gaps)], 1);
        assert_eq!(found[0], None);
        assert_eq!(found[1].as_ref().map(|it| it.interval), Some(None));
        assert_eq!(compare_all(&[], 1), Vec::new());
    }
}
