//! The comparisons that a plan promises, and whether its blocks can resolve that many.
//!
//! Holm's correction multiplies the smallest p by the number of pre-registered comparisons. No data
//! can make that p smaller than 2 / 2^blocks: all blocks on one side, both tails. So arithmetic
//! tells before the first trial whether a race can find anything. A moderate number of comparisons
//! suffices to make it impossible: ten metrics of three arms at two load points are 60 comparisons,
//! which ten blocks can never resolve (60 x 2 / 1024 = 0.117). Therefore a plan that names no
//! metrics registers two for each load point and not all.

use super::{LoadPoint, Plan};
use crate::metric::Metric;
use stats::{CONFIDENCE, VALUES_MIN, blocks_for_family, p_least};

impl Plan {
    /// Whether a metric was pre-registered at a load point.
    pub fn registers(&self, point: &LoadPoint, metric: Metric) -> bool {
        match self.metrics.as_slice() {
            [] => metric == Metric::Cpu || metric == point.lead(),
            named => named.contains(&metric),
        }
    }

    /// The pre-registered metrics of a load point, in the order of tables.
    pub fn registered(&self, point: &LoadPoint) -> Vec<Metric> {
        let wanted = |metric: &Metric| self.registers(point, *metric) && point.can_have(*metric);
        Metric::EVERY.into_iter().filter(wanted).collect()
    }

    /// The metric that answers a load point's question: its own ([`LoadPoint::lead`]), or the first
    /// registered one if the plan does not register that.
    pub fn lead(&self, point: &LoadPoint) -> Metric {
        match self.registered(point).first() {
            Some(&first) if !self.registers(point, point.lead()) => first,
            _ => point.lead(),
        }
    }

    /// The number of pre-registered comparisons with the baseline.
    pub fn family(&self) -> usize {
        let others = self.arms.len().saturating_sub(1);
        self.points.iter().map(|point| self.registered(point).len() * others).sum()
    }

    /// Why this plan can yield no verdict, or none that survives the correction, whatever is
    /// measured. `None` if it can yield one.
    pub fn hopeless(&self) -> Option<String> {
        let (blocks, family) = (self.blocks, self.family());
        let p = p_least(blocks);
        if family == 0 {
            return None;
        }
        if (blocks as usize) < VALUES_MIN {
            return Some(format!(
                "{blocks} blocks can give no verdict: a 95 % interval needs {VALUES_MIN}. \
                 The numbers will be shown without one"
            ));
        }
        if p * family as f64 <= 1.0 - CONFIDENCE {
            return None;
        }
        let needed = blocks_for_family(family);
        let small = self.label == "smoke";
        Some(match small {
            true => format!(
                "{blocks} blocks are a smoke test: the verdicts are not corrected for {family} \
                 comparisons (the smallest p is {p:.4}). From {needed} blocks on one can survive \
                 the correction; or name fewer `metrics`"
            ),
            false => format!(
                "no verdict can survive: {family} comparisons times the smallest p of {blocks} \
                 blocks, {p:.4}, is {:.3}, above 0.05. Take {needed} blocks or name fewer \
                 `metrics`",
                p * family as f64
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use crate::plan::{Arrivals, Model, Rate};

    #[test]
    fn without_named_metrics_a_point_registers_its_question_and_its_cost() {
        fn check(change: impl Fn(&mut LoadPoint), want: &[Metric]) {
            let mut point = LoadPoint::default();
            change(&mut point);
            assert_eq!(plan().registered(&point), want);
        }
        let rate = Rate::Slowest(0.5);
        check(|_| {}, &[Metric::Throughput, Metric::Cpu]);
        check(
            |it| it.model = Model::Open { rate, arrivals: Arrivals::Poisson },
            &[Metric::Cpu, Metric::P99],
        );
        check(
            |it| {
                it.model = Model::Capacity { quantile: 0.99, limit_ns: 1_000_000, resolution: 0.05 }
            },
            &[Metric::Cpu, Metric::Capacity],
        );
        let mut named = plan();
        named.metrics = vec![Metric::Recovery, Metric::P50];
        let closed = LoadPoint::default();
        assert_eq!(named.registered(&closed), [Metric::P50], "no overload, no recovery");
        assert_eq!((named.lead(&closed), plan().lead(&closed)), (Metric::P50, Metric::Throughput));
    }

    /// Two arms beside the baseline, two points, two metrics.
    #[test]
    fn it_is_known_beforehand_whether_a_plan_can_find_anything() {
        fn check(change: impl Fn(&mut Plan), want: Option<&str>) {
            let mut asked = plan();
            change(&mut asked);
            asked.label = Plan::label_for(asked.blocks).to_string();
            let found = asked.hopeless();
            let fits = match (&found, want) {
                (None, None) => true,
                (Some(found), Some(want)) => found.contains(want),
                _ => false,
            };
            assert!(fits, "expected {want:?}, found {found:?}");
        }
        assert_eq!(plan().family(), 8);
        check(|it| it.blocks = 5, Some("a 95 % interval needs 6"));
        check(|it| it.blocks = 6, Some("From 9 blocks on"));
        check(|it| it.blocks = 10, None);
        let every = |it: &mut Plan| {
            it.metrics = Metric::EVERY.to_vec();
            it.blocks = 10;
        };
        // Seven metrics that a closed point can have: 28 x 2 / 1024.
        check(every, Some("is 0.055, above 0.05. Take 11 blocks"));
        check(|it| it.arms.truncate(1), None);
    }
}
