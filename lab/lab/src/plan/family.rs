//! The comparisons that a plan promises.
//!
//! A plan that names no metrics registers two for each load point and not all: each further
//! comparison raises the bar for the others.

use super::{LoadPoint, Plan};
use crate::metric::Metric;
use stats::VALUES_MIN;

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

    /// Why this plan can yield no verdict, whatever is measured. `None` if it can yield one.
    pub fn hopeless(&self) -> Option<String> {
        let blocks = self.blocks;
        (self.family() > 0 && (blocks as usize) < VALUES_MIN).then(|| {
            format!(
                "{blocks} blocks can give no verdict: a 95 % interval needs {VALUES_MIN}. \
                 The numbers will be shown without one"
            )
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

    /// Two arms next to the baseline, two points, two metrics.
    #[test]
    fn it_is_known_beforehand_whether_a_plan_can_find_anything() {
        let mut asked = plan();
        assert_eq!((asked.family(), asked.hopeless()), (8, None));
        asked.blocks = 5;
        assert!(asked.hopeless().is_some_and(|it| it.contains("a 95 % interval needs 6")));
        asked.arms.truncate(1);
        assert_eq!(asked.hopeless(), None);
    }
}
