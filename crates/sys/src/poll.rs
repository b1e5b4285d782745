//! Waiting for a few descriptors without a list in the kernel (ppoll(2)).

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::{Duration, Instant};

use crate::call::{check, or_null, timespec};

/// One descriptor to wait for, and after [`poll`] what happened to it.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PollFd<'fd> {
    entry: libc::pollfd,
    fd: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd> PollFd<'fd> {
    /// Asks for reading, for writing, or for neither (errors and hang-ups are always told).
    #[must_use]
    pub fn new(fd: BorrowedFd<'fd>, read: bool, write: bool) -> Self {
        let bit = |wanted, bit| if wanted { bit } else { 0 };
        let events = bit(read, libc::POLLIN) | bit(write, libc::POLLOUT);
        let entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        Self { entry, fd: PhantomData }
    }

    /// A receive would not block: there are bytes, the end of input, or an error to collect.
    #[must_use]
    pub fn readable(&self) -> bool {
        self.any(libc::POLLIN | libc::POLLHUP | libc::POLLERR)
    }

    /// A send would not block: there is room, or an error to collect.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.any(libc::POLLOUT | libc::POLLHUP | libc::POLLERR)
    }

    /// Both ways are shut.
    #[must_use]
    pub fn hangup(&self) -> bool {
        self.any(libc::POLLHUP)
    }

    /// The descriptor carries an error.
    #[must_use]
    pub fn error(&self) -> bool {
        self.any(libc::POLLERR)
    }

    fn any(&self, bits: libc::c_short) -> bool {
        self.entry.revents & bits != 0
    }
}

/// Waits until something happens to one of `list` or `timeout` is over (`None`: for ever; zero: a
/// look), and says to how many; zero means that the time is over. An interrupted wait goes on
/// with what is left of the time.
///
/// # Errors
/// `EINVAL` for a list longer than the limit of open files, `ENOMEM`.
pub fn poll(list: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    // A time too far to be written down is for ever.
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        // SAFETY: a PollFd is a pollfd by its representation, the list is writable for its length,
        // its descriptors are open while borrowed, the time is null or outlives the call, and the
        // signal mask is null (leave it as it is).
        let result = check(unsafe {
            libc::ppoll(
                list.as_mut_ptr().cast(),
                list.len() as libc::nfds_t,
                or_null(&left),
                ptr::null(),
            )
        });
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|count| count.cast_unsigned() as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    const LATE: Option<Duration> = Some(Duration::from_secs(10));

    #[test]
    fn each_entry_is_told_what_it_asked_for() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"x").unwrap();
        for (read, write) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut list =
                [PollFd::new(far.as_fd(), read, write), PollFd::new(near.as_fd(), true, false)];
            let timeout = if read || write { LATE } else { Some(Duration::ZERO) };
            assert_eq!(poll(&mut list, timeout).unwrap(), usize::from(read || write));
            assert_eq!((list[0].readable(), list[0].writable()), (read, write));
            assert!(!list[1].readable() && !list[0].hangup() && !list[0].error());
        }
    }

    #[test]
    fn a_peer_that_is_gone_is_told_always() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(near);
        let mut list = [PollFd::new(far.as_fd(), false, false)];
        assert_eq!(poll(&mut list, None).unwrap(), 1);
        assert!(list[0].hangup() && list[0].readable() && list[0].writable());
    }

    #[test]
    fn a_wait_never_ends_early() {
        let (_near, far) = UnixStream::pair().unwrap();
        let start = Instant::now();
        let time = Duration::from_micros(1300);
        assert_eq!(poll(&mut [PollFd::new(far.as_fd(), true, false)], Some(time)).unwrap(), 0);
        assert!(start.elapsed() >= time);
        assert_eq!(poll(&mut [], Some(Duration::ZERO)).unwrap(), 0);
    }
}
