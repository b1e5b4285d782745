//! Stream sockets (socket(7), tcp(7), unix(7)) as functions over descriptors.
//!
//! They accept anything that lends a descriptor, keep no state, and differ from std as a server
//! needs: options set on a listener before it listens and inherited by accepted sockets, reads and
//! writes that never block whatever the mode of the descriptor, and no `SIGPIPE`. Plain options of
//! a socket are set by [`SockRef`].

mod tcp_info;

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SocketFlags, acceptfrom_with, sendmsg};
use socket2::{Domain, Protocol, SockAddr, SockFilter, Socket, TcpKeepalive, Type};

use crate::call::{check, set_option};
use crate::poll::{PollFd, poll};

pub use rustix::net::SendFlags;
pub use socket2::SockRef;
pub use tcp_info::{accept_queue, last_received};

/// Options of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// How many established connections may wait for accept. The kernel silently caps it at
    /// `net.core.somaxconn`.
    pub backlog: u32,
    /// Allow several listeners on one address; the kernel distributes connections by a hash.
    pub reuse_port: bool,
    /// A listener of IPv6 takes no clients of IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Send small segments at once (`TCP_NODELAY`); accepted sockets inherit it.
    pub nodelay: bool,
    /// Accept fails with `WouldBlock` instead of waiting. Accepted sockets do not inherit it.
    pub nonblocking: bool,
    /// Probe a peer that has been silent for this long, and if it does not answer, probe again
    /// every quarter of that time, four times in all (`SO_KEEPALIVE`); accepted sockets inherit it.
    /// A failed connection reports `TimedOut`, or `ConnectionReset` where the peer's machine no
    /// longer knows the connection. Whole seconds.
    pub keepalive: Option<Duration>,
    /// Accept no more output of an accepted socket while this many bytes are unsent because its
    /// peer has no room (`TCP_NOTSENT_LOWAT`, tcp(7)); bytes in flight do not count. `None`: as
    /// much as the send buffer holds, which grows to megabytes.
    pub unsent_max: Option<u32>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        let (nodelay, nonblocking) = (true, true);
        let (reuse_port, v6_only, keepalive, unsent_max) = (false, false, None, None);
        Self { backlog: 4096, reuse_port, v6_only, nodelay, nonblocking, keepalive, unsent_max }
    }
}

/// Keep-alive probes before a silent peer is given up.
const QUESTIONS: u32 = 4;

/// A listener on `address`; port 0 lets the kernel choose (ask [`local_addr`]). The address may be
/// reused while old connections linger (`SO_REUSEADDR`).
///
/// # Errors
/// `AddrInUse`, `AddrNotAvailable`, `PermissionDenied` for a low port, `EMFILE`, `ENFILE`.
pub fn listen(address: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    if options.v6_only {
        socket.set_only_v6(true)?;
    }
    set_inherited(&socket, options)?;
    socket.set_nonblocking(options.nonblocking)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// Takes a port of an address, which the machine need not have (`IP_FREEBIND`), without
/// listening: the kernel refuses connections, and no other server gets the port.
///
/// # Errors
/// Those of bind(2).
pub fn reserve(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_freebind_v4(true)?;
    socket.bind(&SocketAddr::V4(address).into())?;
    Ok(socket.into())
}

/// Whether the machine has this address.
#[must_use]
pub fn is_own(address: Ipv4Addr) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None);
    let address = SocketAddr::V4(SocketAddrV4::new(address, 0));
    socket.is_ok_and(|socket| socket.bind(&address.into()).is_ok())
}

/// Sets the options that accepted sockets inherit.
fn set_inherited(socket: &Socket, options: &ListenOptions) -> io::Result<()> {
    if options.nodelay {
        socket.set_tcp_nodelay(true)?;
    }
    if let Some(silence) = options.keepalive {
        // The kernel counts in seconds, and zero is invalid.
        let second = Duration::from_secs(1);
        let asked = TcpKeepalive::new().with_time(silence.max(second)).with_retries(QUESTIONS);
        let again = (silence / QUESTIONS).max(second);
        socket.set_tcp_keepalive(&asked.with_interval(again))?;
    }
    match options.unsent_max {
        Some(bytes) => socket.set_tcp_notsent_lowat(bytes),
        None => Ok(()),
    }
}

