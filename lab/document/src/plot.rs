//! Series of points over two axes.

use serde::{Deserialize, Serialize};

/// A chart of series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// The title of the plot.
    pub title: String,
    /// A reading aid, in one or two sentences.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The axis title, with its unit.
    pub title: String,
    /// The axis is logarithmic.
    pub log: bool,
    /// Names of the positions 1, 2, 3 and so on, where the axis has names instead of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// The way to draw a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Points joined by a line.
    #[default]
    Line,
    /// Bars.
    Bar,
    /// Bars on top of each other, the parts of a whole.
    Part,
    /// Points alone.
    Point,
}

/// Numbers that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The way to draw it.
    pub mark: Mark,
    /// A published figure or a law: drawn in grey and dashed, distinct from the measurements.
    pub published: bool,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// One point of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Horizontal.
    pub x: f64,
    /// Vertical.
    pub y: f64,
    /// The ends of y's interval, if it has one.
    pub range: Option<(f64, f64)>,
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Point {
        Point { x, y, range: None }
    }
}

impl Series {
    /// A measured series, drawn as a line.
    pub fn measured<P: Into<Point>>(
        name: impl Into<String>,
        points: impl IntoIterator<Item = P>,
    ) -> Series {
        let points = points.into_iter().map(Into::into).collect();
        Series { name: name.into(), points, ..Series::default() }
    }

    /// A series that was published, or that arithmetic gives.
    pub fn published<P: Into<Point>>(
        name: impl Into<String>,
        points: impl IntoIterator<Item = P>,
    ) -> Series {
        Series { published: true, ..Series::measured(name, points) }
    }

    /// The same series, drawn in another way.
    #[must_use]
    pub fn drawn_as(self, mark: Mark) -> Series {
        Series { mark, ..self }
    }
}
