//! Waiting for bytes and moving them. Each file has `serve`: accept, wait, move bytes, get the next
//! interest from [`seam::Conn`], close.
//!
//! A [`Mechanism`] is the data that the workers of one process share for that. Most mechanisms
//! share nothing; the parked connections and the completion port own the sessions of their process.

pub mod blocking;
pub mod epoll;
pub mod parked;
pub mod poll;
pub mod port;
pub mod select;
pub mod uring;

use crate::axes::Wait;
use crate::container::Member;
use crate::context::WorkerContext;
use crate::datagrams;
use crate::fault::Fault;
use crate::server::Common;
use parked::parking::ParkedConnections;
use port::completion_port::CompletionPort;

/// One process's way of waiting, with the data that its workers share.
pub(crate) trait Mechanism: Sync {
    /// One worker's life.
    ///
    /// # Errors
    /// The worker can no longer wait.
    fn serve(&self, context: &WorkerContext<'_>, member: Member) -> Result<(), Fault>;

    /// Whether a process has one pool of sessions for all its workers.
    fn pools_sessions(&self) -> bool {
        false
    }

    /// Whether the member after all workers is a listener of this mechanism, which also calls the
    /// service's tick.
    fn has_listener(&self) -> bool {
        false
    }

    /// Reports that the listener has ended.
    fn listener_ended(&self) {}
}

/// The mechanism of one process.
///
/// # Errors
/// The kernel refuses a resource.
pub(crate) fn mechanism<'m>(common: &Common<'_>) -> Result<Box<dyn Mechanism + 'm>, Fault> {
    if common.service.datagrams().is_some() {
        return Ok(Box::new(Separate(datagrams::serve(common.shape.wait))));
    }
    Ok(match common.shape.wait {
        Wait::Blocking => Box::new(Separate(blocking::serve)),
        Wait::Select => Box::new(Separate(select::serve)),
        Wait::Poll => Box::new(Separate(poll::serve)),
        Wait::Epoll => Box::new(Separate(epoll::serve)),
        Wait::Uring => Box::new(Separate(uring::serve)),
        Wait::Parked => {
            Box::new(ParkedConnections::new(common.sessions_max()).map_err(Fault::Wait)?)
        }
        Wait::Port => Box::new(CompletionPort::new(common)?),
    })
}

/// Workers that share nothing.
struct Separate(fn(&WorkerContext<'_>) -> Result<(), Fault>);

impl Mechanism for Separate {
    fn serve(&self, context: &WorkerContext<'_>, _member: Member) -> Result<(), Fault> {
        (self.0)(context)
    }
}
