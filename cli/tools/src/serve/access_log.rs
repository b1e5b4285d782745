//! The access log: the supervisor writes the journal to a file periodically, and once more after
//! the last worker has left.
//!
//! The file stays open, so writing works even when clients use up all descriptors. Its name is
//! checked before each batch, so a file that was moved away is followed by a new one.
//!
//! A pipe, a FIFO or a terminal may have a reader that pauses. The supervisor does not wait for it:
//! the lines wait in memory, then in the rings, and a full ring drops lines and counts them.

use std::fs::File;
use std::io::{self, ErrorKind, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::web::Journal;
use anyhow::{Context, Result};
use engines::StateStore;
use engines::status::Gauge;
use sys::output::Output;

/// How often the journal is written. A ring holds some 10,000 lines, so a worker that serves more
/// than 200,000 requests a second loses lines, which is reported.
const EVERY: Duration = Duration::from_millis(50);

/// How long a batch waits for room in a pipe whose reader goes on reading.
const BATCH_PATIENCE: Duration = Duration::from_millis(20);
/// How long the last lines wait for a reader when the server has ended.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// Writes the journal.
pub struct AccessLog {
    place: Option<Place>,
    /// Lines taken from the journal but not yet written.
    lines: Vec<u8>,
    /// Lines that were lost because a ring was full.
    dropped: u64,
    /// The reader has let a whole wait pass without reading.
    is_paused: bool,
}

/// The destination of the lines.
enum Place {
    Stdout(Output),
    File(PathBuf, Output),
}

impl AccessLog {
    /// A log to `path`, if there is one; `-` is standard output.
    pub fn open(path: Option<PathBuf>) -> Result<AccessLog> {
        let place = match path {
            None => None,
            Some(path) if path.as_os_str() == "-" => {
                let stdout = Output::of(stdout().as_fd());
                Some(Place::Stdout(stdout.context("cannot write the access log to stdout")?))
            }
            Some(path) => {
                let file = Output::append(&path)
                    .with_context(|| format!("cannot write the access log {}", path.display()))?;
                Some(Place::File(path, file))
            }
        };
        Ok(AccessLog { place, lines: Vec::new(), dropped: 0, is_paused: false })
    }

    /// Writes the waiting lines; returns whether there was room for all. Lines that cannot be
    /// written keep waiting.
    fn write(&mut self) -> io::Result<bool> {
        let out = match &mut self.place {
            None => return Ok(true),
            Some(Place::Stdout(stdout)) => stdout,
            Some(Place::File(path, file)) => {
                if !is_at(file.file(), path)
                    && let Ok(fresh) = Output::append(path)
                {
                    *file = fresh;
                }
                file
            }
        };
        let until = Instant::now() + BATCH_PATIENCE;
        let mut written = 0;
        let outcome = loop {
            if written == self.lines.len() {
                break Ok(true);
            }
            match out.write(&self.lines[written..]) {
                Ok(count) => (written, self.is_paused) = (written + count, false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if self.is_paused || !out.has_room(left)? {
                        self.is_paused = true;
                        break Ok(false);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.lines.drain(..written);
        outcome
    }

    /// Takes lines from the journal, and reports those that are missing.
    fn take(&mut self, journal: &Journal) {
        let dropped = journal.take(&mut self.lines);
        self.dropped += dropped;
        if dropped > 0 {
            language::eprintln!(
                "the access log has a gap of {dropped} lines: requests came faster than it was \
                 written"
            );
        }
    }

    /// Writes the lines of a server that has ended; a reader that pauses loses them.
    pub fn finish(&mut self, journal: &Journal) {
        let until = Instant::now() + LAST_PATIENCE;
        while self.is_changed(journal) && Instant::now() < until {
            if self.save(journal).is_err() {
                return;
            }
            if self.is_paused {
                std::thread::sleep(EVERY / 10);
            }
        }
        if self.place.is_some() {
            self.take(journal);
            let lost = self.lines.iter().filter(|byte| **byte == b'\n').count();
            if lost > 0 {
                language::eprintln!("the access log lost its last {lost} lines: its reader paused");
            }
        }
    }
}

/// Whether `path` still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(named)) => (ours.dev(), ours.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

impl StateStore<Journal> for AccessLog {
    fn is_changed(&mut self, journal: &Journal) -> bool {
        self.place.is_some() && (!self.lines.is_empty() || !journal.is_empty())
    }

    fn save(&mut self, journal: &Journal) -> Result<(), String> {
        // Lines that have waited come first, then those of the journal.
        for _ in 0..2 {
            if self.lines.is_empty() {
                self.take(journal);
            }
            let written = self.write().map_err(|error| {
                format!("cannot write the access log: {error}; the waiting lines will be retried")
            })?;
            if !written {
                break;
            }
        }
        Ok(())
    }

    fn every(&self) -> Option<Duration> {
        self.place.as_ref().map(|_| EVERY)
    }

    /// Writes the waiting lines to the open file, then opens the file of that name.
    fn reload(&mut self, journal: &Journal) -> Vec<String> {
        let Some(Place::File(path, _)) = &self.place else { return Vec::new() };
        let path = path.clone();
        let mut words = Vec::new();
        words.extend(self.save(journal).err());
        match Output::append(&path) {
            Ok(fresh) => {
                words.push(format!("access log {} reopened", path.display()));
                self.place = Some(Place::File(path, fresh));
            }
            Err(error) => words.push(format!(
                "access log {} cannot be reopened: {error}; writing to the old one continues",
                path.display()
            )),
        }
        words
    }

    fn gauges(&self, journal: &Journal) -> Vec<Gauge> {
        let help = "Connections of trusted proxies without a whole PROXY header";
        let unproxied = Gauge::total("proxy_headers_refused", help, journal.unproxied() as f64);
        if self.place.is_none() {
            return vec![unproxied];
        }
        let waiting = self.lines.len() as f64;
        vec![
            unproxied,
            Gauge::now("log_bytes_waiting", "Bytes of the access log not written yet", waiting),
            Gauge::total(
                "log_lines_dropped",
                "Lines of the access log lost because a ring was full",
                (self.dropped + journal.dropped()) as f64,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::Region;
    use seam::WorkerId;

    #[test]
    fn a_file_that_is_moved_away_is_followed_by_a_new_one() {
        let folder = testkit::Folder::new();
        let path = folder.path().join("access.log");
        let journal = Region::<Journal>::alone(&[]);
        let mut log = AccessLog::open(Some(path.clone())).expect("a new file");
        let mut write = |line: &str| {
            journal.put(WorkerId::new(0, 1), line.as_bytes());
            assert!(log.is_changed(&journal));
            log.save(&journal).expect("a disk with room");
            assert!(!log.is_changed(&journal));
        };
        write("one\n");
        write("two\n");
        std::fs::rename(&path, folder.path().join("old.log")).expect("our own file");
        write("three\n");
        assert_eq!(folder.text("old.log"), "one\ntwo\n");
        assert_eq!(folder.text("access.log"), "three\n");
        assert!(AccessLog::open(Some(folder.path().join("none/log"))).is_err());
    }
}
