//! The machine's side of a race: a directory for its files, a book of stocks, and its views.

mod book;
mod lines;
mod screen;

pub use book::{BOOK, book};
pub use lines::Lines;
pub use screen::Screen;

use anyhow::{Context, Result};
pub use tempfile::TempDir;

/// A directory for the files of one run, whose name begins with `name`; dropping it removes it.
///
/// # Errors
/// It cannot be made in the temporary directory.
pub fn room(name: &str) -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix(name).tempdir();
    made.with_context(|| format!("cannot make a directory in {}", std::env::temp_dir().display()))
}
