//! Arrivals from a file: one moment per line, in seconds from the start.
//!
//! The file is checked once before the run, so that a mistake in its last line does not end an hour
//! of measurement. It is then read piece by piece during the run: a trace of a day costs no more
//! memory than one of a second.

use super::Arrive;
use crate::Instant;
use crate::parse::Usage;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A longer line cannot be a number (bytes).
const LINE_MAX: u64 = 256;

/// A trace of arrivals.
///
/// Each line holds seconds since the start as a decimal number; empty lines and lines that begin
/// with `#` are skipped. The numbers must not decrease.
pub struct Replay {
    lines: BufReader<File>,
    start: Instant,
    next: Option<Duration>,
    /// With several threads, thread `part` takes every `parts`-th arrival.
    parts: u64,
}

impl Replay {
    /// Checks the whole file and rewinds; takes every `parts`-th arrival, beginning with number
    /// `part`.
    ///
    /// # Errors
    /// The file cannot be read, holds no arrival, or its numbers decrease; the error names the
    /// line.
    pub fn open(path: &Path, part: u64, parts: u64) -> Result<Self, Usage> {
        let arrivals = check(path)?;
        if arrivals == 0 {
            return Err(Usage(format!(
                "{}: expected a line with the seconds of an arrival, found none",
                path.display()
            )));
        }
        let mut replay =
            Self { lines: BufReader::new(open(path)?), start: Instant::ZERO, next: None, parts: 1 };
        (0..=part).for_each(|_| replay.advance());
        replay.parts = parts.max(1);
        Ok(replay)
    }
}

/// The number of arrivals in the file.
fn check(path: &Path) -> Result<u64, Usage> {
    let mut lines = BufReader::new(open(path)?);
    let (mut count, mut number, mut last) = (0, 0u64, Duration::ZERO);
    loop {
        number += 1;
        let bad = |why: String| Usage(format!("{}:{number}: {why}", path.display()));
        match line(&mut lines).map_err(bad)? {
            Line::End => return Ok(count),
            Line::Nothing => {}
            Line::At(at) if at < last => {
                return Err(bad(format!(
                    "expected an arrival at {} s or later, found one at {} s; sort the file",
                    last.as_secs_f64(),
                    at.as_secs_f64()
                )));
            }
            Line::At(at) => (count, last) = (count + 1, at),
        }
    }
}

fn open(path: &Path) -> Result<File, Usage> {
    File::open(path)
        .map_err(|e| Usage(format!("{}: cannot open: {e}", PathBuf::from(path).display())))
}

enum Line {
    At(Duration),
    Nothing,
    End,
}

fn line(lines: &mut BufReader<File>) -> Result<Line, String> {
    let mut text = String::new();
    let count = lines.take(LINE_MAX).read_line(&mut text);
    if count.map_err(|e| format!("cannot read: {e}"))? == 0 {
        return Ok(Line::End);
    }
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(Line::Nothing);
    }
    let seconds = text.parse().ok().and_then(|s: f64| Duration::try_from_secs_f64(s).ok());
    let seconds = seconds.filter(|at| at.as_secs() < 1 << 31);
    seconds.map(Line::At).ok_or_else(|| format!("expected seconds such as 0.25, found `{text}`"))
}

impl Arrive for Replay {
    fn start(&mut self, start: Instant) {
        self.start = start;
    }

    fn due(&self) -> Option<Instant> {
        self.next.map(|next| self.start + next)
    }

    fn advance(&mut self) {
        for _ in 0..self.parts {
            self.next = loop {
                match line(&mut self.lines) {
                    Ok(Line::At(at)) => break Some(at),
                    Ok(Line::Nothing) => {}
                    // The file was checked before the run; if it is truncated meanwhile, arrivals
                    // end.
                    Ok(Line::End) | Err(_) => break None,
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Folder;

    fn check(text: &str, part: u64, parts: u64) -> Result<Vec<u64>, String> {
        let (_folder, path) = Folder::with("trace", text);
        let mut replay = Replay::open(&path, part, parts).map_err(|Usage(why)| why)?;
        replay.start(Instant::from_ns(5));
        let mut found = Vec::new();
        while let Some(due) = replay.due() {
            found.push(due.ns());
            replay.advance();
        }
        Ok(found)
    }

    #[test]
    fn moments_are_seconds_from_the_start() {
        let text = "# a trace\n0\n0.000001\n\n1.5\n1.5";
        let all = [5, 1005, 1_500_000_005, 1_500_000_005];
        assert_eq!(check(text, 0, 1), Ok(all.to_vec()));
        assert_eq!(check(text, 0, 2), Ok(vec![all[0], all[2]]));
        assert_eq!(check(text, 1, 2), Ok(vec![all[1], all[3]]));
        assert_eq!(check(text, 9, 10), Ok(vec![]));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, part) in [
            ("0\n2\n1\n", ":3: expected an arrival at 2 s or later, found one at 1 s"),
            ("0\nsoon\n", ":2: expected seconds"),
            ("-1\n", ":1: expected seconds"),
            ("# nobody\n", "found none"),
        ] {
            let why = check(text, 0, 1).expect_err("it is not a trace");
            assert!(why.contains(part), "{why}");
        }
        assert!(Replay::open(Path::new("/nowhere/trace"), 0, 1).is_err());
    }
}
