//! The candidates of one stage with their heats, and the reasons for which they leave.
//!
//! Costs of a stage follow an additive model: log(cost) = candidate + block + noise. The noise is
//! estimated from the residuals of all candidates together, so two blocks of twenty candidates tell
//! it well, although two heats of one candidate would not.

use crate::space::Candidate;
use serde::{Deserialize, Serialize};
use stats::{median, normal_share};

/// The result of one heat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// Requests that were due.
    pub offered: u64,
    /// Requests that were answered within the objective.
    pub attained: u64,
    /// CPU time of the server for an answered request, nanoseconds.
    pub cpu_ns: Option<f64>,
    /// The highest rate that kept the objective, requests a second, where it was searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Memory of the server, kilobytes.
    pub memory_kb: Option<f64>,
    /// Threads of the server, those of all processes together.
    pub threads: Option<u64>,
    /// Mean response time, nanoseconds.
    pub mean_ns: Option<f64>,
    /// Whether other activity of the machine spoilt every attempt.
    #[serde(default)]
    pub is_disturbed: bool,
    /// The reason why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Heat {
    /// The share of the due requests that were answered within the objective.
    pub fn share(&self) -> f64 {
        self.attained as f64 / self.offered.max(1) as f64
    }

    /// The quantity that is to be least, nanoseconds: the time for a request at the highest rate
    /// if that was searched for, otherwise its CPU time.
    pub fn cost(&self) -> Option<f64> {
        self.rate.map(|rate| 1e9 / rate).or(self.cpu_ns).filter(|ns| *ns > 0.0)
    }
}

/// A candidate in a stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Runner {
    pub candidate: Candidate,
    /// One for each block.
    pub heats: Vec<Heat>,
    /// The reason why it left.
    pub left: Option<String>,
}

impl Runner {
    pub fn new(candidate: Candidate) -> Runner {
        Runner { candidate, heats: Vec::new(), left: None }
    }

    /// The pooled share of requests within the objective, of the heats that the machine did not
    /// disturb if there are any.
    pub fn share(&self) -> f64 {
        let is_calm = self.heats.iter().any(|heat| !heat.is_disturbed);
        let heats = || self.heats.iter().filter(|heat| !(is_calm && heat.is_disturbed));
        let sum = |of: fn(&Heat) -> u64| heats().map(of).sum::<u64>();
        sum(|heat| heat.attained) as f64 / sum(|heat| heat.offered).max(1) as f64
    }

    /// Its threads: the most in a heat.
    pub fn threads(&self) -> u64 {
        self.heats.iter().filter_map(|heat| heat.threads).max().unwrap_or(u64::MAX)
    }

    fn log_cost(&self, block: usize) -> Option<f64> {
        self.heats.get(block)?.cost().map(f64::ln)
    }
}

/// Heats without a result after which a candidate leaves.
const FAILURES_MAX: usize = 2;
/// The probability that a stage removes the best candidate by chance, over all its blocks.
const ALPHA: f64 = 0.05;
/// The noise of a heat is never taken for less than this, as a log-ratio.
const NOISE_MIN: f64 = 0.005;

/// The candidates that are still in a stage, all of which have the same number of heats.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Field(pub Vec<Runner>);

impl Field {
    pub fn new(candidates: impl IntoIterator<Item = Candidate>) -> Field {
        Field(candidates.into_iter().map(Runner::new).collect())
    }

    pub fn staying(&self) -> impl Iterator<Item = &Runner> {
        self.0.iter().filter(|runner| runner.left.is_none())
    }

