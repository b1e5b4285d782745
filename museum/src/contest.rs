//! Arms that run in this process, or that are driven one by one, in paired blocks.
//!
//! A block runs every arm once in random order, so a disturbance of the machine that lasts a block
//! hits all of them. The baseline runs twice: its twin shows the distance between two runs of the
//! same code (A/A), and a difference within that distance counts as none. An arm returns a cost:
//! nanoseconds an operation, where less is better. The twin's difference is surprisingly large:
//! many published figures lie within it.

use crate::exhibit::Fault;
use crate::stage::Stage;
use lab::machine::{Conditions, Watch};
use lab::verdict::{Metric, Verdict};
use rustix::time::{ClockId, clock_gettime};
pub use stats::Rng;
use stats::words;
use stats::{Better, Comparison, Terms, compare, judge, median};
use std::time::Duration;

/// The margin of equivalence: within 5 %.
pub const MARGIN: f64 = 0.05;
/// Resamples of the second interval.
const RESAMPLES: usize = 1_000;

/// An arm of a contest.
pub struct Arm<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<f64, Fault> + 'a>,
}

impl<'a> Arm<'a> {
    /// An arm whose `run` returns its cost, above 0.
    pub fn new(name: impl Into<String>, mut run: impl FnMut() -> f64 + 'a) -> Arm<'a> {
        Arm { name: name.into(), run: Box::new(move || Ok(run())) }
    }

    /// An arm that can fail.
    pub fn trying(
        name: impl Into<String>,
        run: impl FnMut() -> Result<f64, Fault> + 'a,
    ) -> Arm<'a> {
        Arm { name: name.into(), run: Box::new(run) }
    }
}

/// Arms that are compared with each other.
pub struct Contest<'a> {
    /// The question, for the raw data.
    pub what: String,
    /// Its arms; the first is the baseline, which has a twin.
    pub arms: Vec<Arm<'a>>,
    /// Blocks; an interval needs six.
    pub blocks: u32,
    /// Its arms note more than their cost, so a stopped run's costs are not enough.
    pub notes: bool,
}

impl<'a> Contest<'a> {
    /// A contest without arms.
    pub fn new(what: impl Into<String>, blocks: u32) -> Contest<'a> {
        Contest { what: what.into(), arms: Vec::new(), blocks, notes: false }
    }

    /// Adds an arm.
    pub fn arm(&mut self, name: impl Into<String>, run: impl FnMut() -> f64 + 'a) {
        self.arms.push(Arm::new(name, run));
    }
}

/// The result of a contest: a cost of every arm in every block.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    names: Vec<String>,
    /// `by_arm[arm][block]`.
    by_arm: Vec<Vec<f64>>,
    twin: Vec<f64>,
    conditions: Option<Conditions>,
}

impl Costs {
    /// Costs from values alone, for tests and for sums of contests; `by_arm[arm][block]`.
    pub fn new(names: &[&str], by_arm: Vec<Vec<f64>>, twin: Vec<f64>) -> Costs {
        let names = names.iter().map(ToString::to_string).collect();
        Costs { names, by_arm, twin, conditions: None }
    }

    /// The costs of an arm, block by block.
    pub fn of(&self, name: &str) -> &[f64] {
        let at = self.names.iter().position(|it| it == name);
        at.map_or(&[], |at| self.by_arm[at].as_slice())
    }

    /// Its median cost.
    pub fn median(&self, name: &str) -> Option<f64> {
        median(self.of(name))
    }

    /// `arm` against `other`, block by block.
    pub fn against(&self, arm: &str, other: &str) -> Option<Comparison> {
        let pairs: Vec<(f64, f64)> =
            self.of(arm).iter().copied().zip(self.of(other).iter().copied()).collect();
        compare(&pairs, RESAMPLES, 1)
    }

    /// The baseline's twin against the baseline.
    pub fn twin(&self) -> Option<Comparison> {
        let base = self.by_arm.first()?;
        let pairs: Vec<(f64, f64)> = self.twin.iter().copied().zip(base.iter().copied()).collect();
        compare(&pairs, RESAMPLES, 1)
    }

    /// The noise floor: the distance of the twin from its baseline, as a log-ratio.
    pub fn floor(&self) -> f64 {
        self.twin().map_or(0.0, |twin| twin.floor())
    }

    /// The verdict on a comparison of two costs.
    pub fn verdict(&self, found: &Comparison) -> Verdict {
        let terms = Terms { floor: self.floor(), margin: MARGIN };
        judge(found, Better::Less, terms).verdict.into()
    }

    /// `2.31× [2.20, 2.44] costlier`, or a dash.
    pub fn judged(&self, arm: &str, other: &str) -> String {
        match self.against(arm, other) {
            Some(found) => {
                let word = self.verdict(&found).word(Metric::Cpu);
                format!("{} {word}", words::compared(&found))
            }
            None => words::NONE.to_string(),
        }
    }

    /// The other activity of the machine meanwhile.
    pub fn conditions(&self) -> Option<&Conditions> {
        self.conditions.as_ref()
    }
}

/// The results in a row.
#[derive(serde::Deserialize)]
struct Known {
    costs: Vec<Vec<f64>>,
    twin: Vec<f64>,
    conditions: Conditions,
}

