//! Waiting for bytes and moving them. Each file has `serve`: accept, wait, move bytes, get the next
//! interest from [`seam::Conn`], close.
//!
//! A [`Mechanism`](mechanism::Mechanism) is the data that the workers of one process share for
//! that. Most mechanisms share nothing; the parked connections and the completion port own the
//! sessions of their process.

pub mod blocking;
#[cfg(feature = "bypass")]
pub mod bypass;
pub mod coroutine;
pub mod epoll;
pub mod leader;
pub mod mechanism;
pub mod parked;
pub mod poll;
pub mod port;
pub mod select;
pub mod staged;
#[cfg(feature = "tokio")]
pub mod tokio_local;
#[cfg(feature = "tokio")]
pub mod tokio_steal;
pub mod uring;

use crate::axes::Wait;
use crate::common::Common;
use crate::fault::Fault;
use crate::parts::readiness::Readiness;
use mechanism::Mechanism;
use parked::parking::ParkedConnections;
use port::completion_port::CompletionPort;

/// The mechanism of one process.
///
/// # Errors
/// The kernel refuses a resource.
pub(crate) fn of_server<'m>(common: &Common<'m>) -> Result<Box<dyn Mechanism + 'm>, Fault> {
    Ok(match common.shape.wait {
        Wait::Blocking => Box::new(blocking::Blocking),
        Wait::Select => Box::new(Readiness::<select::Waiter>::new()),
        Wait::Poll => Box::new(Readiness::<poll::Waiter>::new()),
        Wait::Epoll => Box::new(Readiness::<epoll::Waiter>::new()),
        Wait::Coroutine => Box::new(coroutine::Coroutines),
        #[cfg(feature = "tokio")]
        Wait::TokioLocal => Box::new(tokio_local::LocalRuntimes),
        #[cfg(feature = "tokio")]
        Wait::TokioSteal => {
            Box::new(tokio_steal::StealingRuntime { threads: common.shape.workers })
        }
        // `conflict` refuses them before.
        #[cfg(not(feature = "tokio"))]
        Wait::TokioLocal | Wait::TokioSteal => {
            return Err(Fault::Wait(std::io::ErrorKind::Unsupported.into()));
        }
        #[cfg(not(feature = "bypass"))]
        Wait::Bypass => return Err(Fault::Wait(std::io::ErrorKind::Unsupported.into())),
        Wait::Uring => Box::new(uring::Rings),
        Wait::Parked => {
            Box::new(ParkedConnections::new(common.sessions_max()).map_err(Fault::Wait)?)
        }
        Wait::Leader => Box::new(leader::Leaders::new(common, 1, 1)?),
        Wait::Staged => Box::new(staged::stages::Stages::new(common)?),
        Wait::Port => Box::new(CompletionPort::new(common)?),
        #[cfg(feature = "bypass")]
        Wait::Bypass => Box::new(bypass::Bypass(
            common.queues.ok_or_else(|| Fault::Wait(std::io::ErrorKind::Unsupported.into()))?,
        )),
    })
}
