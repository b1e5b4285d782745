//! The verdict on one comparison, and how many blocks would settle it.

use super::{FORECAST_MAX, Judged, Verdict};
use crate::metric::Metric;
use crate::stats::{Comparison, VALUES_MIN};

/// Which side the generator held back.
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
) -> Judged {
    let mut verdict = Verdict::Unresolved;
    let mut forecast = None;
    match comparison.interval {
        None => forecast = Some(VALUES_MIN as u32),
        Some(interval) => {
            // Turned so that more is better; ends change places with the sign.
            let (a, b) = (interval.low.ln() * metric.sign(), interval.high.ln() * metric.sign());
            let (low, high) = (a.min(b), a.max(b));
            let room = (1.0 + margin).ln();
            verdict = if low > -room && high < room {
                Verdict::Equivalent
            } else if low > floor {
                Verdict::Better
            } else if high < -floor {
                Verdict::Worse
            } else {
                Verdict::Unresolved
            };
            if verdict == Verdict::Unresolved {
                let centre = comparison.ratio.ln();
                let blocks = comparison.log_ratios.len();
                forecast = Some(settles_after(blocks, centre, (high - low) / 2.0, floor, room));
            }
        }
    }
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
    Judged {
        metric,
        comparison,
        verdict,
        at_least,
        forecast,
        hodges_lehmann: None,
        p: None,
        p_holm: None,
        registered: false,
        held_back: false,
    }
}

/// How many blocks would probably settle a case, if centre and spread stay as they are: half
/// widths shrink with the square root of the number of blocks, the twin's as the arm's.
pub(super) fn settles_after(blocks: usize, centre: f64, half: f64, floor: f64, room: f64) -> u32 {
    let needed = |now: f64, wanted: f64| {
        if wanted > 0.0 { blocks as f64 * (now / wanted).powi(2) } else { f64::INFINITY }
    };
    let different = needed(half + floor, centre.abs());
    let equal = needed(half, room - centre.abs());
    let least = different.min(equal).ceil().min(f64::from(FORECAST_MAX) + 1.0);
    (least as u32).max(blocks as u32 + 1)
}
