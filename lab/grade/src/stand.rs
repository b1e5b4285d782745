//! The place of one trial: a fresh server with a book of the trial's own, in a separate folder.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use meter::machine::{LISTENS, tcp_sockets};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::{Access, Client, Ending};
use crate::confined::Confined;
use crate::market::{Ask, Rows};
use crate::trials::{Outcome, follow};

/// The limit of a start, an end, and a file's update.
const SOON: Duration = Duration::from_secs(8);
const FILE: &str = "stock.txt";

/// The program under trial.
pub(crate) struct Subject {
    /// The command line, with `{port}` in it.
    pub(crate) line: Vec<String>,
    pub(crate) ending: Ending,
}

pub(crate) struct Stand<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) access: Access,
    pub(crate) server: Confined,
    /// The book that the server began with.
    pub(crate) book: Rows,
    /// Whether the trial itself has ended the server.
    pub(crate) is_ended: bool,
    /// Of a failed trial the part that succeeded, 0 to 1: it keeps this part of the points.
    pub(crate) kept: f64,
    pub(crate) end: Instant,
    folder: TempDir,
}

impl<'a> Stand<'a> {
    /// Starts a server on `book`, for at most `time`. The error is that it does not listen.
    pub(crate) fn start(subject: &'a Subject, book: Rows, time: Duration) -> Result<Self, String> {
        let make = || {
            let folder = tempfile::Builder::new().prefix("roundhouse-grade-").tempdir()?;
            fs::write(folder.path().join(FILE), book.to_string())?;
            Ok(folder)
        };
        let folder = make().map_err(|error: std::io::Error| format!("no folder: {error}"))?;
        let patience = Duration::from_secs(5);
        let port = sys::free_port(Ipv4Addr::UNSPECIFIED.into())
            .map_err(|why| format!("expected a free port: {why}"))?;
        let (ending, stocks) = (subject.ending, book.0.len());
        let access = Access { port, ending, stocks, patience };
        let end = Instant::now() + time;
        let server = launch(subject, folder.path(), access.port, time)?;
        Ok(Stand { subject, access, server, book, is_ended: false, kept: 0.0, end, folder })
    }

    /// Success, or the first of the reasons for which some of `count` clients failed; the share
    /// of the others is kept.
    pub(crate) fn each(&mut self, count: usize, ends: Vec<Outcome>) -> Outcome {
        let failed: Vec<String> = ends.into_iter().filter_map(Result::err).collect();
        let Some(why) = failed.first() else { return Ok(()) };
        self.kept = (count - failed.len()) as f64 / count as f64;
        if count == 1 {
            return Err(why.clone());
        }
        Err(format!("{} of {count} clients failed: {why}", failed.len()))
    }

    pub(crate) fn connect(&self) -> Result<Client, String> {
        self.access.connect()
    }

    /// Whether a new client finds `book`; if not, the first difference.
    pub(crate) fn shows(&self, book: &Rows) -> Result<(), String> {
        follow(&mut self.connect()?, &mut book.clone(), Ask::Show)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    pub(crate) fn file(&self) -> Result<Rows, String> {
        let bytes = fs::read(self.path()).map_err(|error| format!("{FILE}: {error}"))?;
        Rows::read(&bytes).map_err(|why| format!("{FILE}: {why}"))
    }

    /// Waits until the file holds `book`; if it does not, the first difference.
    pub(crate) fn saved(&self, book: &Rows) -> Result<(), String> {
        let same = || book.same(&self.file()?).map_err(|why| format!("{FILE}: {why}"));
        if within(SOON, || same().is_ok()) { Ok(()) } else { same() }
    }

    /// Presses Ctrl-C and waits for the end.
    pub(crate) fn interrupt(&mut self) -> Result<(), String> {
        self.is_ended = true;
        self.server.signal(Signal::INT);
        let ended = self.server.process.ended_within(SOON);
        ended.map(drop).ok_or_else(|| "the server still runs 8 s after SIGINT".to_owned())
    }

    /// Starts the server again, in the same folder and on the same port.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        let left = self.end.saturating_duration_since(Instant::now());
        self.server = launch(self.subject, self.folder.path(), self.access.port, left)?;
        self.is_ended = false;
        Ok(())
    }
}

/// Starts the program and waits until it listens.
fn launch(it: &Subject, folder: &Path, port: u16, time: Duration) -> Result<Confined, String> {
    let number = port.to_string();
    let line: Vec<String> = it.line.iter().map(|word| word.replace("{port}", &number)).collect();
    let mut server = Confined::start(&line, folder, folder, time)?;
    // A connect would be a client.
    let is_up = || tcp_sockets(LISTENS).any(|it| it.0[0] == port);
    let is_up = within(SOON, || server.process.status().is_some() || is_up());
    match server.obituary() {
        Some(why) => Err(format!("the server {why}, before it listened on port {port}")),
        None if is_up => Ok(server),
        None => Err(format!("nothing listens on port {port} after 8 s; is --port right?")),
    }
}

/// Waits until `holds`, for at most `time`; returns whether it holds.
pub(crate) fn within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
