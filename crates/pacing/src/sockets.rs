//! The server's two sockets for datagrams: media from an even port, control from the odd one after
//! it (RFC 3550, section 11). All transmissions share them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use seam::Channel;
use sys::udp::{Udp, UdpOptions};

/// Bytes that may wait for their way out: a hundred video frames, or 5,000 audio packets with what
/// the kernel adds to each.
const SEND_BUFFER: usize = 4 << 20;
/// Bytes of reports that may wait to be heard: a thousand receivers that report at once.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Ports that are tried before it is given up to find two in a row.
const TRIES: usize = 100;

/// The two sockets.
#[derive(Debug)]
pub struct StreamSockets {
    rtp: Udp,
    rtcp: Udp,
}

impl StreamSockets {
    /// Binds both on `ip`: at `port` and the one after it, or with 0 where the kernel finds room.
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
        // A port that the kernel chose may be the odd one.
        let second = Udp::bind(SocketAddr::new(ip, found ^ 1), &options)?;
        let (rtp, rtcp) = if found.is_multiple_of(2) { (first, second) } else { (second, first) };
        Ok(StreamSockets { rtp, rtcp })
    }

    /// The sockets that a predecessor had, so that its sessions and ours have the same ports; the
    /// kernel gives what comes to whoever looks first, and both can deal with it.
    ///
    /// # Errors
    /// They are no sockets for datagrams.
    pub fn adopt(rtp: OwnedFd, rtcp: OwnedFd) -> io::Result<StreamSockets> {
        Ok(StreamSockets { rtp: Udp::adopt(rtp)?, rtcp: Udp::adopt(rtcp)? })
    }

    /// Both descriptors, media first, to be handed over.
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

    /// How far datagrams to a group go, where 1 stays in this network; and from the interface of
    /// which address, where it is not that of the routes.
    ///
    /// # Errors
    /// `AddrNotAvailable`: no interface has this address.
    pub fn set_multicast(&self, hops: u8, interface: Option<IpAddr>) -> io::Result<()> {
        for socket in [&self.rtp, &self.rtcp] {
            socket.set_multicast_ttl(hops)?;
            if let Some(IpAddr::V4(address)) = interface.filter(|it| !it.is_unspecified()) {
                socket.set_multicast_interface(address)?;
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
