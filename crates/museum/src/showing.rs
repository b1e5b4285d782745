//! What a visitor sees, as plain values: the page, the terminal and the JSON are made from it.

use serde::Serialize;

/// An exhibit that was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Showing {
    /// What was found, in one sentence that a newcomer understands.
    pub headline: String,
    /// What was published.
    pub published: Published,
    /// The experiment with its flaw.
    pub flawed: Side,
    /// The experiment without it.
    pub corrected: Side,
    /// Why they differ, paragraph by paragraph.
    pub why: Vec<String>,
    /// What to remember, in one sentence.
    pub lesson: String,
    /// A chart of both against the published figure, if one helps.
    pub together: Option<Plot>,
    /// What was claimed beforehand and whether it came out.
    pub findings: Vec<Finding>,
    /// Parameters that a reader would want to know.
    pub facts: Vec<(String, String)>,
    /// Reasons for distrust.
    pub doubts: Vec<String>,
}

/// A published figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Published {
    /// What was concluded from it, close to the words of the source.
    pub claim: String,
    /// Where it stands.
    pub source: String,
    /// Its numbers.
    pub numbers: Grid,
}

/// One of the two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// How it was set up.
    pub setup: String,
    /// What came out, in one sentence.
    pub finding: String,
    /// A chart of it.
    pub plot: Option<Plot>,
    /// Its numbers.
    pub numbers: Grid,
}

/// A further run behind the two: what a visitor asks next.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Room {
    /// What it is about.
    pub title: String,
    /// What was run there.
    #[serde(flatten)]
    pub side: Side,
}

/// Something that should come out, said before it was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Its name, stable for programs.
    pub name: String,
    /// Whether it came out.
    pub holds: bool,
    /// The number that decides it.
    pub value: f64,
    /// What the number was expected to be, in words.
    pub expected: String,
}

impl Finding {
    /// A finding that holds if `value` does what `expected` says.
    pub fn new(name: &str, holds: bool, value: f64, expected: impl Into<String>) -> Finding {
        Finding { name: name.to_string(), holds, value, expected: expected.into() }
    }
}

/// Numbers in rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Grid {
    /// Headings of the columns; the first column names the row.
    pub head: Vec<String>,
    /// Rows, as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// A grid with these headings and no row.
    pub fn new(head: &[&str]) -> Grid {
        Grid { head: head.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it is not as long as the head.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(N, self.head.len(), "a row fits its grid");
        self.rows.push(cells.into());
    }
}

/// A chart of series over two axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Axis {
    /// What it shows, with its unit.
    pub title: String,
    /// Equal distances are equal factors.
    pub log: bool,
    /// Names of the places 1, 2, 3 and so on, where the axis has names instead of numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Axis {
    /// An axis on which equal distances are equal differences.
    pub fn linear(title: &str) -> Axis {
        Axis { title: title.to_string(), ..Axis::default() }
    }

    /// An axis on which equal distances are equal factors.
    pub fn log(title: &str) -> Axis {
        Axis { title: title.to_string(), log: true, ..Axis::default() }
    }

    /// An axis of names; the first is at 1.
    pub fn named(title: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Axis {
        let names = names.into_iter().map(Into::into).collect();
        Axis { title: title.to_string(), log: false, names }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Drawn {
    /// Marks joined by a line.
    #[default]
    Line,
    /// Bars.
    Bar,
    /// Marks alone.
    Marks,
}

/// Numbers that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub drawn: Drawn,
    /// Somebody else's figure, or a law: drawn apart from what was measured here.
    pub published: bool,
    /// Its places, in order.
    pub places: Vec<Place>,
}

/// One place of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Place {
    /// Horizontal.
    pub x: f64,
    /// Vertical.
    pub y: f64,
    /// Ends of y's interval, if it has one.
    pub range: Option<(f64, f64)>,
}

impl Place {
    /// A ratio with its interval.
    pub fn of(x: f64, found: &lab::stats::Comparison) -> Place {
        let range = found.interval.as_ref().map(|range| (range.low, range.high));
        Place { x, y: found.ratio, range }
    }
}

impl Series {
    /// A measured series.
    pub fn measured(name: impl Into<String>, places: Vec<(f64, f64)>) -> Series {
        let places = places.into_iter().map(|(x, y)| Place { x, y, range: None }).collect();
        Series { name: name.into(), places, ..Series::default() }
    }

    /// A series that was published, or that arithmetic gives.
    pub fn published(name: impl Into<String>, places: Vec<(f64, f64)>) -> Series {
        Series { published: true, ..Series::measured(name, places) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "fits its grid")]
    fn a_row_that_does_not_fit_is_refused() {
        Grid::new(&["clients", "requests/s"]).row(["1".to_string()]);
    }
}
