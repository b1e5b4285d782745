//! UDP sockets (udp(7)): one datagram a call, many a call, or one call's bytes segmented into
//! datagrams.
//!
//! [`Udp`] never blocks. [`Batch`] gathers datagrams from pieces of memory and of mapped files and
//! sends them by sendmsg(2) or sendmmsg(2). Each has its own destination. If the kernel is to
//! segment a message into equal datagrams, the message also has their length (`UDP_SEGMENT`, 4.18).
//! [`Mail`] receives many datagrams with their times of arrival in the kernel.
//!
//! An IPv6 socket that is bound to every address sends to IPv4 as well, but only if the destination
//! is written as an IPv6 address (`::ffff:10.0.0.1`). [`Udp`] converts addresses in both
//! directions.

pub(crate) mod address;
mod batch;
mod chain;
mod mail;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::call::{check, set_option};
use crate::poll::{PollFd, poll};

pub use batch::{Batch, Filling, MESSAGES_MAX, SEGMENTS_MAX, Sent};
pub use chain::{CHAIN_MAX, ChainRing, Link, LinkBody};
pub use mail::{Letter, Mail};

/// Options of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpOptions {
    /// Send buffer in bytes (`SO_SNDBUF`); the kernel doubles it, up to its limit. `None`: the
    /// default.
    pub send_buffer: Option<usize>,
    /// Receive buffer in bytes (`SO_RCVBUF`).
    pub receive_buffer: Option<usize>,
    /// Several sockets on one port (`SO_REUSEPORT`).
    pub reuse_port: bool,
}

/// A socket for datagrams: non-blocking, close-on-exec.
#[derive(Debug)]
pub struct Udp {
    fd: OwnedFd,
    is_v6: bool,
}

