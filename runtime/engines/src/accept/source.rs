//! The source of a worker's connections, whichever way of accepting is behind it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use seam::Peer;
use sys::ready::Interest;
use sys::socket;

/// A connection that no worker serves yet, and its peer.
pub type Arrival = (OwnedFd, Peer);

/// The next connection of a listener, as [`socket::accept`].
pub fn accept(listener: BorrowedFd<'_>, nonblocking: bool) -> io::Result<Arrival> {
    let (fd, address) = socket::accept(listener, nonblocking)?;
    Ok((fd, address.map_or(Peer::Local, Peer::Net)))
}

/// The source of a worker's connections.
pub trait AcceptSource: Sync {
    /// Readable when a connection may be waiting.
    fn fd(&self) -> BorrowedFd<'_>;

    /// A readiness loop's interest in [`AcceptSource::fd`].
    fn interest(&self) -> Interest {
        Interest::READ
    }

    /// The number of connections after which a loop should register it again.
    fn renew_after(&self) -> Option<u32> {
        None
    }

    /// The next connection; if `wait`, after up to [`crate::limits::WAIT`].
    ///
    /// # Errors
    /// `WouldBlock` if none came in time; the others as accept(2).
    fn take(&self, wait: bool) -> io::Result<Arrival>;

    /// Whether an acceptor hands the connections over.
    fn is_given(&self) -> bool {
        false
    }

    /// While the server drains: whether no connection is on the way from an acceptor.
    fn is_over(&self) -> bool {
        true
    }

    /// Whether connections wait here that an acceptor has accepted.
    fn is_filled(&self) -> bool {
        false
    }

    /// A connection that came by this accept source has ended.
    fn left(&self) {}
}
