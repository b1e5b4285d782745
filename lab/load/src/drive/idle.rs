//! Connections that never send a request.

use super::wire::Wire;
use super::{IDLE_KEY, now};
use crate::faults::Faults;
use std::io;
use sys::epoll::{Epoll, Interest};

#[derive(Debug, Default)]
pub(super) struct Idle {
    list: Vec<Option<Wire>>,
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
        mut dial: impl FnMut(&Epoll, u64) -> io::Result<Wire>,
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

    pub(super) fn up(&self) -> usize {
        self.list.iter().flatten().count()
    }

    /// Handles input or end of a connection, or a step of its TLS handshake. Unrequested data is
    /// ignored here.
    pub(super) fn ready(&mut self, key: u64, epoll: &Epoll, buffer: &mut [u8], sealed: &mut [u8]) {
        let at = (key - IDLE_KEY) as usize;
        let Some(wire) = &mut self.list[at] else { return };
        match wire.recv(buffer, sealed) {
            Ok(1..) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => {
                self.list[at] = None;
                self.closed += 1;
                return;
            }
        }
        if let Wire::Layered(_) = wire {
            // A fault of sending shows in the next event.
            let _ = wire.send(b"", now());
            let interest = Interest { write: wire.wants_room(false), ..Interest::READ };
            let _ = epoll.modify(wire.fd(), interest, key);
        }
    }

    pub(super) fn close(&mut self) {
        self.list.clear();
    }
}
