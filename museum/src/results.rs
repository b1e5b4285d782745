//! The figures of an exhibit: cells of an arm at a point, each with its figures block by block.
//!
//! Every way to measure (crowds, web servers, races, loops in this process) fills the same cells,
//! so one set of queries ([`crate::query`]) serves all exhibits. A figure is a number with a name,
//! such as `rps` or `ns`. Comparisons pair the values of one block.

use stats::{Better, Comparison, Decision, Terms, compare, decide};
use std::collections::BTreeMap;

/// The margin of equivalence: within 5 % in this process, as in every race within 3 %.
const MARGINS: [f64; 2] = [0.05, 0.03];
/// The second run of a baseline in each block (A/A).
pub const TWIN: &str = "(twin)";

pub type Figures = BTreeMap<String, f64>;

#[derive(Clone, Debug, Default)]
pub struct Cell {
    arm: String,
    point: String,
    blocks: BTreeMap<u32, Figures>,
    /// Figures over time in its first run, by name.
    pub lines: BTreeMap<String, Vec<(f64, f64)>>,
    /// The observations of each run, in words.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Results {
    cells: Vec<Cell>,
    /// The arm that runs twice at a point.
    bases: BTreeMap<String, String>,
    /// Further values for the words.
    pub values: BTreeMap<String, serde_json::Value>,
}

impl Results {
    /// The cell of an arm at a point; a new one if there is none.
    pub fn cell(&mut self, arm: &str, point: &str) -> &mut Cell {
        let at = self.cells.iter().position(|it| it.arm == arm && it.point == point);
        let at = at.unwrap_or_else(|| {
            let (arm, point) = (arm.to_string(), point.to_string());
            self.cells.push(Cell { arm, point, ..Cell::default() });
            self.cells.len() - 1
        });
        &mut self.cells[at]
    }

    pub fn add(&mut self, arm: &str, point: &str, block: u32, figures: Figures) {
        self.cell(arm, point).blocks.entry(block).or_default().extend(figures);
    }

    /// Names the arm whose twin is at a point.
    pub fn base(&mut self, point: &str, arm: &str) {
        self.bases.insert(point.to_string(), arm.to_string());
    }

    pub fn set(&mut self, name: &str, value: impl serde::Serialize) {
        let value = serde_json::to_value(value).unwrap_or_default();
        self.values.insert(name.to_string(), value);
    }

    pub fn find(&self, arm: &str, point: &str) -> Option<&Cell> {
        let is_it = |it: &&Cell| it.arm == arm && it.point == point;
        self.cells.iter().find(is_it).filter(|it| !it.blocks.is_empty() || !it.notes.is_empty())
    }

    /// A figure of a cell by block; `None` in blocks without it.
    pub fn of(&self, figure: &str, arm: &str, point: &str) -> Vec<Option<f64>> {
        let Some(cell) = self.find(arm, point) else { return Vec::new() };
        let blocks = cell.blocks.keys().next_back().map_or(0, |last| last + 1);
        let value = |block| cell.blocks.get(&block)?.get(figure).copied();
        (0..blocks).map(value).collect()
    }

    /// The noise floor of a figure at a point: the distance of the twin from its baseline, as a
    /// log-ratio.
    pub fn floor(&self, figure: &str, point: &str) -> f64 {
        let Some(base) = self.bases.get(point) else { return 0.0 };
        let twin = ratio(&self.of(figure, TWIN, point), &self.of(figure, base, point));
        twin.map_or(0.0, |it| it.floor())
    }

    /// The verdict on a comparison of costs at a point.
    pub fn judge(&self, comparison: &Comparison, figure: &str, point: &str) -> Decision {
        let margin = MARGINS[usize::from(figure != crate::contest::NS)];
        let floor = self.floor(figure, point);
        decide(comparison, Terms { better: Better::Less, floor, margin })
    }
}

/// `one / other`, block by block.
pub fn ratio(one: &[Option<f64>], other: &[Option<f64>]) -> Option<Comparison> {
    let pairs = one.iter().zip(other).filter_map(|(one, other)| Some(((*one)?, (*other)?)));
    compare(&pairs.collect::<Vec<_>>())
}

