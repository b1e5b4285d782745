//! The universal scalability law, fitted to a closed sweep.
//!
//! `X(c) = lambda c / (1 + sigma (c - 1) + kappa c (c - 1))` (Gunther, *Guerrilla Capacity
//! Planning*, chapters 4 to 6). `lambda` is the rate of one client, `sigma` the share of the work
//! that all clients have to queue for, `kappa` the cost of coherency, which makes the curve turn
//! down. The fit is least squares of the logarithms, so that a rate of 1,000 counts as much as one
//! of 100,000; `lambda` drops out and two parameters remain. Two of three sweeps of a healthy
//! server fit best with `kappa` at exactly zero, its boundary, so a solver that does not hold the
//! boundary returns negative costs and a peak in the complex plane.

use crate::{Interval, Rng};
use serde::{Deserialize, Serialize};

/// A fitted curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usl {
    /// Requests per second of one client.
    pub lambda: f64,
    /// Contention, 0 or more.
    pub sigma: f64,
    /// Coherency, 0 or more.
    pub kappa: f64,
}

/// A fit and its certainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UslFit {
    /// The parameters.
    pub usl: Usl,
    /// 95 % of the contention, by bootstrap over blocks; absent below six blocks.
    pub sigma_range: Option<Interval>,
    /// 95 % of the coherency.
    pub kappa_range: Option<Interval>,
    /// Root mean square of the relative error of the curve.
    pub error: f64,
}

impl Usl {
    /// The curve at `clients`.
    pub fn at(&self, clients: f64) -> f64 {
        self.lambda * clients / self.divisor(clients)
    }

    fn divisor(&self, clients: f64) -> f64 {
        1.0 + self.sigma * (clients - 1.0) + self.kappa * clients * (clients - 1.0)
    }

    /// The number of clients with the highest rate; `None` where the curve only flattens.
    pub fn peak(&self) -> Option<f64> {
        let square = (1.0 - self.sigma) / self.kappa;
        (self.kappa > 1e-12 && square >= 1.0).then(|| square.sqrt())
    }

    /// The ceiling that contention alone would allow, requests per second; `None` without any.
    pub fn ceiling(&self) -> Option<f64> {
        (self.sigma > 1e-9).then(|| self.lambda / self.sigma)
    }

    /// Its parameters, explained for a newcomer.
    pub fn words(&self) -> String {
        let share = format!("{:.1} %", self.sigma * 100.0);
        let queue = match self.ceiling() {
            Some(most) => format!(
                "{share} of the work has to queue for something that all share, which caps the \
                 speed at {most:.0} requests/s however many clients come"
            ),
            None => "nothing that all have to queue for is visible".to_string(),
        };
        let agree = match self.peak() {
            Some(peak) => format!(
                "clients slow one another (kappa {:.2e}): beyond about {peak:.0} of them it gets \
                 slower again",
                self.kappa
            ),
            None => "no sign that more clients make it slower again".to_string(),
        };
        format!("One client gets {:.0} requests/s; {queue}; {agree}.", self.lambda)
    }
}

/// Fits (clients, requests per second) pairs. `None` below three different numbers of clients or
/// for values that are not positive.
pub fn fit(points: &[(f64, f64)]) -> Option<Usl> {
    let usable = points.iter().all(|&(c, x)| c >= 1.0 && x > 0.0 && x.is_finite());
    let mut clients: Vec<f64> = points.iter().map(|point| point.0).collect();
    clients.sort_by(f64::total_cmp);
    clients.dedup();
    if !usable || clients.len() < 3 {
        return None;
    }
    // Two starts, because the valley between contention and coherency is long and bent.
    let starts = [(0.05, 1e-4), (0.9, 1e-6)];
    let fits = starts.into_iter().map(|(sigma, kappa)| descend(points, sigma, kappa));
    let best = fits.min_by(|a, b| squares(points, *a).total_cmp(&squares(points, *b)))?;
    let (sigma, kappa) = best;
    Some(Usl { lambda: intercept(points, sigma, kappa).exp(), sigma, kappa })
}