    /// Names in the field.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.staying().map(|runner| runner.candidate.clone()).collect()
    }

    /// Adds the heats of a block, in the order of [`Field::candidates`].
    pub fn add(&mut self, heats: Vec<Heat>) {
        let staying = self.0.iter_mut().filter(|runner| runner.left.is_none());
        staying.zip(heats).for_each(|(runner, heat)| runner.heats.push(heat));
    }

    /// The staying candidates by merit, the best first: those that keep the objective by their
    /// cost, then the others by their share.
    pub fn ranks(&self, objective: f64) -> Vec<&Runner> {
        let effects = self.effects();
        let key = |runner: &Runner| match effects.iter().find(|it| it.0 == runner.candidate) {
            Some((_, cost)) if runner.share() >= objective => (0.0, *cost),
            _ => (1.0 - runner.share(), f64::MAX),
        };
        let mut ranks: Vec<(&Runner, (f64, f64))> =
            self.staying().map(|runner| (runner, key(runner))).collect();
        let by = |a: &(f64, f64), b: &(f64, f64)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
        ranks.sort_by(|a, b| by(&a.1, &b.1));
        ranks.into_iter().map(|it| it.0).collect()
    }

    /// The smallest difference of two log-costs that is told: `margin` and two standard errors.
    pub fn told(&self, margin: f64) -> f64 {
        margin.ln_1p() + 2.0 * self.error()
    }

    /// How many of the first [`Field::ranks`] keep the objective and cost no more than `margin`
    /// above the cheapest, or cannot be told from that.
    pub fn alike(&self, objective: f64, margin: f64) -> usize {
        let (ranks, effects) = (self.ranks(objective), self.effects());
        let cost = |row: &&Runner| {
            let found = effects.iter().find(|it| it.0 == row.candidate);
            found.filter(|_| row.share() >= objective).map(|it| it.1)
        };
        let Some(least) = ranks.first().and_then(cost) else { return 0 };
        let most = least + self.told(margin);
        let is_alike = |row: &&&Runner| cost(row).is_some_and(|it| it <= most);
        ranks.iter().take_while(is_alike).count()
    }

    /// The mean log-cost of each staying candidate relative to its blocks.
    pub fn effects(&self) -> Vec<(Candidate, f64)> {
        let rows: Vec<&Runner> = self.staying().collect();
        let blocks = rows.iter().map(|row| row.heats.len()).max().unwrap_or(0);
        let centres: Vec<Option<f64>> = (0..blocks)
            .map(|block| {
                median(&rows.iter().filter_map(|row| row.log_cost(block)).collect::<Vec<_>>())
            })
            .collect();
        let effect = |row: &&Runner| {
            let differences = centres.iter().enumerate();
            let found: Vec<f64> =
                differences.filter_map(|(at, it)| Some(row.log_cost(at)? - (*it)?)).collect();
            let mean = found.iter().sum::<f64>() / found.len().max(1) as f64;
            (!found.is_empty()).then(|| (row.candidate.clone(), mean))
        };
        rows.iter().filter_map(effect).collect()
    }

    /// The noise of one log-cost: the median absolute residual of the additive model, scaled to a
    /// standard deviation.
    pub fn noise(&self) -> f64 {
        let effects = self.effects();
        let rows: Vec<&Runner> = self.staying().collect();
        let blocks = rows.iter().map(|row| row.heats.len()).max().unwrap_or(0);
        let mut residuals = Vec::new();
        for block in 0..blocks {
            let here: Vec<f64> = rows
                .iter()
                .filter_map(|row| {
                    let effect = effects.iter().find(|it| it.0 == row.candidate)?.1;
                    Some(row.log_cost(block)? - effect)
                })
                .collect();
            let centre = median(&here).unwrap_or(0.0);
            residuals.extend(here.iter().map(|it| (it - centre).abs()));
        }
        let (k, b) = (effects.len() as f64, blocks as f64);
        // Fitting candidates and blocks takes degrees of freedom away from the residuals.
        let freedom = ((k - 1.0) * (b - 1.0)).max(1.0);
        let scale = 1.4826 * (k * b / freedom).sqrt();
        (median(&residuals).unwrap_or(0.0) * scale).max(NOISE_MIN)
    }

    /// The standard error of a difference of two candidates' log-costs.
    fn error(&self) -> f64 {
        let blocks = self.staying().map(|row| row.heats.len()).max().unwrap_or(0);
        self.noise() * (2.0 / blocks.max(1) as f64).sqrt()
    }

    /// Removes candidates that fail, that miss the objective while another keeps it, and that cost
    /// more than the cheapest beyond doubt; returns them with their reasons.
    pub fn thin(&mut self, objective: f64, margin: f64) -> Vec<(Candidate, String)> {
        let mut reasons: Vec<(Candidate, String)> = Vec::new();
        for row in self.staying() {
            let failed: Vec<&String> =
                row.heats.iter().filter_map(|heat| heat.failure.as_ref()).collect();
            if failed.len() >= FAILURES_MAX {
                reasons.push((row.candidate.clone(), failed[0].clone()));
            }
        }
        let ranks: Vec<&Runner> = self.ranks(objective);
        let Some(&best) = ranks.first() else { return self.remove(reasons) };
        let blocks = best.heats.len();
        let is_kept = best.share() >= objective;
        let bar = if is_kept { objective } else { best.share() };
        for row in ranks.iter().skip(1) {
            if reasons.iter().any(|it| it.0 == row.candidate) {
                continue;
            }
            let low = row.heats.iter().filter(|heat| heat.share() < bar).count();
            if row.share() < bar && low == blocks && upper(row) < bar {
                let (found, wanted) = (100.0 * row.share(), 100.0 * bar);
                let text = format!("{found:.1} % within the objective, not {wanted:.1} %");
                reasons.push((row.candidate.clone(), text));
            }
        }
        if is_kept {
            reasons.extend(self.costlier(&best.candidate, objective, margin, blocks));
        }
        self.remove(reasons)
    }

    /// Candidates that keep the objective and cost more than `best` and the margin beyond doubt
    /// (Holm's correction over them, and over all blocks by 1 / (b (b + 1))).
    fn costlier(
        &self,
        best: &Candidate,
        objective: f64,
        margin: f64,
        blocks: usize,
    ) -> Vec<(Candidate, String)> {
        let effects = self.effects();
        let of = |candidate: &Candidate| effects.iter().find(|it| it.0 == *candidate);
        let Some((_, least)) = of(best) else { return Vec::new() };
        let error = self.error();
        let rivals = self.staying().filter(|it| it.candidate != *best && it.share() >= objective);
        let mut tested: Vec<(&Candidate, f64, f64)> = rivals
            .filter_map(|it| {
                let more = of(&it.candidate)?.1 - least;
                Some((&it.candidate, more, normal_share((margin.ln_1p() - more) / error)))
            })
            .collect();
        tested.sort_by(|a, b| a.2.total_cmp(&b.2));
        let alpha = ALPHA / (blocks * (blocks + 1)) as f64;
        let count = tested.len();
        let beyond =
            tested.iter().enumerate().take_while(|(at, it)| it.2 <= alpha / (count - at) as f64);
        let text = |more: f64| format!("{:.0} % more CPU than {best}", 100.0 * (more.exp() - 1.0));
        beyond.map(|(_, it)| (it.0.clone(), text(it.1))).collect()
    }

    fn remove(&mut self, reasons: Vec<(Candidate, String)>) -> Vec<(Candidate, String)> {
        for (candidate, why) in &reasons {
            let row = self.0.iter_mut().find(|row| row.candidate == *candidate);
            row.into_iter().for_each(|row| row.left = Some(why.clone()));
        }
        reasons
    }
}

