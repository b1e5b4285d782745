//! The race on the stock market: a book that does not run out.

use ::stock::book;
use anyhow::{Context, Result, anyhow};
use lab::plan::Provision;
use std::fmt::Write;
use std::path::Path;

/// The default file of a race.
pub const BOOK: &str = "data/stock.txt";

/// Every stock starts with at least this many: a market that runs out answers differently, and a
/// run of a few million orders of ten pieces or so cannot empty it.
const LEFT_MIN: u64 = 1_000_000_000;

/// The book that every trial starts with: the given file, else the shipped one, else the one that
/// is compiled in; with plenty of everything.
pub fn book(file: Option<&Path>) -> Result<Provision> {
    let file = file.or_else(|| Some(Path::new(BOOK)).filter(|file| file.exists()));
    let (name, bytes) = match file {
        None => ("the built-in book".to_string(), book::DEFAULT.as_bytes().to_vec()),
        Some(file) => {
            let name = file.display().to_string();
            let bytes = sys::input::read(file, sys::input::LARGE)
                .with_context(|| format!("cannot read {name}"))?;
            (name, bytes)
        }
    };
    let entries = book::parse(&bytes, 1 << 20).map_err(|bad| anyhow!("{name}:{bad}"))?;
    let mut text = String::new();
    for entry in entries {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{} {} {}", entry.id, entry.left.max(LEFT_MIN), entry.price);
    }
    Ok(Provision { name: "stock.txt".to_string(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_has_plenty_of_everything_and_the_same_prices() {
        let before = book::parse(book::DEFAULT.as_bytes(), 100).expect("we ship it");
        let text = book(None).expect("the shipped or the built-in book").text;
        let after = book::parse(text.as_bytes(), 100).expect("we wrote it");
        assert_eq!(after.len(), before.len());
        assert!(after.iter().all(|entry| entry.left >= LEFT_MIN));
    }

    #[test]
    fn a_book_that_is_none_is_refused_with_its_place() {
        let (_folder, file) = testkit::Folder::with("stock.txt", "1 2 3\n1 2 3\n");
        let found = book(Some(&file)).expect_err("a stock stands there twice").to_string();
        assert!(found.contains(":2:"), "{found}");
    }
}
