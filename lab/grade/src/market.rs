//! The protocol as a grader reads it: lenient in form, strict in meaning.
//!
//! Servers may differ in the order of rows, in blanks, case, and the text of a refusal.

use std::fmt;

use wire::framing::Shape;

/// One row of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{id} {left} {price}")]
pub(crate) struct BookRow {
    pub(crate) id: u32,
    pub(crate) left: i64,
    pub(crate) price: i64,
}

/// All stocks, in the order of a file or of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows(pub(crate) Vec<BookRow>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub(crate) enum Ask {
    #[display("show")]
    Show,
    #[display("buy {_0} {_1}")]
    Buy(u32, i64),
    #[display("sell {_0} {_1}")]
    Sell(u32, i64),
}

#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub(crate) enum Told {
    #[display("rows")]
    Rows(Rows),
    #[display("success")]
    Done,
    #[display("`Not enough left stocks`")]
    NotEnough,
}

impl Rows {
    /// `count` stocks with `left` pieces of each. Ids are no positions.
    pub(crate) fn of(count: u32, left: i64) -> Rows {
        // 7 has no factor in common with the counts that are used here.
        let ids = (0..count).map(|at| count - at * 7 % count);
        Rows(ids.map(|id| BookRow { id, left, price: i64::from(id) * 100 }).collect())
    }

    /// Reads lines `ID LEFT PRICE`, each stock once; blanks and empty lines do not matter.
    pub(crate) fn read(text: &[u8]) -> Result<Rows, String> {
        let mut rows: Vec<BookRow> = Vec::new();
        for line in String::from_utf8_lossy(text).lines().filter(|line| !line.trim().is_empty()) {
            let numbers: Result<Vec<i64>, _> = line.split_whitespace().map(str::parse).collect();
            let Ok([id @ 0..=0xffff_ffff, left, price]) = numbers.as_deref() else {
                return Err(format!("expected ID LEFT PRICE, found {}", quoted(line.as_bytes())));
            };
            let row = BookRow { id: *id as u32, left: *left, price: *price };
            if rows.iter().any(|known| known.id == row.id) {
                return Err(format!("expected stock {id} once, found it twice"));
            }
            rows.push(row);
        }
        Ok(Rows(rows))
    }

    pub(crate) fn row(&self, id: u32) -> Option<&BookRow> {
        self.0.iter().find(|row| row.id == id)
    }

    /// Whether `found` has the same rows in any order. The error is the first difference.
    pub(crate) fn same(&self, found: &Rows) -> Result<(), String> {
        for row in &self.0 {
            match found.row(row.id) {
                Some(other) if other == row => {}
                Some(other) => return Err(format!("expected `{row}`, found `{other}`")),
                None => return Err(format!("expected `{row}`, found no row of stock {}", row.id)),
            }
        }
        match found.0.iter().find(|other| self.row(other.id).is_none()) {
            Some(other) => Err(format!("expected {} stocks, found also `{other}`", self.0.len())),
            None => Ok(()),
        }
    }

    /// Executes a request and returns its only right reply.
    pub(crate) fn execute(&mut self, ask: Ask) -> Told {
        let (id, change) = match ask {
            Ask::Show => return Told::Rows(self.clone()),
            Ask::Buy(id, count) => (id, -count),
            Ask::Sell(id, count) => (id, count),
        };
        let row = self.0.iter_mut().find(|row| row.id == id).expect("trials trade known stocks");
        if row.left + change < 0 {
            return Told::NotEnough;
        }
        row.left += change;
        Told::Done
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

impl Ask {
    pub(crate) fn line(self) -> Vec<u8> {
        format!("{self}\n").into_bytes()
    }

    pub(crate) fn shape(self) -> Shape {
        if self == Ask::Show { Shape::Block } else { Shape::Line }
    }

    /// The meaning of `text`, the reply to this request.
    pub(crate) fn meaning(self, text: &[u8]) -> Result<Told, String> {
        let success = match self {
            Ask::Show => {
                return Rows::read(text).map(Told::Rows).map_err(|why| format!("`show`: {why}"));
            }
            Ask::Buy(..) => "[buy] success",
            Ask::Sell(..) => "[sell] success",
        };
        match String::from_utf8_lossy(text).trim().to_ascii_lowercase().as_str() {
            words if words == success => Ok(Told::Done),
            words if words.starts_with("not enough") && words.lines().count() == 1 => {
                Ok(Told::NotEnough)
            }
            _ => Err(format!("`{self}`: expected `{success}`, found {}", quoted(text))),
        }
    }
}

/// The beginning of a text, for messages.
pub(crate) fn quoted(text: &[u8]) -> String {
    let dots = if text.len() > 48 { "..." } else { "" };
    format!("`{}`{dots}", stats::words::visible(text, 48))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_may_differ_in_form_but_not_in_numbers() {
        let book = Rows::read(b"1 7 100\n5  3\t3700 \r\n\n").expect("two rows");
        assert_eq!(book.same(&Rows::read(b"5 3 3700\n1 7 100").expect("two rows")), Ok(()));
        for (text, why) in [
            ("1 7 100\n5 4 3700\n", "expected `5 3 3700`, found `5 4 3700`"),
            ("1 7 100\n", "found no row of stock 5"),
            ("1 7 100\n5 3 3700\n9 1 1\n", "found also `9 1 1`"),
            ("1 7 100\n1 7 100\n", "stock 1 once"),
            ("1 7 100\n5 3\n", "found `5 3`"),
            ("1 7 100 x\n", "expected ID"),
        ] {
            let error = Rows::read(text.as_bytes()).and_then(|found| book.same(&found));
            assert!(error.is_err_and(|error| error.contains(why)), "{text:?}");
        }
    }

    #[test]
    fn replies_have_a_meaning() {
        assert_eq!(Ask::Buy(1, 2).meaning(b"[Buy] success \n"), Ok(Told::Done));
        assert_eq!(Ask::Buy(1, 2).meaning(b"Not enough left stock\n"), Ok(Told::NotEnough));
        for text in [&b"[buy] success\n"[..], b"", b"1 2 3\n"] {
            assert!(Ask::Sell(1, 2).meaning(text).is_err());
        }
        assert!(Ask::Show.meaning(b"[sell] success\n").is_err());
    }
}
