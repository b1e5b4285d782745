//! An exhibit on the terminal: the published claim, both runs, the findings.

use super::ruled;
use document::{Document, Finding, Section, Table};
use stats::words;
use std::fmt::Write as _;

/// The whole document as text.
pub fn exhibit(it: &Document) -> String {
    let mut text = String::new();
    let scale = match it.scale_words.as_str() {
        "" => String::new(),
        words => format!(" · {words}"),
    };
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{}{scale}\n{}\n", it.title, it.headline);
    let _ = writeln!(text, "Published: {}\n({})", it.published.claim, it.published.source);
    grid(&mut text, &it.published.numbers);
    side(&mut text, "Repeated as it was", &it.flawed, &scale);
    side(&mut text, "Without the flaw", &it.corrected, &scale);
    for room in &it.rooms {
        side(&mut text, &room.title, room, &scale);
    }
    if !it.findings.is_empty() {
        let _ = writeln!(text, "Expected beforehand{scale}");
        for finding in &it.findings {
            let _ = writeln!(text, "  {}", expected(finding));
        }
    }
    let _ = writeln!(text, "\nHow it was run{scale}");
    for (name, value) in &it.facts {
        let _ = writeln!(text, "  {name}: {value}");
    }
    let _ = writeln!(text, "\n{}", it.lesson);
    text
}

fn expected(it: &Finding) -> String {
    let came = if it.holds { "yes" } else { "NO" };
    format!("{came}: {} (found {})", it.expected, words::number(it.value))
}

fn side(text: &mut String, name: &str, it: &Section, scale: &str) {
    let _ = writeln!(text, "{name}{scale}\n{}", it.setup);
    grid(text, &it.numbers);
    let _ = writeln!(text, "{}\n", it.finding);
}

fn grid(text: &mut String, it: &Table) {
    if it.rows.is_empty() {
        text.push('\n');
        return;
    }
    let mut table = ruled();
    table.set_header(&it.head);
    for row in &it.rows {
        table.add_row(row);
    }
    let _ = writeln!(text, "{table}\n");
}
