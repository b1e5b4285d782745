//! Shared by all calls: converting errors, and repeating interrupted calls.

use std::io;
use std::time::Duration;

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
