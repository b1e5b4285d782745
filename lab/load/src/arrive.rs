//! When users and requests arrive: the arrival process.
//!
//! An arrival process is a stream of moments that depends only on its seed, not on the run: it is
//! fixed before the first request, though never stored as a list. The effect of an arrival (one
//! request, a session, a user's endless loop) is [`Work`](crate::work::Work), so the three models
//! are three pairs:
//!
//! | model | arrivals | work |
//! |---|---|---|
//! | closed | [users](ArrivalProcess::users), all at once or along a ramp | endless batches |
//! | open | a [rate](ArrivalProcess::at_rate) or [stages](ArrivalProcess::staged) | one request |
//! | sessions | the same | k requests on a separate connection |
//!
//! Moments do not shift. An overdue arrival is handled at once, with its original due time: that is
//! the queue of a slow server, and latency counts from there.

use crate::Instant;
use crate::model::Arrivals;
use crate::stages::Stages;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;
use std::time::Duration;

/// A sequence of moments that never decrease.
#[derive(Clone, Debug)]
pub struct ArrivalProcess {
    start: Instant,
    left: u64,
    /// Draws the gaps from an exponential distribution; `None`: they are even.
    random: Option<Pcg64Mcg>,
    /// The gaps so far, in mean gaps. A sum of floats of this size is exact to the nanosecond for a
    /// hundred days.
    sum: f64,
    /// The part of a gap before the first, so that several threads can interleave. It is no part of
    /// the sum, because rounding must not drift over a long run.
    phase: f64,
    rate: Rate,
}

#[derive(Clone, Debug)]
enum Rate {
    /// The mean gap (ns).
    Steady(f64),
    /// The level of arrivals in all of this many threads.
    Staged(Arc<Stages>, f64),
}

impl ArrivalProcess {
    /// `count` users, of whom `rate` arrive each second; `None`: all at once.
    pub fn users(count: u64, rate: Option<f64>) -> Self {
        let rate = Rate::Steady(rate.map_or(0.0, |rate| 1e9 / rate));
        Self { start: Instant::ZERO, left: count, random: None, sum: 0.0, phase: 0.0, rate }
    }

    /// The share of thread `part` of `parts` in `rate` arrivals a second.
    pub fn at_rate(rate: f64, arrivals: Arrivals, seed: u64, of: (usize, usize)) -> Self {
        let rate = Rate::Steady(1e9 * of.1 as f64 / rate);
        Self::endless(rate, arrivals, (seed, 0x6172_7269_7665), of)
    }

    /// The same at a rate in stages.
    pub fn staged(stages: Arc<Stages>, arrivals: Arrivals, seed: u64, of: (usize, usize)) -> Self {
        let rate = Rate::Staged(stages, of.1 as f64);
        Self::endless(rate, arrivals, (seed, 0x0073_7461_6765), of)
    }

    fn endless(
        rate: Rate,
        arrivals: Arrivals,
        (seed, salt): (u64, u64),
        (part, parts): (usize, usize),
    ) -> Self {
        let (random, phase) = match arrivals {
            // Poisson processes add up to one; separate seeds keep the parts independent.
            Arrivals::Poisson => {
                let seed = seed.wrapping_add(part as u64 * 0x9e37_79b9) ^ salt;
                (Some(Pcg64Mcg::seed_from_u64(seed)), 0.0)
            }
            Arrivals::Constant => (None, part as f64 / parts as f64),
        };
        let mut process =
            Self { start: Instant::ZERO, left: u64::MAX, random, sum: 0.0, phase, rate };
        process.sum = process.random.as_mut().map_or(0.0, exponential);
        process
    }

    /// Begins at `start`.
    pub fn start(&mut self, start: Instant) {
        self.start = start;
    }

    /// The due time of the next arrival; `None` at the end.
    pub fn due(&self) -> Option<Instant> {
        if self.left == 0 {
            return None;
        }
        let sum = self.sum + self.phase;
        let after = match &self.rate {
            Rate::Steady(gap_ns) => Duration::from_nanos((sum * gap_ns) as u64),
            Rate::Staged(stages, parts) => Duration::from_secs_f64(stages.passes(sum * parts)?),
        };
        Some(self.start + after)
    }

    /// Advances to the next arrival.
    pub fn advance(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.sum += self.random.as_mut().map_or(1.0, exponential);
    }
}

/// A draw from the exponential distribution of mean 1, by inversion of 53 uniform bits.
pub(crate) fn exponential(random: &mut impl Rng) -> f64 {
    -(1.0 - unit(random)).ln()
}

/// A uniform draw from `0.0..1.0`.
pub(crate) fn unit(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(mut process: ArrivalProcess, count: usize) -> Vec<u64> {
        process.start(Instant::from_ns(1000));
        let next = |_| {
            let due = process.due()?.ns();
            process.advance();
            Some(due)
        };
        (0..count).map_while(next).collect()
    }

    fn even(rate: f64, of: (usize, usize)) -> ArrivalProcess {
        ArrivalProcess::at_rate(rate, Arrivals::Constant, 1, of)
    }

    fn poisson(rate: f64, seed: u64) -> ArrivalProcess {
        ArrivalProcess::at_rate(rate, Arrivals::Poisson, seed, (0, 1))
    }

    #[test]
    fn a_crowd_comes_at_once_or_along_a_ramp() {
        assert_eq!(dues(ArrivalProcess::users(3, None), 5), [1000; 3]);
        let ramp = [1000, 500_001_000, 1_000_001_000];
        assert_eq!(dues(ArrivalProcess::users(3, Some(2.0)), 5), ramp);
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let found = dues(even(3.0, (0, 1)), 3_000_001);
        assert_eq!(found[3_000_000] - found[0], 1_000_000_000_000_000);
        assert_eq!(dues(even(2e6, (1, 2)), 2), [1500, 2500]);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let found = dues(poisson(1000.0, 7), 100_001);
        let gaps: Vec<f64> = found.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Five standard errors of the mean of 100,000 exponentials are 0.016.
        assert!((mean - 1.0).abs() < 0.016, "mean {mean}");
        assert!((square.sqrt() - 1.0).abs() < 0.03, "deviation {}", square.sqrt());
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let of = |seed| dues(poisson(5.0, seed), 50);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
