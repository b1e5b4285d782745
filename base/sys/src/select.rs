//! Waiting for descriptors with three bit sets (select(2)), as servers did before poll and epoll.
//!
//! The sets cannot hold descriptors from [`SETSIZE`] on. The C macros would write past the set;
//! here such a descriptor is refused.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use crate::call::resumed;
use crate::ready::{Interest, Ready};

/// Descriptors from this number on do not fit (`FD_SETSIZE`, select(2)).
pub const SETSIZE: usize = libc::FD_SETSIZE;

const BITS: usize = libc::c_ulong::BITS as usize;
const WORDS: usize = SETSIZE / BITS;

/// A bit for each descriptor number; the C library's `fd_set` has the same bytes.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bits([libc::c_ulong; WORDS]);

const _: () = assert!(size_of::<Bits>() == size_of::<libc::fd_set>());

impl Bits {
    const NONE: Self = Self([0; WORDS]);

    fn set(&mut self, number: usize, to: bool) {
        let bit = 1 << (number % BITS);
        if to {
            self.0[number / BITS] |= bit;
        } else {
            self.0[number / BITS] &= !bit;
        }
    }

    fn has(&self, number: usize) -> bool {
        self.0[number / BITS] & 1 << (number % BITS) != 0
    }
}

/// A set of descriptors to wait for, each with a key. The cost of a wait grows with the highest
/// descriptor: the kernel checks every number up to it, and so does the caller afterwards.
pub struct SelectSet {
    read: Bits,
    write: Bits,
    watched: Bits,
    keys: Vec<u64>,
}

impl Default for SelectSet {
    fn default() -> Self {
        let (read, write, watched) = (Bits::NONE, Bits::NONE, Bits::NONE);
        Self { read, write, watched, keys: vec![0; SETSIZE] }
    }
}

