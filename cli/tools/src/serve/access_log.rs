//! The access log: the supervisor writes the journal to a file periodically, and once more after
//! the last worker has left.
//!
//! The file stays open, so writing works even when clients use up all descriptors. Its name is
//! checked before each batch, so a file that was moved away is followed by a new one.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::web::Journal;
use anyhow::{Context, Result};
use engines::StateStore;
use engines::status::Gauge;

/// How often the journal is written. A ring holds some 10,000 lines, so a worker that serves more
/// than 200,000 requests a second loses lines, which is reported.
const EVERY: Duration = Duration::from_millis(50);

/// Writes the journal.
pub struct AccessLog {
    place: Option<Place>,
    /// Lines taken from the journal but not yet written.
    lines: Vec<u8>,
    /// Lines that were lost because a ring was full.
    dropped: u64,
}

/// The destination of the lines.
enum Place {
    Stdout,
    File(PathBuf, File),
}

impl AccessLog {
    /// A log to `path`, if there is one; `-` is standard output.
    ///
    /// # Errors
    /// The file cannot be opened for writing.
    pub fn open(path: Option<PathBuf>) -> Result<AccessLog> {
        let place = match path {
            None => None,
            Some(path) if path.as_os_str() == "-" => Some(Place::Stdout),
            Some(path) => {
                let file = append(&path)
                    .with_context(|| format!("cannot write the access log {}", path.display()))?;
                Some(Place::File(path, file))
            }
        };
        Ok(AccessLog { place, lines: Vec::new(), dropped: 0 })
    }

    /// Writes the waiting lines; lines that cannot be written keep waiting.
    fn write(&mut self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let out: &mut dyn Write = match &mut self.place {
            None => return Ok(()),
            Some(Place::Stdout) => &mut stdout,
            Some(Place::File(path, file)) => {
                if !is_at(file, path)
                    && let Ok(fresh) = append(path)
                {
                    *file = fresh;
                }
                file
            }
        };
        while !self.lines.is_empty() {
            let written = out.write(&self.lines)?;
            self.lines.drain(..written);
        }
        out.flush()
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
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
        if self.lines.is_empty() {
            let dropped = journal.take(&mut self.lines);
            self.dropped += dropped;
            if dropped > 0 {
                language::eprintln!(
                    "the access log has a gap of {dropped} lines: requests came too fast"
                );
            }
        }
        self.write().map_err(|error| {
            format!("cannot write the access log: {error}; the waiting lines will be retried")
        })
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
        match append(&path) {
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
                self.dropped as f64,
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