impl Stage<'_> {
    /// Runs all blocks after one that is not counted. `None` if the visitor stopped the run before
    /// the first block ended.
    ///
    /// # Errors
    /// That of an arm.
    pub fn contest(&mut self, mut contest: Contest<'_>) -> Result<Option<Costs>, Fault> {
        let names: Vec<String> = contest.arms.iter().map(|arm| arm.name.clone()).collect();
        let mut costs = Costs { by_arm: vec![Vec::new(); names.len()], names, ..Costs::default() };
        self.begin(&contest.what);
        let key = serde_json::json!({
            "row": "contest", "what": contest.what, "arms": costs.names, "blocks": contest.blocks,
        });
        let known = if contest.notes { None } else { self.known(&key) };
        if let Some(Known { costs: by_arm, twin, conditions }) = known {
            self.step(&format!("{}, known", contest.what));
            return Ok(Some(Costs { by_arm, twin, conditions: Some(conditions), ..costs }));
        }
        let watch = Watch::start();
        let mut rng = Rng::new(u64::from(self.settings().seed));
        for block in 0..=contest.blocks {
            if self.stopped() {
                break;
            }
            let mut block_costs = vec![f64::NAN; contest.arms.len() + 1];
            for at in rng.order(block_costs.len()) {
                // The last is the twin: the baseline once more.
                let arm = if at == contest.arms.len() { 0 } else { at };
                block_costs[at] = (contest.arms[arm].run)()?;
            }
            if block > 0 {
                costs.twin.extend(block_costs.pop());
                costs.by_arm.iter_mut().zip(block_costs).for_each(|(all, cost)| all.push(cost));
                self.step(&format!("{}, block {block}", contest.what));
            }
        }
        let conditions = watch.stop();
        if !self.stopped() {
            self.record(&serde_json::json!({
                "row": "contest", "what": contest.what, "arms": costs.names,
                "blocks": contest.blocks, "costs": costs.by_arm, "twin": costs.twin,
                "conditions": conditions,
            }))?;
        }
        self.quiet.counts(&conditions);
        costs.conditions = Some(conditions);
        Ok((!costs.twin.is_empty()).then_some(costs))
    }

    /// The sentence and the facts of every contest: noise floor, blocks, other activity of the
    /// machine.
    pub fn contest_facts(&mut self, all: &[&Costs]) -> Vec<(String, String)> {
        if cfg!(debug_assertions) {
            self.doubt("This program was built with assertions: its times are no figures to cite.");
        }
        let floor = all.iter().map(|costs| costs.floor()).fold(0.0, f64::max);
        let blocks = all.iter().map(|costs| costs.twin.len()).min().unwrap_or(0);
        let foreign = all.iter().filter_map(|it| it.conditions()?.foreign).fold(0.0, f64::max);
        let steal = all.iter().filter_map(|it| it.conditions()?.steal).fold(0.0, f64::max);
        vec![
            ("Blocks".to_string(), blocks.to_string()),
            (
                "A/A floor".to_string(),
                format!("{} at most, from the baseline's twin", words::percent(floor.exp() - 1.0)),
            ),
            (
                "Meanwhile".to_string(),
                format!(
                    "other programs {} of the machine at most, hypervisor {}",
                    words::percent(foreign),
                    words::percent(steal)
                ),
            ),
        ]
    }
}

/// The costs of a contest for each of `items`, up to the one that the visitor stopped.
///
/// # Errors
/// That of the first contest that fails.
pub fn each_of<T: Copy>(
    items: impl IntoIterator<Item = T>,
    mut contest: impl FnMut(T) -> Result<Option<Costs>, Fault>,
) -> Result<Vec<(T, Costs)>, Fault> {
    let mut all = Vec::new();
    for item in items {
        let Some(costs) = contest(item)? else { break };
        all.push((item, costs));
    }
    Ok(all)
}

/// The processor time of this thread, without that of other threads.
pub fn thread_time() -> Duration {
    elapsed(ClockId::ThreadCPUTime)
}

/// The processor time that all threads of this process have used.
pub fn process_time() -> Duration {
    elapsed(ClockId::ProcessCPUTime)
}

fn elapsed(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Processor time of this thread for `work`, in nanoseconds for each of `operations`.
pub fn ns_each(operations: u64, work: impl FnOnce()) -> f64 {
    let start = thread_time();
    work();
    each(thread_time().saturating_sub(start), operations)
}

/// Nanoseconds for each operation, above 0 so that a ratio can be taken of it.
pub fn each(time: Duration, operations: u64) -> f64 {
    (time.as_nanos() as f64).max(1.0) / operations.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(arm: f64, twin: f64) -> Costs {
        let base: Vec<f64> = (0..8).map(|it| 10.0 + f64::from(it)).collect();
        let times = |factor: f64| base.iter().map(|it| it * factor).collect::<Vec<f64>>();
        Costs::new(&["base", "arm"], vec![times(1.0), times(arm)], times(twin))
    }

    #[test]
    fn a_verdict_needs_more_than_the_twin_shows() {
        fn check(arm: f64, twin: f64, want: Verdict) {
            let costs = sample(arm, twin);
            let found = costs.against("arm", "base").expect("eight blocks");
            assert_eq!(costs.verdict(&found), want, "{arm} {twin}");
        }
        check(2.0, 1.01, Verdict::Worse);
        check(0.5, 1.01, Verdict::Better);
        check(1.02, 1.03, Verdict::Equivalent);
        check(1.3, 1.5, Verdict::Unresolved);
        assert_eq!(sample(2.0, 1.0).judged("arm", "base"), "2.00× [2.00, 2.00] costlier");
        assert_eq!(sample(2.0, 1.0).judged("arm", "another"), words::NONE);
    }
}