/// Gives a listener of another program these options; its queue and its sharing of the port stay.
///
/// # Errors
/// `InvalidInput` if it does not listen.
pub fn adopt_listener(listener: impl AsFd, options: &ListenOptions) -> io::Result<()> {
    let socket = SockRef::from(&listener);
    if !socket.is_listener()? {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if socket.domain()? != Domain::UNIX {
        set_inherited(&socket, options)?;
    }
    socket.set_nonblocking(options.nonblocking)
}

/// A listener in the file system (unix(7)), with these permissions or those that the umask leaves;
/// of the options only the backlog and the mode of the descriptor count. It replaces a socket that
/// no server listens on any more.
///
/// # Errors
/// `AddrInUse` if another server listens there, or if the path is not a socket; `InvalidInput` for
/// a path of more than 107 bytes; those of bind(2) and chmod(2).
pub fn listen_unix(
    path: &Path,
    permissions: Option<u32>,
    options: &ListenOptions,
) -> io::Result<OwnedFd> {
    let address = SockAddr::unix(path)?;
    if let Ok(found) = std::fs::symlink_metadata(path) {
        let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        probe.set_nonblocking(true)?;
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if !found.file_type().is_socket() || !probe.connect(&address).is_err_and(refused) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(options.nonblocking)?;
    socket.bind(&address)?;
    if let Some(permissions) = permissions {
        // Clients are refused until the socket listens, so none comes in before this.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(permissions))?;
    }
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// Whether a connection waits for accept.
pub fn has_queue(listener: impl AsFd) -> bool {
    match accept_queue(&listener) {
        Ok((length, _)) => length > 0,
        // Only TCP tells the length.
        Err(_) => {
            let mut list = [PollFd::new(listener.as_fd(), true, false)];
            poll(&mut list, Some(Duration::ZERO)).is_ok_and(|count| count > 0)
        }
    }
}

/// The next established connection and its peer's address, if it has one: clients of a socket in
/// the file system have none. The new descriptor is close-on-exec.
///
/// # Errors
/// `WouldBlock` where the listener is non-blocking and no connection waits. `ConnectionAborted` and
/// the network errors of accept(2) concern one client: continue. `EMFILE`, `ENFILE`, `ENOBUFS` and
/// `ENOMEM` concern this server, and the connection still waits: back off.
pub fn accept(listener: impl AsFd, nonblocking: bool) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let mut flags = SocketFlags::CLOEXEC;
    flags.set(SocketFlags::NONBLOCK, nonblocking);
    let (fd, peer) = retry_on_intr(|| acceptfrom_with(&listener, flags))?;
    Ok((fd, peer.and_then(|peer| SocketAddr::try_from(peer).ok())))
}

/// Starts connecting a non-blocking descriptor to `address`. It has finished when the descriptor is
/// writable, successfully if [`SockRef::take_error`] then finds nothing.
///
/// # Errors
/// Immediate ones: `ENETUNREACH`, `EADDRNOTAVAIL` when local ports ran out, `EMFILE`.
pub fn connect_nonblocking(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    start_connecting(socket, address)
}

/// [`connect_nonblocking`] from a local address. Each local address has its own ports, so this is
/// for a client that has used up those of one.
///
/// # Errors
/// As [`connect_nonblocking`]; `EADDRNOTAVAIL` also where this machine has no such address.
pub fn connect_nonblocking_from(address: SocketAddr, source: IpAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // It leaves the port to connect(2), which may share it between destinations (ip(7)).
    set_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1_i32)?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    start_connecting(socket, address)
}

/// A connection to a socket in the file system (unix(7)).
///
/// # Errors
/// Those of connect(2): `WouldBlock` if the queue of a listener is full, on a non-blocking
/// descriptor; `InvalidInput` for a path of more than 107 bytes.
pub fn connect_unix(path: &Path, nonblocking: bool) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(nonblocking)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket.into())
}

fn start_connecting(socket: Socket, address: SocketAddr) -> io::Result<OwnedFd> {
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        // An interrupted connect continues, like one in progress (connect(2)).
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {}
        other => other?,
    }
    Ok(socket.into())
}

/// The local address.
///
/// # Errors
/// `InvalidInput` for a socket of another family; `ENOTSOCK`.
pub fn local_addr(fd: impl AsFd) -> io::Result<SocketAddr> {
    internet(&SockRef::from(&fd).local_addr()?)
}

/// The peer's address.
///
/// # Errors
/// `NotConnected` once the connection is reset; `InvalidInput` for a socket of another family;
/// `ENOTSOCK`.
pub fn peer_addr(fd: impl AsFd) -> io::Result<SocketAddr> {
    internet(&SockRef::from(&fd).peer_addr()?)
}

fn internet(address: &SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "expected an IPv4 or IPv6 socket, found one of another family",
        )
    })
}

/// Receives into `buffer`; returns the number of bytes, 0 at the end of input (or for an empty
/// buffer). Blocks if the descriptor does, up to its receive timeout.
///
/// # Errors
/// `WouldBlock` when nothing arrives in time, `ConnectionReset`, `TimedOut` (the network's).
pub fn recv(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(recv_flags(fd.as_fd(), buffer, RecvFlags::empty())?)
}

/// The result of a receive on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This number of bytes, at least one.
    Bytes(usize),
    /// The peer will send no more.
    End,
    /// Nothing has come yet, or in time.
    Later,
    /// The connection is broken.
    Broken,
}

impl Received {
    #[inline]
    fn of(result: rustix::io::Result<usize>) -> Received {
        match result {
            Ok(0) => Received::End,
            Ok(len) => Received::Bytes(len),
            Err(Errno::AGAIN) => Received::Later,
            Err(_) => Received::Broken,
        }
    }
}

