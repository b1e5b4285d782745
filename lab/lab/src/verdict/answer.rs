//! The answer of a race in which servers take turns: which are cheapest, which is dearest, by how
//! much, and what a silent connection costs.
//!
//! After the first [`CLEAR_BLOCKS`] blocks, arms leave that were clearly dearer than the cheapest
//! at every load point ([`leaving`]): by a quarter, beyond doubt, and far beyond the twin.
//! Among the others all pairs are compared, not only each with the baseline: the cheapest arm of a
//! race is chosen after its outcome is known, and of eight equal arms one always comes first by
//! chance. So a pair differs only if its p, corrected over all these pairs at all load points
//! ([`stats::step_down_p`]), is at most 0.05, and its median is larger than that of the twin.

use super::{PointSummary, log_ratios, paired};
use crate::cause::Reason;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::trial::{Ending, Trial};
use serde::{Deserialize, Serialize};
use stats::{CONFIDENCE, Comparison, VALUES_MIN, compare, median, median_interval, step_down_p};

/// Blocks after which clearly dearer arms leave.
const CLEAR_BLOCKS: u32 = VALUES_MIN as u32;
/// An arm is clearly dearer if it took this many times the CPU of the cheapest,
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
    /// Memory for silent connections, in the order of the arms.
    pub rooms: Vec<Room>,
    /// Why the dearer arms are dearer; empty where system calls were not counted.
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
    /// Whether it is dearer than the cheapest beyond doubt.
    pub dearer: bool,
    /// Blocks in which it was compared; below six there is no interval.
    pub blocks: u32,
}

