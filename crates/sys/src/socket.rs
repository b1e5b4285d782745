//! TCP sockets (socket(7), tcp(7)) as functions over descriptors.
//!
//! They take anything that lends a descriptor, keep no state, and differ from std in what a server
//! needs: options set on a listener before it listens and inherited by what it accepts, reads and
//! writes that never block whatever the mode of the descriptor, and no `SIGPIPE`.

use std::io::{self, IoSlice};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use crate::call::{check, check_count, check_long, uninterrupted};
use crate::poll::{PollFd, poll};

/// What a listener shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// How many finished connections may wait for an accept. The kernel's
    /// `net.core.somaxconn` caps it silently.
    pub backlog: u32,
    /// Several listeners on one address; the kernel spreads connections over them by a hash.
    pub reuse_port: bool,
    /// Send small segments at once (`TCP_NODELAY`); accepted sockets inherit it.
    pub nodelay: bool,
    /// An accept that finds nothing answers `WouldBlock`. Accepted sockets do not inherit it.
    pub nonblocking: bool,
    /// Ask a peer that has been silent for this long whether it is still there, and if it does not
    /// answer, every quarter of that time again, four times in all (`SO_KEEPALIVE`); accepted
    /// sockets inherit it. What has failed then is told as `TimedOut`, or as `ConnectionReset`
    /// where the peer's machine no longer knows of the connection. Whole seconds.
    pub keepalive: Option<Duration>,
    /// Take no more output of an accepted socket while so many bytes wait that could not be sent
    /// yet, because its peer has no room (`TCP_NOTSENT_LOWAT`, tcp(7)); what is on its way does not
    /// count. `None`: as much as the send buffer holds, which grows to megabytes.
    pub unsent_max: Option<u32>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        let (reuse_port, keepalive, unsent_max) = (false, None, None);
        Self { backlog: 4096, reuse_port, nodelay: true, nonblocking: true, keepalive, unsent_max }
    }
}

/// How often a silent peer is asked before it is given up.
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
    if options.nodelay {
        socket.set_tcp_nodelay(true)?;
    }
    if let Some(silence) = options.keepalive {
        // The kernel counts in seconds, and knows no zero.
        let second = Duration::from_secs(1);
        let asked = TcpKeepalive::new().with_time(silence.max(second)).with_retries(QUESTIONS);
        let again = (silence / QUESTIONS).max(second);
        socket.set_tcp_keepalive(&asked.with_interval(again))?;
    }
    if let Some(bytes) = options.unsent_max {
        socket.set_tcp_notsent_lowat(bytes)?;
    }
    socket.set_nonblocking(options.nonblocking)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// The next finished connection and its peer's address. The new descriptor is close-on-exec.
///
/// # Errors
/// `WouldBlock` where the listener is non-blocking and nobody waits. `ConnectionAborted` and the
/// network errors of accept(2) concern one client: go on. `EMFILE`, `ENFILE`, `ENOBUFS` and
/// `ENOMEM` concern this server, and the connection still waits: back off.
pub fn accept(listener: impl AsFd, nonblocking: bool) -> io::Result<(OwnedFd, SocketAddr)> {
    let listener = listener.as_fd().as_raw_fd();
    let flags = libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    let accept4 = |storage: *mut socket2::SockAddrStorage, len: *mut libc::socklen_t| {
        // SAFETY: socket2 lends storage as long as `len` says, and the descriptor is open while
        // borrowed.
        check(unsafe { libc::accept4(listener, storage.cast(), len, flags) })
    };
    // SAFETY: accept4 fills the address and its length whenever it succeeds (accept(2)).
    let (fd, peer) = uninterrupted(|| unsafe { SockAddr::try_init(accept4) })?;
    // SAFETY: the call made `fd` and nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok((fd, internet(&peer)?))
}

/// Starts a connection to `address` on a non-blocking descriptor. It is done when the descriptor
/// is writable, and good if then [`take_error`] finds nothing.
///
/// # Errors
/// What is known at once: `ENETUNREACH`, `EADDRNOTAVAIL` when local ports ran out, `EMFILE`.
pub fn connect_nonblocking(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    start_connecting(socket, address)
}

