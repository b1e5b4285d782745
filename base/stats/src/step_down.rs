//! Many comparisons at once: the largest t under sign flips (Westfall and Young, *Resampling-Based
//! Multiple Testing*, 1993, step-down; Romano and Wolf, *Exact and Approximate Stepdown Methods for
//! Multiple Hypothesis Testing*, 2005).
//!
//! Holm's correction multiplies a p, and ten blocks cannot give a p that survives 200 comparisons.
//! Here all comparisons are tested together: each block changes the sign of all its differences at
//! once, and the corrected p of a comparison is the share of such choices in which the largest t
//! of the comparisons that are not yet decided reaches its own. Comparisons that share an arm share
//! its noise, so their number costs little, and six blocks can decide all of them.

use crate::{Rng, median};
use std::collections::{BTreeMap, BTreeSet};

/// Choices of signs, the observed one included.
const DRAWS: usize = 1_000;
/// Differences count at the most this many times the usual spread of their kind.
const SPREADS_MAX: f64 = 4.0;

/// The corrected two-sided p of each comparison; rejecting those at or below 0.05 is wrong anywhere
/// with a probability of about 5 %.
///
/// Each comparison has its kind (the same metric at the same load point) and its difference in each
/// block (a log-ratio), `None` where it has none. Comparisons of one kind have a similar noise.
pub fn step_down_p(comparisons: &[(usize, Vec<Option<f64>>)], seed: u64) -> Vec<f64> {
    let blocks = comparisons.iter().map(|it| it.1.len()).max().unwrap_or(0);
    let mut known: Vec<Known> =
        comparisons.iter().map(|(kind, all)| Known::of(*kind, all)).collect();
    bound(&mut known);
    let observed = all_t(&known, &vec![1.0; blocks]);
    let mut order: Vec<usize> = (0..known.len()).collect();
    order.sort_by(|&a, &b| observed[a].total_cmp(&observed[b]));
    let mut rng = Rng::new(seed);
    let mut reached = vec![1_usize; known.len()];
    for _ in 1..DRAWS {
        let signs: Vec<f64> =
            (0..blocks).map(|_| if rng.unit() < 0.5 { 1.0 } else { -1.0 }).collect();
        let drawn = all_t(&known, &signs);
        let mut largest = 0.0_f64;
        for &at in &order {
            largest = largest.max(drawn[at]);
            // The same numbers in another order differ in their last bits.
            reached[at] += usize::from(largest >= observed[at] * (1.0 - 1e-9));
        }
    }
    let mut found = vec![1.0; known.len()];
    let mut least = 0.0_f64;
    for &at in order.iter().rev() {
        least = least.max(reached[at] as f64 / DRAWS as f64);
        found[at] = least;
    }
    found
}

/// The differences of one comparison.
struct Known {
    kind: usize,
    /// (block, difference).
    values: Vec<(usize, f64)>,
    mean_square: f64,
}

impl Known {
    fn of(kind: usize, differences: &[Option<f64>]) -> Known {
        let known = differences.iter().enumerate();
        let values = known.filter_map(|(block, it)| Some((block, (*it)?))).collect();
        Known { kind, values, mean_square: 0.0 }
    }

    /// The median distance of its differences from their median.
    fn spread(&self) -> Option<f64> {
        let values: Vec<f64> = self.values.iter().map(|it| it.1).collect();
        let middle = median(&values)?;
        median(&values.iter().map(|it| (it - middle).abs()).collect::<Vec<f64>>())
    }
}

/// Bounds the differences of each kind by a few times its usual spread, so that one block in which
/// the machine was disturbed cannot outweigh all others. Both signs are bounded alike, so the sign
/// flips stay a test.
fn bound(known: &mut [Known]) {
    let kinds: BTreeSet<usize> = known.iter().map(|it| it.kind).collect();
    for kind in kinds {
        let spreads = known.iter().filter(|it| it.kind == kind).filter_map(Known::spread);
        let most = median(&spreads.collect::<Vec<f64>>()).unwrap_or(0.0) * SPREADS_MAX;
        for it in known.iter_mut().filter(|it| it.kind == kind) {
            if most > 0.0 {
                it.values.iter_mut().for_each(|(_, value)| *value = value.clamp(-most, most));
            }
            let squares = it.values.iter().map(|(_, value)| value * value).sum::<f64>();
            it.mean_square = squares / it.values.len().max(1) as f64;
        }
    }
}

