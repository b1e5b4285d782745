//! A bell that wakes a loop from another thread or process (eventfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, retry_on_intr, write};

/// A counter that a loop can wait for: readable while not zero. Several rings before a read merge
/// into one wake-up.
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A silent bell: non-blocking, close-on-exec.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Adds one to the counter and wakes waiters. A full counter stays as it is, and is readable.
    pub fn ring(&self) {
        let result = retry_on_intr(|| write(&self.0, &1_u64.to_ne_bytes()));
        debug_assert!(
            matches!(result, Ok(8) | Err(Errno::AGAIN)),
            "an open eventfd takes 8 bytes or is full, found {result:?}"
        );
    }

    /// Resets the counter; returns the number of rings since the last call.
    pub fn clear(&self) -> u64 {
        read_counter(self.as_fd())
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads the eight-byte counter of a non-blocking eventfd or timerfd; 0 while it is empty.
pub(crate) fn read_counter(fd: BorrowedFd<'_>) -> u64 {
    let mut count = [0_u8; 8];
    let result = retry_on_intr(|| read(fd, &mut count));
    if result.is_ok() { u64::from_ne_bytes(count) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_counted_and_cleared() {
        let bell = EventFd::new().unwrap();
        assert_eq!(bell.clear(), 0);
        bell.ring();
        bell.ring();
        assert_eq!(bell.clear(), 2);
        assert_eq!(bell.clear(), 0);
    }

    #[test]
    fn a_full_bell_still_rings() {
        let bell = EventFd::new().unwrap();
        assert_eq!(write(&bell.0, &(u64::MAX - 1).to_ne_bytes()), Ok(8));
        bell.ring();
        assert_eq!(bell.clear(), u64::MAX - 1);
    }
}
