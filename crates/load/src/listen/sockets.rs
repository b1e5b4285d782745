//! Where listeners listen: pairs of ports, groups that are joined, and how much the kernel keeps
//! for who is slow.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sys::epoll::{Epoll, Interest};
use sys::udp::{Mail, Udp, UdpOptions};

/// Bytes of datagrams that may wait to be read, of each socket: the kernel gives what it allows,
/// and to root all of it.
const WAITING: usize = 8 << 20;
/// Sessions that share a pair of ports: 13,000 packets a second of 20 ms, for which 8 MiB are half
/// a second.
const SHARED: u32 = 256;
/// Pairs at the most.
const PAIRS_MAX: u32 = 64;
/// Ports that are tried before it is given up to find two in a row.
const TRIES: usize = 100;

/// A socket at `address`, with room for datagrams that wait.
///
/// # Errors
/// As [`Udp::bind`].
pub fn receiver(address: SocketAddr, reuse_port: bool) -> io::Result<Udp> {
    let options = UdpOptions { receive_buffer: Some(WAITING), reuse_port, ..UdpOptions::default() };
    let socket = Udp::bind(address, &options)?;
    // Not everybody may have more than the machine's limit.
    let _ = socket.force_receive_buffer(WAITING as u32);
    Ok(socket)
}

/// A socket that a group's datagrams come to, beside those of others.
///
/// # Errors
/// As [`Udp::bind`] and [`Udp::join`].
pub fn member(group: SocketAddr, interface: Ipv4Addr) -> io::Result<Udp> {
    let socket = receiver(group, true)?;
    socket.join(group.ip(), interface)?;
    Ok(socket)
}

/// Sockets on an even port and the one behind it (RFC 3550 section 11).
pub struct Pair {
    /// Media.
    pub media: Udp,
    /// Control.
    pub control: Udp,
    /// Their ports.
    pub ports: (u16, u16),
}

impl Pair {
    /// Two that are free, for who is sent to by `server`.
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
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no even port with a free one behind it"))
    }
}

/// As many pairs as so many sessions need.
///
/// # Errors
/// As [`Pair::new`].
pub fn pairs(server: IpAddr, sessions: u32) -> io::Result<Vec<Pair>> {
    (0..sessions.div_ceil(SHARED).clamp(1, PAIRS_MAX)).map(|_| Pair::new(server)).collect()
}

/// Watches a socket of media, whose datagrams are to say when they came.
///
/// # Errors
/// As [`Epoll::add`].
pub fn watch(epoll: &Epoll, socket: &Udp, key: u64) -> io::Result<()> {
    Mail::ask_for_times(socket)?;
    epoll.add(socket, Interest::READ, key)
}

/// Datagrams that found no room in any of these.
pub fn dropped<'s>(sockets: impl Iterator<Item = &'s Udp>) -> u64 {
    sockets.map(|socket| u64::from(socket.dropped().unwrap_or(0))).sum()
}