/// The upper end of Wilson's 95 % interval of a candidate's share (Wilson, *Probable inference*,
/// 1927).
fn upper(row: &Runner) -> f64 {
    const Z: f64 = 1.96;
    let n = row.heats.iter().map(|heat| heat.offered).sum::<u64>().max(1) as f64;
    let p = row.share();
    let centre = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((centre + half) / (1.0 + Z * Z / n)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Rng;

    /// Heats of candidates with these costs and shares, with noise of 2 %.
    fn field(truth: &[(&str, f64, f64)], blocks: usize) -> Field {
        let mut field = Field::new(truth.iter().map(|it| Candidate::usual(it.0)));
        let mut rng = Rng::new(3);
        for _ in 0..blocks {
            let disturbance = 1.0 + 0.2 * rng.unit();
            let heat = |&(_, cost, share): &(&str, f64, f64)| Heat {
                offered: 1_000,
                attained: (1_000.0 * share) as u64,
                cpu_ns: Some(cost * disturbance * (1.0 + 0.04 * (rng.unit() - 0.5))),
                ..Heat::default()
            };
            let heats = truth.iter().map(heat).collect();
            field.add(heats);
        }
        field
    }

    #[test]
    fn costlier_and_failing_candidates_leave_with_a_reason_and_equals_stay() {
        let truth = [("a", 100.0, 1.0), ("b", 101.0, 0.995), ("c", 140.0, 1.0), ("d", 50.0, 0.9)];
        let mut field = field(&truth, 3);
        let left = field.thin(0.99, 0.03);
        let names: Vec<&str> = left.iter().map(|it| it.0.server.as_str()).collect();
        assert_eq!(names, ["d", "c"], "{left:?}");
        assert_eq!(left[0].1, "90.0 % within the objective, not 99.0 %");
        assert!(left[1].1.ends_with(" % more CPU than a"), "{left:?}");
        assert_eq!(field.candidates().len(), 2);
        assert!(field.noise() < 0.04, "the disturbance of blocks is not noise: {}", field.noise());
    }

    #[test]
    fn without_a_server_that_keeps_the_objective_the_best_share_stays() {
        let mut field = field(&[("a", 100.0, 0.5), ("b", 10.0, 0.3), ("c", 100.0, 0.49)], 2);
        field.thin(0.99, 0.03);
        assert_eq!(field.ranks(0.99)[0].candidate.server, "a");
        assert!(!field.candidates().contains(&Candidate::usual("b")));
    }

    #[test]
    fn a_server_that_does_not_start_leaves() {
        let mut field = Field::new(["a", "b"].map(Candidate::usual));
        let failure = Some("no such engine".to_string());
        for _ in 0..2 {
            let fine = Heat { offered: 9, attained: 9, cpu_ns: Some(1.0), ..Heat::default() };
            field.add(vec![fine, Heat { failure: failure.clone(), ..Heat::default() }]);
        }
        let left = field.thin(0.99, 0.03);
        assert_eq!(left, [(Candidate::usual("b"), "no such engine".to_string())]);
    }
}
