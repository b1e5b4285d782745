//! The kernel's readiness list (epoll(7)).
//!
//! Timeouts have nanosecond resolution with epoll_pwait2(2) (Linux 5.11). Where the kernel or a
//! seccomp filter lacks it, they are milliseconds rounded up, so that a timer never fires early.
//!
//! Errors and hang-ups are reported for every descriptor in the set, even for one added without any
//! interest. Remove a descriptor to silence it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::call::{check, check_count, or_null, timespec, uninterrupted};

pub use crate::ready::{Interest, Ready};

fn flags(interest: Interest) -> EventFlags {
    let flag = |wanted, flag| if wanted { flag } else { EventFlags::empty() };
    flag(interest.read, EventFlags::IN)
        | flag(interest.write, EventFlags::OUT)
        | flag(interest.edge, EventFlags::ET)
        | flag(interest.exclusive, EventFlags::EXCLUSIVE)
        | flag(interest.rdhup, EventFlags::RDHUP)
        | flag(interest.oneshot, EventFlags::ONESHOT)
}

/// A buffer for the events of one wait, reused for every wait.
pub struct Events {
    list: Vec<libc::epoll_event>,
    filled: usize,
}

impl Events {
    /// Space for `capacity` events per wait, at least one. The rest is reported by the next wait.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { list: vec![libc::epoll_event { events: 0, u64: 0 }; capacity.max(1)], filled: 0 }
    }

    /// The events of the last wait.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Ready> + '_ {
        self.list[..self.filled].iter().map(|event| {
            // The kernel's struct is packed on x86-64: its fields are copied, never borrowed.
            let (bits, key) = (event.events.cast_signed(), event.u64);
            let any = |mask: libc::c_int| bits & mask != 0;
            let over = libc::EPOLLHUP | libc::EPOLLERR;
            Ready {
                key,
                readable: any(libc::EPOLLIN | libc::EPOLLRDHUP | over),
                writable: any(libc::EPOLLOUT | over),
                hangup: any(libc::EPOLLHUP | libc::EPOLLRDHUP),
                error: any(libc::EPOLLERR),
            }
        })
    }

    /// Whether the last wait reported nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }
}

/// The kernel's `struct epoll_params`.
#[repr(C)]
struct BusyPolling {
    microseconds: u32,
    /// The most packets of a poll.
    packets: u16,
    /// The card's interrupts stay off in between.
    is_preferred: u8,
    zero: u8,
}

/// A readiness list. A descriptor leaves it by [`Epoll::remove`], or when its last copy in any
/// process is closed: after a fork, closing is not enough.
pub struct Epoll {
    fd: OwnedFd,
    /// Set once epoll_pwait2 has proved to be missing.
    coarse: AtomicBool,
}

