//! An exhibit as a page: what the museum says in its own values, in those of the pages.
//!
//! The museum may not import the pages, and the pages know no museum; this is where they meet. The
//! scale is said again in every chart and set-up, because a figure that is cut out of its page must
//! not lose it.

use anyhow::Result;
use museum::showing::{Axis, Drawn, Finding, Grid, Plot, Side};
use museum::{Visit, words};
use pages::charts::{self, At, Line, Table};
use pages::exhibit::{Exhibit, Published};

/// The page; `command` repeats the visit.
///
/// # Errors
/// If the template is wrong.
pub fn page(visit: &Visit, command: &str) -> Result<String> {
    let it = &visit.showing;
    let scale = &visit.scale_words;
    let mut facts: Vec<(String, String)> = it.findings.iter().map(fact).collect();
    facts.extend(it.facts.iter().cloned());
    facts.push(("Took".to_string(), format!("{:.0} s", visit.took_s)));
    let mut doubts = it.doubts.clone();
    if visit.interrupted {
        doubts.insert(0, "It was stopped before its end; this is a part of it.".to_string());
    }
    Ok(pages::exhibit(&Exhibit {
        title: visit.title.clone(),
        headline: it.headline.clone(),
        published: Published {
            claim: it.published.claim.clone(),
            source: it.published.source.clone(),
            numbers: table(&it.published.numbers),
        },
        flawed: side(&it.flawed, scale),
        corrected: side(&it.corrected, scale),
        rooms: visit.rooms.iter().map(|it| (it.title.clone(), side(&it.side, scale))).collect(),
        why: it.why.clone(),
        lesson: it.lesson.clone(),
        together: it.together.as_ref().map(|it| plot(it, scale)),
        scale: scale.clone(),
        command: command.to_string(),
        facts,
        doubts,
    })?)
}

/// A finding as a row of facts.
fn fact(it: &Finding) -> (String, String) {
    let came = if it.holds { "came out" } else { "did not come out" };
    (format!("Expected: {}", it.expected), format!("{came}: {}", words::number(it.value)))
}

fn side(it: &Side, scale: &str) -> pages::exhibit::Side {
    let scaled = if scale.is_empty() { String::new() } else { format!(" ({scale})") };
    pages::exhibit::Side {
        setup: format!("{}{scaled}", it.setup),
        finding: it.finding.clone(),
        plot: it.plot.as_ref().map(|it| plot(it, scale)),
        numbers: table(&it.numbers),
    }
}

fn table(it: &Grid) -> Table {
    Table { head: it.head.clone(), rows: it.rows.clone() }
}

fn plot(it: &Plot, scale: &str) -> charts::Plot {
    let axis = |it: &Axis| {
        let (title, names) = (it.title.clone(), it.names.clone());
        charts::Axis { title, log: it.log, names }
    };
    let lines = it.series.iter().map(|series| Line {
        name: series.name.clone(),
        drawn: match series.drawn {
            Drawn::Line => charts::Drawn::Line,
            Drawn::Bar => charts::Drawn::Bar,
            Drawn::Marks => charts::Drawn::Marks,
        },
        published: series.published,
        places: series.places.iter().map(|it| At { x: it.x, y: it.y, range: it.range }).collect(),
    });
    let scaled = if scale.is_empty() { String::new() } else { format!(" Here: {scale}.") };
    charts::Plot {
        title: it.title.clone(),
        caption: format!("{}{scaled}", it.caption),
        x: axis(&it.x),
        y: axis(&it.y),
        lines: lines.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use museum::Showing;
    use museum::showing::{Room, Series};

    #[test]
    fn the_scale_stands_beside_every_figure() {
        let chart = Plot {
            caption: "A chart.".to_string(),
            series: vec![Series::measured("ours", vec![(1.0, 2.0)])],
            ..Plot::default()
        };
        let side = Side { plot: Some(chart.clone()), ..Side::default() };
        let showing = Showing {
            flawed: side.clone(),
            corrected: side.clone(),
            together: Some(chart),
            ..Showing::default()
        };
        let visit = Visit {
            schema: String::new(),
            exhibit: "think-time".to_string(),
            title: "Think time".to_string(),
            scale: 0.1,
            scale_words: "scale 0.1: short".to_string(),
            interrupted: true,
            took_s: 1.0,
            showing,
            rooms: vec![Room { title: "Another".to_string(), side: side.clone() }],
        };
        let html = page(&visit, "roundhouse museum think-time").expect("the template fits");
        let times = html.matches("scale 0.1: short").count();
        assert!(times >= 9, "four charts, three set-ups, head and foot: {times}");
        assert!(html.contains("Another</h2>"));
        assert!(html.contains("stopped before its end"));
    }
}
