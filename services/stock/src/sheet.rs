//! A `stock.txt` with all its text: a save changes the numbers in the column LEFT and nothing else.
//!
//! Comments, blank lines, tabs, line ends, the encoding and its byte order mark stay as the file's
//! author wrote them, because the file belongs to the author.

use super::book::{self, Entry};
use index::by_id::{ById, Refused, Slot};
use wire::text::{self, Encoding, Fault};

/// A book with its text and the places of its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    text: String,
    encoding: Encoding,
    marked: bool,
    rows: Vec<Row>,
}

/// One stock, and the place of its LEFT in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    entry: Entry,
    at: usize,
    len: usize,
}

impl Sheet {
    /// Reads a whole book of at most `capacity` stocks, in any encoding of [`wire::text`].
    ///
    /// # Errors
    /// [`Fault`] for the first fault.
    pub fn parse(bytes: &[u8], capacity: usize) -> Result<Sheet, Fault> {
        let decoded = text::decode(bytes).map_err(|bad| bad.fault(bytes))?;
        let rows = rows(&decoded.text, capacity)?;
        let (encoding, marked) = (decoded.encoding, decoded.marked);
        Ok(Sheet { text: decoded.text.into_owned(), encoding, marked, rows })
    }

    /// The stocks in the order of the file.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry> {
        self.rows.iter().map(|row| row.entry)
    }

    /// The same book with other amounts: `left` is called for each stock with its place in the
    /// file, counted from 0, and its present entry.
    #[must_use]
    pub fn with_lefts(&self, mut left: impl FnMut(usize, Entry) -> u64) -> Sheet {
        let mut text = String::with_capacity(self.text.len() + self.rows.len());
        let (mut rows, mut from) = (Vec::with_capacity(self.rows.len()), 0);
        for (index, row) in self.rows.iter().enumerate() {
            text.push_str(&self.text[from..row.at]);
            let entry = Entry { left: left(index, row.entry), ..row.entry };
            let at = text.len();
            match entry == row.entry {
                // Also leading zeros stay.
                true => text.push_str(&self.text[row.at..row.at + row.len]),
                false => text.push_str(&entry.left.to_string()),
            }
            rows.push(Row { entry, at, len: text.len() - at });
            from = row.at + row.len;
        }
        text.push_str(&self.text[from..]);
        Sheet { text, encoding: self.encoding, marked: self.marked, rows }
    }

    /// The file, in its encoding.
    pub fn bytes(&self) -> Vec<u8> {
        text::encode(&self.text, self.encoding, self.marked)
    }
}

fn rows(text: &str, capacity: usize) -> Result<Vec<Row>, Fault> {
    let rows_max = text.split('\n').count().min(capacity);
    let mut rows: Vec<Row> = Vec::with_capacity(rows_max);
    let mut lines: Vec<usize> = Vec::with_capacity(rows_max);
    let (mut by_id, mut slots) =
        (ById::sized_for(rows_max), vec![Slot::default(); ById::slots_for(rows_max)]);
    let mut start = 0;
    for (index, line) in text.split('\n').enumerate() {
        let found = book::parse_line(line, index + 1)?;
        let begin = start;
        start += line.len() + 1;
        let Some(book::Found { column, entry, left }) = found else { continue };
        let why = match by_id.insert(&mut slots, entry.id, rows.len() as u32) {
            Ok(()) if rows.len() < capacity => {
                rows.push(Row { entry, at: begin + left.start, len: left.len() });
                lines.push(index + 1);
                continue;
            }
            Err(Refused::Duplicate { row }) => format!(
                "expected each ID once, found {} again after line {}; remove one of them",
                entry.id, lines[row as usize]
            ),
            Ok(()) | Err(Refused::Zero | Refused::Full) => {
                format!("expected at most {capacity} stocks, found one more; divide the book")
            }
        };
        return Err(Fault { line: index + 1, column, why });
    }
    if rows.is_empty() {
        let why = "expected a line `ID LEFT PRICE`, found none; add a stock".into();
        return Err(Fault { line: 1, column: 1, why });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::Sheet;
    use stats::Rng;

    /// Every amount plus `more`, and back.
    fn check(book: &[u8], more: u64, expected: &[u8]) {
        let sheet = Sheet::parse(book, 100).expect("a book");
        assert_eq!(sheet.bytes(), book, "unchanged");
        let grown = sheet.with_lefts(|_, entry| entry.left + more);
        assert_eq!(grown.bytes(), expected);
        assert_eq!(Sheet::parse(expected, 100).as_ref(), Ok(&grown));
    }

    #[test]
    fn all_but_the_amounts_stays() {
        let book = "# a book\r\n\r\n\t1  7\t1000 # one\n// five:\n5 3 3700// five, 3\n 6 9 6";
        let next = "# a book\r\n\r\n\t1  97\t1000 # one\n// five:\n5 93 3700// five, 3\n 6 99 6";
        check(book.as_bytes(), 90, next.as_bytes());
        let marked = |text: &str| [b"\xef\xbb\xbf", text.as_bytes()].concat();
        check(&marked(book), 90, &marked(next));
        let wide = |text: &str, mark: &[u8], half: fn(u16) -> [u8; 2]| {
            [mark.to_vec(), text.encode_utf16().flat_map(half).collect()].concat()
        };
        for (mark, half) in [
            (&b"\xff\xfe"[..], u16::to_le_bytes as fn(u16) -> [u8; 2]),
            (b"\xfe\xff", u16::to_be_bytes),
            (b"", u16::to_le_bytes),
            (b"", u16::to_be_bytes),
        ] {
            let korean = |text: &str| text.replace("five", "\u{c8fc}\u{c2dd}");
            check(&wide(&korean(book), mark, half), 90, &wide(&korean(next), mark, half));
        }
        check(b"# \xc1\xd6\xbd\xc4\r\n1 7 1000\r\n", 3, b"# \xc1\xd6\xbd\xc4\r\n1 10 1000\r\n");
    }

    #[test]
    fn numbers_that_do_not_change_keep_their_zeros() {
        let sheet = Sheet::parse(b"1 007 0\n2 007 0\n", 2).expect("a book");
        assert_eq!(sheet.with_lefts(|index, _| 7 + index as u64).bytes(), b"1 007 0\n2 8 0\n");
    }

    #[test]
    fn many_saves_equal_one() {
        let mut rng = Rng::new(7);
        let text: String = (1..80).map(|id| format!("# {id} of\n{id} {id}\t1\r\n")).collect();
        let first = Sheet::parse(text.as_bytes(), 100).expect("a book");
        let mut sheet = first.clone();
        for _ in 0..50 {
            let lefts: Vec<u64> = (0..79).map(|_| rng.roll() >> (1 + rng.below(63))).collect();
            sheet = sheet.with_lefts(|index, _| lefts[index]);
            assert_eq!(sheet.bytes(), first.with_lefts(|index, _| lefts[index]).bytes());
            assert!(sheet.entries().map(|entry| entry.left).eq(lefts));
        }
    }
}
