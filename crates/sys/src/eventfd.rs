//! A bell that wakes a loop from another thread or process (eventfd(2)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::call::{check, check_count, uninterrupted};

/// A counter that a loop can wait for: readable while not zero. Several rings before a read merge
/// into one wake-up.
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A silent bell: non-blocking, close-on-exec.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the call made `fd` and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds one to the counter and wakes waiters. A full counter stays as it is, and is readable.
    pub fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        let result = uninterrupted(|| {
            // SAFETY: `one` is readable for the announced eight bytes.
            check_count(unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), 8) })
        });
        debug_assert!(
            result.as_ref().is_ok_and(|&sent| sent == 8)
                || result.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock),
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
    let result = uninterrupted(|| {
        // SAFETY: `count` is writable for the announced eight bytes.
        check_count(unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), 8) })
    });
    if result.is_ok() { u64::from_ne_bytes(count) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{PollFd, poll};
    use std::time::Duration;

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
    fn a_ring_wakes_a_thread_that_waits() {
        let bell = EventFd::new().unwrap();
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| {
                let mut list = [PollFd::new(bell.as_fd(), true, false)];
                poll(&mut list, Some(Duration::from_secs(10))).unwrap();
                bell.clear()
            });
            bell.ring();
            assert_eq!(waiter.join().unwrap(), 1);
        });
    }

    #[test]
    fn a_full_bell_still_rings() {
        let bell = EventFd::new().unwrap();
        let most = (u64::MAX - 1).to_ne_bytes();
        // SAFETY: `most` is readable for eight bytes.
        assert_eq!(unsafe { libc::write(bell.0.as_raw_fd(), most.as_ptr().cast(), 8) }, 8);
        bell.ring();
        assert_eq!(bell.clear(), u64::MAX - 1);
    }
}
