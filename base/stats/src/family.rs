//! Many comparisons at once: the largest t under sign flips (Westfall and Young, *Resampling-Based
//! Multiple Testing*, 1993, step-down; Romano and Wolf, *Exact and Approximate Stepdown Methods for
//! Multiple Hypothesis Testing*, 2005), turned into intervals.
//!
//! Each block changes the sign of all its differences at once. An interval is the centre of a
//! comparison's differences and as many standard errors to both sides as the largest t of all
//! comparisons not yet distinguished reaches in one of twenty such choices. So equal servers
//! have an interval without zero anywhere in one race of twenty. Comparisons that share an arm
//! share its noise, so their number costs little, and ten blocks can decide 200 of them.

use crate::{CONFIDENCE, Rng, VALUES_MIN, median};
use std::collections::{BTreeMap, BTreeSet};

/// Choices of signs.
const DRAWS: usize = 1_000;
/// Differences count at the most this many times the usual spread of their kind.
const SPREADS_MAX: f64 = 4.0;

/// Both ends of each comparison's interval (log-ratios); `None` below six blocks.
pub(crate) fn family(all: &[(usize, Vec<Option<f64>>)], seed: u64) -> Vec<Option<(f64, f64)>> {
    let mut rows: Vec<Row> = all.iter().map(|(kind, logs)| Row::of(*kind, logs)).collect();
    bound(&mut rows);
    let blocks = all.iter().map(|it| it.1.len()).max().unwrap_or(0);
    let mut rng = Rng::new(seed);
    let mut signs =
        || -> Vec<f64> { (0..blocks).map(|_| if rng.unit() < 0.5 { 1.0 } else { -1.0 }).collect() };
    let drawn: Vec<Vec<f64>> = (0..DRAWS).map(|_| all_t(&rows, &signs())).collect();
    let observed = all_t(&rows, &vec![1.0; blocks]);
    let mut reach = vec![0.0; rows.len()];
    let mut open: Vec<usize> = (0..rows.len()).collect();
    loop {
        let most = reached(&drawn, &open);
        open.iter().for_each(|&at| reach[at] = most);
        let before = open.len();
        open.retain(|&at| observed[at] <= most);
        if open.is_empty() || open.len() == before {
            break;
        }
    }
    let ends = |(at, it): (usize, &Row)| {
        let error = match observed[at] > 0.0 {
            true => it.centre.abs() / observed[at],
            false => it.spread,
        };
        let half = reach[at] * error;
        (it.values.len() >= VALUES_MIN).then_some((it.centre - half, it.centre + half))
    };
    rows.iter().enumerate().map(ends).collect()
}

/// The t that the largest of these comparisons exceeds in one of twenty choices of signs.
fn reached(drawn: &[Vec<f64>], open: &[usize]) -> f64 {
    let largest = |t: &Vec<f64>| open.iter().map(|&at| t[at]).fold(0.0, f64::max);
    let mut all: Vec<f64> = drawn.iter().map(largest).collect();
    all.sort_by(f64::total_cmp);
    all[(CONFIDENCE * DRAWS as f64) as usize]
}

/// The differences of one comparison.
struct Row {
    kind: usize,
    /// (block, difference).
    values: Vec<(usize, f64)>,
    centre: f64,
    mean_square: f64,
    /// Its standard error next to one like it, for a centre of zero.
    spread: f64,
}

impl Row {
    fn of(kind: usize, logs: &[Option<f64>]) -> Row {
        let known = logs.iter().enumerate().filter_map(|(block, it)| Some((block, (*it)?)));
        Row { kind, values: known.collect(), centre: 0.0, mean_square: 0.0, spread: 0.0 }
    }

    fn count(&self) -> f64 {
        self.values.len().max(1) as f64
    }

    /// The median, and the median distance from it.
    fn middle(&self) -> (f64, f64) {
        let values: Vec<f64> = self.values.iter().map(|it| it.1).collect();
        let middle = median(&values).unwrap_or(0.0);
        let distances: Vec<f64> = values.iter().map(|it| (it - middle).abs()).collect();
        (middle, median(&distances).unwrap_or(0.0))
    }
}

/// Bounds the distances of each kind from their median by a few times its usual spread, so that one
/// block in which the machine was disturbed cannot outweigh all others.
fn bound(rows: &mut [Row]) {
    let kinds: BTreeSet<usize> = rows.iter().map(|it| it.kind).collect();
    for kind in kinds {
        let spreads = rows.iter().filter(|it| it.kind == kind).map(|it| it.middle().1);
        let most = median(&spreads.collect::<Vec<f64>>()).unwrap_or(0.0) * SPREADS_MAX;
        for row in rows.iter_mut().filter(|it| it.kind == kind) {
            let (middle, _) = row.middle();
            if most > 0.0 {
                let bounded = |it: f64| middle + (it - middle).clamp(-most, most);
                row.values.iter_mut().for_each(|(_, value)| *value = bounded(*value));
            }
            let (sum, squares) = row
                .values
                .iter()
                .fold((0.0, 0.0), |(sum, squares), (_, it)| (sum + it, squares + it * it));
            row.centre = sum / row.count();
            row.mean_square = squares / row.count();
            row.spread = (2.0 * row.mean_square / row.count()).sqrt();
        }
    }
}

/// The t of each comparison under a choice of signs. A variance from few blocks is often far too
/// small by chance, so each is taken together with the median of its kind (Tusher, Tibshirani and
/// Chu, *Significance analysis of microarrays*, 2001).
fn all_t(rows: &[Row], signs: &[f64]) -> Vec<f64> {
    let moment = |it: &Row| {
        let sum: f64 = it.values.iter().map(|&(block, value)| signs[block] * value).sum();
        let mean = sum / it.count();
        (mean, (it.mean_square - mean * mean).max(0.0))
    };
    let moments: Vec<(f64, f64)> = rows.iter().map(moment).collect();
    let mut variances: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (it, moment) in rows.iter().zip(&moments).filter(|(it, _)| !it.values.is_empty()) {
        variances.entry(it.kind).or_default().push(moment.1);
    }
    let typical: BTreeMap<usize, f64> =
        variances.iter().filter_map(|(kind, all)| Some((*kind, median(all)?))).collect();
    let t = |(it, &(mean, variance)): (&Row, &(f64, f64))| {
        let variance = variance + typical.get(&it.kind).unwrap_or(&0.0);
        let error = (variance / it.count()).sqrt();
        // The same numbers in another order differ in their last bits.
        let least = 1e-9 * it.mean_square.sqrt();
        if mean.abs() <= least { 0.0 } else { mean.abs() / error.max(least) }
    };
    rows.iter().zip(&moments).map(t).collect()
}
