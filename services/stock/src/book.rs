//! `stock.txt`: the market's book as text.
//!
//! Each line is a stock, three whole numbers: `ID LEFT PRICE`. Blanks and tabs separate fields.
//! `\r` at the end of a line and blank lines are ignored, the last line may lack its newline, and
//! `#` or `//` begins a comment. The encodings are those of [`wire::text`]. Anything else is
//! refused with line and column, because a misread row would be written back wrongly. [`Sheet`]
//! keeps the text around the numbers for a save.

use super::sheet::Sheet;
use std::ops::Range;
use wire::decimal;
use wire::text::{Fault, shown};

/// The greatest id and the greatest price: the course's `int`.
pub const INT_MAX: u32 = i32::MAX as u32;
/// The greatest amount left of one stock.
pub const LEFT_MAX: u64 = i64::MAX as u64;

/// The default book of an installed binary: ten stocks.
pub const DEFAULT: &str = include_str!("../data/stock.txt");

/// One stock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its id, 1 to [`INT_MAX`].
    pub id: u32,
    /// The number left, 0 to [`LEFT_MAX`].
    pub left: u64,
    /// The price of one, 0 to [`INT_MAX`].
    pub price: u32,
}

/// The columns of a line: name, least and greatest number.
const COLUMNS: [(&str, u64, u64); 3] =
    [("ID", 1, INT_MAX as u64), ("LEFT", 0, LEFT_MAX), ("PRICE", 0, INT_MAX as u64)];

/// Reads a whole book of at most `capacity` stocks, in any encoding of [`wire::text`].
///
/// # Errors
/// [`Fault`] for the first fault.
pub fn parse(bytes: &[u8], capacity: usize) -> Result<Vec<Entry>, Fault> {
    Sheet::parse(bytes, capacity).map(|sheet| sheet.entries().collect())
}

/// Appends one line of a book.
#[inline]
pub fn push_line(out: &mut Vec<u8>, entry: Entry) {
    // Three numbers and their separators, built backwards.
    let mut line = [b' '; 3 * decimal::DIGITS_MAX + 3];
    let end = line.len() - 1;
    line[end] = b'\n';
    let price = decimal::fill(&mut line[..end], entry.price.into());
    let left = decimal::fill(&mut line[..price - 1], entry.left);
    let id = decimal::fill(&mut line[..left - 1], entry.id.into());
    out.extend_from_slice(&line[id..]);
}

pub(super) struct Found {
    /// Its first column, in characters from 1.
    pub column: usize,
    pub entry: Entry,
    /// The bytes of LEFT in the line.
    pub left: Range<usize>,
}

/// The entry on a line, or `None` if the line is blank or a comment.
pub(super) fn parse_line(line: &str, number: usize) -> Result<Option<Found>, Fault> {
    let content = &line[..comment_start(line)];
    let bad = |at: usize, why| {
        let column = 1 + line[..at].chars().count();
        Fault { line: number, column, why }
    };
    let mut words = content.split([' ', '\t', '\r']).filter(|word| !word.is_empty());
    let place = |word: &str| word.as_ptr().addr() - line.as_ptr().addr();
    let (mut numbers, mut starts, mut ends) = ([0; 3], [0; 3], [0; 3]);
    for (at, (name, least, greatest)) in COLUMNS.into_iter().enumerate() {
        let Some(word) = words.next() else {
            if at == 0 {
                return Ok(None);
            }
            let why =
                format!("expected {name}, found the end of the line; a line is `ID LEFT PRICE`");
            return Err(bad(content.trim_end().len(), why));
        };
        (starts[at], ends[at]) = (place(word), place(word) + word.len());
        let number = decimal::parse(word.as_bytes()).ok();
        let number = number.filter(|number| (least..=greatest).contains(number));
        numbers[at] = number.ok_or_else(|| {
            let why = format!(
                "expected {name}, a whole number from {least} to {greatest}, found `{}`; correct \
                 it or remove the line",
                shown(word)
            );
            bad(starts[at], why)
        })?;
    }
    if let Some(word) = words.next() {
        let why = format!(
            "expected the end of the line after PRICE, found `{}`; put comments after `#`",
            shown(word)
        );
        return Err(bad(place(word), why));
    }
    let [id, left, price] = numbers;
    let column = 1 + line[..starts[0]].chars().count();
    let entry = Entry { id: id as u32, left, price: price as u32 };
    Ok(Some(Found { column, entry, left: starts[1]..ends[1] }))
}

