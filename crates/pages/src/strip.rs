//! An interval as a strip of SVG: a line at 1, the A/A band, a bar from end to end, a dot.
//!
//! The axis is the logarithm of the ratio, so that twice and half are equally far from 1, and it is
//! the same for every strip of a page: strips can be compared by eye down a column.

use lab::stats::Comparison;
use std::fmt::Write;

/// Width and height in user units.
const WIDTH: f64 = 168.0;
const HEIGHT: f64 = 18.0;

/// A common axis for all strips of a page: log-ratios from `-reach` to `reach`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    reach: f64,
}

impl Axis {
    /// The smallest axis, of at least ±10 %, that holds all ends; what is beyond a factor of 2
    /// is cut off, so that differences of a few percent stay visible beside large ones.
    pub fn holding(ends: impl Iterator<Item = f64>) -> Axis {
        let widest = ends.map(|ratio| ratio.ln().abs()).fold(0.1_f64, f64::max);
        Axis { reach: (widest * 1.08).min(2.0_f64.ln()) }
    }

    fn at(&self, log: f64) -> f64 {
        let inner = WIDTH - 8.0;
        4.0 + (log.clamp(-self.reach, self.reach) / self.reach + 1.0) / 2.0 * inner
    }

    /// The ratios at the ends of the axis.
    pub fn ends(&self) -> (f64, f64) {
        ((-self.reach).exp(), self.reach.exp())
    }
}

/// Draws one strip. `class` colours it; `floor` is the A/A band's half width as a log-ratio.
pub fn draw(axis: Axis, class: &str, floor: f64, found: &Comparison) -> String {
    let (middle, y) = (axis.at(0.0), HEIGHT / 2.0);
    let mut svg = format!(
        "<svg class=\"strip {class}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         preserveAspectRatio=\"xMinYMid\" aria-hidden=\"true\">"
    );
    let (left, right) = (axis.at(-floor), axis.at(floor));
    // Writing into a String cannot fail.
    let _ = write!(
        svg,
        "<rect class=\"band\" x=\"{left:.1}\" y=\"1\" width=\"{:.1}\" height=\"{}\"/>\
         <line class=\"one\" x1=\"{middle:.1}\" y1=\"0\" x2=\"{middle:.1}\" y2=\"{HEIGHT}\"/>",
        right - left,
        HEIGHT - 2.0
    );
    if let Some(it) = &found.interval {
        let (low, high) = (axis.at(it.low.ln()), axis.at(it.high.ln()));
        let _ = write!(
            svg,
            "<line class=\"range\" x1=\"{low:.1}\" y1=\"{y}\" x2=\"{high:.1}\" y2=\"{y}\"/>"
        );
    }
    let (log, dot) = (found.ratio.ln(), axis.at(found.ratio.ln()));
    let _ = match log.abs() > axis.reach {
        // An arrow head: the dot itself lies beyond the end of the axis.
        true => write!(
            svg,
            "<path class=\"dot\" d=\"M{dot:.1} {y} l{0:.1} -5 v10 z\"/></svg>",
            -8.0 * log.signum()
        ),
        false => {
            write!(svg, "<circle class=\"dot\" cx=\"{dot:.1}\" cy=\"{y}\" r=\"4\"/></svg>")
        }
    };
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::stats::compare;

    #[test]
    fn the_axis_is_symmetric_and_bounded() {
        let axis = Axis::holding([0.6, 1.2].into_iter());
        assert!((axis.at(0.0) - WIDTH / 2.0).abs() < 1e-9);
        assert!(axis.at(0.6_f64.ln()) > 4.0 && axis.at(0.6_f64.ln()) < 12.0);
        assert_eq!(Axis::holding([100.0].into_iter()).at(9.0), WIDTH - 4.0);
        assert!(Axis::holding(std::iter::empty()).ends().1 > 1.1);
    }

    #[test]
    fn a_ratio_beyond_the_axis_is_an_arrow() {
        let axis = Axis::holding(std::iter::empty());
        let far = compare(&[(9.0, 1.0); 6], 0, 1).expect("six pairs");
        let svg = draw(axis, "better", 0.01, &far);
        assert!(svg.contains("<path") && !svg.contains("<circle"), "{svg}");
    }

    #[test]
    fn a_strip_without_an_interval_has_a_dot_alone() {
        let axis = Axis::holding(std::iter::empty());
        let pairs = [(1.0, 1.1); 6];
        let whole = compare(&pairs, 0, 1).expect("six pairs");
        let part = compare(&pairs[..3], 0, 1).expect("three pairs");
        assert!(draw(axis, "better", 0.01, &whole).contains("class=\"range\""));
        let svg = draw(axis, "better", 0.01, &part);
        assert!(!svg.contains("class=\"range\"") && svg.contains("class=\"dot\""), "{svg}");
    }
}