impl Epoll {
    /// An empty list, close-on-exec.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new() -> io::Result<Self> {
        let fd = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { fd, coarse: AtomicBool::new(false) })
    }

    /// Lets each wait, before it sleeps, ask the network card of its sockets for packets
    /// (`EPIOCSPARAMS`, Documentation/networking/napi.rst).
    ///
    /// # Errors
    /// `ENOTTY` before Linux 6.9.
    pub fn poll_busily(&self, microseconds: u32) -> io::Result<()> {
        const SET_PARAMS: libc::Ioctl = 0x4008_8a01;
        let params = BusyPolling { microseconds, packets: 64, is_preferred: 1, zero: 0 };
        // SAFETY: the kernel reads its struct of eight bytes, which outlives the call.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), SET_PARAMS, &raw const params) })?;
        Ok(())
    }

    /// Watches `fd`; its events will carry `key`.
    ///
    /// # Errors
    /// `EEXIST` if it is watched already, `EPERM` for a regular file, `ENOSPC` at the user's limit
    /// of watches, `EINVAL` for `exclusive` with `rdhup`.
    pub fn add(&self, fd: impl AsFd, interest: Interest, key: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(key), flags(interest))?)
    }

    /// Replaces interest and key of a watched `fd`.
    ///
    /// # Errors
    /// `ENOENT` if it is not watched, `EINVAL` if it was added as exclusive.
    pub fn modify(&self, fd: impl AsFd, interest: Interest, key: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, EventData::new_u64(key), flags(interest))?)
    }

    /// Stops watching `fd`. Events already reported by a wait stay in their [`Events`].
    ///
    /// # Errors
    /// `ENOENT` if it is not watched.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, fd)?)
    }

    /// Waits for events for at most `timeout` (`None`: forever; zero: only polls), fills `events`
    /// and returns their number.
    ///
    /// Zero means that the timeout expired **or a signal arrived**: a loop reads its clock anyway
    /// before it fires a timer, so this call need not read the clock to resume an interrupted wait.
    /// Without a timeout it never returns zero.
    ///
    /// # Errors
    /// None in practice; the kernel's are bad pointers and descriptors.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        events.filled = 0;
        let filled = uninterrupted(|| match self.wait_once(&mut events.list, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted && timeout.is_some() => Ok(0),
            other => other,
        })?;
        events.filled = filled;
        Ok(filled)
    }

    fn wait_once(
        &self,
        list: &mut [libc::epoll_event],
        timeout: Option<Duration>,
    ) -> io::Result<usize> {
        if !self.coarse.load(Ordering::Relaxed) {
            match wait_ns(self.fd.as_fd(), list, timeout) {
                // Old container runtimes answer EPERM for calls unknown to them.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.coarse.store(true, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        wait_ms(self.fd.as_fd(), list, timeout)
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn capacity(list: &[libc::epoll_event]) -> libc::c_int {
    libc::c_int::try_from(list.len()).unwrap_or(libc::c_int::MAX)
}

/// epoll_pwait2 by number, because glibc has it only since 2.35.
fn wait_ns(
    epoll: BorrowedFd<'_>,
    list: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let timeout = timeout.map(timespec);
    // SAFETY: the list is writable for the announced number of events, the timeout is null or
    // outlives the call, and the signal mask is null (unchanged).
    let result = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            list.as_mut_ptr(),
            capacity(list),
            or_null(&timeout),
            ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    check_count(result as isize)
}

fn wait_ms(
    epoll: BorrowedFd<'_>,
    list: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let timeout = timeout.map_or(-1, |time| {
        libc::c_int::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
    });
    // SAFETY: the list is writable for the announced number of events.
    let result =
        unsafe { libc::epoll_wait(epoll.as_raw_fd(), list.as_mut_ptr(), capacity(list), timeout) };
    check(result).map(|filled| filled.cast_unsigned() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;
    use crate::eventfd::EventFd;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const SOON: Option<Duration> = Some(Duration::from_millis(1));
    const LATE: Option<Duration> = Some(Duration::from_secs(10));

    #[test]
    fn busy_polling_is_what_the_kernel_reports() {
        const GET_PARAMS: libc::Ioctl = 0x8008_8a02;
        let epoll = Epoll::new().expect("a descriptor");
        if let Err(why) = epoll.poll_busily(60) {
            assert_eq!(why.raw_os_error(), Some(libc::ENOTTY), "before Linux 6.9");
            return;
        }
        let mut found = BusyPolling { microseconds: 0, packets: 0, is_preferred: 0, zero: 0 };
        // SAFETY: the kernel writes its struct of eight bytes.
        check(unsafe { libc::ioctl(epoll.fd.as_raw_fd(), GET_PARAMS, &raw mut found) }).unwrap();
        assert_eq!((found.microseconds, found.packets, found.is_preferred), (60, 64, 1));
    }

    /// Waits once on `epoll` and compares the whole outcome.
    fn check_wait(epoll: &Epoll, timeout: Option<Duration>, expected: &[Ready]) {
        let mut events = Events::with_capacity(8);
        assert_eq!(epoll.wait(&mut events, timeout).unwrap(), expected.len());
        assert_eq!(events.iter().collect::<Vec<_>>(), expected);
    }

    fn ready(key: u64, readable: bool, writable: bool) -> Ready {
        Ready { key, readable, writable, hangup: false, error: false }
    }

    fn each_precision(test: impl Fn(&Epoll)) {
        for coarse in [false, true] {
            let epoll = Epoll::new().unwrap();
            epoll.coarse.store(coarse, Ordering::Relaxed);
            test(&epoll);
        }
    }

    #[test]
    fn interest_is_what_is_told() {
        each_precision(|epoll| {
            let (mut near, far) = UnixStream::pair().unwrap();
            epoll.add(&far, Interest::READ, u64::MAX).unwrap();
            check_wait(epoll, SOON, &[]);
            near.write_all(b"x").unwrap();
            check_wait(epoll, None, &[ready(u64::MAX, true, false)]);
            epoll.modify(&far, Interest { read: true, ..Interest::WRITE }, 7).unwrap();
            check_wait(epoll, LATE, &[ready(7, true, true)]);
            epoll.modify(&far, Interest::NONE, 7).unwrap();
            check_wait(epoll, SOON, &[]);
            epoll.remove(&far).unwrap();
            assert_eq!(epoll.remove(&far).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        });
    }

    #[test]
    fn level_tells_a_state_and_edge_tells_a_change() {
        let epoll = Epoll::new().unwrap();
        let bell = EventFd::new().unwrap();
        bell.ring();
        epoll.add(&bell, Interest::READ, 1).unwrap();
        check_wait(&epoll, LATE, &[ready(1, true, false)]);
        check_wait(&epoll, LATE, &[ready(1, true, false)]);
        epoll.modify(&bell, Interest { edge: true, ..Interest::READ }, 1).unwrap();
        check_wait(&epoll, LATE, &[ready(1, true, false)]);
        check_wait(&epoll, SOON, &[]);
        bell.ring();
        check_wait(&epoll, LATE, &[ready(1, true, false)]);
    }

    #[test]
    fn the_end_of_a_peer_is_told_in_two_steps() {
        let epoll = Epoll::new().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        epoll.add(&far, Interest { rdhup: true, ..Interest::NONE }, 3).unwrap();
        check_wait(&epoll, SOON, &[]);
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let half = Ready { hangup: true, ..ready(3, true, false) };
        check_wait(&epoll, LATE, &[half]);
        // Not by dropping it: a program started by another test may hold a copy at this moment.
        near.shutdown(std::net::Shutdown::Both).unwrap();
        check_wait(&epoll, LATE, &[Ready { writable: true, ..half }]);
    }

    #[test]
    fn an_exclusive_watch_cannot_be_modified() {
        let (epoll, bell) = (Epoll::new().unwrap(), EventFd::new().unwrap());
        let exclusive = Interest { exclusive: true, ..Interest::READ };
        epoll.add(&bell, exclusive, 1).unwrap();
        let error = epoll.modify(&bell, exclusive, 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        bell.ring();
        check_wait(&epoll, LATE, &[ready(1, true, false)]);
    }

    #[test]
    fn what_does_not_fit_comes_with_the_next_wait() {
        let epoll = Epoll::new().unwrap();
        let bells: Vec<_> = (0..5).map(|_| EventFd::new().unwrap()).collect();
        for (key, bell) in (0..).zip(&bells) {
            bell.ring();
            epoll.add(bell, Interest { edge: true, ..Interest::READ }, key).unwrap();
        }
        let mut events = Events::with_capacity(2);
        let mut keys = Vec::new();
        while epoll.wait(&mut events, Some(Duration::ZERO)).unwrap() > 0 {
            keys.extend(events.iter().map(|ready| ready.key));
        }
        keys.sort_unstable();
        assert_eq!(keys, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_wait_never_ends_early() {
        each_precision(|epoll| {
            for wait_ns in [1, 300_000, 1_700_000] {
                let start = now_ns();
                check_wait(epoll, Some(Duration::from_nanos(wait_ns)), &[]);
                assert!(now_ns() - start >= wait_ns, "a wait of {wait_ns} ns ended early");
            }
        });
    }
}
