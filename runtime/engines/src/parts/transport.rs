//! The socket of a connection, as far as its bookkeeping needs it: the kernel's, or one in user
//! space.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::time::Duration;

use seam::Out;
use sys::socket::{self, Received, SockRef};

use super::assets::Assets;
use super::transmit::{CallMode, transmit};

/// A stream of bytes to and from a peer.
pub trait ByteStream {
    /// Receives what is there, without waiting.
    fn receive(&self, buffer: &mut [u8]) -> Received;

    /// Sends the oldest output, once; returns how many bytes were taken.
    ///
    /// # Errors
    /// As [`transmit`].
    fn transmit(&self, assets: &Assets, out: &Out, mode: CallMode) -> io::Result<usize>;

    /// Taken bytes that the peer has not acknowledged.
    fn unsent_bytes(&self) -> usize;

    /// Lifts the bound on unsent bytes, because the peer reads.
    fn trust(&self);

    /// Ends the output.
    ///
    /// # Errors
    /// The connection is broken.
    fn shutdown_write(&self) -> io::Result<()>;

    /// Keeps the next output until the end, so that both leave together.
    fn cork(&self);

    /// Lets the close reset the connection.
    fn reset_at_close(&self);

    /// The time since input came, where that is known.
    fn last_received(&self) -> Option<Duration>;
}

impl ByteStream for OwnedFd {
    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> Received {
        socket::recv_nowait(self, buffer)
    }

    #[inline]
    fn transmit(&self, assets: &Assets, out: &Out, mode: CallMode) -> io::Result<usize> {
        transmit(assets, self, out, mode)
    }

    fn unsent_bytes(&self) -> usize {
        socket::unsent_bytes(self).unwrap_or(0)
    }

    fn trust(&self) {
        // Zero is the default, which is no bound. If this fails, the bound stays.
        let _ = SockRef::from(self).set_tcp_notsent_lowat(0);
    }

    fn shutdown_write(&self) -> io::Result<()> {
        SockRef::from(self).shutdown(Shutdown::Write)
    }

    fn cork(&self) {
        // Without it the end follows in a separate segment, a moment later. The kernel keeps a last
        // segment back for at most 200 ms.
        let _ = SockRef::from(self).set_tcp_cork(true);
    }

    fn reset_at_close(&self) {
        let _ = socket::set_linger_reset(self);
    }

    fn last_received(&self) -> Option<Duration> {
        socket::last_received(self).ok()
    }
}
