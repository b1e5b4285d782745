//! What an exhibit is, and why one can fail.

use crate::showing::Showing;
use crate::stage::{Settings, Stage};
use std::fmt;
use std::time::Duration;

/// A published measurement that can be repeated, with its flaw and without.
pub trait Exhibit: Sync {
    /// What it is called on the command line, such as `think-time`.
    fn name(&self) -> &'static str;

    /// Its heading, such as `Think time`.
    fn title(&self) -> &'static str;

    /// What it shows, in one line of the list.
    fn about(&self) -> &'static str;

    /// How much there is to do with these settings.
    fn effort(&self, settings: &Settings) -> Effort;

    /// Runs it. When the stage was stopped it comes home with what it has.
    ///
    /// # Errors
    /// If a server or a client could not do its part; see [`Fault`].
    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault>;
}

/// How much an exhibit has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Steps, for a bar of progress.
    pub steps: u32,
    /// About how long all of them take.
    pub time: Duration,
}

impl Effort {
    /// `steps` of `each`.
    pub fn new(steps: u32, each: Duration) -> Effort {
        Effort { steps, time: each * steps }
    }

    /// This, and then `more`.
    pub fn and(self, more: Effort) -> Effort {
        Effort { steps: self.steps + more.steps, time: self.time + more.time }
    }
}

/// Why an exhibit could not be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A file or directory could not be used.
    File(String),
    /// A server did not start.
    Server(String),
    /// A client program did not report.
    Clients(String),
    /// The laboratory could not run a race or a duet.
    Lab(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::File(why) => write!(f, "{why}"),
            Fault::Server(why) => write!(f, "the server did not become ready: {why}"),
            Fault::Clients(why) => write!(f, "the clients did not come to an end: {why}"),
            Fault::Lab(why) => write!(f, "the laboratory could not measure: {why}"),
        }
    }
}

impl std::error::Error for Fault {}