/// The cost of silent connections to one arm.
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

    /// Whether it is one of the cheapest: not dearer beyond doubt than the first.
    pub fn is_cheapest(&self) -> bool {
        self.is_known() && !self.dearer
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

/// One comparison of two arms at a load point.
struct Tested<'a> {
    point: &'a str,
    arms: [&'a str; 2],
    /// Its p, corrected over all comparisons of the race.
    p: f64,
}

/// Whether two arms differ beyond doubt at a load point.
fn are_apart(tested: &[Tested<'_>], point: &str, arms: [&str; 2]) -> bool {
    let is_it =
        |it: &&Tested<'_>| it.point == point && arms.iter().all(|arm| it.arms.contains(arm));
    tested.iter().find(is_it).is_some_and(|it| it.p <= 1.0 - CONFIDENCE)
}

/// The comparisons of all pairs of one race.
struct Field<'a> {
    plan: &'a Plan,
    trials: &'a [Trial],
    /// Arms that left because they were clearly dearer.
    cleared: Vec<String>,
}

impl<'a> Field<'a> {
    fn of(plan: &'a Plan, trials: &'a [Trial]) -> Field<'a> {
        let mut field = Field { plan, trials, cleared: Vec::new() };
        if trials.iter().all(|trial| trial.block + 1 < CLEAR_BLOCKS) {
            return field;
        }
        let tested = field.tested(CLEAR_BLOCKS);
        let everywhere: Vec<Vec<String>> =
            plan.points.iter().map(|point| field.clearly_dearer(&tested, &point.name)).collect();
        let leaves = |arm: &String| {
            *arm != plan.baseline && everywhere.iter().all(|dearer| dearer.contains(arm))
        };
        let names = plan.arms.iter().map(|arm| arm.name.clone());
        field.cleared = names.filter(leaves).collect();
        field
    }

    /// The arms that were clearly dearer than the cheapest in the first blocks at a point.
    fn clearly_dearer(&self, tested: &[Tested<'_>], point: &str) -> Vec<String> {
        let mut here = self.at(point);
        here.retain(|trial| trial.block < CLEAR_BLOCKS);
        let order = self.order(&here);
        let Some(&(cheapest, _)) = order.first() else { return Vec::new() };
        let ratios = |first: &str, second: &str| {
            self.compare(&here, first, second).map(|it| it.log_ratios).unwrap_or_default()
        };
        let twin = if self.plan.twin {
            ratios(&self.plan.twin_name(), &self.plan.baseline)
        } else {
            Vec::new()
        };
        let distances: Vec<f64> = twin.iter().map(|it| it.abs()).collect();
        let least = CLEAR_RATIO.ln().max(CLEAR_NOISES * median(&distances).unwrap_or(0.0));
        let is_clear = |arm: &str| {
            let found = ratios(arm, cheapest);
            let is_far = median(&found).is_some_and(|middle| middle > least);
            found.len() == CLEAR_BLOCKS as usize
                && is_far
                && are_apart(tested, point, [arm, cheapest])
        };
        order.iter().map(|it| it.0).filter(|arm| is_clear(arm)).map(String::from).collect()
    }

    /// All pairs of arms that have not left, at all load points, with their corrected p from the
    /// first `blocks` blocks.
    fn tested(&self, blocks: u32) -> Vec<Tested<'a>> {
        let staying = |name: &&str| !self.cleared.iter().any(|cleared| cleared == name);
        let names = self.plan.arms.iter().map(|arm| arm.name.as_str());
        let names: Vec<&str> = names.filter(staying).collect();
        let played = self.trials.iter().map(|it| it.block + 1).max().unwrap_or(0);
        let blocks = blocks.min(played);
        let (mut found, mut comparisons) = (Vec::new(), Vec::new());
        for (kind, point) in self.plan.points.iter().enumerate() {
            let mut here = self.at(&point.name);
            here.retain(|trial| trial.block < blocks);
            for (at, first) in names.iter().enumerate() {
                for second in &names[at + 1..] {
                    let arms = [*first, *second];
                    comparisons.push((kind, log_ratios(&here, blocks, arms, Metric::Cpu)));
                    found.push(Tested { point: &point.name, arms, p: 1.0 });
                }
            }
        }
        let corrected = step_down_p(&comparisons, self.plan.seed);
        found.iter_mut().zip(corrected).for_each(|(it, p)| it.p = p);
        found
    }

    /// The arms with a cost at the point, the cheapest first: name and median log-ratio to the
    /// baseline.
    fn order(&self, here: &[&Trial]) -> Vec<(&str, f64)> {
        let mut found: Vec<(&str, f64)> = Vec::new();
        for arm in &self.plan.arms {
            if let Some(it) = self.compare(here, &arm.name, &self.plan.baseline) {
                found.push((&arm.name, it.ratio.ln()));
            }
        }
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        found
    }

    fn compare(&self, here: &[&Trial], first: &str, second: &str) -> Option<Comparison> {
        let pairs = paired(here, first, second, Metric::Cpu);
        compare(&pairs, 0, 0)
    }

    /// How far the twin's median is from the baseline.
    fn floor(&self, here: &[&Trial]) -> f64 {
        let twin = self.plan.twin_name();
        let found = self.compare(here, &twin, &self.plan.baseline);
        found.filter(|_| self.plan.twin).map_or(0.0, |it| it.ratio.ln().abs())
    }

    fn at(&self, point: &str) -> Vec<&Trial> {
        self.trials.iter().filter(|trial| trial.point == point).collect()
    }
}

/// The arms that take no part in a block: those without a result in several trials, and those that
/// were clearly dearer at every load point. The baseline and its twin stay. Only trials of earlier
/// blocks decide, so a race that goes on after a stop has the same field.
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
        gone.extend(Field::of(plan, trials).cleared);
    }
    gone
}

/// The arms that left a race in turns because they were clearly dearer at every load point.
pub(super) fn cleared(plan: &Plan, trials: &[Trial]) -> Vec<String> {
    plan.turns.map(|_| Field::of(plan, trials).cleared).unwrap_or_default()
}

