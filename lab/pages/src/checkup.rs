//! A check-up for people: one HTML page, the lines of a terminal, and JUnit for a build.
//!
//! All three begin with what was found, the faults first. A page has two charts if the trials
//! behind them were made: the waiting of healthy clients next to each disturbance, and response
//! times below the knee.

use crate::charts::{Chart, by_names, described, plot};
use crate::export::junit::{Case, Outcome, suite};
use crate::shell::{Charts, PageError, render};
use document::{Axis, Checkup, CheckupRow, Judgement, Mark, Series};
use language::tr;
use serde_json::{Value, json};
use stats::words;

/// Lines of a terminal, and their columns.
const LINES_MAX: usize = 25;
const WIDTH: usize = 80;

/// The template's values of a row.
fn row_view(row: &CheckupRow, old: Option<&Checkup>) -> Value {
    let (class, class_of_item) = match row.judgement {
        Judgement::Fault => ("worse", "fault"),
        Judgement::Attention => ("limited", "attention"),
        Judgement::NotTried => ("open", ""),
        Judgement::Good => ("better", ""),
    };
    let mut shown = json!(row);
    shown["class"] = json!(class);
    shown["class_of_item"] = json!(class_of_item);
    shown["word"] = json!(row.judgement.to_string());
    shown["was"] = json!(changed(row, old).map(|was| format!("It was {was} before.")));
    shown
}

/// The judgement in an older check-up, if it was another one.
fn changed(row: &CheckupRow, old: Option<&Checkup>) -> Option<Judgement> {
    let before = old?.rows.iter().find(|it| it.name == row.name)?.judgement;
    (before != row.judgement).then_some(before)
}

/// The findings, the worst first.
fn findings(checkup: &Checkup) -> impl Iterator<Item = &CheckupRow> {
    let worst = [Judgement::Fault, Judgement::Attention].into_iter();
    worst.flat_map(|judgement| checkup.judged(judgement))
}

/// Makes the page: one HTML file, offline; an `old` check-up shows what changed.
///
/// # Errors
/// Only for a fault of this crate; see [`PageError`].
pub fn page(checkup: &Checkup, old: Option<&Checkup>) -> Result<String, PageError> {
    let view = |row: &CheckupRow| row_view(row, old);
    let parts = checkup.sections().into_iter().map(|(name, rows)| {
        let rows: Vec<Value> = rows.into_iter().map(view).collect();
        json!({ "name": name, "rows": rows })
    });
    let figures = figures(checkup);
    let charts = Charts::needed(!figures.is_empty());
    let shown = json!({
        "it": checkup,
        "headline": checkup.headline(),
        "findings": findings(checkup).map(view).collect::<Vec<_>>(),
        "sections": parts.collect::<Vec<_>>(),
        "figures": figures,
        "facts": [
            ("Server", checkup.program.clone()),
            ("Protocol", checkup.protocol.clone()),
            ("Date", checkup.date.clone()),
            ("Machine", checkup.machine.clone()),
            ("Version", checkup.version.clone()),
            ("Took", format!("{:.0} s", checkup.seconds)),
            ("Stopped early", if checkup.interrupted { "yes" } else { "no" }.to_owned()),
        ],
    });
    render("checkup.html", charts, &shown)
}

fn figures(checkup: &Checkup) -> Vec<Chart> {
    let drawn = |id: &str, [title, caption, y]: [&str; 3], names, series: Vec<Series>| {
        let x = Axis { names, ..Axis::default() };
        let y = Axis { title: y.to_owned(), log: true, ..Axis::default() };
        let is_empty = series.iter().all(|it| it.points.is_empty());
        let it = described([title, caption], [x, y], series);
        (!is_empty).then(|| plot(id, &it, &mut by_names(&[])))
    };
    let rows = checkup.rows.iter().filter(|row| row.measured.contains_key("healthy_p99_ns"));
    let line = |title: &str, key: &str| {
        let values = rows.clone().zip(1..).filter_map(|(row, at)| {
            let ns = row.measured.get(key).filter(|ns| **ns > 0.0)?;
            Some((f64::from(at), ns / 1e6))
        });
        Series::measured(tr(title), values).drawn_as(Mark::Point)
    };
    let words = [
        "Who suffers next to a disturbance?",
        "The 99th percentile of healthy clients; starved ones have none.",
        "p99 of healthy clients (ms)",
    ];
    let lines =
        vec![line("with the disturbance", "healthy_p99_ns"), line("without it", "calm_p99_ns")];
    let healthy =
        drawn("plot-healthy", words, rows.clone().map(|row| row.name.clone()).collect(), lines);
    let tail = |title: &str, key: &str| {
        let at = |load: &str| checkup.number("tail", &format!("{load}_{key}_ns"));
        let values = [1.0, 2.0].into_iter().zip([at("half"), at("most")]);
        Series::measured(title, values.filter_map(|(x, ns)| Some((x, ns? / 1e6))))
    };
    let words = [
        "Response times below the knee",
        "Requests that got no reply are among them.",
        "response time (ms)",
    ];
    let shares = ["half of the knee", "0.8 of the knee"].map(|it| tr(it).into_owned()).to_vec();
    let lines = vec![tail("p50", "p50"), tail("p99", "p99"), tail("p99.9", "p999")];
    healthy.into_iter().chain(drawn("plot-tail", words, shares, lines)).collect()
}

