//! A page of the museum: a published figure, the run that repeats its flaw, the run that does not.
//!
//! What is shown is given as plain values, so that whoever makes an exhibit needs to know nothing
//! of pages. The order of the page is fixed: what was published, what happens if it is repeated as
//! it was, what happens if the flaw is taken away, and why.

use crate::charts::{Chart, Plot, Table, plot};
use crate::shell::{Charts, PageError, render};
use serde::Serialize;

/// One exhibit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exhibit {
    /// Its name, such as `Think time`.
    pub title: String,
    /// What was found, in one sentence that a newcomer understands.
    pub headline: String,
    /// What was published.
    pub published: Published,
    /// The experiment with its flaw.
    pub flawed: Side,
    /// The experiment without it.
    pub corrected: Side,
    /// Further runs with their headings.
    pub rooms: Vec<(String, Side)>,
    /// Why they differ, paragraph by paragraph, in plain words.
    pub why: Vec<String>,
    /// What to remember, in one sentence.
    pub lesson: String,
    /// A chart that holds all of it against each other, if one can.
    pub together: Option<Plot>,
    /// What was made shorter or smaller than in the original, such as `waits shortened 10 times`;
    /// empty if nothing was.
    pub scale: String,
    /// The command that repeats it.
    pub command: String,
    /// What is needed to judge the runs: machine, date, seeds and the like.
    pub facts: Vec<(String, String)>,
    /// Reasons for distrust.
    pub doubts: Vec<String>,
}

/// A published figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// What was concluded from it, in the words of the source or close to them.
    pub claim: String,
    /// Where it stands: author, title, year, table or figure.
    pub source: String,
    /// Its numbers.
    pub numbers: Table,
}

/// One run of the experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// How it was set up, in a sentence or two.
    pub setup: String,
    /// What came out, in one sentence.
    pub finding: String,
    /// A chart of it, if one helps.
    pub plot: Option<Plot>,
    /// Its numbers.
    pub numbers: Table,
}

/// What the template sees.
#[derive(Serialize)]
struct View<'a> {
    title: &'a str,
    headline: &'a str,
    claim: &'a str,
    source: &'a str,
    numbers: &'a Table,
    sides: [SideView<'a>; 2],
    rooms: Vec<SideView<'a>>,
    /// The sides stand one below the other, because a table needs the whole width.
    wide: bool,
    why: &'a [String],
    lesson: &'a str,
    together: Option<Chart>,
    scale: &'a str,
    command: &'a str,
    facts: &'a [(String, String)],
    doubts: &'a [String],
}

#[derive(Serialize)]
struct SideView<'a> {
    id: String,
    name: &'a str,
    setup: &'a str,
    finding: &'a str,
    chart: Option<Chart>,
    numbers: &'a Table,
}

/// Letters of a row, over all columns, that fit into half of the page.
const ROW_MAX: usize = 52;

impl Side {
    /// Whether its table needs more than half of the page.
    fn is_wide(&self) -> bool {
        let widest = |column: usize| {
            let cells = self.numbers.rows.iter().filter_map(|row| row.get(column));
            let all = cells.chain(self.numbers.head.get(column));
            all.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..self.numbers.head.len()).map(widest).sum::<usize>() > ROW_MAX
    }

    fn view<'a>(&'a self, id: &str, name: &'a str) -> SideView<'a> {
        let chart = self.plot.as_ref().map(|it| plot(&format!("plot-{id}"), it));
        let (setup, finding) = (self.setup.as_str(), self.finding.as_str());
        let id = id.to_string();
        SideView { id, name, setup, finding, chart, numbers: &self.numbers }
    }
}

