//! The interface between supervisor and container: commands to workers, and reports of their ends.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use seam::WorkerId;
use sys::signal::Signal;

use crate::accept::Arrival;

/// The services that a container provides to the supervisor.
pub(crate) trait Crew {
    /// Starts a worker; with a visitor, the worker lasts as long as that connection.
    fn start(&mut self, id: WorkerId, visitor: Option<Arrival>) -> io::Result<()>;
    /// A descriptor that becomes readable when a worker ends, besides the bell.
    fn watched(&self) -> Option<BorrowedFd<'_>>;
    /// The workers that have ended since the last call.
    fn reap(&mut self) -> Vec<Ended>;
    /// Ends all workers at once; false if only the end of the process can.
    fn kill(&mut self) -> bool;
}

/// The end of a worker.
pub(crate) struct Ended {
    pub id: WorkerId,
    pub end: End,
}

/// A worker's end, as seen by the thread or process that waited for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It left by itself.
    Left,
    /// Its process exited with this code.
    Code(i32),
    /// This signal ended its process.
    Signal(Signal),
    /// Its thread panicked, with this message.
    Panicked(String),
    /// It could not continue, for this reason.
    Failed(String),
    /// The cause is unknown.
    Lost(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Left => f.write_str("left without being told to"),
            End::Code(code) => write!(f, "exited with code {code}"),
            End::Signal(signal) => write!(f, "was killed by signal {signal}"),
            End::Panicked(words) => write!(f, "panicked: {words}"),
            End::Failed(words) => f.write_str(words),
            End::Lost(words) => write!(f, "was lost: {words}"),
        }
    }
}
