//! The findings of a duet table as text for a terminal and as Markdown.
//!
//! `roundhouse duet` prints `text` and writes `markdown` into its record. Both read the same
//! `Findings`, in which every verdict is already decided. Figures are grouped by load point and
//! metric; a figure that could not be measured is listed with its reason and never left out in
//! silence.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use lab::duet::{DuetFigure, Findings};
use lab::verdict::Metric;
use pages::terminal;
use stats::words;
use std::fmt::Write;

/// A table for each load point and metric, then rows without a figure, doubts, and the meaning of
/// the words.
pub fn text(findings: &Findings) -> String {
    let mut text = format!("{}\n", findings.question);
    let mut sections: Vec<(&str, Metric)> = Vec::new();
    for figure in &findings.figures {
        let section = (figure.point.as_str(), figure.metric());
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    // Writing into a String cannot fail.
    for (point, metric) in sections {
        let here =
            |it: &&DuetFigure| it.point == point && it.metric() == metric && it.value.is_some();
        let figures: Vec<&DuetFigure> = findings.figures.iter().filter(here).collect();
        if !figures.is_empty() {
            let _ = writeln!(text, "\n{point} · {}\n{}", metric.name(), table(&figures));
        }
    }
    text.push('\n');
    for figure in &findings.figures {
        if let Some(why) = &figure.absent {
            let word = if figure.skipped { "skipped" } else { "not measured" };
            let (name, metric) = (figure.name(), figure.metric().name());
            let _ = writeln!(text, "{word}: {name}, {}, {metric}: {why}", figure.point);
        }
    }
    for doubt in &findings.doubts {
        let _ = writeln!(text, "doubt: {doubt}");
    }
    if findings.figures.iter().any(|it| it.goal.is_none() && !it.verdict.is_empty()) {
        text.push_str("Without a goal, the word is about the left server.\n");
    }
    text
}

/// Where no figure has a goal, the values of both servers take its place.
fn table(figures: &[&DuetFigure]) -> Table {
    let mut table = terminal::table(UTF8_HORIZONTAL_ONLY, false);
    if figures.iter().any(|it| it.goal.is_some()) {
        table.set_header(["left / right", "found", "interval", "goal", "verdict"]);
        for it in figures {
            table.add_row([it.name(), found(it), interval(it), goal(it), it.verdict.clone()]);
        }
    } else {
        table.set_header(["left / right", "left", "right", "found", "interval", "verdict"]);
        for it in figures {
            let [left, right] = sides(it);
            table.add_row([it.name(), left, right, found(it), interval(it), it.verdict.clone()]);
        }
    }
    for at in 1..table.column_count().saturating_sub(1) {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The values of both servers in the unit of their metric.
fn sides(it: &DuetFigure) -> [String; 2] {
    let value = |value| words::or_none(value, |value| in_unit(it.metric(), value));
    [value(it.left_value), value(it.right_value)]
}

/// A ratio to three places, or bytes.
pub fn found(it: &DuetFigure) -> String {
    words::or_none(it.value, |value| match it.is_ratio() {
        true => format!("{value:.3}"),
        false => format!("{value:.0} B"),
    })
}

fn interval(it: &DuetFigure) -> String {
    let places = if it.is_ratio() { 3 } else { 0 };
    it.interval.map_or_else(
        || words::NONE.to_string(),
        |it| format!("[{:.places$} {:.places$}]", it.low, it.high),
    )
}

fn goal(it: &DuetFigure) -> String {
    it.goal.map(|goal| goal.to_string()).unwrap_or_default()
}

/// The question, the machine, the note, one table, and the doubts.
pub fn markdown(findings: &Findings) -> String {
    let machine = &findings.host.machine;
    let mut text = format!(
        "# {}\n\nMachine: {}, {} CPUs, Linux {}. {}.\n\n",
        findings.question, machine.cpu, machine.cores, machine.kernel, findings.date
    );
    if !findings.label.is_empty() {
        let _ = writeln!(text, "{}\n", findings.label);
    }
    if !findings.note.is_empty() {
        let _ = writeln!(text, "{}\n", findings.note.trim());
    }
    text.push_str("| left / right | load | metric | left | right | found | goal | verdict |\n");
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    for it in &findings.figures {
        let (name, metric) = (it.name(), it.metric().name());
        let found = match (&it.absent, it.interval) {
            (Some(why), _) => why.replace(['\n', '|'], " "),
            (None, Some(_)) => format!("{} {}", found(it), interval(it)),
            (None, None) => found(it),
        };
        let [left, right] = sides(it);
        let _ = writeln!(
            text,
            "| {name} | {} | {metric} | {left} | {right} | {found} | {} | {} |",
            it.point,
            goal(it),
            it.verdict
        );
    }
    if !findings.doubts.is_empty() {
        text.push_str("\nDoubts:\n\n");
        text.extend(findings.doubts.iter().map(|doubt| format!("- {doubt}\n")));
    }
    text
}

fn in_unit(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Throughput => format!("{}/s", words::grouped(value)),
        Metric::ConnectionMemory => format!("{value:.0} B"),
        Metric::Switches => words::rate(value),
        _ => words::time(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::{Goal, Interval};

    fn findings() -> Findings {
        let figure = |left: &str, value| DuetFigure {
            left: left.to_string(),
            right: "recv-own-no-poll-first".to_string(),
            point: "1 a connection".to_string(),
            metric: "cpu".to_string(),
            goal: Some(Goal::AtLeast(0.9)),
            value,
            interval: value.map(|it| Interval { low: it - 0.1, high: it + 0.1, cover: 0.99 }),
            left_value: Some(210.4),
            right_value: Some(215.0),
            verdict: "unresolved".to_string(),
            ..DuetFigure::default()
        };
        let memory = DuetFigure {
            metric: "connection_memory".to_string(),
            goal: Some(Goal::AtMost(2048.0)),
            left_value: None,
            right_value: Some(512.4),
            ..figure("epoll", Some(512.4))
        };
        let absent = Some("no | nginx".to_string());
        let skipped = DuetFigure { absent, skipped: true, ..figure("nginx", None) };
        Findings {
            question: "What?".to_string(),
            note: "Note.".to_string(),
            label: "commit 12ab".to_string(),
            figures: vec![figure("bare-recv-own-epoll", Some(12.3456)), memory, skipped],
            doubts: vec!["busy".to_string()],
            ..Findings::default()
        }
    }

    #[test]
    fn a_table_fits_a_terminal() {
        let text = text(&findings());
        for line in text.lines().filter(|line| !line.starts_with("skipped")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for want in [
            "1 a connection · CPU per request",
            "12.346",
            "[12.246 12.446]",
            ">= 0.9",
            "512 B",
            "skipped: nginx / recv-own-no-poll-first, 1 a connection, CPU per request: no | nginx",
            "doubt: busy",
        ] {
            assert!(text.contains(want), "expected {want} in\n{text}");
        }
    }

    #[test]
    fn markdown_has_the_values_of_both_servers() {
        let text = markdown(&findings());
        for want in [
            "# What?\n",
            "commit 12ab\n",
            "Note.\n",
            "| 1 a connection | CPU per request | 210 ns | 215 ns |",
            "| 12.346 [12.246 12.446] | >= 0.9 |",
            "| – | 512 B | 512 B [512 ",
            "| <= 2048 |",
            "| no   nginx | >= 0.9 |",
            "- busy\n",
        ] {
            assert!(text.contains(want), "expected {want} in\n{text}");
        }
    }
}