/// Makes the page of an exhibit: one HTML file, offline.
///
/// # Errors
/// Only if this crate is wrong; see [`PageError`].
pub fn exhibit(it: &Exhibit) -> Result<String, PageError> {
    let rooms = it.rooms.iter().zip(1..);
    let rooms = rooms.map(|((name, side), at)| side.view(&format!("room-{at}"), name));
    let view = View {
        title: &it.title,
        headline: &it.headline,
        claim: &it.published.claim,
        source: &it.published.source,
        numbers: &it.published.numbers,
        sides: [
            it.flawed.view("flawed", "Repeated as it was"),
            it.corrected.view("corrected", "Without the flaw"),
        ],
        rooms: rooms.collect(),
        wide: [&it.flawed, &it.corrected].iter().any(|side| side.is_wide()),
        why: &it.why,
        lesson: &it.lesson,
        together: it.together.as_ref().map(|it| plot("plot-together", it)),
        scale: &it.scale,
        command: &it.command,
        facts: &it.facts,
        doubts: &it.doubts,
    };
    let sides = [&it.flawed, &it.corrected].into_iter().chain(it.rooms.iter().map(|(_, it)| it));
    let mut plots = sides.map(|side| &side.plot).chain([&it.together]);
    let charts = if plots.any(|it| it.is_some()) { Charts::Packed } else { Charts::None };
    render("exhibit.html", charts, &view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::{Axis, Line};

    fn table(rows: &[[&str; 3]]) -> Table {
        let mut table = Table::new(&["clients", "requests/s, event loop", "requests/s, threads"]);
        for row in rows {
            table.row(row.iter().map(ToString::to_string).collect());
        }
        table
    }

    fn line(name: &str, published: bool, ys: [f64; 4]) -> Line {
        let places = [1.0, 10.0, 100.0, 1_000.0].into_iter().zip(ys).map(Into::into).collect();
        Line { name: name.to_string(), published, places, ..Line::default() }
    }

    fn sample() -> Exhibit {
        let plot = |lines: Vec<Line>| Plot {
            title: "Requests per second against clients".to_string(),
            caption: "Both axes are logarithmic.".to_string(),
            x: Axis { title: "clients".to_string(), log: true, ..Axis::default() },
            y: Axis { title: "requests/s".to_string(), log: true, ..Axis::default() },
            lines,
        };
        Exhibit {
            title: "Think time".to_string(),
            headline: "A client that sleeps between requests measures its own sleep: two servers \
                that differ 1.6 times look the same."
                .to_string(),
            published: Published {
                claim: "The two <designs> are almost equal.".to_string(),
                source: "A course report, 2021, table 3".to_string(),
                numbers: table(&[["1", "1.00", "1.00"], ["10", "9.98", "9.97"]]),
            },
            flawed: Side {
                setup: "Each client sleeps 1 s between requests.".to_string(),
                finding: "Every server answers one request a second for each client.".to_string(),
                plot: Some(plot(vec![
                    line("published", true, [1.0, 9.98, 98.9, 761.0]),
                    line("event loop", false, [1.0, 10.0, 99.0, 930.0]),
                    line("threads", false, [1.0, 10.0, 99.0, 928.0]),
                ])),
                numbers: table(&[["1", "1.00", "1.00"], ["1,000", "930", "928"]]),
            },
            corrected: Side {
                setup: "Nobody sleeps.".to_string(),
                finding: "The event loop answers 1.6 times as many.".to_string(),
                plot: Some(plot(vec![
                    line("event loop", false, [21e3, 61e3, 80e3, 78e3]),
                    line("threads", false, [20e3, 44e3, 50e3, 41e3]),
                ])),
                numbers: table(&[["1", "21,000", "20,000"], ["1,000", "78,000", "41,000"]]),
            },
            rooms: vec![(
                "A room <behind>".to_string(),
                Side { setup: "More clients.".to_string(), ..Side::default() },
            )],
            why: vec![
                "With a sleep of Z and a response time of R each client asks every Z + R. \
                If R is a thousandth of Z, the servers cannot be told apart."
                    .to_string(),
            ],
            lesson: "Ask what the client waits for before asking what the server does.".to_string(),
            together: None,
            scale: "waits shortened 10 times".to_string(),
            command: "roundhouse museum think-time --scale 10".to_string(),
            facts: vec![("Machine".to_string(), "2 cores".to_string())],
            doubts: vec!["Loopback.".to_string()],
        }
    }

    #[test]
    fn an_exhibit_shows_both_runs_and_escapes_its_words() {
        let html = exhibit(&sample()).expect("the template fits");
        for want in [
            "Think time",
            "The two &lt;designs&gt; are almost equal.",
            "A course report, 2021, table 3",
            "Repeated as it was",
            "A room &lt;behind&gt;",
            "Without the flaw",
            "data-for=\"plot-flawed\"",
            "data-for=\"plot-corrected\"",
            "waits shortened 10 times",
            "roundhouse museum think-time --scale 10",
        ] {
            assert!(html.contains(want), "expected `{want}` in the page");
        }
        assert!(html.len() < 4_000_000 && !html.contains("src=\"http"));
        if let Ok(path) = std::env::var("ROUNDHOUSE_EXHIBIT") {
            std::fs::write(&path, html).expect("ROUNDHOUSE_EXHIBIT names a writable path");
        }
    }

    #[test]
    fn a_wide_table_has_the_page_to_itself() {
        let mut wide = sample();
        let html = exhibit(&wide).expect("the template fits");
        assert!(html.contains("class=\"sides\""));
        let cell = "1.08× [0.92, 1.17] of the time without";
        wide.corrected.numbers = table(&[["no lock over the send", cell, cell]]);
        let html = exhibit(&wide).expect("the template fits");
        assert!(html.contains("class=\"sides wide\""));
    }

    #[test]
    fn an_exhibit_without_charts_carries_no_chart_script() {
        let html = exhibit(&Exhibit::default()).expect("the template fits");
        assert!(html.len() < 100_000, "{} bytes", html.len());
    }
}
