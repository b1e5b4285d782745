//! The switches that matter: main effects of a two-level factorial design.
//!
//! Changing five things at once shows their joint effect. Running all combinations, or a
//! well-chosen half of them, shows the effect of each, averaged over the settings of the others
//! (Box, Hunter and Hunter, *Statistics for Experimenters*, chapters 5 and 6). The effect of a
//! switch in a block is the mean log-cost of all runs with it, minus that of all runs without it;
//! its interval is over blocks. In the half fraction whose signs multiply to plus one, each main
//! effect is confounded only with the interaction of the four others, which is small.

use crate::contest::Costs;
use stats::{Comparison, compare};

/// Resamples of the second interval.
const RESAMPLES: usize = 1_000;

/// All combinations of `factors` switches: bit `f` of a number is switch `f`.
pub fn all(factors: u32) -> Vec<u32> {
    (0..1 << factors).collect()
}

/// The half of all combinations with an even number of switches off: all on is in it, all off is
/// too where the number of switches is even.
pub fn half(factors: u32) -> Vec<u32> {
    all(factors).into_iter().filter(|on| (factors - on.count_ones()).is_multiple_of(2)).collect()
}

/// The effect of switch `factor` on the cost: the geometric mean ratio on / off over all runs,
/// block by block. `runs` are the arms' names with their switches, balanced for that switch.
pub fn effect(costs: &Costs, runs: &[(String, u32)], factor: u32) -> Option<Comparison> {
    let blocks = runs.iter().map(|(name, _)| costs.of(name).len()).min()?;
    let mean = |block: usize, on: bool| {
        let logs: Vec<f64> = runs
            .iter()
            .filter(|(_, switches)| (switches >> factor & 1 == 1) == on)
            .map(|(name, _)| costs.of(name)[block].ln())
            .collect();
        logs.iter().sum::<f64>() / logs.len().max(1) as f64
    };
    let pairs: Vec<(f64, f64)> =
        (0..blocks).map(|block| (mean(block, true).exp(), mean(block, false).exp())).collect();
    compare(&pairs, RESAMPLES, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_is_balanced_in_each_switch_and_in_each_pair() {
        let half = half(5);
        assert_eq!(half.len(), 16);
        assert!(half.contains(&0b11111) && !half.contains(&0));
        for one in 0..5 {
            assert_eq!(half.iter().filter(|run| *run >> one & 1 == 1).count(), 8);
            for two in 0..one {
                let both = half.iter().filter(|run| *run >> one & 1 == 1 && *run >> two & 1 == 1);
                assert_eq!(both.count(), 4, "{one} {two}");
            }
        }
    }

    #[test]
    fn effects_are_found_where_they_were_planted() {
        // Switch 0 halves the cost, switch 2 adds a tenth, the others do nothing.
        let cost = |run: u32, block: u32| {
            let base = 100.0 + f64::from(block);
            base * if run & 1 == 1 { 0.5 } else { 1.0 } * if run & 4 == 4 { 1.1 } else { 1.0 }
        };
        let runs: Vec<(String, u32)> = half(5).into_iter().map(|it| (it.to_string(), it)).collect();
        let names: Vec<&str> = runs.iter().map(|it| it.0.as_str()).collect();
        let costs = runs.iter().map(|it| (0..8).map(|block| cost(it.1, block)).collect()).collect();
        let costs = Costs::new(&names, costs, vec![100.0; 8]);
        for (factor, want) in [0.5, 1.0, 1.1, 1.0, 1.0].into_iter().enumerate() {
            let found = effect(&costs, &runs, factor as u32).expect("eight blocks");
            assert!((found.ratio - want).abs() < 1e-9, "{factor}: {}", found.ratio);
        }
    }
}