/// The effect of a switch of a two-level factorial design (Box, Hunter and Hunter, *Statistics for
/// Experimenters*, chapters 5 and 6): the mean log of a figure over all runs with it against all
/// without, block by block. `runs` are figures with their switches, balanced for that switch; in
/// the half fraction each main effect is confounded only with the interaction of the others.
pub fn effect(runs: &[(Vec<Option<f64>>, u32)], switch: u32) -> Option<Comparison> {
    let blocks = runs.iter().map(|(values, _)| values.len()).min()?;
    let mean = |block: usize, on: bool| {
        let mine = runs.iter().filter(|(_, switches)| (switches >> switch & 1 == 1) == on);
        let logs: Option<Vec<f64>> = mine.map(|(values, _)| Some(values[block]?.ln())).collect();
        let logs = logs.filter(|it| !it.is_empty())?;
        Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    let means = |on: bool| (0..blocks).map(|block| mean(block, on)).collect::<Vec<_>>();
    ratio(&means(true), &means(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn sample(arm: f64, twin: f64) -> Results {
        let mut results = Results::default();
        for block in 0..8 {
            let base = 10.0 + f64::from(block);
            for (name, factor) in [("base", 1.0), ("arm", arm), (TWIN, twin)] {
                let figures = Figures::from([("ns".to_string(), base * factor)]);
                results.add(name, "here", block, figures);
            }
        }
        results.base("here", "base");
        results
    }

    #[test]
    fn a_verdict_needs_more_than_the_twin_shows() {
        fn check(arm: f64, twin: f64, want: Decision) {
            let results = sample(arm, twin);
            let [arm, base] = ["arm", "base"].map(|it| results.of("ns", it, "here"));
            let found = ratio(&arm, &base).expect("eight blocks");
            assert_eq!(results.judge(&found, "ns", "here"), want, "{arm:?} {twin}");
        }
        check(2.0, 1.01, Decision::Worse);
        check(0.5, 1.01, Decision::Better);
        check(1.02, 1.03, Decision::Equal);
        check(1.3, 1.5, Decision::Open);
        assert!(sample(1.0, 1.0).of("ns", "another", "here").is_empty());
    }

    #[test]
    fn a_half_is_balanced_and_effects_are_found_where_they_were_planted() {
        let exhibit = crate::by_name("server-factors").expect("an exhibit");
        let scope = exhibit.text().plan.scope(&Settings::default(), &Results::default());
        let names = scope.and_then(|it| it.eval("balanced")).expect("a list");
        let number = |it: &minijinja::Value| u32::from_str_radix(&it.to_string(), 2);
        let half: Vec<u32> = crate::query::items(&names).iter().flat_map(number).collect();
        assert!(half.len() == 16 && half.contains(&0b11111) && !half.contains(&0));
        for (one, two) in (0..5).flat_map(|one| (0..one).map(move |two| (one, two))) {
            assert_eq!(half.iter().filter(|run| *run >> one & 1 == 1).count(), 8);
            let both = half.iter().filter(|run| *run >> one & *run >> two & 1 == 1);
            assert_eq!(both.count(), 4, "{one} {two}");
        }
        // Switch 0 halves the cost, switch 2 adds a tenth, the others do nothing.
        let cost = |run: u32, block: u32| {
            let base = 100.0 + f64::from(block);
            base * if run & 1 == 1 { 0.5 } else { 1.0 } * if run & 4 == 4 { 1.1 } else { 1.0 }
        };
        let values = |run: u32| (0..8).map(|block| Some(cost(run, block))).collect();
        let runs: Vec<_> = half.into_iter().map(|run| (values(run), run)).collect();
        for (switch, want) in (0..).zip([0.5, 1.0, 1.1, 1.0, 1.0]) {
            let found = effect(&runs, switch).expect("eight blocks");
            assert!((found.ratio - want).abs() < 1e-9, "{switch}: {}", found.ratio);
        }
    }
}
