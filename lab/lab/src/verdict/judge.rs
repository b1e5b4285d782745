//! The decision on one comparison, and the part of it that remains valid with a busy generator.

use super::ArmVerdict;
use crate::metric::Metric;
use stats::{Comparison, Decision, Terms, decide, forecast};

/// The sides that the generator held back.
#[derive(Clone, Copy)]
pub(super) struct Sides {
    pub(super) arm: bool,
    pub(super) baseline: bool,
}

/// The decision on one comparison.
pub(super) fn judge(
    metric: Metric,
    comparison: Comparison,
    terms: Terms,
    sides: Sides,
) -> ArmVerdict {
    let (mut decision, mut forecast) = (decide(&comparison, terms), forecast(&comparison, terms));
    let limited = metric.needs_generator() && (sides.arm || sides.baseline);
    let at_least = limited
        && match decision {
            Decision::Better => !sides.baseline,
            Decision::Worse => !sides.arm,
            Decision::Equal | Decision::Open => false,
        };
    if limited && !at_least {
        (decision, forecast) = (Decision::Open, None);
    }
    ArmVerdict { metric, comparison, decision, limited, at_least, forecast, registered: false }
}
