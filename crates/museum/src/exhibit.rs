//! The interface of an exhibit, and the reasons why one can fail.

use crate::draft::Draft;
use crate::stage::{Settings, Stage};
use crate::text::Text;
use std::fmt;
use std::time::Duration;

/// A published measurement that can be repeated, with its flaw and without.
pub trait Exhibit: Sync {
    /// The name on the command line, such as `think-time`.
    fn name(&self) -> &'static str;

    /// The texts: heading, summary, prose for the measurements.
    fn text(&self) -> Text {
        // A test reads the file of every exhibit.
        Text::of(self.name()).unwrap_or_default()
    }

    /// The effort with these settings.
    fn effort(&self, settings: &Settings) -> Effort;

    /// Runs it. A stopped stage returns the measurements so far.
    ///
    /// # Errors
    /// If a server or a client fails; see [`Fault`].
    fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault>;

    /// The draft before anything is measured; a test fills the exhibit's text with it.
    #[cfg(test)]
    fn nothing(&self, settings: &Settings) -> Draft;
}

/// The effort of an exhibit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Steps, for a progress bar.
    pub steps: u32,
    /// The approximate time of all of them.
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

/// The reason why an exhibit failed.
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
    /// The words and the numbers of an exhibit do not fit: a mistake in this crate.
    Text(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::File(why) => write!(f, "{why}"),
            Fault::Server(why) => write!(f, "the server did not become ready: {why}"),
            Fault::Clients(why) => write!(f, "the clients did not finish: {why}"),
            Fault::Lab(why) => write!(f, "the laboratory could not measure: {why}"),
            Fault::Text(why) => write!(f, "the exhibit's text cannot be filled: {why}"),
        }
    }
}

impl std::error::Error for Fault {}
