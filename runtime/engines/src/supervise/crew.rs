//! The interface between supervisor and container: commands to workers, and reports of their ends.

use std::io;
use std::os::fd::BorrowedFd;

use seam::WorkerId;
use sys::signal::Signal;

use crate::accept::source::Arrival;
use crate::status::Gauge;

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
    /// The figures of the workers' way of waiting.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}

/// The end of a worker.
pub(crate) struct Ended {
    pub id: WorkerId,
    pub end: End,
}

/// A worker's end, as seen by the thread or process that waited for it.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub(crate) enum End {
    #[display("left without an order to leave")]
    Left,
    #[display("exited with code {_0}")]
    Code(i32),
    #[display("was killed by signal {_0}")]
    Signal(Signal),
    #[display("panicked: {_0}")]
    Panicked(String),
    /// It could not continue, for this reason.
    Failed(String),
    #[display("was lost: {_0}")]
    Lost(String),
}
