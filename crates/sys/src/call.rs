//! What every call needs: the error of a failed one, and repetition of an interrupted one.

use std::io;
use std::time::Duration;

/// The result of a call that answers -1 and sets `errno` when it fails.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for calls that answer a count of bytes.
pub(crate) fn check_count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The same for `syscall(2)`.
#[inline]
pub(crate) fn check_long(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Repeats `call` until it answers something else than `EINTR`.
#[inline]
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// A length of time as the kernel writes it; what does not fit becomes the longest that does.
pub(crate) fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// `option` for calls that take a pointer which may be null: the pointer lives as long as it.
pub(crate) fn or_null<T>(option: &Option<T>) -> *const T {
    option.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
}
