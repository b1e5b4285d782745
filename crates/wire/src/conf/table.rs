//! Tables: a line of column names, then rows, with tabs or commas between the cells.
//!
//! What a spreadsheet exports. The separator is the tab if the line of names has one, else the
//! comma. Cells may be quoted, and a quote inside is doubled (RFC 4180, without line ends inside);
//! blanks around a cell are no part of it. A line that is empty or begins with `//` is no row.

use super::fault::shown;
use super::settings::{Whole, flag_of, float_of};
use super::{BadConf, Fault, Kind, decoded};

/// A whole table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Line>,
}

/// A line of cells, and where they begin.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    line: usize,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    text: String,
    /// From 1, in characters.
    column: usize,
}

/// One row of a [`Table`].
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    table: &'a Table,
    line: &'a Line,
}

impl Table {
    /// Reads a whole table, in any encoding of [`crate::text`].
    ///
    /// # Errors
    /// [`BadConf`] for the first thing that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Table, BadConf> {
        let text = decoded(bytes)?;
        let mut lines = text.lines().zip(1..).filter(|(line, _)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with("//")
        });
        let bad = |line, column, fault| BadConf { line, column, fault };
        let (names, number) = lines.next().ok_or_else(|| bad(1, 1, Fault::NoColumns))?;
        let separator = if names.contains('\t') { '\t' } else { ',' };
        let head = cells(names, number, separator)?;
        for (at, cell) in head.iter().enumerate() {
            if cell.text.is_empty() {
                return Err(bad(number, cell.column, Fault::NoName { found: String::new() }));
            }
            if head[..at].iter().any(|before| before.text == cell.text) {
                let fault = Fault::Twice { name: shown(&cell.text), first: number };
                return Err(bad(number, cell.column, fault));
            }
        }
        let mut rows = Vec::new();
        for (text, line) in lines {
            let cells = cells(text, line, separator)?;
            if cells.len() != head.len() {
                let fault = Fault::Cells { expected: head.len(), found: cells.len() };
                return Err(bad(line, 1, fault));
            }
            rows.push(Line { line, cells });
        }
        Ok(Table { columns: head.into_iter().map(|cell| cell.text).collect(), rows })
    }

    /// The names of the columns, from left to right.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows from top to bottom.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> + DoubleEndedIterator {
        self.rows.iter().map(|line| Row { table: self, line })
    }

    /// The first row that has `text` in the first column.
    pub fn row(&self, text: &str) -> Option<Row<'_>> {
        self.rows().find(|row| row.line.cells[0].text == text)
    }
}

impl<'a> Row<'a> {
    /// The line of the file, from 1.
    pub fn line(&self) -> usize {
        self.line.line
    }

    /// The cells from left to right.
    pub fn cells(&self) -> impl ExactSizeIterator<Item = &'a str> {
        self.line.cells.iter().map(|cell| cell.text.as_str())
    }

    /// What stands in the column called `column`; `None` if there is no such column, here and
    /// below.
    pub fn text(&self, column: &str) -> Option<&'a str> {
        self.cell(column).map(|cell| cell.text.as_str())
    }

    /// The same as yes or no.
    ///
    /// # Errors
    /// [`Fault::NotA`] if it is neither.
    pub fn flag(&self, column: &str) -> Result<Option<bool>, BadConf> {
        self.read(column, Kind::Flag, flag_of)
    }

    /// The same as a whole number of the caller's type.
    ///
    /// # Errors
    /// [`Fault::NotA`] if it is none, or out of the type's range.
    pub fn int<T: Whole>(&self, column: &str) -> Result<Option<T>, BadConf> {
        let kind = Kind::Int { least: T::LEAST, greatest: T::GREATEST };
        self.read(column, kind, |cell| T::try_from(cell.parse::<i64>().ok()?).ok())
    }

    /// The same as a finite number.
    ///
    /// # Errors
    /// [`Fault::NotA`] if it is none.
    pub fn float(&self, column: &str) -> Result<Option<f64>, BadConf> {
        self.read(column, Kind::Float, float_of)
    }

    fn cell(&self, column: &str) -> Option<&'a Cell> {
        let at = self.table.columns.iter().position(|name| name == column)?;
        self.line.cells.get(at)
    }

    fn read<T>(
        &self,
        column: &str,
        kind: Kind,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BadConf> {
        let Some(cell) = self.cell(column) else { return Ok(None) };
        read(&cell.text).map(Some).ok_or_else(|| BadConf {
            line: self.line.line,
            column: cell.column,
            fault: Fault::NotA { name: shown(column), kind, found: shown(&cell.text) },
        })
    }
}

