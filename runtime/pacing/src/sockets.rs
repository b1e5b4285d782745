//! The server's two datagram sockets: media on an even port, control on the odd one after it (RFC
//! 3550, section 11). All streams share them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use seam::Channel;
use sys::socket::SockRef;
use sys::udp::{Udp, UdpOptions};

/// Send buffer in bytes: a hundred video frames, or 5,000 audio packets with the kernel's overhead.
const SEND_BUFFER: usize = 4 << 20;
/// Receive buffer in bytes: reports of a thousand receivers at once.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Attempts to find two free ports in a row.
const TRIES: usize = 100;

/// The two sockets.
#[derive(Debug)]
pub struct StreamSockets {
    rtp: Udp,
    rtcp: Udp,
}

impl StreamSockets {
    /// Binds both sockets on `ip`: at `port` and the one after it, or with 0 at ports that the
    /// kernel chooses.
    ///
    /// # Errors
    /// `InvalidInput` for an odd port; `AddrInUse`, `AddrNotAvailable`.
    pub fn bind(ip: IpAddr, port: u16) -> io::Result<StreamSockets> {
        if !port.is_multiple_of(2) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("expected an even port for media, found {port}: say {}", port - 1),
            ));
        }
        let mut tries = if port == 0 { TRIES } else { 1 };
        loop {
            tries -= 1;
            match StreamSockets::bind_once(ip, port) {
                Err(_) if tries > 0 => {}
                other => return other,
            }
        }
    }

    fn bind_once(ip: IpAddr, port: u16) -> io::Result<StreamSockets> {
        let options = UdpOptions {
            send_buffer: Some(SEND_BUFFER),
            receive_buffer: Some(RECEIVE_BUFFER),
            ..UdpOptions::default()
        };
        let first = Udp::bind(SocketAddr::new(ip, port), &options)?;
        let found = first.local_addr()?.port();
        // The kernel may have chosen the odd port.
        let second = Udp::bind(SocketAddr::new(ip, found ^ 1), &options)?;
        let (rtp, rtcp) = if found.is_multiple_of(2) { (first, second) } else { (second, first) };
        Ok(StreamSockets { rtp, rtcp })
    }

    /// Adopts the sockets of a predecessor, so that its sessions and ours use the same ports. The
    /// kernel gives a datagram to the process that reads first; both can handle it.
    ///
    /// # Errors
    /// They are not datagram sockets.
    pub fn adopt(rtp: OwnedFd, rtcp: OwnedFd) -> io::Result<StreamSockets> {
        Ok(StreamSockets { rtp: Udp::adopt(rtp)?, rtcp: Udp::adopt(rtcp)? })
    }

    /// Both descriptors, media first, for a hand-over.
    #[must_use]
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.rtp.as_fd(), self.rtcp.as_fd()]
    }

    /// The socket of `channel`.
    #[inline]
    pub fn of(&self, channel: Channel) -> &Udp {
        match channel {
            Channel::Rtp => &self.rtp,
            Channel::Rtcp => &self.rtcp,
        }
    }

    /// The ports of media and of control.
    ///
    /// # Errors
    /// None in practice.
    pub fn ports(&self) -> io::Result<(u16, u16)> {
        Ok((self.rtp.local_addr()?.port(), self.rtcp.local_addr()?.port()))
    }

    /// Sets the TTL of multicast datagrams (1 keeps them in this network), and the interface by its
    /// address, if it is not the route's.
    ///
    /// # Errors
    /// `AddrNotAvailable`: no interface has this address.
    pub fn set_multicast(&self, hops: u8, interface: Option<IpAddr>) -> io::Result<()> {
        for socket in [&self.rtp, &self.rtcp] {
            socket.set_multicast_ttl(hops)?;
            if let Some(IpAddr::V4(address)) = interface.filter(|it| !it.is_unspecified()) {
                SockRef::from(socket).set_multicast_if_v4(&address)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn media_has_the_even_port_and_control_the_next() {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let sockets = StreamSockets::bind(local, 0).expect("two free ports");
        let (rtp, rtcp) = sockets.ports().expect("bound");
        assert_eq!((rtp % 2, rtcp), (0, rtp + 1));
        assert!(StreamSockets::bind(local, rtp).is_err(), "it is taken");
        let odd = StreamSockets::bind(local, 5005).expect_err("odd").to_string();
        assert!(odd.contains("5004"), "{odd}");
    }
}
