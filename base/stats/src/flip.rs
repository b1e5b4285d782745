//! Is there a difference at all? The sign-flip test of one comparison.
//!
//! If arm and baseline were the same, each block's log-ratio could equally have had the other sign.
//! The test counts in how many of all 2^n choices of signs the mean would lie at least as far from
//! zero as it does (Good, *Permutation, Parametric, and Bootstrap Tests of Hypotheses*, chapter 3).
//! It is exact for up to [`EXACT_MAX`] blocks. Six blocks cannot give less than 2/64 = 0.031.

use crate::Rng;

/// The largest number of values for which all 2^n choices of signs are tried.
pub const EXACT_MAX: usize = 16;

/// Draws of signs above [`EXACT_MAX`] values.
const DRAWS: u32 = 20_000;

/// Two-sided p of the sign-flip test of the mean; `None` for no value. Above [`EXACT_MAX`] values
/// it is estimated from seeded draws, with the observed signs counted as one of them, so that it is
/// never zero.
pub fn sign_flip_p(values: &[f64], seed: u64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let observed = values.iter().sum::<f64>().abs();
    // Sums of the same numbers in another order differ in their last bits.
    let least = observed - 1e-9 * values.iter().map(|value| value.abs()).sum::<f64>();
    match values.len() {
        0..=EXACT_MAX => Some(exact(values, least)),
        _ => Some(drawn(values, least, seed)),
    }
}

/// Walks all choices of signs so that each differs from the one before in one sign (Gray code).
fn exact(values: &[f64], least: f64) -> f64 {
    let all = 1_u64 << values.len();
    let mut signs = vec![1.0; values.len()];
    let mut sum: f64 = values.iter().sum();
    let mut extreme = u64::from(sum.abs() >= least);
    for step in 1..all {
        let at = step.trailing_zeros() as usize;
        signs[at] = -signs[at];
        sum += 2.0 * signs[at] * values[at];
        extreme += u64::from(sum.abs() >= least);
    }
    extreme as f64 / all as f64
}

fn drawn(values: &[f64], least: f64, seed: u64) -> f64 {
    let mut rng = Rng::new(seed);
    let extreme = (0..DRAWS)
        .filter(|_| {
            let sum: f64 = values.iter().map(|&it| if rng.unit() < 0.5 { it } else { -it }).sum();
            sum.abs() >= least
        })
        .count();
    (extreme + 1) as f64 / f64::from(DRAWS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_blocks_on_one_side_give_two_in_sixty_four() {
        let all = [0.1, 0.2, 0.15, 0.3, 0.12, 0.11];
        assert_eq!(sign_flip_p(&all, 1), Some(2.0 / 64.0));
        assert_eq!(sign_flip_p(&[], 1), None);
        assert_eq!(sign_flip_p(&[0.0, 0.0], 1), Some(1.0));
        let mixed = sign_flip_p(&[0.1, -0.1], 1).expect("two values");
        assert!((mixed - 1.0).abs() < 1e-12, "{mixed}");
    }

    #[test]
    fn draws_agree_with_the_whole_walk() {
        let values: Vec<f64> = (0..12).map(|at| (f64::from(at) - 3.5) / 10.0).collect();
        let least = values.iter().sum::<f64>().abs() - 1e-9;
        let (walked, drawn) = (exact(&values, least), drawn(&values, least, 7));
        assert!((walked - drawn).abs() < 0.02, "{walked} against {drawn}");
    }
}
