//! A timer that a loop can wait for (timerfd_create(2)), on the monotonic clock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A timer that becomes readable at a set time and stays so until it is set again.
pub struct TimerFd(OwnedFd);

impl TimerFd {
    /// A timer that is not set: non-blocking, close-on-exec.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Fires once at `at_ns` on [`crate::clock::now_ns`]'s clock, at once if that is past; `None`
    /// disarms the timer. Either replaces an earlier setting and discards a pending expiration.
    ///
    /// # Errors
    /// None in practice; the kernel's are bad pointers and descriptors.
    pub fn set(&self, at_ns: Option<u64>) -> io::Result<()> {
        // The kernel reads zero as "disarm", so time zero becomes one nanosecond.
        let at_ns = at_ns.map_or(0, |at_ns| at_ns.max(1));
        let it_value = Timespec {
            tv_sec: (at_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
        };
        let setting = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &setting)?;
        Ok(())
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;
    use crate::eventfd::read_counter;
    use crate::poll::{PollFd, poll};
    use std::time::Duration;

    fn has_fired(timer: &TimerFd) -> bool {
        read_counter(timer.as_fd()) > 0
    }

    fn waited(timer: &TimerFd) -> bool {
        let mut list = [PollFd::new(timer.as_fd(), true, false)];
        poll(&mut list, Some(Duration::from_secs(10))).unwrap();
        has_fired(timer)
    }

    #[test]
    fn it_fires_once_and_not_early() {
        let timer = TimerFd::new().unwrap();
        assert!(!has_fired(&timer));
        let at_ns = now_ns() + 3_000_000;
        timer.set(Some(at_ns)).unwrap();
        assert!(!has_fired(&timer) || now_ns() >= at_ns);
        assert!(waited(&timer));
        assert!(now_ns() >= at_ns);
        assert!(!has_fired(&timer));
    }

    #[test]
    fn the_past_fires_at_once_and_none_takes_back() {
        let timer = TimerFd::new().unwrap();
        timer.set(Some(0)).unwrap();
        assert!(waited(&timer));
        timer.set(Some(0)).unwrap();
        timer.set(None).unwrap();
        assert!(!has_fired(&timer));
        timer.set(Some(u64::MAX)).unwrap();
        assert!(!has_fired(&timer));
    }
}
