//! Numbers from few blocks, without believing in the normal distribution.
//!
//! Every arm gives one number per block and metric. The estimate is the median over blocks of the
//! paired log-ratio `ln(arm / baseline)`; its interval is made of two of the observed values, whose
//! ranks come from the binomial distribution (Hahn and Meeker, *Statistical Intervals*, section
//! 5.2). It is exact for every continuous distribution, which is its whole charm: run-to-run times
//! are seldom normal (Maricq et al., OSDI 2018). The surprising thing is the price: with fewer than
//! six blocks there is no 95 % interval at all.

mod flip;
mod shift;
mod usl;

pub use flip::{EXACT_MAX, blocks_for_family, holm, p_least, sign_flip_p};
pub use shift::{Shift, shift};
pub use usl::{Usl, UslFit, fit, fit_blocks};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

/// The confidence that every interval here is made for.
pub const CONFIDENCE: f64 = 0.95;

/// The fewest values for which the extremes cover the median with 95 %: 1 - 2 / 2^6 = 96.9 %.
pub const VALUES_MIN: usize = 6;

/// An interval, in the unit of the values it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The probability that such an interval holds the true value, 0 to 1.
    pub cover: f64,
}

impl Interval {
    /// Half of its width.
    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Its end that is farther from zero, without sign.
    pub fn reach(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// Both ends through `exp`: from log-ratios to ratios.
    pub fn exp(&self) -> Interval {
        Interval { low: self.low.exp(), high: self.high.exp(), cover: self.cover }
    }
}

/// The median; the mean of the two in the middle when the count is even. `None` for no value.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Ranks (from 1) of the narrowest symmetric pair of order statistics that covers the median of
/// `n` values with at least 95 %, and what it really covers. `None` below six values.
pub fn median_ranks(n: usize) -> Option<(usize, usize, f64)> {
    // P(fewer than k of n fair coins show heads), summed until a tail would exceed 2.5 %.
    let tail_max = (1.0 - CONFIDENCE) / 2.0;
    let mut term = 0.5_f64.powi(i32::try_from(n).ok()?);
    let (mut tail, mut low) = (0.0, 0);
    while low < n && tail + term <= tail_max {
        tail += term;
        low += 1;
        term *= (n - low + 1) as f64 / low as f64;
    }
    (low > 0).then(|| (low, n + 1 - low, 1.0 - 2.0 * tail))
}

/// The exact order-statistic interval of the median. `None` below six values.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let (low, high, cover) = median_ranks(values.len())?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(Interval { low: sorted[low - 1], high: sorted[high - 1], cover })
}

/// The median of all means of two values, one with itself included (Hodges and Lehmann, *Estimates
/// of location based on rank tests*, 1963): less noisy than the median where values are symmetric.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let pairs = values.iter().enumerate();
    let means: Vec<f64> =
        pairs.flat_map(|(at, a)| values[at..].iter().map(move |b| (a + b) / 2.0)).collect();
    median(&means)
}

/// Standard deviation of a normal distribution whose median distance from the median is that of
/// `values`: 1.4826 times it (Huber and Ronchetti, *Robust Statistics*, section 5.1). `None` below
/// two values.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values).filter(|_| values.len() >= 2)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances).map(|distance| 1.4826 * distance)
}

/// The fewest blocks with which the exact interval of the median leaves 1 out in four of five
/// races, where a block's log-ratio is normal with this `spread` and the arms differ by
/// `difference` (0.05 = 5 %). The interval's lower end lies above zero when enough of the blocks
/// do, so the chance is a binomial one. At least as many as an interval needs; [`BLOCKS_ASKED`] + 1
/// where that is not enough.
pub fn blocks_needed(spread: f64, difference: f64) -> u32 {
    let above = normal_share((1.0 + difference).ln() / spread.max(1e-12));
    let finds = |n: u32| {
        let Some((rank, ..)) = median_ranks(n as usize) else { return false };
        // P(at most rank - 1 of n blocks lie below zero).
        let below = 1.0 - above;
        let mut term = above.powi(n as i32);
        let mut sum = term;
        for k in 1..rank {
            term *= (n as usize - k + 1) as f64 / k as f64 * below / above;
            sum += term;
        }
        sum >= 0.8
    };
    (VALUES_MIN as u32..=BLOCKS_ASKED).find(|&n| finds(n)).unwrap_or(BLOCKS_ASKED + 1)
}