/// Whether more blocks could change nothing: at every load point all arms that are still in the
/// race are within the margin of the cheapest. A difference never ends a race, because each further
/// look could find one by chance.
pub(crate) fn is_settled(plan: &Plan, trials: &[Trial]) -> bool {
    let field = Field::of(plan, trials);
    plan.points.iter().all(|point| {
        let found = cost(&field, &[], &point.name);
        let within = |rank: &Rank| rank.over_cheapest.2 < 1.0 + plan.margin;
        let cleared = |rank: &Rank| field.cleared.contains(&rank.arm);
        found.is_known() && found.ranks.iter().all(|it| cleared(it) || within(it))
    })
}

/// The answer of a race whose servers take turns; `None` for other races.
pub(super) fn answer(plan: &Plan, trials: &[Trial], points: &[PointSummary]) -> Option<RaceAnswer> {
    plan.turns?;
    let field = Field::of(plan, trials);
    let tested = field.tested(u32::MAX);
    let costs = points.iter().map(|point| {
        let found = cost(&field, &tested, &point.point);
        // A block is a few ticks long, so only the sum over blocks and arms tells a share.
        let cheapest: Vec<&str> = found.cheapest().map(|rank| rank.arm.as_str()).collect();
        let here = trials.iter().filter(|it| it.point == point.point);
        let lives = here
            .filter(|it| cheapest.contains(&it.arm.as_str()))
            .filter_map(|it| it.seen.cost.as_ref().filter(|life| life.doubts.is_empty()));
        let (user, system) =
            lives.fold((0, 0), |sum, life| (sum.0 + life.user_ns, sum.1 + life.system_ns));
        let kernel_share = (user + system > 0).then(|| system as f64 / (user + system) as f64);
        CostAnswer { kernel_share, ..found }
    });
    let rooms = plan.arms.iter().filter_map(|arm| room(&arm.name, trials));
    let (costs, rooms) = (costs.collect(), rooms.collect());
    Some(RaceAnswer { costs, rooms, reasons: Vec::new() })
}

/// The costs at a load point; an arm is dearer beyond doubt if its comparison with the cheapest is
/// among the tested ones and holds.
fn cost(field: &Field<'_>, tested: &[Tested<'_>], point: &str) -> CostAnswer {
    let here = field.at(point);
    let (order, floor) = (field.order(&here), field.floor(&here));
    let cheapest = order.first().map_or("", |it| it.0);
    let own = |arm: &str| {
        let costs = here.iter().filter(|it| it.arm == arm);
        median(&costs.filter_map(|it| Metric::Cpu.in_trial(it)).collect::<Vec<f64>>())
    };
    let is_dearer = |arm: &str, it: &Comparison| {
        let is_apart = it.ratio.ln() > floor && are_apart(tested, point, [arm, cheapest]);
        is_apart || field.cleared.iter().any(|cleared| cleared == arm)
    };
    let rank = |&(arm, _): &(&str, f64)| {
        let over_cheapest = field.compare(&here, arm, cheapest)?;
        let over_baseline = field.compare(&here, arm, &field.plan.baseline)?;
        Some(Rank {
            arm: arm.to_string(),
            cpu_ns: own(arm)?,
            dearer: arm != cheapest && is_dearer(arm, &over_cheapest),
            blocks: over_cheapest.log_ratios.len() as u32,
            over_cheapest: triple(&over_cheapest),
            over_baseline: triple(&over_baseline),
        })
    };
    let ranks = order.iter().filter_map(rank).collect();
    CostAnswer { point: point.to_string(), ranks, kernel_share: None }
}

fn triple(it: &Comparison) -> (f64, f64, f64) {
    let (low, high) = it.interval.map_or((it.ratio, it.ratio), |range| (range.low, range.high));
    (it.ratio, low, high)
}

fn room(arm: &str, trials: &[Trial]) -> Option<Room> {
    let mine = trials.iter().filter(|trial| trial.arm == arm && trial.counted);
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
