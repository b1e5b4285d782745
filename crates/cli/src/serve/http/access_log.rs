//! The journal of requests, written to a file by the supervisor: now and then, and once more when
//! the last worker has left.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engines::Keeper;
use services::web::Journal;

/// How often the journal is written. The rings hold 10,000 lines each, so a worker that serves more
/// than 200,000 requests a second loses lines, and is told so.
const EVERY: Duration = Duration::from_millis(50);

/// Writes the journal.
pub struct AccessLog {
    path: Option<PathBuf>,
    /// What was taken out of the journal and is not written yet.
    lines: Vec<u8>,
}

impl AccessLog {
    /// A log that is written to `path`, if there is one; `-` is standard output.
    pub fn new(path: Option<PathBuf>) -> AccessLog {
        AccessLog { path, lines: Vec::new() }
    }

    fn write(&self) -> io::Result<()> {
        match &self.path {
            None => Ok(()),
            Some(path) if path.as_os_str() == "-" => {
                let mut out = io::stdout().lock();
                out.write_all(&self.lines).and_then(|()| out.flush())
            }
            Some(path) => {
                let mut file = OpenOptions::new().create(true).append(true).open(path)?;
                file.write_all(&self.lines)
            }
        }
    }
}

impl Keeper<Journal> for AccessLog {
    fn is_changed(&mut self, journal: &Journal) -> bool {
        self.path.is_some() && (!self.lines.is_empty() || !journal.is_empty())
    }

    fn save(&mut self, journal: &Journal) -> Result<(), String> {
        if self.lines.is_empty() {
            let dropped = journal.take(&mut self.lines);
            if dropped > 0 {
                eprintln!("the access log has a gap of {dropped} lines: they came too fast");
            }
        }
        self.write().map_err(|error| {
            let path = self.path.as_deref().unwrap_or(Path::new("-")).display();
            format!("cannot write the access log {path}: {error}; it is tried again")
        })?;
        self.lines.clear();
        Ok(())
    }

    fn every(&self) -> Option<Duration> {
        self.path.as_ref().map(|_| EVERY)
    }
}
