//! The input of a controller of processes, and its output.

use std::time::Duration;

/// The limits in force; every number is a count and at least 1, except `spare_min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Workers in one process (`ThreadsPerChild`); 1 under prefork.
    pub size: usize,
    /// The minimum number of idle workers (`MinSpareThreads`).
    pub spare_min: usize,
    /// The maximum number of idle workers (`MaxSpareThreads`).
    pub spare_max: usize,
    /// The maximum number of processes (`ServerLimit`, `MaxRequestWorkers / ThreadsPerChild`).
    pub processes_max: usize,
}

impl Terms {
    /// The narrowest band that Apache allows: its maximum is so high that one more process cannot
    /// exceed it at once.
    pub fn widened(self) -> Terms {
        Terms { spare_max: self.spare_max.max(self.spare_min + self.size), ..self }
    }

    /// The number of processes that may still be started: draining ones hold no place.
    pub(super) fn vacant(&self, census: &Census) -> usize {
        self.processes_max.saturating_sub(census.processes - census.retiring)
    }
}

/// The counts of one check of the scoreboard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Workers that wait for a connection, including those of starting processes. Workers of
    /// retiring processes are neither idle nor busy.
    pub idle: usize,
    /// Workers that have a connection.
    pub busy: usize,
    /// Living processes, including retiring ones.
    pub processes: usize,
    /// The number of retiring processes among these.
    pub retiring: usize,
    /// Connections that wait to be accepted.
    pub waiting: usize,
    /// The age of the oldest process that is not ready yet; zero if all are.
    pub starting: Duration,
}

/// An action, and the reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The action.
    pub act: Act,
    /// The reason as text, for the log and the scoreboard.
    pub why: &'static str,
}

/// An action on the number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Hold,
    /// Start this many processes, at least one.
    Spawn(usize),
    /// Retire this many processes, at least one: they accept no new connection and end with their
    /// last one.
    Retire(usize),
}

/// The verdict that no action is needed.
pub(super) const fn hold(why: &'static str) -> Verdict {
    Verdict { act: Act::Hold, why }
}
