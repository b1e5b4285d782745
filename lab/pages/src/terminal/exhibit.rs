//! An exhibit on the terminal: the published claim, both runs, the findings.

use super::{folded, ruled};
use document::{Document, Finding, Section, Table};
use language::tr;
use stats::words;
use std::fmt::Write as _;

/// The whole document as text: its prose folded to the width, its tables and names translated.
pub fn exhibit(it: &Document) -> String {
    let mut text = String::new();
    let scale = match it.scale_words.as_str() {
        "" => String::new(),
        words => format!(" · {}", tr(words)),
    };
    let prose = |text: &str| folded(&tr(text), 0);
    // Writing into a String cannot fail.
    let title = folded(&format!("{}{scale}", tr(&it.title)), 4);
    let _ = writeln!(text, "{title}\n{}\n", prose(&it.headline));
    let published = format!("{}: {}", tr("Published"), it.published.claim);
    let source = format!("({})", it.published.source);
    let _ = writeln!(text, "{}\n{}", prose(&published), prose(&source));
    grid(&mut text, &it.published.numbers);
    side(&mut text, "Repeated as it was", &it.flawed, &scale);
    side(&mut text, "Without the flaw", &it.corrected, &scale);
    for room in &it.rooms {
        side(&mut text, &room.title, room, &scale);
    }
    if !it.findings.is_empty() {
        let title = format!("{}{scale}", tr("Expected beforehand"));
        let _ = writeln!(text, "{}", folded(&title, 4));
        for finding in &it.findings {
            let _ = writeln!(text, "{}", folded(&expected(finding), 4));
        }
    }
    let conclusion = format!("{}: {}", tr(&it.conclusion.to_string()), tr(&it.concluded));
    let _ = writeln!(text, "\n{}", folded(&conclusion, 0));
    let _ = writeln!(text, "\n{}", folded(&format!("{}{scale}", tr("How it was run")), 4));
    for (name, value) in &it.facts {
        let _ = writeln!(text, "{}", folded(&format!("  {}: {}", tr(name), tr(value)), 4));
    }
    let _ = writeln!(text, "\n{}", prose(&it.lesson));
    text
}

fn expected(it: &Finding) -> String {
    let (came, found) = (it.came_out.to_string(), tr("found").into_owned());
    format!("  {}: {} ({found} {})", tr(&came), tr(&it.expected), it.found(words::number))
}

fn side(text: &mut String, name: &str, it: &Section, scale: &str) {
    let title = folded(&format!("{}{scale}", tr(name)), 4);
    let _ = writeln!(text, "{title}\n{}", folded(&tr(&it.setup), 0));
    grid(text, &it.numbers);
    let _ = writeln!(text, "{}\n", folded(&tr(&it.finding), 0));
}

fn grid(text: &mut String, it: &Table) {
    if it.rows.is_empty() {
        text.push('\n');
        return;
    }
    let mut table = ruled();
    table.set_header(it.head.iter().map(|head| tr(head)));
    table.add_rows(it.rows.iter().map(|row| row.iter().map(|cell| tr(cell))));
    let _ = writeln!(text, "{table}\n");
}
