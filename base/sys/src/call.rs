//! Shared by all calls: converting errors, and repeating interrupted calls.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// The result of a call that returns -1 and sets `errno` on failure.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// [`check`] for calls that return a count of bytes.
pub(crate) fn check_count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// [`check`] for `syscall(2)`.
#[inline]
pub(crate) fn check_long(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Sets an option of a socket whose value has this type (setsockopt(2)).
pub(crate) fn set_option<T: Copy>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    let start = std::ptr::from_ref(value).cast();
    // SAFETY: the value is readable for its length, and the kernel copies it.
    check(unsafe { libc::setsockopt(fd, level, option, start, len) }).map(drop)
}

/// Repeats `call` while it fails with `EINTR`.
#[inline]
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Calls a wait with the rest of `timeout`, again while a signal interrupts it; the pointer is null
/// without a timeout, and valid for the call. Returns what the call counted.
pub(crate) fn resumed(
    timeout: Option<Duration>,
    mut wait: impl FnMut(*const libc::timespec) -> libc::c_int,
) -> io::Result<usize> {
    // A deadline that cannot be represented is never reached.
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let count = uninterrupted(|| {
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        check(wait(or_null(&left)))
    })?;
    Ok(count.cast_unsigned() as usize)
}

/// A duration as a timespec; longer ones saturate.
pub(crate) fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// `option` for calls that take a nullable pointer; the pointer is valid as long as `option`.
pub(crate) fn or_null<T>(option: &Option<T>) -> *const T {
    option.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
}