/// The t of each comparison under a choice of signs. A variance from few blocks is often far too
/// small by chance, so each is taken together with the median of its kind (Tusher, Tibshirani and
/// Chu, *Significance analysis of microarrays*, 2001).
fn all_t(known: &[Known], signs: &[f64]) -> Vec<f64> {
    let mut variances: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let moment = |it: &Known| {
        let sum: f64 = it.values.iter().map(|&(block, value)| signs[block] * value).sum();
        let mean = sum / it.values.len().max(1) as f64;
        (mean, (it.mean_square - mean * mean).max(0.0))
    };
    let moments: Vec<(f64, f64)> = known.iter().map(moment).collect();
    for (it, moment) in known.iter().zip(&moments).filter(|(it, _)| !it.values.is_empty()) {
        variances.entry(it.kind).or_default().push(moment.1);
    }
    let typical: BTreeMap<usize, f64> =
        variances.iter().filter_map(|(kind, all)| Some((*kind, median(all)?))).collect();
    let t = |(it, &(mean, variance)): (&Known, &(f64, f64))| {
        let variance = variance + typical.get(&it.kind).unwrap_or(&0.0);
        let error = (variance / it.values.len().max(1) as f64).sqrt();
        if mean == 0.0 { 0.0 } else { mean.abs() / error.max(f64::MIN_POSITIVE) }
    };
    known.iter().zip(&moments).map(t).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pairs of `arms`, whose logarithms in each block are given.
    fn pairs(arms: &[Vec<f64>]) -> Vec<(usize, Vec<Option<f64>>)> {
        let mut found = Vec::new();
        for (at, first) in arms.iter().enumerate() {
            for second in &arms[at + 1..] {
                found.push((0, first.iter().zip(second).map(|(a, b)| Some(a - b)).collect()));
            }
        }
        found
    }

    /// Arms with a spread of 2 % and a shift of their own, in blocks that disturb all of them.
    fn arms(shifts: &[f64], blocks: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
        let mut noise = |spread: f64| spread * (rng.unit() + rng.unit() + rng.unit() - 1.5) * 2.0;
        let shared: Vec<f64> = (0..blocks).map(|_| noise(0.1)).collect();
        let arm = |shift: &f64| shared.iter().map(|it| it + shift + noise(0.02)).collect();
        shifts.iter().map(arm).collect()
    }

    #[test]
    fn fifteen_equal_arms_differ_in_one_race_of_twenty() {
        let mut rng = Rng::new(3);
        let wrong = |_: &i32| {
            let found = step_down_p(&pairs(&arms(&[0.0; 15], 10, &mut rng)), 1);
            found.iter().any(|p| *p <= 0.05)
        };
        let wrong = (0..100).filter(wrong).count();
        assert!((1..=10).contains(&wrong), "{wrong} of 100 races");
    }

    #[test]
    fn ten_blocks_decide_two_hundred_comparisons() {
        let mut shifts = [0.05; 15];
        (shifts[0], shifts[14]) = (0.0, 0.5);
        let mut rng = Rng::new(4);
        let decided = |race: u64| {
            let found = step_down_p(&pairs(&arms(&shifts, 10, &mut rng)), race);
            // The first 14 comparisons are those with the cheapest arm.
            found[..14].iter().filter(|p| **p <= 0.05).count()
        };
        let decided: usize = (0..20).map(decided).sum();
        assert!(decided >= 19 * 14, "{decided} of 280 comparisons");
    }

    #[test]
    fn a_disturbed_block_hides_no_difference() {
        let mut rng = Rng::new(5);
        let mut shifts = [0.05; 8];
        shifts[0] = 0.0;
        let decided = |race: u64| {
            let mut all = arms(&shifts, 20, &mut rng);
            // A block in which something else took the machine from the cheapest arm.
            all[0][3] += 0.4;
            step_down_p(&pairs(&all), race)[..7].iter().filter(|p| **p <= 0.05).count()
        };
        let decided: usize = (0..20).map(decided).sum();
        assert!(decided >= 18 * 7, "{decided} of 140 comparisons");
    }

    #[test]
    fn few_blocks_and_missing_ones() {
        let five: Vec<Option<f64>> = (0..5).map(|it| Some(1.0 + f64::from(it) / 10.0)).collect();
        let found = step_down_p(&[(0, five)], 1)[0];
        assert!((0.05..0.08).contains(&found), "2 of 32 choices: {found}");
        let none = vec![None; 5];
        let gaps = vec![Some(1.0), None, Some(-1.0), None, Some(0.0)];
        assert_eq!(step_down_p(&[(0, none), (1, gaps)], 1), [1.0, 1.0]);
        assert_eq!(step_down_p(&[], 1), Vec::<f64>::new());
    }
}
