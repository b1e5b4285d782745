//! When users and requests arrive: the arrival process.
//!
//! An arrival process is a stream of moments that depends only on its seed, not on the run: it is
//! fixed before the first request, though never stored as a list. The effect of an arrival (one
//! request, a session, a user's endless loop) is [`Work`](crate::work::Work), so the three models
//! are three pairs:
//!
//! | model | arrivals | work |
//! |---|---|---|
//! | closed | [`Ramp`], all at once or along a ramp | endless batches |
//! | open | [`Poisson`], [`Constant`] | one request on any free connection |
//! | sessions | the same | k requests on a separate connection |
//!
//! Moments do not shift. An overdue arrival is handled at once, with its original due time: that is
//! the queue of a slow server, and latency counts from there.

use crate::Instant;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

/// An arrival process: a sequence of moments that never decrease.
pub trait Arrive: Send {
    /// Begins at `start`; called once, before the other methods.
    fn start(&mut self, start: Instant);

    /// The due time of the next arrival; `None` at the end.
    fn due(&self) -> Option<Instant>;

    /// Advances to the next arrival.
    fn advance(&mut self);
}

/// A number of users, all at the start or evenly along a ramp.
#[derive(Clone, Copy, Debug)]
pub struct Ramp {
    left: u64,
    gap: Duration,
    next: Instant,
}

/// Evenly spaced arrivals.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    start: Instant,
    gap_ns: f64,
    phase: f64,
    count: u64,
}

/// Independent arrivals: gaps are drawn from an exponential distribution.
#[derive(Clone, Debug)]
pub struct Poisson {
    gap_ns: f64,
    /// Nanoseconds since the start. A sum of floats of this size is exact to the nanosecond for a
    /// hundred days.
    at_ns: f64,
    start: Instant,
    random: Pcg64Mcg,
}

impl Ramp {
    /// `users` at once.
    pub fn at_once(users: u64) -> Self {
        Self { left: users, gap: Duration::ZERO, next: Instant::ZERO }
    }

    /// `users`, of whom `rate` arrive each second.
    pub fn at_rate(users: u64, rate: f64) -> Self {
        Self { left: users, gap: Duration::from_secs_f64(1.0 / rate), next: Instant::ZERO }
    }
}

impl Arrive for Ramp {
    fn start(&mut self, start: Instant) {
        self.next = start;
    }

    fn due(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }

    fn advance(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.next = self.next + self.gap;
    }
}

impl Constant {
    /// `rate` arrivals a second. The first comes after a fraction `phase` (0 to 1) of a gap, so
    /// that several threads can interleave.
    pub fn new(rate: f64, phase: f64) -> Self {
        Self { start: Instant::ZERO, gap_ns: 1e9 / rate, phase, count: 0 }
    }
}

impl Arrive for Constant {
    fn start(&mut self, start: Instant) {
        self.start = start;
    }

    fn due(&self) -> Option<Instant> {
        // Multiplied, not summed: rounding must not drift over a long run.
        let ns = (self.count as f64 + self.phase) * self.gap_ns;
        Some(self.start + Duration::from_nanos(ns as u64))
    }

    fn advance(&mut self) {
        self.count += 1;
    }
}

impl Poisson {
    /// `rate` arrivals a second on average, drawn from `seed`.
    pub fn new(rate: f64, seed: u64) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed ^ 0x6172_7269_7665);
        let mut poisson = Self { gap_ns: 1e9 / rate, at_ns: 0.0, start: Instant::ZERO, random };
        poisson.advance();
        poisson
    }
}

impl Arrive for Poisson {
    fn start(&mut self, start: Instant) {
        self.start = start;
    }

    fn due(&self) -> Option<Instant> {
        Some(self.start + Duration::from_nanos(self.at_ns as u64))
    }

    fn advance(&mut self) {
        self.at_ns += exponential(&mut self.random) * self.gap_ns;
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

    fn dues(arrive: &mut dyn Arrive, count: usize) -> Vec<u64> {
        arrive.start(Instant::from_ns(1000));
        let next = |_| {
            let due = arrive.due()?.ns();
            arrive.advance();
            Some(due)
        };
        (0..count).map_while(next).collect()
    }

    #[test]
    fn a_crowd_comes_at_once_or_along_a_ramp() {
        assert_eq!(dues(&mut Ramp::at_once(3), 5), [1000; 3]);
        let ramp = [1000, 500_001_000, 1_000_001_000];
        assert_eq!(dues(&mut Ramp::at_rate(3, 2.0), 5), ramp);
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let mut thirds = Constant::new(3.0, 0.0);
        let found = dues(&mut thirds, 3_000_001);
        assert_eq!(found[3_000_000] - found[0], 1_000_000_000_000_000);
        assert_eq!(dues(&mut Constant::new(1e6, 0.5), 2), [1500, 2500]);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let found = dues(&mut Poisson::new(1000.0, 7), 100_001);
        let gaps: Vec<f64> = found.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Five standard errors of the mean of 100,000 exponentials are 0.016.
        assert!((mean - 1.0).abs() < 0.016, "mean {mean}");
        assert!((square.sqrt() - 1.0).abs() < 0.03, "deviation {}", square.sqrt());
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let of = |seed| dues(&mut Poisson::new(5.0, seed), 50);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
