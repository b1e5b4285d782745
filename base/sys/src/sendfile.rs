//! Sending files without a copy (sendfile(2)): the socket refers to the page cache, and no byte
//! passes through user space.
//!
//! `sendfile(2)` has no flag that forbids waiting for the peer; only the socket's own mode decides.
//! It always waits for the disk, so check [`is_resident`] first if blocking is not allowed.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::retry_on_intr;

use crate::call::check_long;

/// Sends at most `len` bytes of `file` from `offset` on; returns how many were accepted, 0 at its
/// end. Waits for the peer if the socket does, up to its send timeout.
///
/// # Errors
/// `WouldBlock` if nothing was accepted in time; `BrokenPipe`, `ConnectionReset`; `EINVAL` for a
/// file that cannot be mapped.
pub fn send_file(socket: impl AsFd, file: impl AsFd, offset: u64, len: usize) -> io::Result<usize> {
    let mut at = offset;
    Ok(retry_on_intr(|| rustix::fs::sendfile(&socket, &file, Some(&mut at), len))?)
}

/// Like [`send_file`], but never waits for the peer: a blocking socket is made non-blocking for
/// this one call. No other thread may use the socket meanwhile.
///
/// # Errors
/// As [`send_file`].
pub fn send_file_nowait(
    socket: impl AsFd,
    file: impl AsFd,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    let socket = socket.as_fd();
    let mode = fcntl_getfl(socket)?;
    if mode.contains(OFlags::NONBLOCK) {
        return send_file(socket, file, offset, len);
    }
    fcntl_setfl(socket, mode | OFlags::NONBLOCK)?;
    let sent = send_file(socket, file, offset, len);
    fcntl_setfl(socket, mode)?;
    sent
}

/// Whether the page cache has all of `range` of a file, so that sending it does not wait for a disk
/// (cachestat(2), Linux 6.5).
///
/// # Errors
/// `Unsupported` where the kernel is older (`ENOSYS`) or a filter forbids the call (`EPERM`).
pub fn is_resident(file: impl AsFd, range: Range<u64>) -> io::Result<bool> {
    let page = rustix::param::page_size() as u64;
    if range.is_empty() {
        return Ok(true);
    }
    let asked = CachestatRange { offset: range.start, len: range.end - range.start };
    let mut found = Cachestat::default();
    // SAFETY: both structures outlive the call and are laid out as in <linux/mman.h>.
    let called = check_long(unsafe {
        let fd = file.as_fd().as_raw_fd();
        libc::syscall(SYS_CACHESTAT, fd, &raw const asked, &raw mut found, 0)
    });
    match called {
        Ok(_) => Ok(found.cached >= range.end.div_ceil(page) - range.start / page),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            _ => Err(error),
        },
    }
}

/// cachestat(2) has the same number on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct CachestatRange {
    offset: u64,
    len: u64,
}

/// Counts of pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_file_is_sent_until_the_peer_takes_no_more() {
        let content: Vec<u8> = (0..4 << 20).map(|at: u32| (at / 7) as u8).collect();
        let file = crate::udp::tests::file(&content);
        let (near, mut far) = UnixStream::pair().unwrap();
        let sent = send_file_nowait(&near, &file, 5, content.len()).unwrap();
        assert!(0 < sent && sent < content.len() - 5, "{sent} of 4 MiB fit a socket");
        // A full socket reports `WouldBlock` although it is blocking, and blocks again afterwards.
        let mut total = sent;
        loop {
            match send_file_nowait(&near, &file, 5 + total as u64, content.len()) {
                Ok(more) => total += more,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        assert!(!fcntl_getfl(&near).unwrap().contains(OFlags::NONBLOCK));
        let mut came = vec![0; total];
        far.read_exact(&mut came).unwrap();
        assert_eq!(came, content[5..5 + total]);
        assert_eq!(send_file(&near, &file, content.len() as u64, 10).unwrap(), 0, "the end");
    }

    #[test]
    fn what_was_just_written_is_in_memory() {
        let file = crate::udp::tests::file(&[1; 100_000]);
        match is_resident(&file, 10..99_999) {
            Ok(resident) => assert!(resident),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported);
                eprintln!("skipped: this kernel does not tell what it has in memory");
                return;
            }
        }
        assert!(is_resident(&file, 5..5).unwrap());
        assert!(!is_resident(&file, 0..10_000_000).unwrap(), "nothing is behind the end");
    }
}
