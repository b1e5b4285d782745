//! An exhibit as Markdown, for a folder of kept runs: numbers and words, no charts.
//!
//! The page has two megabytes, mostly the plotting library. The text for a reader of a repository
//! has a hundredth of that, and the raw data next to it suffices to redraw the rest.

use document::{Document, Section, Table};
use stats::words;
use std::fmt::Write as _;

/// The whole document; `command` repeats the run.
pub fn exhibit(it: &Document, command: &str) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = writeln!(text, "# {}\n\n{}\n", it.title, it.headline);
    let _ = writeln!(text, "**{}**: {}\n", it.conclusion, it.concluded);
    let scale = match it.scale_words.as_str() {
        "" => String::new(),
        words => format!(" {words}."),
    };
    let part = if it.interrupted { " Stopped before its end." } else { "" };
    let _ = writeln!(text, "`{command}`, {:.0} s.{scale}{part}\n", it.took_s);
    for (name, value) in &it.facts {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(text, "\n## What was published\n\n{}\n", it.published.claim);
    let _ = writeln!(text, "{} {}\n", it.published.source, it.published.address);
    grid(&mut text, &it.published.numbers);
    side(&mut text, "Repeated as it was", &it.flawed);
    side(&mut text, "Without the flaw", &it.corrected);
    for room in &it.rooms {
        side(&mut text, &room.title, room);
    }
    if !it.findings.is_empty() {
        let _ = writeln!(
            text,
            "## Expected beforehand\n\n| expected | came out | found |\n|---|---|---|"
        );
        for found in &it.findings {
            let (came, value) = (found.came_out, found.found(words::number));
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

fn side(text: &mut String, name: &str, it: &Section) {
    let _ = writeln!(text, "## {name}\n\n{}\n\n{}\n", it.setup, it.finding);
    grid(text, &it.numbers);
}

fn grid(text: &mut String, it: &Table) {
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

/// A cell with its bars escaped.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{CameOut, Finding};

    #[test]
    fn tables_findings_and_doubts_are_there() {
        let mut numbers = Table::new(&["server", "requests/s"]);
        numbers.row(["a|b", "12"].map(String::from));
        let (name, expected) = ("x".to_string(), "more than three".to_string());
        let document = Document {
            title: "Mixes".to_string(),
            interrupted: true,
            took_s: 3.0,
            flawed: Section { finding: "It was slow.".to_string(), numbers, ..Section::default() },
            findings: vec![Finding {
                name,
                came_out: CameOut::No,
                value: 2.0,
                range: Some((1.5, 2.5)),
                expected,
            }],
            doubts: vec!["Loopback.".to_string()],
            ..Document::default()
        };
        let text = exhibit(&document, "roundhouse museum mixes");
        for want in [
            "# Mixes\n",
            "`roundhouse museum mixes`, 3 s. Stopped before its end.",
            "| server | requests/s |\n|---|---|\n| a\\|b | 12 |\n",
            "| more than three | NO | 2 [1.500, 2.500] |",
            "**unresolved**: ",
            "- Loopback.",
        ] {
            assert!(text.contains(want), "expected `{want}` in\n{text}");
        }
    }
}