/// A fit to the medians of `sweep`, which holds for each number of clients the rates of its blocks
/// in the order of blocks; intervals from `resamples` seeded draws of blocks.
pub fn fit_blocks(sweep: &[(f64, Vec<f64>)], resamples: u32, seed: u64) -> Option<UslFit> {
    let middle = |values: &[f64]| super::median(values);
    let points: Option<Vec<(f64, f64)>> =
        sweep.iter().map(|(c, values)| Some((*c, middle(values)?))).collect();
    let points = points?;
    let usl = fit(&points)?;
    let error = (squares(&points, (usl.sigma, usl.kappa)) / points.len() as f64).sqrt();
    let blocks = sweep.iter().map(|(_, values)| values.len()).min().unwrap_or(0);
    if blocks < super::VALUES_MIN {
        return Some(UslFit { usl, sigma_range: None, kappa_range: None, error });
    }
    let mut rng = Rng::new(seed);
    let (mut sigmas, mut kappas) = (Vec::new(), Vec::new());
    for _ in 0..resamples {
        let picks: Vec<usize> = (0..blocks).map(|_| rng.below(blocks)).collect();
        let drawn: Option<Vec<(f64, f64)>> = sweep
            .iter()
            .map(|(c, values)| {
                let mine: Vec<f64> = picks.iter().map(|&at| values[at]).collect();
                Some((*c, middle(&mine)?))
            })
            .collect();
        if let Some(usl) = drawn.and_then(|points| fit(&points)) {
            sigmas.push(usl.sigma);
            kappas.push(usl.kappa);
        }
    }
    Some(UslFit { usl, sigma_range: range(sigmas), kappa_range: range(kappas), error })
}

/// The middle 95 %.
fn range(mut values: Vec<f64>) -> Option<Interval> {
    values.sort_by(f64::total_cmp);
    let tail = (1.0 - super::CONFIDENCE) / 2.0;
    let at = |share: f64| values.get((share * values.len() as f64) as usize).copied();
    Some(Interval { low: at(tail)?, high: at(1.0 - tail)?, cover: super::CONFIDENCE })
}

/// `ln X - ln c + ln D(c)` of each point: constant (`ln lambda`) where the curve fits.
fn levels(points: &[(f64, f64)], sigma: f64, kappa: f64) -> impl Iterator<Item = f64> + '_ {
    let usl = Usl { lambda: 1.0, sigma, kappa };
    points.iter().map(move |&(c, x)| (x / c * usl.divisor(c)).ln())
}

fn intercept(points: &[(f64, f64)], sigma: f64, kappa: f64) -> f64 {
    levels(points, sigma, kappa).sum::<f64>() / points.len() as f64
}

fn squares(points: &[(f64, f64)], (sigma, kappa): (f64, f64)) -> f64 {
    let middle = intercept(points, sigma, kappa);
    levels(points, sigma, kappa).map(|level| (level - middle).powi(2)).sum()
}