impl Udp {
    /// A socket bound to `address`; port 0 lets the kernel choose. `[::]` includes IPv4. The port
    /// of a group is shared with every program that binds it in this way (`SO_REUSEADDR`).
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable`, `PermissionDenied` for a low port, `EMFILE`, `ENFILE`.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<Udp> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        if options.reuse_port {
            socket.set_reuse_port(true)?;
        }
        if address.ip().is_multicast() {
            socket.set_reuse_address(true)?;
        }
        socket.set_nonblocking(true)?;
        // A smaller buffer than requested is not an error: the kernel has a limit.
        options.send_buffer.map_or(Ok(()), |bytes| socket.set_send_buffer_size(bytes))?;
        options.receive_buffer.map_or(Ok(()), |bytes| socket.set_recv_buffer_size(bytes))?;
        socket.bind(&address.into())?;
        Ok(Udp { fd: socket.into(), is_v6: address.is_ipv6() })
    }

    /// A socket made and bound by another process.
    ///
    /// # Errors
    /// It is not a datagram socket.
    pub fn adopt(fd: OwnedFd) -> io::Result<Udp> {
        let socket = SockRef::from(&fd);
        if socket.r#type()? != Type::DGRAM {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let is_v6 = crate::socket::local_addr(&fd)?.is_ipv6();
        Ok(Udp { fd, is_v6 })
    }

    /// A second descriptor of the same socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Udp> {
        Ok(Udp { fd: self.fd.try_clone()?, is_v6: self.is_v6 })
    }

    /// The address of this end.
    ///
    /// # Errors
    /// None in practice.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        crate::socket::local_addr(&self.fd)
    }

    /// The TTL of multicast datagrams: 1 stays in this network (`IP_MULTICAST_TTL`).
    ///
    /// # Errors
    /// None in practice.
    pub fn set_multicast_ttl(&self, hops: u8) -> io::Result<()> {
        let socket = SockRef::from(&self.fd);
        if self.is_v6 {
            socket.set_multicast_hops_v6(hops.into())?;
        }
        socket.set_multicast_ttl_v4(hops.into())
    }

    /// Joins `group` on the interface with the address `interface`; if unspecified, or for IPv6
    /// groups, the routes choose.
    ///
    /// # Errors
    /// `ENODEV`: there is no such interface, or none for groups; `ENOBUFS`: too many groups.
    pub fn join(&self, group: IpAddr, interface: Ipv4Addr) -> io::Result<()> {
        let socket = SockRef::from(&self.fd);
        match group {
            IpAddr::V4(group) => socket.join_multicast_v4(&group, &interface),
            IpAddr::V6(group) => socket.join_multicast_v6(&group, 0),
        }
    }

    /// Sets the send buffer beyond the machine's limit (`SO_SNDBUFFORCE`).
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`.
    pub fn force_send_buffer(&self, bytes: u32) -> io::Result<()> {
        set_option(&self.fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
    }

    /// Sets the receive buffer beyond the machine's limit (`SO_RCVBUFFORCE`).
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`.
    pub fn force_receive_buffer(&self, bytes: u32) -> io::Result<()> {
        set_option(&self.fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes)
    }

    /// The number of datagrams that were dropped because the receive buffer was full, or because
    /// they were broken (`SO_MEMINFO`).
    ///
    /// # Errors
    /// `ENOPROTOOPT` before Linux 4.12.
    pub fn dropped(&self) -> io::Result<u32> {
        // The last of the words of linux/sock_diag.h, SK_MEMINFO_DROPS.
        let mut words = [0_u32; 9];
        let mut size = size_of_val(&words) as libc::socklen_t;
        let (fd, level, option) = (self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO);
        // SAFETY: the words are writable for the size that is passed along.
        check(unsafe {
            libc::getsockopt(fd, level, option, words.as_mut_ptr().cast(), &raw mut size)
        })?;
        Ok(words[8])
    }

    /// Sends one datagram to `address`. With `more` it waits for the data of further calls.
    ///
    /// # Errors
    /// `WouldBlock` while the send buffer is full; `EMSGSIZE`, `ENETUNREACH`, `EPERM` (a filter)
    /// concern this datagram.
    pub fn send_to(&self, bytes: &[u8], address: SocketAddr, more: bool) -> io::Result<usize> {
        let (address, mut flags) = (self.written(address), SendFlags::NOSIGNAL);
        flags.set(SendFlags::MORE, more);
        Ok(retry_on_intr(|| sendto(&self.fd, bytes, flags, &address))?)
    }

    /// Receives one datagram; returns its length and sender. Bytes beyond `buffer` are lost.
    ///
    /// # Errors
    /// `WouldBlock` when none waits.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (_, len, from) =
            retry_on_intr(|| recvfrom(&self.fd, &mut *buffer, RecvFlags::empty()))?;
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "expected an internet address");
        let from: SocketAddr = from.and_then(|it| it.try_into().ok()).ok_or_else(unknown)?;
        Ok((len, SocketAddr::new(from.ip().to_canonical(), from.port())))
    }

    /// Waits at most `at_most` until a datagram can be sent; true if one can.
    ///
    /// # Errors
    /// None in practice.
    pub fn wait_writable(&self, at_most: Duration) -> io::Result<bool> {
        let mut list = [PollFd::new(self.fd.as_fd(), false, true)];
        poll(&mut list, Some(at_most))?;
        Ok(list[0].writable())
    }

    /// Waits at most `at_most` until a datagram arrives; true if one is there.
    ///
    /// # Errors
    /// None in practice.
    pub fn wait_readable(&self, at_most: Duration) -> io::Result<bool> {
        let mut list = [PollFd::new(self.fd.as_fd(), true, false)];
        poll(&mut list, Some(at_most))?;
        Ok(list[0].readable())
    }

    /// `address` in the form of this socket's family.
    fn written(&self, address: SocketAddr) -> SocketAddr {
        match (self.is_v6, address.ip()) {
            (true, IpAddr::V4(ip)) => SocketAddr::from((ip.to_ipv6_mapped(), address.port())),
            _ => address,
        }
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Udp> for OwnedFd {
    fn from(socket: Udp) -> OwnedFd {
        socket.fd
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;
    use std::net::Ipv6Addr;

    pub(crate) fn pair() -> (Udp, Udp, SocketAddr) {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let receiver = Udp::bind(local, &UdpOptions::default()).unwrap();
        let to = receiver.local_addr().unwrap();
        (Udp::bind(local, &UdpOptions::default()).unwrap(), receiver, to)
    }

    /// A file with these bytes and without a name.
    pub(crate) fn file(bytes: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    pub(crate) fn take(receiver: &Udp) -> Vec<u8> {
        let mut buffer = [0; 70_000];
        assert!(receiver.wait_readable(Duration::from_secs(10)).unwrap(), "nothing came");
        let (len, _) = receiver.receive(&mut buffer).unwrap();
        buffer[..len].to_vec()
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let (sender, receiver, to) = pair();
        SockRef::from(&receiver.fd).set_recv_buffer_size(4096).unwrap();
        assert_eq!(receiver.dropped().unwrap(), 0);
        let sent = 64;
        for _ in 0..sent {
            sender.send_to(&[0; 1024], to, false).unwrap();
        }
        let (mut came, mut buffer) = (0, [0; 1024]);
        while receiver.receive(&mut buffer).is_ok() {
            came += 1;
        }
        assert!((1..sent).contains(&came), "{came} of {sent} came");
        assert_eq!(receiver.dropped().unwrap(), sent - came);
    }

    #[test]
    fn a_datagram_comes_whole_and_says_from_where() {
        let (sender, receiver, to) = pair();
        let mut buffer = [0; 16];
        assert_eq!(receiver.receive(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(sender.send_to(b"one", to, false).unwrap(), 3);
        assert!(receiver.wait_readable(Duration::from_secs(10)).unwrap());
        let (len, from) = receiver.receive(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from), (&b"one"[..], sender.local_addr().unwrap()));
    }

    #[test]
    fn a_socket_for_all_addresses_speaks_to_both_families() {
        let (_, receiver, to) = pair();
        let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let Ok(sender) = Udp::bind(all, &UdpOptions::default()) else { return };
        sender.send_to(b"mapped", to, false).unwrap();
        assert_eq!(take(&receiver), b"mapped");
        let mut batch = Batch::default();
        batch.send(&sender, |filling: &mut Filling<'_, '_>| {
            filling.datagram(to);
            filling.piece(b"again");
        });
        assert_eq!(take(&receiver), b"again");
    }

    #[test]
    fn what_waits_for_more_leaves_as_one() {
        let (sender, receiver, to) = pair();
        sender.send_to(b"head ", to, true).unwrap();
        sender.send_to(b"body", to, false).unwrap();
        assert_eq!(take(&receiver), b"head body");
    }
}
