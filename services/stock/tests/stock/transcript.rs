//! The files in `tests/golden`: [`sim::Golden`] conversations with a head: `#! framing NAME`, `#!
//! order NAME`, `#! index NAMES` if only some indexes give these replies, and one `#! book ID LEFT
//! PRICE` a stock. In `fixed` framing the lines of a reply are written without their padding.
//!
//! `golden.rs` plays them in the simulator; `cli::it` plays the same over sockets.

use std::path::{Path, PathBuf};

/// The block of the courses' clients, in bytes.
const BLOCK: usize = 8192;

pub struct Transcript {
    /// The settings in its head, by the names of their flags.
    pub settings: Vec<(String, String)>,
    pub book: String,
    pub talk: String,
}

/// The files of all transcripts, in order.
pub fn all() -> Vec<PathBuf> {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.find_map(|it| {
        let folder = it.join("services/stock/tests/golden");
        folder.is_dir().then_some(folder)
    });
    let files = std::fs::read_dir(folder.expect("the repository")).expect("the transcripts");
    let mut files: Vec<_> = files.map(|file| file.expect("a transcript").path()).collect();
    files.sort();
    assert!(files.len() >= 8, "expected at least eight transcripts, found {}", files.len());
    files
}

pub fn read(path: &Path) -> Transcript {
    let text = std::fs::read_to_string(path).expect("a transcript");
    let (head, talk): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("#! "));
    let (mut settings, mut book) = (Vec::new(), String::new());
    for line in head {
        match line[3..].split_once(' ') {
            Some(("book", row)) => book += &format!("{row}\n"),
            Some((name, value)) => settings.push((name.to_owned(), value.to_owned())),
            None => panic!("{}: no such setting: {line}", path.display()),
        }
    }
    let is_fixed = settings.iter().any(|(_, value)| *value == format!("fixed:{BLOCK}"));
    Transcript { settings, book, talk: if is_fixed { padded(&talk) } else { talk.join("\n") } }
}

/// Makes one padded block of each run of `< ` lines.
fn padded(talk: &[&str]) -> String {
    let mut padded = String::new();
    for run in talk.chunk_by(|one, next| one.starts_with("< ") == next.starts_with("< ")) {
        if !run[0].starts_with("< ") {
            padded += &format!("{}\n", run.join("\n"));
            continue;
        }
        let text: Vec<&str> = run.iter().map(|line| &line[2..]).collect();
        let len: usize = text.iter().map(|line| line.len() + 1).sum();
        padded += &format!("<| {}\\n{}\n", text.join("\\n"), "\\0".repeat(BLOCK - len));
    }
    padded
}
