//! The descriptors that survive exec(2) (`FD_CLOEXEC`, fcntl(2)).
//!
//! All descriptors of this crate are created close-on-exec; those that a new binary should own
//! (listeners, the shared mapping) are made inheritable one by one.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

use crate::call::check;

/// Whether `fd` stays open across exec.
///
/// # Errors
/// None for an open descriptor.
pub fn is_inheritable(fd: impl AsFd) -> io::Result<bool> {
    Ok(!fcntl_getfd(fd)?.contains(FdFlags::CLOEXEC))
}

/// Sets whether `fd` stays open across exec.
///
/// # Errors
/// None for an open descriptor.
pub fn set_inheritable(fd: impl AsFd, inheritable: bool) -> io::Result<()> {
    // There is no other flag of a descriptor.
    Ok(fcntl_setfd(fd, if inheritable { FdFlags::empty() } else { FdFlags::CLOEXEC })?)
}

/// Takes over a descriptor that this program was started with, and makes it close-on-exec.
///
/// The caller must own the number, which the starter of the program passed to it.
///
/// # Errors
/// `EBADF` if nothing was passed under that number, or if it is one of the three standard ones.
pub fn adopt(number: i32) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: no memory is passed; a number that is not open is an error.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open, and the caller guarantees that nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::process::Command;

    #[test]
    fn only_a_descriptor_that_is_there_can_be_adopted() {
        assert!(adopt(1).is_err() && adopt(-1).is_err() && adopt(1_000_000).is_err());
        let number = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
        let adopted = adopt(number).unwrap();
        assert_eq!(adopted.as_raw_fd(), number);
        assert!(!is_inheritable(&adopted).unwrap());
    }

    #[test]
    fn a_program_sees_what_was_made_inheritable() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        for inheritable in [false, true, false] {
            set_inheritable(&file, inheritable).unwrap();
            assert_eq!(is_inheritable(&file).unwrap(), inheritable);
            let seen = Command::new("test").args(["-e", &path]).status().unwrap().success();
            assert_eq!(seen, inheritable);
        }
    }
}
