//! A page of the museum: a published figure, the run that repeats its flaw, the run without it.
//!
//! The order of the page is fixed: the lesson, the result in numbers, the expectations, the
//! published result, its repetition with the flaw, the run without the flaw, and the explanation.
//! The scale stands next to every figure, so that a figure cut out of its page keeps it.

use crate::charts::{Chart, by_names, plot};
use crate::shell::{Charts, PageError, render};
use document::{Account, CameOut, Document, Finding, Plot, Section, Table};
use language::tr;
use serde_json::{Value, json};
use stats::words;

/// Letters of a row, over all columns, that fit into half of the page.
const ROW_MAX: usize = 52;

/// Whether a table needs more than half of the page.
fn is_wide(table: &Table) -> bool {
    let widest = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        let all = cells.chain(table.head.get(column));
        all.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    (0..table.head.len()).map(widest).sum::<usize>() > ROW_MAX
}

/// The names of all measured series, so that each keeps its colour from chart to chart.
fn names(it: &Document) -> Vec<&str> {
    let sections = [&it.flawed, &it.corrected].into_iter().chain(&it.rooms);
    let plots = sections.filter_map(|it| it.plot.as_ref()).chain(&it.together);
    let measured = plots.flat_map(|plot| &plot.series).filter(|it| !it.published);
    let mut names = Vec::new();
    for name in measured.map(|it| it.name.as_str()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn scaled_plot(id: &str, it: &Plot, (scale, names): (&str, &[&str])) -> Chart {
    let mut chart = plot(id, it, &mut by_names(names));
    if !scale.is_empty() {
        chart.caption.push_str(&format!(" {}", tr(&format!("Here: {scale}."))));
    }
    chart
}

/// The template's values of a section.
fn view(it: &Section, id: &str, name: &str, (scale, names): (&str, &[&str])) -> Value {
    let chart = it.plot.as_ref().map(|it| scaled_plot(&format!("plot-{id}"), it, (scale, names)));
    let scaled = if scale.is_empty() { String::new() } else { format!(" ({})", tr(scale)) };
    json!({
        "id": id,
        "name": name,
        "setup": format!("{}{scaled}", it.setup),
        "finding": it.finding,
        "chart": chart,
        "numbers": it.numbers,
    })
}

/// The expectations, the failed ones first.
fn findings(it: &Document) -> Vec<(&'static str, String, String)> {
    let mut all: Vec<_> = it.findings.iter().collect();
    all.sort_by_key(|it| it.came_out);
    let row = |it: &Finding| {
        let (light, came) = match it.came_out {
            CameOut::Yes => ("green", ""),
            CameOut::No => ("red", "did not come out: "),
            CameOut::Open => ("limit", "open: "),
        };
        let expected = format!("{} {}:", tr("Expected:"), it.expected);
        (light, expected, format!("{}{}", tr(came), it.found(words::number)))
    };
    all.into_iter().map(row).collect()
}

/// Makes the page of an exhibit: one HTML file, offline; `command` repeats the run.
///
/// # Errors
/// Only for a fault of this crate; see [`PageError`].
pub fn exhibit(it: &Document, command: &str) -> Result<String, PageError> {
    let scale = (it.scale_words.as_str(), &names(it)[..]);
    let rooms = it.rooms.iter().zip(1..);
    let rooms = rooms.map(|(room, at)| view(room, &format!("room-{at}"), &room.title, scale));
    let took = ("Took".to_string(), format!("{:.0} s", it.took_s));
    let stopped = it.interrupted.then_some("It was stopped before its end; this is a part of it.");
    let sides = [
        view(&it.flawed, "flawed", "Repeated as it was", scale),
        view(&it.corrected, "corrected", "Without the flaw", scale),
    ];
    let both = [&it.flawed, &it.corrected];
    let is_drawn = both.into_iter().chain(&it.rooms).any(|it| it.plot.is_some());
    let together = it.together.as_ref().map(|it| scaled_plot("plot-together", it, scale));
    let charts = Charts::needed(is_drawn || together.is_some());
    let doubts = stopped.into_iter().chain(it.doubts.iter().map(String::as_str));
    let shown = json!({
        "it": it,
        "conclusion": it.conclusion.to_string(),
        "command": command,
        "sides": sides,
        "rooms": rooms.collect::<Vec<_>>(),
        // A table needs the whole width, so the two sides are stacked.
        "wide": both.iter().any(|it| is_wide(&it.numbers)),
        "together": together,
        // Class, expectation, and the number that decides.
        "findings": findings(it),
        "facts": it.facts.iter().chain([&took]).collect::<Vec<_>>(),
        "doubts": doubts.collect::<Vec<_>>(),
    });
    render("exhibit.html", charts, &shown)
}

/// Makes the page of an account: one HTML file, offline.
///
/// # Errors
/// Only for a fault of this crate; see [`PageError`].
pub fn account(it: &Account) -> Result<String, PageError> {
    let plots = it.sections.iter().filter_map(|it| it.plot.as_ref());
    let charts = Charts::needed(plots.clone().next().is_some());
    let names: Vec<&str> =
        plots.flat_map(|plot| &plot.series).map(|series| series.name.as_str()).collect();
    let sections = it.sections.iter().enumerate();
    let section =
        |(at, it): (usize, &Section)| view(it, &format!("part-{at}"), &it.title, ("", &names));
    let sections: Vec<Value> = sections.map(section).collect();
    render("account.html", charts, &json!({ "it": it, "sections": sections }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{Axis, Figure, Series};

    fn table(rows: &[[&str; 3]]) -> Table {
        let mut table = Table::new(&["clients", "requests/s, event loop", "requests/s, threads"]);
        rows.iter().for_each(|row| table.row(row.map(String::from)));
        table
    }

    fn side(name: &str, ys: [f64; 4]) -> Section {
        let axis = |title: &str| Axis { title: title.to_string(), log: true, ..Axis::default() };
        let series = Series::measured(name, [1.0, 10.0, 100.0, 1_000.0].into_iter().zip(ys));
        let plot = Plot {
            title: "Requests per second against clients".to_string(),
            caption: "Both axes are logarithmic.".to_string(),
            x: axis("clients"),
            y: axis("requests/s"),
            series: vec![series],
        };
        Section {
            title: format!("A room <after> {name}"),
            setup: "Each client sleeps 1 s between requests.".to_string(),
            finding: "Every server answers one request a second for each client.".to_string(),
            plot: Some(plot),
            numbers: table(&[["1", "1.00", "1.00"], ["1,000", "930", "928"]]),
        }
    }

    fn sample() -> Document {
        Document {
            title: "Think time".to_string(),
            headline: "A client that sleeps between requests measures its own sleep.".to_string(),
            published: Figure {
                document: "A course report".to_string(),
                address: "https://example.org/report".to_string(),
                claim: "The two <designs> are almost equal.".to_string(),
                source: "A course report, 2021, table 3".to_string(),
                numbers: table(&[["1", "1.00", "1.00"], ["10", "9.98", "9.97"]]),
            },
            flawed: side("the sleep", [1.0, 10.0, 99.0, 930.0]),
            corrected: side("no sleep", [21e3, 61e3, 80e3, 78e3]),
            rooms: vec![side("both", [1.0, 2.0, 3.0, 4.0])],
            why: vec!["With a sleep of Z each client asks every Z + R.".to_string()],
            lesson: "Ask what the client waits for before asking what the server does.".to_string(),
            together: side("all", [1.0, 2.0, 3.0, 4.0]).plot,
            findings: vec![Finding {
                name: "x".to_string(),
                came_out: CameOut::Yes,
                value: 2.0,
                range: None,
                expected: "more than one".to_string(),
            }],
            scale_words: "scale 0.1: short".to_string(),
            interrupted: true,
            ..Document::default()
        }
    }

    #[test]
    fn an_exhibit_shows_both_runs_and_escapes_its_words() {
        let html = exhibit(&sample(), "roundhouse museum think-time").expect("the template fits");
        for want in [
            "Think time",
            "The two &lt;designs&gt; are almost equal.",
            "A course report, 2021, table 3",
            "Repeated as it was",
            "A room &lt;after&gt; both</h2>",
            "Without the flaw",
            "data-for=\"plot-flawed\"",
            "data-for=\"plot-corrected\"",
            "<p class=\"headline\">Ask what the client waits for before asking",
            "<li class=\"green\">Expected: more than one: <b>2</b>",
            "roundhouse museum think-time",
            "stopped before its end",
        ] {
            assert!(html.contains(want), "expected `{want}` in the page");
        }
        let times = html.matches("scale 0.1: short").count();
        let failed = Document {
            findings: vec![Finding { came_out: CameOut::No, ..sample().findings[0].clone() }],
            ..sample()
        };
        let html = exhibit(&failed, "").expect("the template fits");
        assert!(html.contains("<li class=\"red\">Expected: more than one: <b>did not come out: 2"));
        assert!(times >= 9, "four charts, three set-ups, head and foot: {times}");
        assert!(html.len() < 4_000_000 && !html.contains("src=\"http"));
        if let Ok(path) = std::env::var("ROUNDHOUSE_EXHIBIT") {
            std::fs::write(&path, html).expect("ROUNDHOUSE_EXHIBIT names a writable path");
        }
    }

    #[test]
    fn a_wide_table_has_the_page_to_itself() {
        let mut wide = sample();
        let html = exhibit(&wide, "").expect("the template fits");
        assert!(html.contains("class=\"sides\""));
        let cell = "1.08× [0.92, 1.17] of the time without";
        wide.corrected.numbers = table(&[["no lock over the send", cell, cell]]);
        let html = exhibit(&wide, "").expect("the template fits");
        assert!(html.contains("class=\"sides wide\""));
    }

    #[test]
    fn an_exhibit_without_charts_carries_no_chart_script() {
        let html = exhibit(&Document::default(), "").expect("the template fits");
        assert!(html.len() < 100_000, "{} bytes", html.len());
    }
}