/// The same from an address of this machine, whose local ports are counted by themselves: the way
/// out for a client that has used up those of one address.
///
/// # Errors
/// As [`connect_nonblocking`]; `EADDRNOTAVAIL` also where this machine has no such address.
pub fn connect_nonblocking_from(address: SocketAddr, source: IpAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    let one: libc::c_int = 1;
    let size = size_of_val(&one) as libc::socklen_t;
    // SAFETY: `one` is an int, as this option wants, and outlives the call. The option leaves the
    // port to connect(2), which may share it between destinations (ip(7)).
    check(unsafe {
        let (level, option) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const one).cast(), size)
    })?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    start_connecting(socket, address)
}

fn start_connecting(socket: Socket, address: SocketAddr) -> io::Result<OwnedFd> {
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        // An interrupted connect goes on by itself, like one in progress (connect(2)).
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {}
        other => other?,
    }
    Ok(socket.into())
}

/// A connection to `address` on a blocking descriptor.
///
/// # Errors
/// `ConnectionRefused`, `TimedOut` and the others of connect(2).
pub fn connect(address: SocketAddr) -> io::Result<OwnedFd> {
    let fd = connect_nonblocking(address)?;
    poll(&mut [PollFd::new(fd.as_fd(), false, true)], None)?;
    if let Some(error) = take_error(&fd)? {
        return Err(error);
    }
    set_nonblocking(&fd, false)?;
    Ok(fd)
}

/// The address of this end.
///
/// # Errors
/// `InvalidInput` for a socket that is not of the internet; `ENOTSOCK`.
pub fn local_addr(fd: impl AsFd) -> io::Result<SocketAddr> {
    internet(&SockRef::from(&fd).local_addr()?)
}

/// The address of the other end.
///
/// # Errors
/// `NotConnected` once the connection is reset; `InvalidInput` for a socket that is not of the
/// internet; `ENOTSOCK`.
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

/// Takes the error that waits on the socket (`SO_ERROR`), if there is one.
///
/// # Errors
/// `ENOTSOCK`.
pub fn take_error(fd: impl AsFd) -> io::Result<Option<io::Error>> {
    SockRef::from(&fd).take_error()
}

/// Receives into `buffer` and says how many bytes came; 0 is the end of input (or an empty
/// buffer). Blocks if the descriptor does, up to its receive timeout.
///
/// # Errors
/// `WouldBlock` when nothing is there in time, `ConnectionReset`, `TimedOut` (the network's).
pub fn recv(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    recv_flags(fd.as_fd(), buffer, 0)
}

/// Like [`recv`], and never blocks.
///
/// # Errors
/// As [`recv`].
pub fn recv_nowait(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    recv_flags(fd.as_fd(), buffer, libc::MSG_DONTWAIT)
}

/// The address argument of a connected socket.
const NOBODY: usize = 0;

// Receiving and sending go round the C library: its functions are points where a thread may be
// cancelled, and in a process with threads each call pays as much for that as for the rest of a
// turn.

fn recv_flags(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    uninterrupted(|| {
        // SAFETY: the buffer is writable for its length; no address is asked for.
        check_long(unsafe {
            let (start, len) = (buffer.as_mut_ptr(), buffer.len());
            libc::syscall(libc::SYS_recvfrom, fd.as_raw_fd(), start, len, flags, NOBODY, NOBODY)
        })
    })
}

/// Sends from `bytes` and says how many were taken, from the front. Blocks if the descriptor does,
/// up to its send timeout.
///
/// # Errors
/// `WouldBlock` when nothing could be taken in time, `BrokenPipe`, `ConnectionReset`.
pub fn send(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    send_flags(fd.as_fd(), bytes, libc::MSG_NOSIGNAL)
}

