//! The kernel reports the state of a TCP socket (`TCP_INFO`, tcp(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::call::check;

/// The time since the newest input of a TCP connection arrived (`TCP_INFO`:
/// `tcpi_last_data_recv`), to one tick of the kernel, which is 1 to 10 ms.
///
/// # Errors
/// `EOPNOTSUPP` for another kind of socket.
pub fn last_received(socket: impl AsFd) -> io::Result<Duration> {
    let info = tcp_info(socket)?;
    Ok(Duration::from_millis(u64::from(info.tcpi_last_data_recv)))
}

/// The length of a listener's accept queue, and its limit (`TCP_INFO`: `tcpi_unacked` and
/// `tcpi_sacked`; tcp_get_info in the kernel's net/ipv4/tcp.c).
///
/// # Errors
/// `EOPNOTSUPP` where it is no TCP socket.
pub fn accept_queue(listener: impl AsFd) -> io::Result<(u32, u32)> {
    let info = tcp_info(listener)?;
    Ok((info.tcpi_unacked, info.tcpi_sacked))
}

fn tcp_info(socket: impl AsFd) -> io::Result<libc::tcp_info> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (fd, level, name) = (socket.as_fd().as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the call writes at most `len` bytes to `info`, its exact size.
    check(unsafe { libc::getsockopt(fd, level, name, info.as_mut_ptr().cast(), &mut len) })?;
    // SAFETY: integers only, for which the zeros that the call left are values.
    Ok(unsafe { info.assume_init() })
}
