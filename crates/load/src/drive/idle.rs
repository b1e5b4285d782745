//! Connections that never send a request.

use super::IDLE_KEY;
use crate::faults::Faults;
use std::io;
use std::os::fd::OwnedFd;
use sys::epoll::Epoll;
use sys::socket;

/// The idle connections.
#[derive(Debug, Default)]
pub(super) struct Idle {
    list: Vec<Option<OwnedFd>>,
    made: bool,
    /// Connections closed by the server; they are not made again.
    pub(super) closed: u64,
}

impl Idle {
    /// Makes `count` connections; each gets its epoll key.
    pub(super) fn open(
        &mut self,
        count: usize,
        epoll: &Epoll,
        mut dial: impl FnMut(&Epoll, u64) -> io::Result<OwnedFd>,
        faults: &mut Faults,
    ) {
        self.made = true;
        for at in 0..count {
            let made = dial(epoll, IDLE_KEY + at as u64);
            if let Err(error) = &made {
                faults.count_io(error, || format!("making an idle connection: {error}"));
            }
            self.list.push(made.ok());
        }
    }

    /// Whether the connections have still to be made.
    pub(super) fn is_unmade(&self) -> bool {
        !self.made
    }

    /// The number of connections that are up.
    pub(super) fn up(&self) -> usize {
        self.list.iter().flatten().count()
    }

    /// Handles input or end of a connection. Unrequested data is ignored here.
    pub(super) fn ready(&mut self, at: usize, buffer: &mut [u8]) {
        let Some(fd) = &self.list[at] else { return };
        match socket::recv(fd, buffer) {
            Ok(1..) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => {
                self.list[at] = None;
                self.closed += 1;
            }
        }
    }

    /// Closes all connections.
    pub(super) fn close(&mut self) {
        self.list.clear();
    }
}
