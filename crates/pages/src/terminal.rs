//! Tables for the terminal: the verdicts of a race, an exhibit of the museum.

mod exhibit;
mod race;

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
