//! The answer of a race in figures: which servers are cheapest, which is costliest, by how
//! much, and what an idle connection costs.
//!
//! After the first [`CLEAR_BLOCKS`] blocks of a race with a budget, arms leave that were clearly
//! costlier than the cheapest at every load point ([`leaving`]): by a quarter, beyond doubt, and
//! far beyond the twin. Among the others all pairs are compared ([`RaceEvidence`]), not only each
//! with the baseline.

use super::evidence::RaceEvidence;
use crate::cause::Reason;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::trial::{Ending, Trial};
use serde::{Deserialize, Serialize};
use stats::{Decision, Terms, VALUES_MIN, decide, median, median_interval};

/// Blocks after which clearly costlier arms leave.
const CLEAR_BLOCKS: u32 = VALUES_MIN as u32;
/// An arm is clearly costlier if it took this many times the CPU of the cheapest,
const CLEAR_RATIO: f64 = 1.25;
/// and its log-ratio was this many times the median of the twin's distances.
const CLEAR_NOISES: f64 = 3.0;
/// Trials without a result after which an arm leaves.
const FAILURES_MAX: usize = 2;

/// The answer of a race.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RaceAnswer {
    /// Costs at each load point.
    pub costs: Vec<CostAnswer>,
    /// Memory for idle connections, in the order of the arms.
    pub rooms: Vec<Room>,
    /// Why the costlier arms are costlier; empty where system calls were not counted.
    #[serde(default)]
    pub reasons: Vec<Reason>,
}

/// CPU per request at one load point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostAnswer {
    /// Name of the load point.
    pub point: String,
    /// The arms by cost, the cheapest first.
    pub ranks: Vec<Rank>,
    /// Share of the CPU time of the cheapest arms that the kernel took, 0 to 1.
    pub kernel_share: Option<f64>,
}

/// One arm at one load point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// Name of the arm.
    pub arm: String,
    /// CPU per request, nanoseconds: the median.
    pub cpu_ns: f64,
    /// CPU per request over that of the cheapest arm, with its interval: (ratio, low, high).
    pub over_cheapest: (f64, f64, f64),
    /// The same over the baseline.
    pub over_baseline: (f64, f64, f64),
    /// Whether it is costlier than the cheapest beyond doubt.
    pub costlier: bool,
    /// Blocks in which it was compared; below six there is no interval.
    pub blocks: u32,
}

/// The cost of idle connections to one arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Room {
    /// Name of the arm.
    pub arm: String,
    /// Connections that each asked once and then fell silent.
    pub wanted: u32,
    /// How many of them were answered: the median.
    pub answered: f64,
    /// Memory for each, bytes; absent where some were not answered.
    pub bytes_each: Option<f64>,
    /// The interval of that median.
    pub interval: Option<stats::Interval>,
}

impl Rank {
    /// Whether it was compared in enough blocks for an interval.
    fn is_known(&self) -> bool {
        self.blocks as usize >= VALUES_MIN
    }

    /// Whether it is one of the cheapest: not costlier beyond doubt than the first.
    pub fn is_cheapest(&self) -> bool {
        self.is_known() && !self.costlier
    }
}

impl CostAnswer {
    /// The cheapest arms.
    pub fn cheapest(&self) -> impl Iterator<Item = &Rank> {
        self.ranks.iter().filter(|rank| rank.is_cheapest())
    }

    /// Whether two arms or more have an interval.
    pub fn is_known(&self) -> bool {
        self.ranks.iter().filter(|rank| rank.is_known()).count() > 1
    }
}

