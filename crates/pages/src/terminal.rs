//! Tables for the terminal: the verdicts of a race, an exhibit of the museum.

mod answer;
mod exhibit;
mod race;

pub use answer::{answer, arms_by_cost, reasons};
pub use exhibit::exhibit;
pub use race::{further, tables};

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

/// A table with a line under its head and none between its rows, folded to the terminal's width.
pub fn ruled() -> Table {
    let mut table = Table::new();
    let line = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(line));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// A table whose rows have a line of prose each, below the row: a column of prose would be squeezed
/// to a few letters on a terminal of 80 columns.
pub fn annotated<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = ([String; N], String)>,
) -> String {
    let mut table = ruled();
    table.set_content_arrangement(ContentArrangement::Disabled).set_header(heads);
    let mut notes = Vec::new();
    for (cells, note) in rows {
        table.add_row(cells);
        notes.push(note);
    }
    let table = table.to_string();
    let mut lines = table.lines().map(str::trim_end);
    let mut text: String = lines.by_ref().take(2).map(|line| format!("{line}\n")).collect();
    lines.zip(notes).for_each(|(line, note)| text += &format!("{line}\n     {note}\n"));
    text
}
