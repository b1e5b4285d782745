//! Waiting for descriptors without a list in the kernel (ppoll(2)): a few at a time with [`poll`],
//! or the whole set of a server with [`PollSet`], which the kernel reads again at each wait.
//!
//! The engine `poll` waits with a `PollSet`, and callers with a handful of descriptors use `poll`.
//! A set is three arrays: the kernel's `pollfd` entries, their keys, and for each descriptor number
//! the place of its entry. The third makes adding, changing and removing constant in time: a
//! removal moves the last entry into the gap and corrects its place. A wait stops scanning after as
//! many entries with events as the kernel has counted.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use crate::call::resumed;
use crate::ready::{Interest, Ready};

/// One descriptor to wait for, and after [`poll`] its events.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PollFd<'fd> {
    entry: libc::pollfd,
    fd: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd> PollFd<'fd> {
    /// An entry that waits for reading, for writing, or for neither (errors and hang-ups are always
    /// reported).
    #[must_use]
    pub fn new(fd: BorrowedFd<'fd>, read: bool, write: bool) -> Self {
        let bit = |wanted, bit| if wanted { bit } else { 0 };
        let events = bit(read, libc::POLLIN) | bit(write, libc::POLLOUT);
        let entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        Self { entry, fd: PhantomData }
    }

    /// An entry for no descriptor, which never has an event: it keeps the places in a list.
    #[must_use]
    pub fn none() -> Self {
        Self { entry: libc::pollfd { fd: -1, events: 0, revents: 0 }, fd: PhantomData }
    }

    /// A receive would not block: data, the end of input, or an error is pending.
    #[must_use]
    pub fn readable(&self) -> bool {
        self.any(libc::POLLIN | libc::POLLHUP | libc::POLLERR)
    }

    /// A send would not block: there is room, or an error is pending.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.any(libc::POLLOUT | libc::POLLHUP | libc::POLLERR)
    }

    /// Both directions are shut down.
    #[must_use]
    pub fn hangup(&self) -> bool {
        self.any(libc::POLLHUP)
    }

    /// The descriptor has an error.
    #[must_use]
    pub fn error(&self) -> bool {
        self.any(libc::POLLERR)
    }

    fn any(&self, bits: libc::c_short) -> bool {
        self.entry.revents & bits != 0
    }
}

/// Waits for an event on one of `list` for at most `timeout` (`None`: forever; zero: only polls);
/// returns the number of entries with events, zero after the timeout. An interrupted wait continues
/// with the rest of the timeout.
///
/// # Errors
/// `EINVAL` for a list longer than the limit of open files, `ENOMEM`.
pub fn poll(list: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    // A PollFd has the representation of a pollfd.
    wait(list.as_mut_ptr().cast(), list.len(), timeout)
}

/// Waits for `len` entries starting at `list`, which must be writable.
fn wait(list: *mut libc::pollfd, len: usize, timeout: Option<Duration>) -> io::Result<usize> {
    resumed(timeout, |left| {
        // SAFETY: both callers pass the start and length of a list that they borrow mutably, `left`
        // is null or valid, and the signal mask is null (unchanged). A descriptor that is not open
        // is reported as POLLNVAL.
        unsafe { libc::ppoll(list, len as libc::nfds_t, left, ptr::null()) }
    })
}

/// A set of descriptors to wait for, each with a key. The cost of a wait grows with the open
/// descriptors, not with the ready ones: the kernel checks every entry.
#[derive(Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
    keys: Vec<u64>,
    /// The entry of each descriptor, or [`NOWHERE`].
    places: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl PollSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches `fd`; its events will carry `key`. Remove it before closing it: a closed descriptor
    /// in the set is reported as failed at each wait.
    ///
    /// # Errors
    /// `AlreadyExists` if it is watched already, `InvalidInput` for edges.
    pub fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        let number = number(fd);
        let events = events(interest)?;
        if self.places.len() <= number {
            self.places.resize(number + 1, NOWHERE);
        }
        if self.places[number] != NOWHERE {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.places[number] = self.entries.len() as u32;
        self.entries.push(libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 });
        self.keys.push(key);
        Ok(())
    }

    /// Replaces interest and key of a watched `fd`.
    ///
    /// # Errors
    /// `NotFound` if it is not watched, `InvalidInput` for edges.
    pub fn modify(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        let place = self.place(fd)?;
        self.entries[place].events = events(interest)?;
        self.keys[place] = key;
        Ok(())
    }

    /// Stops watching `fd`.
    ///
    /// # Errors
    /// `NotFound` if it is not watched.
    pub fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let place = self.place(fd)?;
        self.places[number(fd)] = NOWHERE;
        self.entries.swap_remove(place);
        self.keys.swap_remove(place);
        if let Some(moved) = self.entries.get(place) {
            self.places[moved.fd.cast_unsigned() as usize] = place as u32;
        }
        Ok(())
    }

    /// Waits for events for at most `timeout` (`None`: forever; zero: only polls) and appends them
    /// to `ready`; none means that the timeout expired.
    ///
    /// # Errors
    /// As [`poll`].
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut left = wait(self.entries.as_mut_ptr(), self.entries.len(), timeout)?;
        for (entry, &key) in self.entries.iter().zip(&self.keys) {
            if left == 0 {
                break;
            }
            if entry.revents == 0 {
                continue;
            }
            left -= 1;
            let any = |bits: libc::c_short| entry.revents & bits != 0;
            let over = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
            ready.push(Ready {
                key,
                readable: any(libc::POLLIN | over),
                writable: any(libc::POLLOUT | over),
                hangup: any(libc::POLLHUP),
                error: any(libc::POLLERR | libc::POLLNVAL),
            });
        }
        Ok(())
    }

    fn place(&self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        match self.places.get(number(fd)) {
            Some(&place) if place != NOWHERE => Ok(place as usize),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// The number of an open descriptor, which is never negative.
fn number(fd: BorrowedFd<'_>) -> usize {
    fd.as_raw_fd().cast_unsigned() as usize
}

fn events(interest: Interest) -> io::Result<libc::c_short> {
    let (read, write) = interest.plain()?;
    let bit = |wanted, bit| if wanted { bit } else { 0 };
    Ok(bit(read, libc::POLLIN) | bit(write, libc::POLLOUT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

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