/// Like [`send`], and never blocks.
///
/// # Errors
/// As [`send`].
pub fn send_nowait(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    send_flags(fd.as_fd(), bytes, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
}

fn send_flags(fd: BorrowedFd<'_>, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
    uninterrupted(|| {
        // SAFETY: the bytes are readable for their length; no address is given.
        check_long(unsafe {
            let (start, len) = (bytes.as_ptr(), bytes.len());
            libc::syscall(libc::SYS_sendto, fd.as_raw_fd(), start, len, flags, NOBODY, NOBODY)
        })
    })
}

/// Sends from `slices` in their order and says how many bytes were taken. Slices past the 1024th
/// (`IOV_MAX`) are left for the next call. For one slice [`send`] is cheaper.
///
/// # Errors
/// As [`send`].
pub fn send_vectored(fd: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    sendmsg(fd.as_fd(), slices, libc::MSG_NOSIGNAL)
}

/// Like [`send_vectored`], and never blocks.
///
/// # Errors
/// As [`send`].
pub fn send_vectored_nowait(fd: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    sendmsg(fd.as_fd(), slices, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
}

/// Like [`send_vectored`], and tells the kernel that more follows at once (`MSG_MORE`), so that it
/// need not send a packet that is not full.
///
/// # Errors
/// As [`send`].
pub fn send_vectored_more(fd: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    sendmsg(fd.as_fd(), slices, libc::MSG_NOSIGNAL | libc::MSG_MORE)
}

/// Like [`send_vectored_more`], and never blocks.
///
/// # Errors
/// As [`send`].
pub fn send_vectored_more_nowait(fd: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    sendmsg(fd.as_fd(), slices, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_MORE)
}

fn sendmsg(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: a msghdr is made of integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    // An IoSlice is an iovec by its documented representation; sendmsg only reads it.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len().min(libc::UIO_MAXIOV as usize);
    uninterrupted(|| {
        // SAFETY: the message names slices that are borrowed, and no more of them than there are.
        check_count(unsafe { libc::sendmsg(fd.as_raw_fd(), &message, flags) })
    })
}

/// Ends our output: the peer reads what was sent and then the end. Input goes on.
///
/// # Errors
/// `NotConnected` once the connection is reset.
pub fn shutdown_write(fd: impl AsFd) -> io::Result<()> {
    SockRef::from(&fd).shutdown(std::net::Shutdown::Write)
}

/// Sends small segments at once, or gathers them (`TCP_NODELAY`).
///
/// # Errors
/// `ENOTSOCK`, `EINVAL` once the connection is reset.
pub fn set_nodelay(fd: impl AsFd, nodelay: bool) -> io::Result<()> {
    SockRef::from(&fd).set_tcp_nodelay(nodelay)
}

/// How long a blocking receive or accept may wait; `None` or zero: for ever. A wait interrupted by
/// a signal starts its time anew.
///
/// # Errors
/// `ENOTSOCK`.
pub fn set_receive_timeout(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    SockRef::from(&fd).set_read_timeout(timeout)
}

/// How long a blocking send may wait for room; `None` or zero: for ever.
///
/// # Errors
/// `ENOTSOCK`.
pub fn set_send_timeout(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    SockRef::from(&fd).set_write_timeout(timeout)
}

/// Makes the coming close a reset: what is queued in either direction is thrown away and no state
/// lingers (`SO_LINGER` with zero time).
///
/// # Errors
/// `ENOTSOCK`.
pub fn set_linger_reset(fd: impl AsFd) -> io::Result<()> {
    SockRef::from(&fd).set_linger(Some(Duration::ZERO))
}

/// Goes away without a word, as a machine does whose power fails: the connection is open no more at
/// this end, and the other end is not told (`TCP_REPAIR`, which was made for moving connections to
/// other machines). What the other end sends from here on is answered by a reset.
///
/// # Errors
/// `EPERM` without the capability `CAP_NET_ADMIN`: the connection is closed in the usual way.
pub fn abandon(fd: OwnedFd) -> io::Result<()> {
    let one: libc::c_int = 1;
    let size = size_of_val(&one) as libc::socklen_t;
    // SAFETY: `one` is an int, as this option wants, and outlives the call.
    check(unsafe {
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_REPAIR);
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const one).cast(), size)
    })?;
    drop(fd);
    Ok(())
}

