//! Numbers in rows.

use serde::{Deserialize, Serialize};

/// A table of cells that are already text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Headings of the columns; the first column names the row.
    pub head: Vec<String>,
    /// Rows, as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings and no row.
    pub fn new(head: &[&str]) -> Table {
        Table { head: head.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it is not as long as the head.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        assert_eq!(cells.len(), self.head.len(), "a row fits its table");
        self.rows.push(cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "fits its table")]
    fn a_row_that_does_not_fit_is_refused() {
        Table::new(&["clients", "requests/s"]).row(["1".to_string()]);
    }
}
