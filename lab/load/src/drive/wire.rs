//! The bytes of a connection, as they are or through layers.

use super::Driver;
use super::link::State;
use crate::Instant;
use crate::tls::LayeredLink;
use std::io;
use std::os::fd::OwnedFd;
use sys::socket;

/// A socket, or layers over one. A plain one costs a branch.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(OwnedFd),
    Layered(Box<LayeredLink>),
}

impl Wire {
    /// Receives into `buffer`; `sealed` is room for what TLS has to open.
    #[inline]
    pub(super) fn recv(&mut self, buffer: &mut [u8], sealed: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(fd) => socket::recv(&*fd, buffer),
            Self::Layered(link) => link.recv(buffer, sealed),
        }
    }

    /// Sends, and goes on with handshakes; returns how many bytes it took.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8], now: Instant) -> io::Result<usize> {
        match self {
            Self::Plain(fd) => socket::send(&*fd, bytes),
            Self::Layered(link) => link.send(bytes, now),
        }
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        match self {
            Self::Plain(fd) => fd,
            Self::Layered(link) => link.fd(),
        }
    }

    /// Whether it waits for room in the socket, given whether bytes are `unsent`.
    #[inline]
    pub(super) fn wants_room(&self, unsent: bool) -> bool {
        match self {
            Self::Plain(_) => unsent,
            Self::Layered(link) => link.wants_room(),
        }
    }

    /// Whether it has more to say, although the socket may be empty.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        matches!(self, Self::Layered(link) if link.has_more())
    }
}

impl Driver {
    /// After input through layers: counts a handshake that is done, and sends what waited for it.
    /// False if the connection is lost.
    ///
    /// Its first requests count as sent only now: connecting and the handshake are reported apart.
    pub(super) fn agree(&mut self, at: usize, now: Instant) -> bool {
        let link = &mut self.links[at];
        let State::Up(Wire::Layered(layers)) = &mut link.state else { return true };
        let done = layers.note(link.opened, now, &mut self.counts.handshakes);
        let waits = layers.wants_room();
        if done {
            link.sent_at(now);
        }
        if done || waits {
            self.send(at, now);
        }
        self.links[at].is_up()
    }
}
