//! The result of a run.

use core::fmt;

use crate::laws::Violation;
use seam::{Closed, Instant};

/// The beginning of a note that a limit has ended a session.
pub const LIMIT: &str = "limit: ";

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
    /// The number of turns that the workers took.
    pub turns: u64,
    /// The time after which no event could happen.
    pub end: Instant,
    /// Whether the run was cut off because it did not end.
    pub endless: bool,
}

/// The record of one client.
#[derive(Clone, PartialEq, Eq)]
pub struct Heard {
    /// All bytes, in the order received.
    pub bytes: Vec<u8>,
    /// The end of the connection as the client saw it.
    pub end: End,
    /// The reason of the end that the service got; `None` if it was never open.
    pub closed: Option<Closed>,
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Heard { bytes, end, closed } = self;
        write!(f, "{end:?}, {closed:?}, {} bytes: \"{}\"", bytes.len(), bytes.escape_ascii())
    }
}

/// The end of a connection as the client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server closed it, and everything before that was received.
    Closed,
    /// The client reset it.
    Reset,
    /// It was still open when no event was left.
    Open,
    /// The server refused the connection.
    Refused,
}

impl Transcript {
    /// The record of the only client.
    ///
    /// # Panics
    /// If the script had another number of clients.
    pub fn only(&self) -> &Heard {
        assert_eq!(self.clients.len(), 1, "the script has one client");
        &self.clients[0]
    }

    /// Adds the limits that have ended a session to a failure: a service notes them with the word
    /// [`LIMIT`] and the name of the setting.
    #[must_use]
    pub fn explain(&self, failure: String) -> String {
        let limits = self.notes.iter().filter_map(|note| note.strip_prefix(LIMIT));
        let overlong = self.clients.iter().any(|heard| heard.closed == Some(Closed::Overlong));
        let overlong = overlong.then_some("`limits().input_max` bytes without a whole message");
        let mut limits: Vec<&str> = limits.chain(overlong).collect();
        limits.dedup();
        if limits.is_empty() {
            return failure;
        }
        let limits = limits.join(", ");
        format!(
            "{failure}; a limit of the service was reached: {limits}. Here time is virtual and the \
             network slow, so a test may set a longer one"
        )
    }

    /// Fails if a law was broken, or if the run did not end.
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