fn comment_start(line: &str) -> usize {
    let bytes = line.as_bytes();
    let begins = |at: &usize| match bytes[*at] {
        b'#' => true,
        b'/' => bytes.get(at + 1) == Some(&b'/'),
        _ => false,
    };
    (0..bytes.len()).find(begins).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT, Entry, INT_MAX, LEFT_MAX, parse, push_line};

    const CAPACITY: usize = 1000;

    /// Entries as (id, left, price).
    fn check(book: impl AsRef<[u8]>, expected: &[(u32, u64, u32)]) {
        let found = parse(book.as_ref(), CAPACITY).unwrap_or_else(|bad| panic!("{bad}"));
        let found: Vec<_> = found.iter().map(|entry| (entry.id, entry.left, entry.price)).collect();
        assert_eq!(found, expected);
    }

    fn check_refused(book: impl AsRef<[u8]>, expected: &str) {
        let message = parse(book.as_ref(), CAPACITY).expect_err("refused").to_string();
        assert!(message.starts_with(expected), "{message}\nexpected: {expected}");
    }

    fn in_utf16(book: &str) -> Vec<u8> {
        book.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn what_editors_make_of_a_book() {
        let two = [(1, 7, 1000), (5, 3, 3700)];
        check("1 7 1000\n5 3 3700\n", &two);
        check("1 7 1000\r\n5 3 3700\r\n", &two);
        check("1 7 1000\n5 3 3700", &two);
        check("\n\n1 7 1000\n \t\n5 3 3700\n\n\n", &two);
        check("  1\t7   1000 \n\t5 3\t\t3700\t\n", &two);
        check("\u{feff}1 7 1000\n5 3 3700\n", &two);
        check("# a book\n1 7 1000 # one\n// five:\n5 3 3700// five\n", &two);
        check("# \u{c8fc}\u{c2dd}\n1 7 1000\n5 3 3700\n", &two);
        check(b"# \xc1\xd6\xbd\xc4\r\n1 7 1000\r\n5 3 3700\r\n", &two);
        check(in_utf16("1 7 1000\r\n5 3 3700\r\n"), &two);
        check(in_utf16("\u{feff}# \u{c8fc}\u{c2dd}\n1 7 1000\n5 3 3700"), &two);
        check("007 00 0\n", &[(7, 0, 0)]);
    }

    #[test]
    fn the_ends_of_the_ranges() {
        let far = format!("{INT_MAX} {LEFT_MAX} {INT_MAX}\n");
        check(&far, &[(INT_MAX, LEFT_MAX, INT_MAX)]);
        check_refused(
            "2147483648 1 1",
            "1:1: expected ID, a whole number from 1 to 2147483647, fo",
        );
        check_refused("0 1 1", "1:1: expected ID, a whole number from 1 to 2147483647, found `0`");
        check_refused(
            "1 9223372036854775808 1",
            "1:3: expected LEFT, a whole number from 0 to 922",
        );
        check_refused(
            "1 1 99999999999999999999999",
            "1:5: expected PRICE, a whole number from 0 t",
        );
    }

    #[test]
    fn refusals_say_where_and_what() {
        check_refused("1 7 1000\n5 -3 3700\n", "2:3: expected LEFT, a whole number from 0 to 9223");
        check_refused("1 7\n", "1:4: expected PRICE, found the end of the line");
        check_refused("1 7 # 1000\n", "1:4: expected PRICE, found the end of the line");
        check_refused("\t1\r\n", "1:3: expected LEFT, found the end of the line");
        check_refused("1 7 1000 9\n", "1:10: expected the end of the line after PRICE, found `9`");
        check_refused(
            "1 7 1000\n\n  1 3 1\n",
            "3:3: expected each ID once, found 1 again after li",
        );
        check_refused("\u{c8fc} 7 1000\n", "1:1: expected ID, a whole number from 1 to 2147483647");
        check_refused("1 \u{c8fc} 1000\n", "1:3: expected LEFT");
        check_refused("1 7 1000\n1\u{3000}7 1\n", "2:1: expected ID");
        check_refused(
            "1,7,1000\n",
            "1:1: expected ID, a whole number from 1 to 2147483647, found `1,",
        );
        check_refused(
            "1 7 1000\n5 3 3\0\n",
            "2:5: expected PRICE, a whole number from 0 to 2147483647, fo",
        );
        check_refused(b"1 7 1000\n2 \xff\xff 1\n", "2:3: expected text in UTF-8, UTF-16 or CP949");
        check_refused("", "1:1: expected a line `ID LEFT PRICE`, found none");
        check_refused("# nothing\n\n", "1:1: expected a line `ID LEFT PRICE`, found none");
    }

    #[test]
    fn more_stocks_than_fit_are_refused() {
        let book = "1 1 1\n2 1 1\n3 1 1\n";
        assert_eq!(parse(book.as_bytes(), 3).expect("fits").len(), 3);
        let refused = parse(book.as_bytes(), 2).expect_err("refused").to_string();
        assert!(refused.starts_with("3:1: expected at most 2 stocks"), "{refused}");
    }

    #[test]
    fn what_is_written_is_read() {
        let entries: Vec<Entry> = (1..500)
            .map(|n: u32| Entry { id: n * 7919, left: u64::from(n).pow(6), price: n * n })
            .collect();
        let mut book = Vec::new();
        entries.iter().for_each(|entry| push_line(&mut book, *entry));
        assert_eq!(parse(&book, CAPACITY), Ok(entries));
    }

    #[test]
    fn the_book_that_is_compiled_in_is_ten_stocks() {
        let ids: Vec<u32> =
            parse(DEFAULT.as_bytes(), CAPACITY).expect("parses").iter().map(|row| row.id).collect();
        assert_eq!(ids, (1..=10).collect::<Vec<_>>());
    }
}
