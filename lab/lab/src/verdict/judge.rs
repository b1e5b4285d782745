//! The verdict on one comparison, and the part of it that remains valid with a busy generator.

use super::{ArmVerdict, Verdict};
use crate::metric::Metric;
use stats::{Comparison, Judgement, Terms};

/// The sides that the generator held back.
#[derive(Clone, Copy)]
pub(super) struct Sides {
    pub(super) arm: bool,
    pub(super) baseline: bool,
}

/// The verdict on one comparison. `floor` is a log-ratio, `margin` a share (0.03 = 3 %).
pub(super) fn judge(
    metric: Metric,
    comparison: Comparison,
    floor: f64,
    margin: f64,
    limited: Sides,
) -> ArmVerdict {
    let Judgement { verdict, mut forecast } =
        stats::judge(&comparison, metric.better(), Terms { floor, margin });
    let mut verdict = Verdict::from(verdict);
    let mut at_least = false;
    if metric.needs_generator() && (limited.arm || limited.baseline) {
        at_least = match verdict {
            Verdict::Better => !limited.baseline,
            Verdict::Worse => !limited.arm,
            _ => false,
        };
        if !at_least {
            (verdict, forecast) = (Verdict::GeneratorLimited, None);
        }
    }
    ArmVerdict {
        metric,
        comparison,
        verdict,
        at_least,
        forecast,
        hodges_lehmann: None,
        p: None,
        p_corrected: None,
        registered: false,
        held_back: false,
    }
}