/// Beyond so many blocks nobody looks for an answer.
pub const BLOCKS_ASKED: u32 = 1_000;

/// The share of a standard normal distribution below `x` (Abramowitz and Stegun, *Handbook of
/// Mathematical Functions*, 26.2.17: to 7.5e-8).
fn normal_share(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum;
    if x >= 0.0 { 1.0 - tail } else { tail }
}

/// The bootstrap-t interval of the mean over blocks (Efron and Tibshirani, *An Introduction to the
/// Bootstrap*, chapter 12): `resamples` seeded resamples of the values, each studentised by its own
/// standard error. It is the second opinion, nominal 95 %; `None` below six values or when they
/// do not vary.
pub fn bootstrap_t(values: &[f64], resamples: usize, seed: u64) -> Option<Interval> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let (mean, error) = mean_and_error(values.iter().copied());
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut pivots = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        let picks: Vec<f64> =
            values.iter().map(|_| values[rng.random_range(0..values.len())]).collect();
        let (m, e) = mean_and_error(picks.iter().copied());
        if e > 0.0 {
            pivots.push((m - mean) / e);
        }
    }
    pivots.sort_by(f64::total_cmp);
    let at = |share: f64| pivots.get((share * pivots.len() as f64) as usize).copied();
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let (below, above) = (at(tail)?, at(1.0 - tail)?);
    let cover = CONFIDENCE;
    Some(Interval { low: mean - above * error, high: mean - below * error, cover })
}

/// Mean and its standard error (with n - 1 in the variance).
fn mean_and_error(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let squares = values.map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

/// A paired comparison of one metric: arm against baseline, block by block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// `ln(arm / baseline)` of each block in which both were measured.
    pub log_ratios: Vec<f64>,
    /// Median ratio arm / baseline.
    pub ratio: f64,
    /// The exact interval of the ratio; absent below six blocks.
    pub interval: Option<Interval>,
    /// The bootstrap interval of the geometric mean ratio; absent below six blocks.
    pub bootstrap: Option<Interval>,
}

