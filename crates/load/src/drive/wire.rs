//! The bytes of a connection, as they are or over TLS.

use super::Driver;
use super::link::State;
use crate::tls::TlsLink;
use seam::Instant;
use std::io;
use std::os::fd::OwnedFd;
use sys::socket;

/// A socket, or TLS over one. A plain one costs a branch.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(OwnedFd),
    Tls(Box<TlsLink>),
}

impl Wire {
    /// Receives into `buffer`; `sealed` is room for what TLS has to open.
    #[inline]
    pub(super) fn recv(&mut self, buffer: &mut [u8], sealed: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(fd) => socket::recv(&*fd, buffer),
            Self::Tls(tls) => tls.recv(buffer, sealed),
        }
    }

    /// Sends, and over TLS goes on with the handshake; returns how many bytes it took.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8], now: Instant) -> io::Result<usize> {
        match self {
            Self::Plain(fd) => socket::send(&*fd, bytes),
            Self::Tls(tls) => tls.send(bytes, now),
        }
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        match self {
            Self::Plain(fd) => fd,
            Self::Tls(tls) => tls.fd(),
        }
    }

    /// Whether it waits for room in the socket, given whether bytes are `unsent`.
    #[inline]
    pub(super) fn wants_room(&self, unsent: bool) -> bool {
        match self {
            Self::Plain(_) => unsent,
            Self::Tls(tls) => tls.wants_room(),
        }
    }

    /// Whether it has more to say, although the socket may be empty.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.has_more())
    }
}

impl Driver {
    /// After input over TLS: counts a handshake that is done, and sends what waited for it. False
    /// if the connection is lost.
    ///
    /// Its first requests count as sent only now: connecting and the handshake are reported apart.
    pub(super) fn agree(&mut self, at: usize, now: Instant) -> bool {
        let link = &mut self.links[at];
        let State::Up(Wire::Tls(tls)) = &mut link.state else { return true };
        let done = tls.note(link.opened, now, &mut self.handshakes);
        let waits = tls.wants_room();
        if done {
            link.sent_at(now);
        }
        if done || waits {
            self.send(at, now);
        }
        self.links[at].is_up()
    }
}
