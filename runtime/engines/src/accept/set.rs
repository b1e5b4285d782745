//! The listener of a worker: a socket, or the sockets of several addresses as one.
//!
//! Several sockets are members of a readiness list (epoll(7)), which is readable while one of them
//! is. So each mechanism watches one descriptor, however many addresses there are. All workers
//! that share the sockets share the list: the kernel wakes one sleeper for each connection, and a
//! connection of which it told a killed worker is still in the list for the others. A member that
//! was reported goes to the end of the list, so no address starves another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use sys::epoll::{Epoll, Events, Interest};

use super::source::{Arrival, accept};
use crate::limits::WAIT;

/// The sockets of several addresses as one.
pub struct ListenerSet {
    epoll: Epoll,
    /// A worker that accepts sleeps until a connection comes.
    sleeps: bool,
}

impl ListenerSet {
    /// The set of `members`, which are indices of `sockets`.
    pub fn new(
        sockets: &[OwnedFd],
        members: impl Iterator<Item = usize>,
        sleeps: bool,
    ) -> io::Result<ListenerSet> {
        let epoll = Epoll::new()?;
        for member in members {
            epoll.add(&sockets[member], Interest::READ, member as u64)?;
        }
        Ok(ListenerSet { epoll, sleeps })
    }
}

/// The listener of a worker.
#[derive(Clone, Copy)]
pub enum WorkerListener<'h> {
    /// A socket.
    One(BorrowedFd<'h>),
    /// A set of these sockets.
    Several(&'h ListenerSet, &'h [OwnedFd]),
}

impl<'h> WorkerListener<'h> {
    /// Readable when a connection may wait.
    pub fn fd(self) -> BorrowedFd<'h> {
        match self {
            WorkerListener::One(socket) => socket,
            WorkerListener::Several(set, _) => set.epoll.as_fd(),
        }
    }

    /// The next connection. It waits where the workers of the shape sleep in this call.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; the others as accept(2).
    pub fn accept(self, nonblocking: bool) -> io::Result<Arrival> {
        let (set, sockets) = match self {
            WorkerListener::One(socket) => return accept(socket, nonblocking),
            WorkerListener::Several(set, sockets) => (set, sockets),
        };
        let mut ready = Events::with_capacity(1);
        set.epoll.wait(&mut ready, Some(if set.sleeps { WAIT } else { Duration::ZERO }))?;
        let member = ready.iter().next().ok_or(io::ErrorKind::WouldBlock)?;
        accept(sockets[member.key as usize].as_fd(), nonblocking)
    }
}

impl AsFd for WorkerListener<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}
