//! An interval as a strip of SVG: a line at 1, the A/A band, a bar from end to end, a dot.
//!
//! The axis is the logarithm of the ratio, so that twice and half are equally far from 1. It is the
//! same for every strip of a page, so strips in a column can be compared by eye.

use stats::Comparison;
use std::fmt::Write;

/// Room at both ends for half a dot, in percent of the width.
const EDGE: f64 = 2.5;

/// The share of the ends that the axis covers; the rest are arrow heads, so that one distant arm
/// does not press all others into a point.
const HELD: f64 = 0.75;

/// A common axis for all strips of a page: log-ratios from `-reach` to `reach`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    reach: f64,
}

impl Axis {
    /// An axis of at least ±10 % and at most a factor of 2 that holds three quarters of the
    /// ratios, and a little more.
    pub fn holding(ends: impl Iterator<Item = f64>) -> Axis {
        let mut logs: Vec<f64> = ends.map(|ratio| ratio.ln().abs()).collect();
        logs.sort_by(f64::total_cmp);
        let at = (logs.len() as f64 * HELD).ceil() as usize;
        let widest = logs.get(at.saturating_sub(1)).copied().unwrap_or(0.0);
        Axis { reach: (widest.max(0.1) * 1.25).min(2.0_f64.ln()) }
    }

    /// The position of a log-ratio, in percent of the width.
    fn at(&self, log: f64) -> f64 {
        let share = (log.clamp(-self.reach, self.reach) / self.reach + 1.0) / 2.0;
        EDGE + share * (100.0 - 2.0 * EDGE)
    }

    /// The ratios at the ends of the axis.
    pub fn ends(&self) -> (f64, f64) {
        ((-self.reach).exp(), self.reach.exp())
    }
}

/// Draws one strip. `class` colours it; `floor` is the A/A band's half width as a log-ratio. The
/// strip fills its place: horizontal coordinates are shares, so nothing is stretched.
pub fn draw(axis: Axis, class: &str, floor: f64, found: &Comparison) -> String {
    let middle = axis.at(0.0);
    let mut svg = format!("<svg class=\"strip {class}\" aria-hidden=\"true\">");
    let (left, right) = (axis.at(-floor), axis.at(floor));
    // Writing into a String cannot fail.
    let _ = write!(
        svg,
        "<rect class=\"band\" x=\"{left:.1}%\" y=\"5%\" width=\"{:.1}%\" height=\"90%\"/>\
         <line class=\"one\" x1=\"{middle}%\" y1=\"0\" x2=\"{middle}%\" y2=\"100%\"/>",
        right - left
    );
    if let Some(it) = &found.interval {
        let (low, high) = (axis.at(it.low.ln()), axis.at(it.high.ln()));
        // An interval wholly beyond the axis is the arrow's business.
        if it.low.ln() < axis.reach && it.high.ln() > -axis.reach {
            let _ = write!(
                svg,
                "<line class=\"range\" x1=\"{low:.1}%\" y1=\"50%\" x2=\"{high:.1}%\" y2=\"50%\"/>"
            );
        }
    }
    let (log, dot) = (found.ratio.ln(), axis.at(found.ratio.ln()));
    let _ = match log.abs() > axis.reach {
        // An arrow head: the dot itself is beyond the end of the axis.
        true => write!(
            svg,
            "<svg x=\"{dot:.1}%\" y=\"50%\" overflow=\"visible\"><path class=\"dot\" \
             d=\"M0 0 l{0:.0} -5 v10 z\"/></svg></svg>",
            -8.0 * log.signum()
        ),
        false => {
            write!(svg, "<circle class=\"dot\" cx=\"{dot:.1}%\" cy=\"50%\" r=\"3.8\"/></svg>")
        }
    };
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::compare;

    #[test]
    fn the_axis_is_symmetric_and_bounded() {
        let axis = Axis::holding([0.8, 0.9, 1.1, 1.2].into_iter());
        assert!((axis.at(0.0) - 50.0).abs() < 1e-9);
        assert!(axis.at(0.8_f64.ln()) >= EDGE && axis.at(0.8_f64.ln()) < 15.0);
        assert_eq!(Axis::holding([100.0].into_iter()).at(9.0), 100.0 - EDGE);
        assert!(Axis::holding(std::iter::empty()).ends().1 > 1.1);
    }

    #[test]
    fn one_arm_far_away_does_not_press_the_others_together() {
        let near = Axis::holding([1.1, 0.9, 1.05, 0.95, 1.1, 1.02, 0.98, 1.1].into_iter());
        let far = Axis::holding([1.1, 0.9, 1.05, 0.95, 1.1, 1.02, 0.2, 0.21].into_iter());
        assert!((near.reach - far.reach).abs() < 0.02, "{near:?} {far:?}");
    }

    #[test]
    fn a_ratio_beyond_the_axis_is_an_arrow() {
        let axis = Axis::holding(std::iter::empty());
        let far = compare(&[(9.0, 1.0); 6]).expect("six pairs");
        let svg = draw(axis, "better", 0.01, &far);
        assert!(svg.contains("<path") && !svg.contains("<circle"), "{svg}");
    }

    #[test]
    fn a_strip_without_an_interval_has_a_dot_alone() {
        let axis = Axis::holding(std::iter::empty());
        let pairs = [(1.0, 1.1); 6];
        let whole = compare(&pairs).expect("six pairs");
        let part = compare(&pairs[..3]).expect("three pairs");
        assert!(draw(axis, "better", 0.01, &whole).contains("class=\"range\""));
        let svg = draw(axis, "better", 0.01, &part);
        assert!(!svg.contains("class=\"range\"") && svg.contains("class=\"dot\""), "{svg}");
    }
}