/// Makes calls on the descriptor answer `WouldBlock` instead of waiting. The mode belongs to the
/// open file: other processes and copies of the descriptor see it too.
///
/// # Errors
/// None in practice.
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> io::Result<()> {
    SockRef::from(&fd).set_nonblocking(nonblocking)
}

/// How many bytes were sent and not yet acknowledged by the peer's kernel (`SIOCOUTQ`, tcp(7)).
///
/// # Errors
/// `EINVAL` for a listener.
pub fn unsent_bytes(fd: impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: this request writes one int. TIOCOUTQ is the number that SIOCOUTQ has.
    check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Makes a listener deaf: who asks for a connection from now on is not heard, as if the packet had
/// been lost on its way (`SO_ATTACH_FILTER`, socket(7); the filter sees the TCP header first). Who
/// was answered before may still complete the handshake (RFC 9293 section 3.5), and who waits to be
/// accepted still can be; who knocks is not refused but knocks again a second later, when somebody
/// else may listen there. There is no way back.
///
/// # Errors
/// `EPERM` where the listener's filter was locked.
pub fn deafen(listener: impl AsFd) -> io::Result<()> {
    // <linux/filter.h>: the byte of the flags; if SYN is among them keep nothing, else everything.
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    let instruction = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut drop_syn = [
        instruction(0x30, 0, FLAGS),  // BPF_LD | BPF_B | BPF_ABS
        instruction(0x45, 1, SYN),    // BPF_JMP | BPF_JSET | BPF_K
        instruction(0x06, 0, 0),      // BPF_RET | BPF_K
        instruction(0x06, 0, 0xffff), // BPF_RET | BPF_K
    ];
    let program =
        libc::sock_fprog { len: drop_syn.len() as libc::c_ushort, filter: drop_syn.as_mut_ptr() };
    let (fd, level, name) =
        (listener.as_fd().as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the program and its instructions outlive the call, which copies them.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const program).cast(), len) }).map(drop)
}

/// How many connections wait to be accepted, and how many fit (`TCP_INFO` of a listener, where
/// `tcpi_unacked` and `tcpi_sacked` are these; tcp_get_info in the kernel's net/ipv4/tcp.c).
///
/// # Errors
/// `EOPNOTSUPP` where it is no TCP socket.
pub fn accept_queue(listener: impl AsFd) -> io::Result<(u32, u32)> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (fd, level, name) = (listener.as_fd().as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the call writes at most `len` bytes to `info`, which has so many.
    check(unsafe { libc::getsockopt(fd, level, name, info.as_mut_ptr().cast(), &mut len) })?;
    // SAFETY: integers only, for which the zeros that the call left are values.
    let info = unsafe { info.assume_init() };
    Ok((info.tcpi_unacked, info.tcpi_sacked))
}

/// Bounds what waits on a socket because its peer has no room, as [`ListenOptions::unsent_max`]
/// does; `None`: no longer.
///
/// # Errors
/// None in practice.
pub fn set_unsent_max(fd: impl AsFd, bytes: Option<u32>) -> io::Result<()> {
    // Zero stands for the default, which is no bound (net.ipv4.tcp_notsent_lowat).
    SockRef::from(&fd).set_tcp_notsent_lowat(bytes.unwrap_or(0))
}

/// Sizes the queue of outgoing bytes and switches its growth off (`SO_SNDBUF`). The kernel doubles
/// the number for its own needs and holds it between its limits.
///
/// # Errors
/// `ENOTSOCK`.
pub fn set_send_buffer(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    SockRef::from(&fd).set_send_buffer_size(bytes)
}

/// Sizes the queue of incoming bytes and switches its growth off (`SO_RCVBUF`); set it on a
/// listener, or before connecting, to bound the window. The kernel doubles the number.
///
/// # Errors
/// `ENOTSOCK`.
pub fn set_receive_buffer(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    SockRef::from(&fd).set_recv_buffer_size(bytes)
}
