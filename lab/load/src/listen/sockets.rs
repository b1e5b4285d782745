//! Sockets of receivers: pairs of ports, multicast groups, and their receive buffers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sys::epoll::{Epoll, Interest};
use sys::udp::{Mail, Udp, UdpOptions};

/// The receive buffer of each socket in bytes. The kernel grants up to its limit, and root the
/// whole.
const WAITING: usize = 8 << 20;
/// The most pairs. Up to this many sessions have separate ports, which tell their packets apart
/// also where a server names no SSRC. Of ten thousand, 157 share a pair: they get 8,000 packets a
/// second at 20 ms per packet, of which 8 MiB hold most of a second.
pub const PAIRS_MAX: u32 = 64;
/// Attempts to find two consecutive free ports.
const TRIES: usize = 100;

/// A socket at `address` with a large receive buffer.
pub fn receiver(address: SocketAddr, reuse_port: bool) -> io::Result<Udp> {
    let options = UdpOptions { receive_buffer: Some(WAITING), reuse_port, ..UdpOptions::default() };
    let socket = Udp::bind(address, &options)?;
    // Exceeding the machine's limit needs a privilege.
    let _ = socket.force_receive_buffer(WAITING as u32);
    Ok(socket)
}

/// A socket that joins a multicast group, shared with other members.
pub fn member(group: SocketAddr, interface: Ipv4Addr) -> io::Result<Udp> {
    let socket = receiver(group, true)?;
    socket.join(group.ip(), interface)?;
    Ok(socket)
}

/// Sockets on an even port and the next one (RFC 3550 section 11).
pub struct Pair {
    pub media: Udp,
    pub control: Udp,
    pub ports: (u16, u16),
}

impl Pair {
    /// Two free ports for media from `server`.
    ///
    /// # Errors
    /// No descriptor or no port is left.
    pub fn new(server: IpAddr) -> io::Result<Pair> {
        let own: IpAddr = match server {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        for _ in 0..TRIES {
            let media = receiver(SocketAddr::new(own, 0), false)?;
            let port = media.local_addr()?.port();
            if port % 2 == 1 || port == u16::MAX {
                continue;
            }
            if let Ok(control) = receiver(SocketAddr::new(own, port + 1), false) {
                return Ok(Pair { media, control, ports: (port, port + 1) });
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no even port followed by a free one"))
    }
}

/// The pairs that this many sessions need.
pub fn pairs(server: IpAddr, sessions: u32) -> io::Result<Vec<Pair>> {
    (0..sessions.clamp(1, PAIRS_MAX)).map(|_| Pair::new(server)).collect()
}

/// Adds a media socket to the epoll and enables receive timestamps.
pub fn watch(epoll: &Epoll, socket: &Udp, key: u64) -> io::Result<()> {
    Mail::ask_for_times(socket)?;
    epoll.add(socket, Interest::READ, key)
}

/// Datagrams dropped by these sockets for lack of buffer space.
pub fn dropped<'s>(sockets: impl Iterator<Item = &'s Udp>) -> u64 {
    sockets.map(|socket| u64::from(socket.dropped().unwrap_or(0))).sum()
}
