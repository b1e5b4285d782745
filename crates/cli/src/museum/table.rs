//! An exhibit on the terminal: the published claim, both runs, the findings.

use comfy_table::{ContentArrangement, LineStyle, TableStyle};
use document::{Document, Finding, Section, Table};
use museum::{EXHIBITS, Settings};
use stats::words;
use std::fmt::Write as _;

/// The exhibits and their durations.
pub fn list(settings: &Settings) -> String {
    let mut table = table(&["exhibit", "shows that", "takes about"].map(String::from));
    let mut total = std::time::Duration::ZERO;
    for exhibit in EXHIBITS {
        let time = exhibit.effort(settings).time;
        total += time;
        table.add_row([exhibit.name(), &exhibit.text().about, &words::span(time)]);
    }
    table.add_row(["all", "", &words::span(total)]);
    let scale = settings.scale.words();
    let scale = if scale.is_empty() { scale } else { format!(" ({scale})") };
    format!("{table}\n\nroundhouse museum EXHIBIT runs one{scale}; --scale 0.1 shortens waits\n")
}

/// The whole document as text.
pub fn text(it: &Document) -> String {
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
    let mut table = table(&it.head);
    for row in &it.rows {
        table.add_row(row);
    }
    let _ = writeln!(text, "{table}\n");
}

fn table(head: &[String]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    let line = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(line));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head);
    table
}