/// Like [`recv`] into a buffer that is not empty, but never blocks.
#[inline]
pub fn recv_nowait(fd: impl AsFd, buffer: &mut [u8]) -> Received {
    Received::of(recv_flags(fd.as_fd(), buffer, RecvFlags::DONTWAIT))
}

/// Like [`recv`], into the capacity of `buffer`, whose content is replaced. Pages of a fresh buffer
/// that nothing was received into stay untouched. Without bytes the buffer is empty.
pub fn recv_into(fd: impl AsFd, buffer: &mut Vec<u8>) -> Received {
    buffer.clear();
    let flags = RecvFlags::empty();
    let result = retry_on_intr(|| rustix::net::recv(&fd, spare_capacity(buffer), flags));
    Received::of(result.map(|(len, _)| len))
}

// Receive and send bypass the C library, as rustix does: its functions are cancellation points,
// which in a multi-threaded process cost as much as the rest of a loop turn.

#[inline]
fn recv_flags(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> rustix::io::Result<usize> {
    retry_on_intr(|| rustix::net::recv(fd, &mut *buffer, flags)).map(|(len, _)| len)
}

/// Sends from `bytes`; returns how many were accepted, from the front. Blocks if the descriptor
/// does, up to its send timeout.
///
/// # Errors
/// `WouldBlock` if nothing was accepted in time, `BrokenPipe`, `ConnectionReset`.
pub fn send(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    send_flags(fd.as_fd(), bytes, SendFlags::NOSIGNAL)
}

/// Like [`send`], but never blocks.
///
/// # Errors
/// As [`send`].
pub fn send_nowait(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    send_flags(fd.as_fd(), bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_flags(fd: BorrowedFd<'_>, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::net::send(fd, bytes, flags))?)
}

/// The most slices of a call (`IOV_MAX`).
const SLICES_MAX: usize = libc::UIO_MAXIOV as usize;

/// Sends from `slices` in order; returns how many bytes were accepted. Slices beyond the 1024th
/// (`IOV_MAX`) are left for the next call. For one slice [`send`] is cheaper. With
/// [`SendFlags::DONTWAIT`] the call never blocks; [`SendFlags::MORE`] announces that more follows
/// at once, so that the kernel need not send a partial packet.
///
/// # Errors
/// As [`send`].
pub fn send_vectored(fd: impl AsFd, slices: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    let (slices, flags) = (&slices[..slices.len().min(SLICES_MAX)], flags | SendFlags::NOSIGNAL);
    let mut control = SendAncillaryBuffer::default();
    Ok(retry_on_intr(|| sendmsg(&fd, slices, &mut control, flags))?)
}

/// Makes the coming close a reset: queued data of both directions is discarded and no state lingers
/// (`SO_LINGER` with zero time).
///
/// # Errors
/// `ENOTSOCK`.
pub fn set_linger_reset(fd: impl AsFd) -> io::Result<()> {
    SockRef::from(&fd).set_linger(Some(Duration::ZERO))
}

/// Disappears silently, like a machine whose power fails: the connection is closed at this end, and
/// the other end is not informed (`TCP_REPAIR`, made for moving connections to other machines).
/// Anything that the other end sends from now on is answered by a reset.
///
/// # Errors
/// `EPERM` without the capability `CAP_NET_ADMIN`: the connection is closed as usual.
pub fn abandon(fd: OwnedFd) -> io::Result<()> {
    set_option(&fd, libc::IPPROTO_TCP, libc::TCP_REPAIR, &1_i32)?;
    drop(fd);
    Ok(())
}

/// The number of bytes sent and not yet acknowledged by the peer's kernel (`SIOCOUTQ`, tcp(7)).
///
/// # Errors
/// `EINVAL` for a listener.
pub fn unsent_bytes(fd: impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes one int. TIOCOUTQ has the number of SIOCOUTQ.
    check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Makes a listener drop new connection requests as if the packets had been lost
/// (`SO_ATTACH_FILTER`, socket(7); the filter sees the TCP header first). Handshakes in progress
/// may still complete (RFC 9293 section 3.5), and queued connections can still be accepted. A new
/// client is not refused: it retries a second later, when another program may listen there. This
/// cannot be undone.
///
/// # Errors
/// `EPERM` where the listener's filter was locked.
pub fn deafen(listener: impl AsFd) -> io::Result<()> {
    // <linux/filter.h>: the flags byte; drops segments with SYN, keeps the rest.
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    SockRef::from(&listener).attach_filter(&[
        SockFilter::new(0x30, 0, 0, FLAGS),  // BPF_LD | BPF_B | BPF_ABS
        SockFilter::new(0x45, 0, 1, SYN),    // BPF_JMP | BPF_JSET | BPF_K
        SockFilter::new(0x06, 0, 0, 0),      // BPF_RET | BPF_K
        SockFilter::new(0x06, 0, 0, 0xffff), // BPF_RET | BPF_K
    ])
}