/// The cells of one line.
fn cells(line: &str, number: usize, separator: char) -> Result<Vec<Cell>, BadConf> {
    let is_blank = |c: char| c.is_whitespace() && c != separator;
    let mut cells = Vec::new();
    let mut at = 0;
    loop {
        at += line[at..].find(|c| !is_blank(c)).unwrap_or(line.len() - at);
        let column = 1 + line[..at].chars().count();
        let bad = |fault| BadConf { line: number, column, fault };
        let text = if line[at..].starts_with('"') {
            let (text, len) = quoted(&line[at..]).ok_or_else(|| bad(Fault::QuoteOpen))?;
            at += len;
            at += line[at..].find(|c| !is_blank(c)).unwrap_or(line.len() - at);
            if !line[at..].is_empty() && !line[at..].starts_with(separator) {
                let column = 1 + line[..at].chars().count();
                let fault = Fault::Extra { found: shown(&line[at..]) };
                return Err(BadConf { line: number, column, fault });
            }
            text
        } else {
            let len = line[at..].find(separator).unwrap_or(line.len() - at);
            let text = line[at..at + len].trim_end().to_owned();
            at += len;
            text
        };
        cells.push(Cell { text, column });
        if at == line.len() {
            return Ok(cells);
        }
        at += separator.len_utf8();
    }
}

/// The text in the quotes at the front, and how many bytes they take; `None` if they stay open.
fn quoted(line: &str) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut at = 1;
    loop {
        let len = line[at..].find('"')?;
        text.push_str(&line[at..at + len]);
        at += len + 1;
        if !line[at..].starts_with('"') {
            return Some((text, at));
        }
        text.push('"');
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    const ITEMS: &str = "// items\nname,cost,weight\n\nsword,120,3.5\n \"a, \"\"b\"\"\" , 15 ,0\n";

    fn check_refused(text: &str, expected: &str) {
        let message = Table::parse(text.as_bytes()).expect_err("refused").to_string();
        assert!(message.starts_with(expected), "{message}\nexpected: {expected}");
    }

    #[test]
    fn cells_by_row_and_column() {
        let table = Table::parse(ITEMS.as_bytes()).expect("a table");
        assert_eq!(table.columns(), ["name", "cost", "weight"]);
        let rows: Vec<Vec<&str>> = table.rows().map(|row| row.cells().collect()).collect();
        assert_eq!(rows, [["sword", "120", "3.5"], ["a, \"b\"", "15", "0"]]);
        let sword = table.row("sword").expect("a row");
        assert_eq!(
            (sword.line(), sword.int("cost"), sword.float("weight")),
            (4, Ok(Some(120)), Ok(Some(3.5)))
        );
        assert_eq!((sword.text("colour"), table.row("shield").is_none()), (None, true));
        let last = table.rows().next_back().expect("a row");
        assert_eq!(last.flag("weight"), Ok(Some(false)));
        let bad = last.int::<u8>("name").expect_err("refused").to_string();
        assert!(bad.starts_with("5:2: expected `name` to be a whole number"), "{bad}");
    }

    #[test]
    fn tabs_and_other_encodings() {
        let text = "\u{feff}id\tname\r\n1\t\u{ac80}, \u{bc29}\u{d328}\r\n2\t\r\n";
        let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let korean = encoding_rs::EUC_KR.encode(&text[3..]).0;
        for bytes in [text.as_bytes(), &utf16, &korean] {
            let table = Table::parse(bytes).expect("a table");
            assert_eq!(table.rows().len(), 2);
            assert_eq!(
                table.row("1").and_then(|row| row.text("name")),
                Some("\u{ac80}, \u{bc29}\u{d328}")
            );
            assert_eq!(table.row("2").and_then(|row| row.text("name")), Some(""));
        }
    }

    #[test]
    fn refusals() {
        check_refused("", "1:1: expected a line of column names");
        check_refused("// only\n\n", "1:1: expected a line of column names");
        check_refused("a,b\n1\n", "2:1: expected 2 cells, one for each column, found 1");
        check_refused("a,b\n1,2,3\n", "2:1: expected 2 cells, one for each column, found 3");
        check_refused("a,b, a\n", "1:6: expected each name once, found `a`");
        check_refused("a,,b\n", "1:3: expected a name");
        check_refused("a,b\n1, \"2\n", "2:4: expected `\"`");
        check_refused("a,b\n\"1\" x,2\n", "2:5: expected the end");
    }
}