/// Compares pairs of positive values (arm, baseline). `None` when no pair is usable. The bootstrap
/// is left out for 0 resamples.
pub fn compare(pairs: &[(f64, f64)], resamples: usize, seed: u64) -> Option<Comparison> {
    let usable = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0);
    let log_ratios: Vec<f64> = usable.map(|(a, b)| (a / b).ln()).collect();
    let ratio = median(&log_ratios)?.exp();
    let interval = median_interval(&log_ratios).map(|it| it.exp());
    let bootstrap = bootstrap_t(&log_ratios, resamples, seed).map(|it| it.exp());
    Some(Comparison { log_ratios, ratio, interval, bootstrap })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_binomial() {
        fn check(n: usize, want: Option<(usize, usize, f64)>) {
            let found = median_ranks(n);
            let same = match (found, want) {
                (None, None) => true,
                (Some(f), Some(w)) => (f.0, f.1) == (w.0, w.1) && (f.2 - w.2).abs() < 0.0006,
                _ => false,
            };
            assert!(same, "n {n}: expected {want:?}, found {found:?}");
        }
        check(0, None);
        check(5, None);
        check(6, Some((1, 6, 0.969)));
        check(8, Some((1, 8, 0.992)));
        check(9, Some((2, 8, 0.961)));
        check(10, Some((2, 9, 0.979)));
        check(12, Some((3, 10, 0.961)));
        check(15, Some((4, 12, 0.965)));
        check(20, Some((6, 15, 0.959)));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    /// A standard normal value (Box and Muller).
    fn normal(rng: &mut Pcg64) -> f64 {
        let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
        (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
    }

    /// Distributions with median 0: what single trials look like, kind to nasty.
    fn draw(kind: &str, rng: &mut Pcg64) -> f64 {
        match kind {
            "normal" => normal(rng),
            "log-normal" => normal(rng).exp() - 1.0,
            // Within a block the machine slows down; who came first is drawn by lot.
            "drifting" if rng.random() => 1.5 + normal(rng),
            "drifting" => -1.5 + normal(rng),
            "contaminated" if rng.random::<f64>() < 0.1 => 10.0 * normal(rng),
            _ => normal(rng),
        }
    }

    #[test]
    fn the_exact_interval_covers_what_it_says() {
        let kinds = ["normal", "log-normal", "contaminated", "drifting"];
        for (at, kind) in kinds.into_iter().enumerate() {
            for n in [6, 10, 12, 20] {
                let seed = 100 * at as u64 + n as u64;
                let mut rng = Pcg64::seed_from_u64(seed);
                let rounds = 10_000;
                let held = (0..rounds)
                    .filter(|_| {
                        let values: Vec<f64> = (0..n).map(|_| draw(kind, &mut rng)).collect();
                        let it = median_interval(&values).expect("six values or more");
                        it.low <= 0.0 && 0.0 <= it.high
                    })
                    .count();
                let cover = held as f64 / f64::from(rounds);
                assert!((0.93..=0.985).contains(&cover), "{kind} n {n} seed {seed}: {cover}");
            }
        }
    }

    #[test]
    fn the_bootstrap_covers_the_mean_of_symmetric_data() {
        // Where one value in ten is ten times as wide it holds the truth in only 87 to 95 % of the
        // cases (the exact interval: 96 to 98 %). That is why it comes second.
        for (at, (kind, least)) in [("normal", 0.92), ("contaminated", 0.84)].iter().enumerate() {
            for n in [6, 10, 12, 20] {
                let seed = 900 + 100 * at as u64 + n as u64;
                let mut rng = Pcg64::seed_from_u64(seed);
                let rounds = 600;
                let held = (0..rounds)
                    .filter(|&round| {
                        let values: Vec<f64> = (0..n).map(|_| draw(kind, &mut rng)).collect();
                        let it = bootstrap_t(&values, 400, round).expect("six values or more");
                        it.low <= 0.0 && 0.0 <= it.high
                    })
                    .count();
                let cover = held as f64 / rounds as f64;
                assert!((*least..=0.985).contains(&cover), "{kind} n {n} seed {seed}: {cover}");
            }
        }
    }

    #[test]
    fn the_blocks_that_are_forecast_find_the_difference() {
        for (at, (spread, difference)) in
            [(0.05, 0.05), (0.05, 0.02), (0.2, 0.2)].iter().enumerate()
        {
            let n = blocks_needed(*spread, *difference);
            let mut rng = Pcg64::seed_from_u64(at as u64);
            let rounds = 1_000;
            let found = (0..rounds)
                .filter(|_| {
                    let logs: Vec<f64> = (0..n)
                        .map(|_| (1.0 + difference).ln() + spread * normal(&mut rng))
                        .collect();
                    median_interval(&logs).is_some_and(|it| it.low > 0.0)
                })
                .count();
            let share = found as f64 / f64::from(rounds);
            assert!((0.75..=0.9).contains(&share), "{n} blocks found {share} of {difference}");
        }
        assert_eq!((blocks_needed(0.0001, 0.2), blocks_needed(0.0, 0.2)), (6, 6));
        assert_eq!(blocks_needed(9.0, 0.01), BLOCKS_ASKED + 1);
        assert!((normal_share(1.959_964) - 0.975).abs() < 1e-6);
        assert!((normal_share(-1.0) - 0.158_655).abs() < 1e-6);
        let values: Vec<f64> = (0..99).map(|at| f64::from(at) / 100.0).collect();
        assert!((spread(&values).expect("values") - 1.4826 * 0.25).abs() < 0.01);
        assert_eq!(spread(&[1.0]), None);
    }

    #[test]
    fn a_comparison_is_a_ratio_with_an_interval() {
        let pairs: Vec<(f64, f64)> = (0..6).map(|b| (2.0, 1.0 + 0.01 * f64::from(b))).collect();
        let found = compare(&pairs, 400, 1).expect("six pairs");
        assert!((found.ratio - 2.0 / 1.025).abs() < 0.001, "{found:?}");
        let interval = found.interval.expect("six pairs");
        assert!((interval.high - 2.0).abs() < 1e-9, "{interval:?}");
        assert!((interval.low - 2.0 / 1.05).abs() < 1e-9, "{interval:?}");
        assert_eq!(compare(&pairs[..5], 400, 1).expect("five pairs").interval, None);
        assert_eq!(compare(&[(0.0, 1.0)], 400, 1), None);
    }
}
