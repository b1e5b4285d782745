//! The interval of one comparison: the inversion of Wilcoxon's signed-rank test.
//!
//! The interval holds every difference that the test does not reject, so it excludes no difference
//! exactly when the test finds one. Its ends are two of the means of all pairs of values (Walsh
//! averages), whose median is the Hodges-Lehmann estimate (Hollander and Wolfe, *Nonparametric
//! Statistical Methods*, section 3.3). It is exact where the values are symmetric about their
//! centre, as log-ratios of equals are.

use crate::{CONFIDENCE, Interval, median_interval};

/// Above this number of values the number of pairs costs more than it tells: the median and its
/// interval stand in.
const PAIRED_MAX: usize = 1_000;
/// Above this number of values the ranks come from the normal distribution, which is then off by
/// less than one rank.
const EXACT_MAX: usize = 60;

/// The means of all pairs of values, each value with itself included, sorted.
fn walsh(values: &[f64]) -> Vec<f64> {
    let pairs = values.iter().enumerate();
    let mut means: Vec<f64> =
        pairs.flat_map(|(at, a)| values[at..].iter().map(move |b| (a + b) / 2.0)).collect();
    means.sort_by(f64::total_cmp);
    means
}

/// The median of all means of two values (Hodges and Lehmann, *Estimates of location based on rank
/// tests*, 1963): less noisy than the median where values are symmetric.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    match values.len() > PAIRED_MAX {
        true => crate::median(values),
        false => crate::median(&walsh(values)),
    }
}

/// The interval of the Hodges-Lehmann estimate with 95 % or more; `None` below six values.
pub fn signed_rank_interval(values: &[f64]) -> Option<Interval> {
    if values.len() > PAIRED_MAX {
        return median_interval(values);
    }
    let (rank, cover) = rank(values.len())?;
    let means = walsh(values);
    Some(Interval { low: means[rank - 1], high: means[means.len() - rank], cover })
}

/// The rank (from 1) of the lower end among the means, and the coverage.
fn rank(n: usize) -> Option<(usize, f64)> {
    let tail_max = (1.0 - CONFIDENCE) / 2.0;
    if n > EXACT_MAX {
        let n = n as f64;
        let (mean, variance) = (n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0);
        return Some(((mean - 1.959_964 * variance.sqrt()) as usize, CONFIDENCE));
    }
    let (mut tail, mut rank) = (0.0, 0);
    for share in shares(n) {
        if tail + share > tail_max {
            break;
        }
        tail += share;
        rank += 1;
    }
    (rank > 0).then_some((rank, 1.0 - 2.0 * tail))
}

/// The probability of each sum of positive ranks: every rank from 1 to `n` counts or not.
fn shares(n: usize) -> Vec<f64> {
    let mut shares = vec![0.0; n * (n + 1) / 2 + 1];
    shares[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..shares.len()).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |rest| shares[rest]);
            shares[sum] = (shares[sum] + with) / 2.0;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use crate::interval::tests::draw;

    #[test]
    fn ranks_are_those_of_the_tables() {
        // The critical values of the signed-rank test, 5 % on two sides: one less than the rank.
        for (n, critical) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52)]
        {
            assert_eq!(rank(n).map(|it| it.0), Some(critical + 1), "{n} values");
        }
        assert_eq!(rank(5), None);
        let (exact, near) = (rank(60).expect("ranks").0, rank(61).expect("ranks").0);
        assert!((20..40).contains(&(near - exact)), "{exact} and {near}");
    }

    #[test]
    fn the_interval_covers_the_centre_of_symmetric_values() {
        for (at, kind) in ["normal", "contaminated", "drifting"].into_iter().enumerate() {
            for n in [6, 10, 20, 70] {
                let mut rng = Rng::new(300 + 10 * at as u64 + n as u64);
                let holds = |_: &i32| {
                    let values: Vec<f64> = (0..n).map(|_| draw(kind, &mut rng)).collect();
                    let it = signed_rank_interval(&values).expect("six values or more");
                    it.low <= 0.0 && 0.0 <= it.high
                };
                let cover = (0..2_000).filter(holds).count() as f64 / 2_000.0;
                assert!((0.935..=0.985).contains(&cover), "{kind} n {n}: {cover}");
            }
        }
    }
}
