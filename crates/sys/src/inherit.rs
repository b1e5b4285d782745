//! Which descriptors a program keeps across exec(2) (`FD_CLOEXEC`, fcntl(2)).
//!
//! All descriptors of this crate are born close-on-exec; those that a new binary shall own
//! (listeners, the shared mapping) are made inheritable one by one.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::call::check;

/// Whether `fd` stays open across exec.
///
/// # Errors
/// None for an open descriptor.
pub fn is_inheritable(fd: impl AsFd) -> io::Result<bool> {
    // SAFETY: the descriptor is open while borrowed; no memory is passed.
    let flags = check(unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_GETFD) })?;
    Ok(flags & libc::FD_CLOEXEC == 0)
}

/// Lets `fd` stay open across exec, or not.
///
/// # Errors
/// None for an open descriptor.
pub fn set_inheritable(fd: impl AsFd, inheritable: bool) -> io::Result<()> {
    let flags = if inheritable { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: the descriptor is open while borrowed; no memory is passed. FD_CLOEXEC is the only
    // descriptor flag that exists.
    check(unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_SETFD, flags) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

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