impl SelectSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the number of `fd` fits.
    #[must_use]
    pub fn fits(fd: BorrowedFd<'_>) -> bool {
        fd.as_raw_fd().cast_unsigned() < SETSIZE as u32
    }

    /// Watches `fd`; its events will carry `key`. Remove it before closing it: a closed descriptor
    /// in the set fails every wait (`EBADF`). Without any interest it is never reported.
    ///
    /// # Errors
    /// `InvalidInput` for a descriptor that does not fit and for edges, `AlreadyExists` if it is
    /// watched already.
    pub fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        if !Self::fits(fd) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("expected a descriptor below {SETSIZE}, found {}", fd.as_raw_fd()),
            ));
        }
        if self.watched.has(number(fd)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.watch(fd, interest, key)
    }

    /// Replaces interest and key of a watched `fd`.
    ///
    /// # Errors
    /// `NotFound` if it is not watched, `InvalidInput` for edges.
    pub fn modify(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        self.check(fd)?;
        self.watch(fd, interest, key)
    }

    /// Stops watching `fd`.
    ///
    /// # Errors
    /// `NotFound` if it is not watched.
    pub fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.check(fd)?;
        for bits in [&mut self.read, &mut self.write, &mut self.watched] {
            bits.set(number(fd), false);
        }
        Ok(())
    }

    /// Waits for events for at most `timeout` (`None`: forever; zero: only polls) and appends them
    /// to `ready`; none means that the timeout expired. An interrupted wait continues with the rest
    /// of the timeout. Failed or hung-up descriptors are reported as readable and writable, as far
    /// as requested.
    ///
    /// # Errors
    /// `EBADF` for a descriptor that was closed and not removed, `ENOMEM`.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let (read, write, mut left) = self.wait_once(timeout)?;
        for word in 0..WORDS {
            let mut bits = read.0[word] | write.0[word];
            while bits != 0 && left > 0 {
                let number = word * BITS + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let (readable, writable) = (read.has(number), write.has(number));
                // The kernel counts bits, not descriptors.
                left -= usize::from(readable) + usize::from(writable);
                let key = self.keys[number];
                ready.push(Ready { key, readable, writable, hangup: false, error: false });
            }
        }
        Ok(())
    }

    /// The sets ready for reading and writing, and the number of their bits.
    fn wait_once(&self, timeout: Option<Duration>) -> io::Result<(Bits, Bits, usize)> {
        let top = self.watched.0.iter().rposition(|&word| word != 0);
        let numbers =
            top.map_or(0, |word| (word + 1) * BITS - self.watched.0[word].leading_zeros() as usize);
        let (mut read, mut write) = (self.read, self.write);
        let count = resumed(timeout, |left| {
            // An interrupted call may have changed them (select(2)).
            (read, write) = (self.read, self.write);
            // SAFETY: a Bits has the size and meaning of an fd_set (asserted above), both are
            // writable, `numbers` is at most FD_SETSIZE, `left` is null or valid, and the signal
            // mask is null (unchanged).
            unsafe {
                libc::pselect(
                    numbers as libc::c_int,
                    (&raw mut read).cast(),
                    (&raw mut write).cast(),
                    ptr::null_mut(),
                    left,
                    ptr::null(),
                )
            }
        })?;
        Ok((read, write, count))
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        let (read, write) = interest.plain()?;
        let number = number(fd);
        self.read.set(number, read);
        self.write.set(number, write);
        self.watched.set(number, true);
        self.keys[number] = key;
        Ok(())
    }

    fn check(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if Self::fits(fd) && self.watched.has(number(fd)) {
            return Ok(());
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// The number of an open descriptor, which is never negative.
fn number(fd: BorrowedFd<'_>) -> usize {
    fd.as_raw_fd().cast_unsigned() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::PollSet;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    const LATE: Option<Duration> = Some(Duration::from_secs(10));
    const BOTH: Interest = Interest { write: true, ..Interest::READ };

    /// The same facts for both sets.
    macro_rules! facts {
        ($($name:ident = $set:ty;)+) => {
            $(mod $name {
                use super::*;

                #[test]
                fn each_is_told_what_it_asked_for() {
                    let (mut near, far) = UnixStream::pair().unwrap();
                    near.write_all(b"x").unwrap();
                    let mut set = <$set>::new();
                    set.add(far.as_fd(), Interest::NONE, 7).unwrap();
                    set.add(near.as_fd(), Interest::READ, 8).unwrap();
                    for (read, write) in [(false, true), (true, false), (true, true)] {
                        let interest = Interest { read, write, ..Interest::NONE };
                        set.modify(far.as_fd(), interest, 9).unwrap();
                        let mut ready = Vec::new();
                        set.wait(LATE, &mut ready).unwrap();
                        assert_eq!(ready.len(), 1);
                        let told = (ready[0].key, ready[0].readable, ready[0].writable);
                        assert_eq!(told, (9, read, write));
                        assert!(!ready[0].hangup && !ready[0].error);
                    }
                    set.remove(far.as_fd()).unwrap();
                    let mut ready = Vec::new();
                    set.wait(Some(Duration::from_millis(1)), &mut ready).unwrap();
                    assert_eq!(ready, []);
                }

                #[test]
                fn many_come_and_go_and_each_is_found_again() {
                    let pairs: Vec<_> = (0..100).map(|_| UnixStream::pair().unwrap()).collect();
                    let mut set = <$set>::new();
                    for (key, (near, _)) in pairs.iter().enumerate() {
                        set.add(near.as_fd(), Interest::READ, key as u64).unwrap();
                    }
                    for (near, _) in pairs.iter().step_by(3) {
                        set.remove(near.as_fd()).unwrap();
                    }
                    pairs.iter().for_each(|(_, far)| (&mut &*far).write_all(b"x").unwrap());
                    let mut ready = Vec::new();
                    set.wait(LATE, &mut ready).unwrap();
                    let mut keys: Vec<u64> = ready.iter().map(|ready| ready.key).collect();
                    keys.sort_unstable();
                    assert_eq!(keys, (0..100).filter(|key| key % 3 != 0).collect::<Vec<_>>());
                }

                #[test]
                fn a_gone_peer_is_readable() {
                    let (near, far) = UnixStream::pair().unwrap();
                    drop(near);
                    let mut set = <$set>::new();
                    set.add(far.as_fd(), BOTH, 1).unwrap();
                    let mut ready = Vec::new();
                    set.wait(None, &mut ready).unwrap();
                    assert!(ready.len() == 1 && ready[0].readable && ready[0].writable);
                }

                #[test]
                fn mistakes_are_refused() {
                    let (near, far) = UnixStream::pair().unwrap();
                    let mut set = <$set>::new();
                    set.add(near.as_fd(), Interest::READ, 1).unwrap();
                    let kind = |result: io::Result<()>| result.unwrap_err().kind();
                    let again = set.add(near.as_fd(), Interest::READ, 1);
                    assert_eq!(kind(again), io::ErrorKind::AlreadyExists);
                    assert_eq!(kind(set.remove(far.as_fd())), io::ErrorKind::NotFound);
                    let unknown = set.modify(far.as_fd(), Interest::READ, 1);
                    assert_eq!(kind(unknown), io::ErrorKind::NotFound);
                    let edge = Interest { edge: true, ..Interest::READ };
                    assert_eq!(kind(set.add(far.as_fd(), edge, 1)), io::ErrorKind::InvalidInput);
                }
            })+
        };
    }

    facts! {
        by_select = SelectSet;
        by_poll = PollSet;
    }
}
