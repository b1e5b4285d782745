//! The number of blocks that would settle a question: before a race from its spread, afterwards
//! from its result.

use crate::{VALUES_MIN, median_ranks};

/// Forecasts stop here and say "more than".
pub const BLOCKS_MAX: u32 = 1_000;

/// The fewest blocks with which the exact interval of the median excludes 1 in four of five races,
/// where a block's log-ratio is normal with this `spread` and the arms differ by `difference` (0.05
/// = 5 %). The interval's lower end lies above zero when enough of the blocks do, so the chance is
/// binomial. The result is at least the number that an interval needs; [`BLOCKS_MAX`] + 1 where the
/// maximum is not enough.
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
    (VALUES_MIN as u32..=BLOCKS_MAX).find(|&n| finds(n)).unwrap_or(BLOCKS_MAX + 1)
}

/// The number of blocks that would probably settle an unresolved comparison if centre and spread
/// stay as they are: half widths shrink with the square root of the number of blocks. `centre`,
/// `half`, `floor` and `room` are log-ratios; a centre inside the floor is never told from it.
/// [`BLOCKS_MAX`] + 1 stands for more.
pub fn settles_after(blocks: usize, centre: f64, half: f64, floor: f64, room: f64) -> u32 {
    let needed = |now: f64, wanted: f64| {
        if wanted > 0.0 { blocks as f64 * (now / wanted).powi(2) } else { f64::INFINITY }
    };
    let is_beyond = centre.abs() > floor;
    let different = if is_beyond { needed(half, centre.abs()) } else { f64::INFINITY };
    let equal = needed(half, room - centre.abs());
    let least = different.min(equal).ceil().min(f64::from(BLOCKS_MAX) + 1.0);
    (least as u32).max(blocks as u32 + 1)
}

/// The share of a standard normal distribution below `x` (Abramowitz and Stegun, *Handbook of
/// Mathematical Functions*, 26.2.17: to 7.5e-8).
pub fn normal_share(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum;
    if x >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::tests::normal;
    use crate::{Rng, median_interval, spread};

    #[test]
    fn the_blocks_that_are_forecast_find_the_difference() {
        for (at, (spread, difference)) in
            [(0.05, 0.05), (0.05, 0.02), (0.2, 0.2)].iter().enumerate()
        {
            let n = blocks_needed(*spread, *difference);
            let mut rng = Rng::new(at as u64);
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
        assert_eq!(blocks_needed(9.0, 0.01), BLOCKS_MAX + 1);
        assert!((normal_share(1.959_964) - 0.975).abs() < 1e-6);
        assert!((normal_share(-1.0) - 0.158_655).abs() < 1e-6);
        let values: Vec<f64> = (0..99).map(|at| f64::from(at) / 100.0).collect();
        assert!((spread(&values).expect("values") - 1.4826 * 0.25).abs() < 0.01);
        assert_eq!(spread(&[1.0]), None);
    }

    #[test]
    fn a_forecast_follows_the_root_of_the_blocks() {
        let room = 1.03_f64.ln();
        assert_eq!(settles_after(6, 0.10, 0.12, 0.0, room), 9);
        assert!(settles_after(6, 0.05, 0.12, 0.0, room) > 20);
        assert_eq!(settles_after(6, room, 0.12, 10.0, room), BLOCKS_MAX + 1);
        assert_eq!(settles_after(6, 0.20, 0.19, 0.0, room), 7);
    }
}