/// The arms that were clearly costlier than the cheapest at every load point of the first blocks;
/// the baseline stays.
pub(super) fn cleared(plan: &Plan, trials: &[Trial]) -> Vec<String> {
    // An arm that is costlier may still be the quickest.
    let is_cost_alone = plan.metrics == [Metric::Cpu];
    if plan.turns.budget_ms.is_none()
        || !is_cost_alone
        || trials.iter().all(|trial| trial.block + 1 < CLEAR_BLOCKS)
    {
        return Vec::new();
    }
    let first: Vec<Trial> = trials.iter().filter(|it| it.block < CLEAR_BLOCKS).cloned().collect();
    let evidence = RaceEvidence::without(plan, &first, Vec::new());
    let everywhere: Vec<Vec<String>> =
        plan.points.iter().map(|point| clearly_costlier(&evidence, &point.name)).collect();
    let names = plan.arms.iter().map(|arm| arm.name.clone());
    let names = names.filter(|arm| *arm != plan.baseline);
    names.filter(|arm| everywhere.iter().all(|costlier| costlier.contains(arm))).collect()
}

/// The arms that were clearly costlier than the cheapest in the first blocks at a point.
fn clearly_costlier(evidence: &RaceEvidence<'_>, point: &str) -> Vec<String> {
    let order = order(evidence, point);
    let Some(cheapest) = order.first().map(|it| it.0.clone()) else { return Vec::new() };
    let twin = evidence.twin(point, Metric::Cpu).map(|it| it.log_ratios).unwrap_or_default();
    let distances: Vec<f64> = twin.iter().map(|it| it.abs()).collect();
    let least = CLEAR_RATIO.ln().max(CLEAR_NOISES * median(&distances).unwrap_or(0.0));
    let terms = Terms { floor: least, ..evidence.terms(point, Metric::Cpu) };
    let is_clear = |arm: &str| {
        let found = evidence.comparison(point, Metric::Cpu, [arm, &cheapest]);
        found.is_some_and(|it| {
            it.log_ratios.len() == CLEAR_BLOCKS as usize && decide(&it, terms) == Decision::Worse
        })
    };
    order.into_iter().map(|it| it.0).filter(|arm| is_clear(arm)).collect()
}

/// The arms with a cost at the point, the cheapest first: name and log-ratio to the baseline.
fn order(evidence: &RaceEvidence<'_>, point: &str) -> Vec<(String, f64)> {
    let plan = evidence.plan;
    let over = |arm: &str| evidence.comparison(point, Metric::Cpu, [arm, &plan.baseline]);
    let arms = plan.arms.iter().map(|arm| arm.name.clone());
    let mut found: Vec<(String, f64)> =
        arms.filter_map(|arm| over(&arm).map(|it| (arm, it.ratio.ln()))).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    found
}

/// The arms that take no part in a block: those without a result in several trials, and those that
/// were clearly costlier at every load point. The baseline and its twin stay. Only trials of
/// earlier blocks decide, so a race that goes on after a stop has the same field.
pub(crate) fn leaving(plan: &Plan, trials: &[Trial], block: u32) -> Vec<String> {
    let failures = |arm: &str| {
        let failed = |it: &&Trial| {
            it.arm == arm && it.block < block && matches!(it.ending, Ending::Failed { .. })
        };
        trials.iter().filter(failed).count()
    };
    let entrants = plan.entrants();
    let failing = entrants.iter().filter(|arm| failures(&arm.name) >= FAILURES_MAX);
    let mut gone: Vec<String> = failing.map(|arm| arm.name.clone()).collect();
    if block >= CLEAR_BLOCKS {
        gone.extend(cleared(plan, trials));
    }
    gone
}

/// Whether more blocks could change nothing: at every load point all arms that are still in the
/// race are within the margin of the cheapest, and of the baseline in what else the plan registers.
/// A difference never ends a race, because each further look could find one by chance.
pub(crate) fn is_settled(plan: &Plan, trials: &[Trial]) -> bool {
    let evidence = RaceEvidence::of(plan, trials);
    plan.points.iter().all(|point| {
        let found = cost(&evidence, trials, &point.name);
        let within = |rank: &Rank| rank.over_cheapest.2 < 1.0 + plan.margin;
        let cleared = |rank: &Rank| evidence.cleared.contains(&rank.arm);
        // Few requests support a tail, and memory may be unreadable: neither keeps a race running.
        let ignored = [Metric::Cpu, Metric::P99, Metric::P999];
        let others = plan.registered(point).into_iter().filter(|it| !ignored.contains(it));
        let others_equal = others.into_iter().all(|metric| {
            let terms = evidence.terms(&point.name, metric);
            let arms = plan.arms.iter().filter(|arm| arm.name != plan.baseline);
            arms.map(|arm| [arm.name.as_str(), plan.baseline.as_str()]).all(|pair| {
                let found = evidence.comparison(&point.name, metric, pair);
                found.is_none_or(|it| decide(&it, terms) == Decision::Equal)
            })
        });
        let is_equal = found.ranks.iter().all(|it| cleared(it) || within(it));
        found.is_known() && is_equal && others_equal
    })
}

