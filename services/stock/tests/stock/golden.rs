//! Plays the transcripts in `tests/golden` in the simulator, with every lock and every index.
//!
//! They are [`sim::Golden`] conversations with a head: `#! framing NAME`, `#! order NAME`, `#!
//! index NAMES` if only some indexes give these replies, and one `#! book ID LEFT PRICE` a stock.
//! In `fixed` framing the lines of a reply are written without their padding.

use crate::client::market_with;
use ::stock::{Index, Lock, Options, Stock};
use sim::{Faults, Golden};
use std::path::Path;
use wire::framing::Framing;

/// The number of seeds of rough weather with which each transcript is played, for each lock and the
/// default index; other indexes get a quarter as many.
const SEEDS: u64 = 20;

struct Transcript {
    options: Options,
    /// The indexes with which the transcript is played.
    kinds: Vec<Index>,
    book: String,
    talk: String,
}

fn read(path: &Path) -> Transcript {
    let text = std::fs::read_to_string(path).expect("a transcript");
    let (head, talk): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("#!"));
    let mut options = Options::default();
    let (mut kinds, mut book) = (Index::ALL.to_vec(), String::new());
    for line in head {
        match line.split_once(' ').and_then(|(_, setting)| setting.split_once(' ')) {
            Some(("framing", name)) => options.framing = name.parse().expect("a framing"),
            Some(("order", name)) => options.order = name.parse().expect("an order"),
            Some(("index", names)) => {
                kinds = names.split(' ').map(|name| name.parse().expect("a book")).collect();
            }
            Some(("book", row)) => book += &format!("{row}\n"),
            _ => panic!("{}: no such setting: {line}", path.display()),
        }
    }
    let talk = match options.framing {
        Framing::Fixed(size) => padded(&talk, size),
        Framing::Line | Framing::Eof | Framing::Length => talk.join("\n"),
    };
    Transcript { options, kinds, book, talk }
}

/// Makes one padded block of each run of `< ` lines.
fn padded(talk: &[&str], size: usize) -> String {
    let mut padded = String::new();
    for run in talk.chunk_by(|one, next| one.starts_with("< ") == next.starts_with("< ")) {
        if !run[0].starts_with("< ") {
            padded += &format!("{}\n", run.join("\n"));
            continue;
        }
        let text: Vec<&str> = run.iter().map(|line| &line[2..]).collect();
        let len: usize = text.iter().map(|line| line.len() + 1).sum();
        padded += &format!("<| {}\\n{}\n", text.join("\\n"), "\\0".repeat(size - len));
    }
    padded
}

fn check(path: &Path) {
    let Transcript { options, kinds, book, talk } = read(path);
    let golden = Golden::parse(&talk).unwrap_or_else(|bad| panic!("{}: {bad}", path.display()));
    let pairs = kinds.iter().flat_map(|kind| Lock::ALL.map(|lock| (*kind, lock)));
    for (kind, lock) in pairs {
        println!("{} under {lock}, book {kind}", path.display());
        let stock = Stock::new(Options { lock, ..options });
        let seeds = if kind == Index::default() { SEEDS } else { SEEDS / 4 };
        golden.play(&stock, || market_with(kind, &book), &Faults::calm(), seeds);
    }
}

#[test]
fn every_transcript() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(folder).expect("the transcripts");
    let paths: Vec<_> = files.map(|file| file.expect("a transcript").path()).collect();
    assert!(paths.len() >= 8, "expected at least eight transcripts, found {}", paths.len());
    paths.iter().for_each(|path| check(path));
}
