//! An exhibit as Markdown, for a folder of runs that are kept: numbers and words, no charts.
//!
//! The page weighs two megabytes, most of them the library that draws; what a reader of a
//! repository wants to see weighs a hundredth of it, and the raw data beside it redraws the rest.

use museum::showing::{Grid, Side};
use museum::{Visit, words};
use std::fmt::Write as _;

/// Everything that a visit brought; `command` repeats it.
pub fn markdown(visit: &Visit, command: &str) -> String {
    let it = &visit.showing;
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = writeln!(text, "# {}\n\n{}\n", visit.title, it.headline);
    let scale = match visit.scale_words.as_str() {
        "" => String::new(),
        words => format!(" {words}."),
    };
    let part = if visit.interrupted { " Stopped before its end." } else { "" };
    let _ = writeln!(text, "`{command}`, {:.0} s.{scale}{part}\n", visit.took_s);
    for (name, value) in &it.facts {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(text, "\n## What was published\n\n{}\n", it.published.claim);
    let _ = writeln!(text, "{}\n", it.published.source);
    grid(&mut text, &it.published.numbers);
    side(&mut text, "Repeated as it was", &it.flawed);
    side(&mut text, "Without the flaw", &it.corrected);
    for room in &visit.rooms {
        side(&mut text, &room.title, &room.side);
    }
    if !it.findings.is_empty() {
        let _ = writeln!(
            text,
            "## Expected beforehand\n\n| expected | came out | found |\n|---|---|---|"
        );
        for found in &it.findings {
            let came = if found.holds { "yes" } else { "no" };
            let value = words::number(found.value);
            let _ = writeln!(text, "| {} | {came} | {value} |", cell(&found.expected));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "## Why\n");
    it.why.iter().for_each(|why| {
        let _ = writeln!(text, "{why}\n");
    });
    let _ = writeln!(text, "{}", it.lesson);
    if !it.doubts.is_empty() {
        let _ = writeln!(text, "\nDoubts:\n");
        it.doubts.iter().for_each(|doubt| {
            let _ = writeln!(text, "- {doubt}");
        });
    }
    text
}

fn side(text: &mut String, name: &str, it: &Side) {
    let _ = writeln!(text, "## {name}\n\n{}\n\n{}\n", it.setup, it.finding);
    grid(text, &it.numbers);
}

fn grid(text: &mut String, it: &Grid) {
    if it.rows.is_empty() {
        return;
    }
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|it| cell(it)).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule = "|---".repeat(it.head.len());
    let _ = writeln!(text, "{}\n{rule}|", line(&it.head));
    it.rows.iter().for_each(|row| {
        let _ = writeln!(text, "{}", line(row));
    });
    text.push('\n');
}

/// A cell in which no bar ends it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use museum::Showing;
    use museum::showing::Finding;

    #[test]
    fn tables_findings_and_doubts_are_there() {
        let mut numbers = Grid::new(&["server", "requests/s"]);
        numbers.row(["a|b".to_string(), "12".to_string()]);
        let showing = Showing {
            flawed: Side { finding: "It was slow.".to_string(), numbers, ..Side::default() },
            findings: vec![Finding::new("x", false, 2.0, "more than three")],
            doubts: vec!["Loopback.".to_string()],
            ..Showing::default()
        };
        let visit = Visit {
            schema: String::new(),
            exhibit: "mixes".to_string(),
            title: "Mixes".to_string(),
            scale: 1.0,
            scale_words: String::new(),
            interrupted: true,
            took_s: 3.0,
            rooms: Vec::new(),
            showing,
        };
        let text = markdown(&visit, "roundhouse museum mixes");
        for want in [
            "# Mixes\n",
            "`roundhouse museum mixes`, 3 s. Stopped before its end.",
            "| server | requests/s |\n|---|---|\n| a\\|b | 12 |\n",
            "| more than three | no | 2 |",
            "- Loopback.",
        ] {
            assert!(text.contains(want), "expected `{want}` in\n{text}");
        }
    }
}