pub(super) fn answer(plan: &Plan, trials: &[Trial], evidence: &RaceEvidence<'_>) -> RaceAnswer {
    let costs = plan.points.iter().map(|point| cost(evidence, trials, &point.name)).collect();
    let rooms = plan.arms.iter().filter_map(|arm| room(&arm.name, trials)).collect();
    RaceAnswer { costs, rooms, reasons: Vec::new() }
}

/// The costs at a load point.
fn cost(evidence: &RaceEvidence<'_>, trials: &[Trial], point: &str) -> CostAnswer {
    let (here, terms) = (evidence.at(point), evidence.terms(point, Metric::Cpu));
    let order = order(evidence, point);
    let cheapest = order.first().map_or("", |it| it.0.as_str());
    let own = |arm: &str| {
        let costs = here.iter().filter(|it| it.arm == arm);
        median(&costs.filter_map(|it| Metric::Cpu.in_trial(it)).collect::<Vec<f64>>())
    };
    let rank = |(arm, _): &(String, f64)| {
        let over = |other: &str| evidence.comparison(point, Metric::Cpu, [arm, other]);
        let (over_cheapest, over_baseline) = (over(cheapest)?, over(&evidence.plan.baseline)?);
        let is_worse = decide(&over_cheapest, terms) == Decision::Worse;
        Some(Rank {
            arm: arm.clone(),
            cpu_ns: own(arm)?,
            costlier: arm != cheapest && (is_worse || evidence.cleared.contains(arm)),
            blocks: over_cheapest.log_ratios.len() as u32,
            over_cheapest: over_cheapest.triple(),
            over_baseline: over_baseline.triple(),
        })
    };
    let ranks = order.iter().filter_map(rank).collect();
    let found = CostAnswer { point: point.to_string(), ranks, kernel_share: None };
    CostAnswer { kernel_share: kernel_share(trials, &found), ..found }
}

/// The kernel's share of the CPU time of the cheapest arms. A block is a few ticks long, so only
/// the sum over blocks and arms tells a share.
fn kernel_share(trials: &[Trial], cost: &CostAnswer) -> Option<f64> {
    let cheapest: Vec<&str> = cost.cheapest().map(|rank| rank.arm.as_str()).collect();
    let here = trials.iter().filter(|it| it.point == cost.point);
    let lives = here
        .filter(|it| cheapest.contains(&it.arm.as_str()))
        .filter_map(|it| it.seen.cost.as_ref().filter(|life| life.doubts.is_empty()));
    let (user, system) =
        lives.fold((0, 0), |sum, life| (sum.0 + life.user_ns, sum.1 + life.system_ns));
    (user + system > 0).then(|| system as f64 / (user + system) as f64)
}

fn room(arm: &str, trials: &[Trial]) -> Option<Room> {
    let mine = trials.iter().filter(|trial| trial.arm == arm);
    let found: Vec<_> = mine.filter_map(|trial| trial.seen.idle.as_ref()).collect();
    let answered: Vec<f64> =
        found.iter().map(|it| f64::from(it.answered.unwrap_or(it.opened))).collect();
    let bytes: Vec<f64> = found.iter().filter_map(|it| it.bytes_each).collect();
    Some(Room {
        arm: arm.to_string(),
        wanted: found.first()?.wanted,
        answered: median(&answered)?,
        bytes_each: median(&bytes),
        interval: median_interval(&bytes),
    })
}

#[cfg(test)]
mod tests;