/// The result in at most 25 lines of 80 columns.
pub fn text(checkup: &Checkup, old: Option<&Checkup>) -> String {
    let name = if checkup.program.is_empty() { &checkup.target } else { &checkup.program };
    let (protocol, headline) = (&checkup.protocol, checkup.headline());
    let head = tr(&format!("{name} ({protocol}): {headline}")).into_owned();
    let mut lines: Vec<String> = words::folded(&head, WIDTH, 2).lines().map(String::from).collect();
    for (section, rows) in checkup.sections() {
        let count = |it: Judgement| rows.iter().filter(|row| row.judgement == it).count();
        let counts = Judgement::ALL.iter().map(|it| (count(*it), tr(&it.to_string()).into_owned()));
        let counts = counts.filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
        let section = tr(section);
        let blanks = " ".repeat(20_usize.saturating_sub(words::columns(&section)));
        lines.push(format!("  {section}{blanks}{}", counts.join(", ")));
    }
    let all: Vec<&CheckupRow> = findings(checkup).collect();
    let mut shown = 0;
    for row in &all {
        let was = changed(row, old).map_or(String::new(), |it| format!(" ({it} before)"));
        let judgement = row.judgement.to_string();
        let (word, evidence) = (tr(&judgement), tr(&row.evidence));
        let text = format!("{word} {}: {evidence}{was}", row.name);
        let folded = words::folded(&text, WIDTH, 4);
        let mut parts: Vec<String> = folded.lines().take(3).map(String::from).collect();
        if folded.lines().count() > 3
            && let Some(last) = parts.last_mut()
        {
            while words::columns(last) > WIDTH - 2 {
                last.pop();
            }
            last.push_str(" …");
        }
        // The last line says how many are left.
        if lines.len() + parts.len() >= LINES_MAX {
            break;
        }
        lines.extend(parts);
        shown += 1;
    }
    if shown < all.len() {
        let left = all.len() - shown;
        lines.push(tr(&format!("and {left} more findings on the page")).into_owned());
    }
    lines.join("\n") + "\n"
}

/// The check-up as one test suite: a fault fails, an attention or an absent trial is skipped.
pub fn junit(checkup: &Checkup) -> String {
    let case = |row: &CheckupRow| {
        let text = match row.reason.as_str() {
            "" => row.evidence.clone(),
            reason => format!("{}: {reason}", row.evidence).trim_start_matches(": ").to_owned(),
        };
        let outcome = match row.judgement {
            Judgement::Good => Outcome::Passed(text),
            Judgement::Fault => Outcome::Failed(format!("{text}\n{}", row.repeat)),
            Judgement::Attention | Judgement::NotTried => Outcome::Skipped(text),
        };
        Case { class: row.section.clone(), name: row.name.clone(), outcome }
    };
    let cases: Vec<Case> = checkup.rows.iter().map(case).collect();
    suite(&checkup.target, &checkup.date, &cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(faults: usize) -> Checkup {
        let row = |number: usize, judgement, key: &str| CheckupRow {
            section: "Robustness".to_owned(),
            name: format!("trial-{number}"),
            about: "clients <misbehave>".to_owned(),
            judgement,
            evidence: "healthy clients wait and wait and wait and wait and wait. ".repeat(6),
            reason: "a client that does nothing wrong is starved".to_owned(),
            repeat: format!("roundhouse checkup x --only trial-{number}"),
            measured: [(key.to_owned(), 5e6)].into(),
            ..CheckupRow::default()
        };
        let mut rows: Vec<CheckupRow> =
            (0..faults).map(|at| row(at, Judgement::Fault, "healthy_p99_ns")).collect();
        rows.push(row(99, Judgement::Good, "calm_p99_ns"));
        rows.push(CheckupRow {
            name: "tail".to_owned(),
            ..row(98, Judgement::NotTried, "half_p50_ns")
        });
        Checkup { target: "x --port {port}".to_owned(), rows, ..Checkup::default() }
    }

    #[test]
    fn a_terminal_shows_the_worst_in_25_lines_of_80_columns() {
        for faults in [0, 1, 40] {
            let text = text(&sample(faults), Some(&sample(0)));
            assert!(text.lines().count() <= 25, "{text}");
            assert!(text.lines().all(|line| words::columns(line) <= 80), "{text}");
            assert_eq!(text.contains("more findings"), faults == 40, "{text}");
            assert!(text.contains("good"), "{text}");
        }
    }

    #[test]
    fn a_page_has_findings_charts_and_commands() {
        let mut old = sample(1);
        old.rows[0].judgement = Judgement::Good;
        let html = page(&sample(2), Some(&old)).expect("the template fits");
        for want in [
            "clients &lt;misbehave&gt;",
            "plot-healthy",
            "plot-tail",
            "only trial-1",
            "It was good before",
            "x --port {port}",
        ] {
            assert!(html.contains(want), "expected `{want}`");
        }
        let bare = page(&Checkup::default(), None).expect("the template fits");
        assert!(bare.len() < 100_000, "{} bytes", bare.len());
    }

    #[test]
    fn a_fault_fails_a_build() {
        let xml = junit(&sample(2));
        assert!(xml.contains("tests=\"4\" failures=\"2\" skipped=\"1\""), "{xml}");
    }
}