/// Levenberg and Marquardt's descent in two parameters that may not be negative.
fn descend(points: &[(f64, f64)], mut sigma: f64, mut kappa: f64) -> (f64, f64) {
    let mut damping = 1e-3;
    let mut error = squares(points, (sigma, kappa));
    for _ in 0..500 {
        let (step_sigma, step_kappa) = step(points, sigma, kappa, damping);
        let next = ((sigma + step_sigma).max(0.0), (kappa + step_kappa).max(0.0));
        let found = squares(points, next);
        if found < error {
            let gain = error - found;
            ((sigma, kappa), error) = (next, found);
            damping = (damping / 5.0).max(1e-12);
            if gain <= 1e-15 * error {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    (sigma, kappa)
}

/// One damped step; a parameter at its boundary that would leave it stays.
fn step(points: &[(f64, f64)], sigma: f64, kappa: f64, damping: f64) -> (f64, f64) {
    let usl = Usl { lambda: 1.0, sigma, kappa };
    let n = points.len() as f64;
    let by = |f: &dyn Fn(f64) -> f64| points.iter().map(|&(c, _)| f(c)).sum::<f64>() / n;
    let to_sigma = |c: f64| (c - 1.0) / usl.divisor(c);
    let to_kappa = |c: f64| c * (c - 1.0) / usl.divisor(c);
    let (mean_sigma, mean_kappa) = (by(&to_sigma), by(&to_kappa));
    let middle = intercept(points, sigma, kappa);
    let (mut ss, mut sk, mut kk, mut gs, mut gk) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (&(c, _), level) in points.iter().zip(levels(points, sigma, kappa)) {
        let (a, b, r) = (to_sigma(c) - mean_sigma, to_kappa(c) - mean_kappa, level - middle);
        (ss, sk, kk) = (ss + a * a, sk + a * b, kk + b * b);
        (gs, gk) = (gs - a * r, gk - b * r);
    }
    let (held_sigma, held_kappa) = (sigma <= 0.0 && gs < 0.0, kappa <= 0.0 && gk < 0.0);
    let (ds, dk) = (ss * (1.0 + damping) + 1e-300, kk * (1.0 + damping) + 1e-300);
    match (held_sigma, held_kappa) {
        (true, true) => (0.0, 0.0),
        (true, false) => (0.0, gk / dk),
        (false, true) => (gs / ds, 0.0),
        (false, false) => {
            let determinant = ds * dk - sk * sk;
            ((gs * dk - gk * sk) / determinant, (gk * ds - gs * sk) / determinant)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(usl: &Usl) -> Vec<(f64, f64)> {
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0].map(|c| (c, usl.at(c))).to_vec()
    }

    #[test]
    fn a_curve_gives_its_own_parameters_back() {
        for (sigma, kappa) in [(0.02, 1e-4), (0.3, 0.0), (0.0, 2e-3), (0.9, 1e-5), (0.0, 0.0)] {
            let true_one = Usl { lambda: 5_000.0, sigma, kappa };
            let found = fit(&curve(&true_one)).expect("seven points");
            assert!((found.sigma - sigma).abs() < 1e-4, "{true_one:?} {found:?}");
            assert!((found.kappa - kappa).abs() < 1e-6, "{true_one:?} {found:?}");
            assert!((found.lambda / 5_000.0 - 1.0).abs() < 1e-3, "{true_one:?} {found:?}");
        }
    }

    #[test]
    fn too_little_is_not_fitted() {
        assert_eq!(fit(&[(1.0, 5.0), (2.0, 9.0)]), None);
        assert_eq!(fit(&[(1.0, 5.0), (2.0, 0.0), (3.0, 1.0)]), None);
    }

    #[test]
    fn blocks_give_a_range_that_holds_the_truth() {
        let true_one = Usl { lambda: 1_000.0, sigma: 0.2, kappa: 1e-3 };
        let mut rng = Rng::new(3);
        let sweep: Vec<(f64, Vec<f64>)> = curve(&true_one)
            .into_iter()
            .map(|(c, x)| (c, (0..8).map(|_| x * (0.97 + 0.06 * rng.unit())).collect()))
            .collect();
        let found = fit_blocks(&sweep, 200, 1).expect("eight blocks");
        let sigma = found.sigma_range.expect("eight blocks");
        assert!(sigma.low <= 0.2 && 0.2 <= sigma.high, "{found:?}");
        assert!(found.error < 0.05, "{found:?}");
    }

    #[test]
    fn parameters_have_words() {
        let words = Usl { lambda: 1_000.0, sigma: 0.05, kappa: 1e-3 }.words();
        assert!(words.contains("5.0 % of the work"), "{words}");
        assert!(words.contains("20000 requests/s") && words.contains("about 31"), "{words}");
        let words = Usl { lambda: 1_000.0, sigma: 0.0, kappa: 0.0 }.words();
        assert!(words.contains("nothing that all") && words.contains("no sign"), "{words}");
    }
}
