//! Two runs that share no blocks: by how much did the values shift?
//!
//! The estimate is the median of all differences between a value of the second run and a value of
//! the first. Its interval is made of two of those differences, whose ranks come from the exact
//! distribution of Mann and Whitney's U (Hollander, Wolfe and Chicken, *Nonparametric Statistical
//! Methods*, section 4.3). An interval of 95 % needs at least four values a side.

use super::{CONFIDENCE, Interval, median};
use serde::{Deserialize, Serialize};

/// A shift between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Median of the differences, second minus first.
    pub shift: f64,
    /// Its exact interval; absent below four values a side.
    pub interval: Option<Interval>,
}

/// The shift from `first` to `second`; `None` if either is empty.
pub fn shift(first: &[f64], second: &[f64]) -> Option<Shift> {
    let mut differences: Vec<f64> =
        first.iter().flat_map(|a| second.iter().map(move |b| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let middle = median(&differences)?;
    let interval = rank(first.len(), second.len()).map(|(rank, cover)| Interval {
        low: differences[rank - 1],
        high: differences[differences.len() - rank],
        cover,
    });
    Some(Shift { shift: middle, interval })
}

/// The rank (from 1) of the lower end among the differences, and the interval's coverage.
fn rank(m: usize, n: usize) -> Option<(usize, f64)> {
    let counts = u_counts(m, n);
    let all: f64 = counts.iter().sum();
    let tail_max = (1.0 - CONFIDENCE) / 2.0;
    let (mut tail, mut rank) = (0.0, 0);
    while rank < counts.len() && tail + counts[rank] / all <= tail_max {
        tail += counts[rank] / all;
        rank += 1;
    }
    (rank > 0).then_some((rank, 1.0 - 2.0 * tail))
}

/// In how many orders of `m` and `n` values U takes each value from 0 to mn: the coefficients of
/// the Gaussian binomial, by the recurrence f(m, n, u) = f(m - 1, n, u - n) + f(m, n - 1, u).
fn u_counts(m: usize, n: usize) -> Vec<f64> {
    // rows[j] holds the counts for (i, j) while i grows.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=n {
            let mut counts = vec![0.0; i * j + 1];
            for (u, count) in rows[j].iter().enumerate() {
                counts[u + j] += count;
            }
            for (u, count) in next[j - 1].iter().enumerate() {
                counts[u] += count;
            }
            next.push(counts);
        }
        rows = next;
    }
    rows.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_the_gaussian_binomials() {
        assert_eq!(u_counts(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(u_counts(1, 3), [1.0, 1.0, 1.0, 1.0]);
        assert_eq!(u_counts(6, 6).iter().sum::<f64>(), 924.0);
    }

    #[test]
    fn ranks_are_those_of_the_tables() {
        // U at or below 5 has 2.06 % for six values a side, so the sixth difference is the end.
        let (rank, cover) = rank(6, 6).expect("six values a side");
        assert_eq!(rank, 6);
        assert!((cover - (1.0 - 2.0 * 19.0 / 924.0)).abs() < 1e-12, "{cover}");
        assert_eq!(super::rank(3, 3), None);
    }

    #[test]
    fn a_shift_is_found() {
        let first = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let second = first.map(|value| value + 10.0);
        let found = shift(&first, &second).expect("values");
        assert!((found.shift - 10.0).abs() < 1e-12);
        let interval = found.interval.expect("six a side");
        assert!(interval.low < 10.0 && interval.high > 10.0 && interval.low > 5.0, "{found:?}");
        assert_eq!(shift(&[], &second), None);
    }
}
