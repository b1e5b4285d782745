//! The result of a run.

use core::fmt;

use seam::laws::Violation;
use seam::{Closed, Instant};

/// The outside view of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// The record of each client of the script.
    pub clients: Vec<Heard>,
    /// The laws that were broken, oldest first.
    pub violations: Vec<Violation>,
    /// The notes of services for the observer, oldest first.
    pub notes: Vec<String>,
    /// Pushes to a session that was gone, closing or full.
    pub pushes_lost: u64,
    /// How many turns the workers took.
    pub turns: u64,
    /// When nothing more could happen.
    pub end: Instant,
    /// Whether the run was cut off because it would not end.
    pub endless: bool,
}

/// The record of one client.
#[derive(Clone, PartialEq, Eq)]
pub struct Heard {
    /// All bytes, in the order received.
    pub bytes: Vec<u8>,
    /// How it ended for the client.
    pub end: End,
    /// How it ended for the service; `None` if it was never open.
    pub closed: Option<Closed>,
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Heard { bytes, end, closed } = self;
        write!(f, "{end:?}, {closed:?}, {} bytes: \"{}\"", bytes.len(), bytes.escape_ascii())
    }
}

/// How a connection ended for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server closed it, and everything before that was received.
    Closed,
    /// The client reset it.
    Reset,
    /// It was still open when nothing more could happen.
    Open,
    /// The server took no more connections.
    Refused,
}

impl Transcript {
    /// The one client's bytes.
    ///
    /// # Panics
    /// If the script had another number of clients.
    pub fn only(&self) -> &Heard {
        assert_eq!(self.clients.len(), 1, "the script has one client");
        &self.clients[0]
    }

    /// Fails if a law was broken, or if the run would not end.
    ///
    /// # Errors
    /// The violations, one a line.
    pub fn lawful(&self) -> Result<(), String> {
        if let Some(first) = self.violations.first() {
            let more = self.violations.len() - 1;
            return Err(format!("{first}; {more} more violations"));
        }
        if self.endless {
            return Err(format!("still busy after {} turns", self.turns));
        }
        Ok(())
    }
}
