//! The golden transcripts of the stock service, for use over sockets. The tests of `services` play
//! the same files in the simulator and document their format.

use std::path::{Path, PathBuf};

use sim::Golden;

/// The block of the course's clients, in bytes.
pub const BLOCK: usize = 8192;

/// One transcript.
pub struct Transcript {
    /// The flags in its head.
    pub flags: Vec<String>,
    /// The book.
    pub book: String,
    /// All requests.
    pub sent: Vec<u8>,
    /// All replies.
    pub expected: Vec<u8>,
    /// Whether the server ends the conversation.
    pub closed: bool,
}

/// The files of all transcripts, in order.
pub fn all() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../services/stock/tests/golden");
    let entries = std::fs::read_dir(folder).expect("the transcripts");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

/// Reads one.
pub fn read(path: &Path) -> Transcript {
    let text = std::fs::read_to_string(path).expect("a transcript");
    let (head, talk): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("#! "));
    let (mut flags, mut book) = (Vec::new(), String::new());
    for line in head {
        match line[3..].split_once(' ') {
            Some(("book", row)) => book += &format!("{row}\n"),
            Some(("index", names)) => {
                let first = names.split(' ').next().unwrap_or_default();
                flags.extend(["--index".to_owned(), first.to_owned()]);
            }
            Some((name, value)) => flags.extend([format!("--{name}"), value.to_owned()]),
            None => panic!("{}: no such setting: {line}", path.display()),
        }
    }
    let is_fixed = flags.iter().any(|flag| flag == "fixed:8192");
    let talk_text = if is_fixed { padded(&talk) } else { talk.join("\n") };
    let golden =
        Golden::parse(&talk_text).unwrap_or_else(|bad| panic!("{}: {bad}", path.display()));
    let (sent, expected) = (golden.sent(), golden.expected().to_vec());
    Transcript { flags, book, sent, expected, closed: talk.contains(&"= closed") }
}

/// Makes one padded block of each run of `< ` lines.
fn padded(talk: &[&str]) -> String {
    let mut padded = String::new();
    for run in talk.chunk_by(|one, next| one.starts_with("< ") == next.starts_with("< ")) {
        if run[0].starts_with("< ") {
            let text: String = run.iter().map(|line| format!("{}\\n", &line[2..])).collect();
            let len: usize = run.iter().map(|line| line.len() - 1).sum();
            padded += &format!("<| {text}{}\n", "\\0".repeat(BLOCK - len));
        } else {
            padded += &format!("{}\n", run.join("\n"));
        }
    }
    padded
}
