//! The protocol as a grader reads it: lenient in form, strict in meaning.
//!
//! Servers may differ in the order of rows, in blanks, case, and the text of a refusal. Further
//! differences keep their meaning too, and are named once, in the trial `wording`.

use std::fmt;

use wire::framing::Shape;

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) told: Told,
    /// How its words differ from the course's; empty if they do not.
    pub(crate) wording: String,
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
            match numbers.as_deref() {
                Ok(numbers @ [_, _, _]) => add(&mut rows, numbers, line)?,
                _ => return Err(unlike(line)),
            }
        }
        Ok(Rows(rows))
    }

    /// Reads the same numbers with any marks between them, several rows in a line, and lines
    /// without numbers.
    fn loose(text: &str) -> Result<Rows, String> {
        let mut rows: Vec<BookRow> = Vec::new();
        for line in text.lines() {
            let words = line.split(|letter: char| !letter.is_ascii_digit() && letter != '-');
            let numbers: Vec<i64> = words.filter_map(|word| word.parse().ok()).collect();
            let (triples, rest) = numbers.as_chunks::<3>();
            if !rest.is_empty() {
                return Err(unlike(line));
            }
            triples.iter().try_for_each(|numbers| add(&mut rows, numbers, line))?;
        }
        if rows.is_empty() && !text.trim().is_empty() {
            return Err(unlike(text));
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
    ///
    /// Colours, an echo of the request, other words around the answer, a heading and other marks
    /// between rows do not change the meaning; [`Meaning::wording`] names them.
    ///
    /// # Errors
    /// The text is no reply to this request.
    pub(crate) fn meaning(self, text: &[u8]) -> Result<Meaning, String> {
        let right = |told| Ok(Meaning { told, wording: String::new() });
        let (success, other) = match self {
            Ask::Show => match Rows::read(text) {
                Ok(rows) => return right(Told::Rows(rows)),
                Err(_) => ("rows of ID LEFT PRICE", "success"),
            },
            Ask::Buy(..) => ("[buy] success", "sell"),
            Ask::Sell(..) => ("[sell] success", "buy"),
        };
        let words = String::from_utf8_lossy(text);
        // The NUL of the reply before may come late.
        let words = words.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace());
        let words = words.to_ascii_lowercase();
        if words == success {
            return right(Told::Done);
        }
        if self != Ask::Show && words.starts_with("not enough") && words.lines().count() == 1 {
            return right(Told::NotEnough);
        }
        let wording = format!("`{self}`: expected `{success}`, found {}", quoted(text));
        let plain = plain(text).to_ascii_lowercase();
        let plain = plain.trim_start();
        let answer = plain.strip_prefix(&self.to_string()).unwrap_or(plain);
        let told = match self {
            Ask::Show if answer.contains(other) => None,
            Ask::Show => {
                let rows = Rows::loose(answer).map_err(|why| format!("`show`: {why}"))?;
                Some(Told::Rows(rows))
            }
            _ if answer.contains("enough") => Some(Told::NotEnough),
            // Each common misspelling of "success" keeps its beginning.
            _ if answer.contains("suc") && !answer.contains(other) => Some(Told::Done),
            _ => None,
        };
        told.map(|told| Meaning { told, wording: wording.clone() }).ok_or(wording)
    }
}

/// The text without colours (ECMA-48, control sequences) and without NUL.
fn plain(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).replace('\0', "");
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        let end = piece.find(|letter: char| letter.is_ascii_alphabetic()).map_or(0, |at| at + 1);
        text + &piece[end..]
    })
}

fn add(rows: &mut Vec<BookRow>, numbers: &[i64], line: &str) -> Result<(), String> {
    let &[id @ 0..=0xffff_ffff, left, price] = numbers else { return Err(unlike(line)) };
    if rows.iter().any(|known| i64::from(known.id) == id) {
        return Err(format!("expected stock {id} once, found it twice"));
    }
    rows.push(BookRow { id: id as u32, left, price });
    Ok(())
}

fn unlike(line: &str) -> String {
    format!("expected ID LEFT PRICE, found {}", quoted(line.as_bytes()))
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
        let right = |told| Ok(Meaning { told, wording: String::new() });
        assert_eq!(Ask::Buy(1, 2).meaning(b"[Buy] success \n"), right(Told::Done));
        assert_eq!(Ask::Buy(1, 2).meaning(b"Not enough left stock\n"), right(Told::NotEnough));
        for text in [&b"[buy] success\n"[..], b"", b"1 2 3\n"] {
            assert!(Ask::Sell(1, 2).meaning(text).is_err());
        }
        assert!(Ask::Show.meaning(b"[sell] success\n").is_err());
    }

    #[test]
    fn other_words_keep_the_meaning_and_are_named() {
        let rows = Rows::read(b"1 2 300\n4 5 600\n").expect("two rows");
        for text in [
            "\x1b[32m1 2 300\n4 5 600\x1b[0m\n",
            "show\n1 2 300\n4 5 600\n",
            "ID LEFT PRICE\n1 2 300\n4 5 600\n",
            "1 2 300|4 5 600|\n",
            "1, 2, 300 ! 4, 5, 600\n\0",
        ] {
            let meaning = Ask::Show.meaning(text.as_bytes()).expect("rows");
            assert_eq!(meaning.told, Told::Rows(rows.clone()), "{text:?}");
            assert!(meaning.wording.contains("expected `rows"), "{text:?}");
        }
        for (text, told) in [
            ("[sell] sucess\n", Told::Done),
            ("\x1b[1;31m[sell] success\x1b[0m\n", Told::Done),
            ("Success! [sell] 2 of stock 1\n", Told::Done),
            ("sell 1 2\n[sell] success\n", Told::Done),
            ("Sorry: not enough left stocks\n", Told::NotEnough),
        ] {
            let meaning = Ask::Sell(1, 2).meaning(text.as_bytes()).expect("a reply");
            assert_eq!(meaning.told, told, "{text:?}");
            assert!(meaning.wording.contains("expected `[sell] success`"), "{text:?}");
        }
        for text in ["sell 1 2\n", "[sell] fail\n", "sell 1 2\n[buy] success\n"] {
            assert!(Ask::Sell(1, 2).meaning(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(Ask::Show.meaning(b"1 2\n3 4 5\n").is_err());
    }
}
