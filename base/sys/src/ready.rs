//! Interest in a descriptor, and its events: the common part of select(2), poll(2) and epoll(7).

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The events to report for a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// A receive or an accept would not block.
    pub read: bool,
    /// A send would not block.
    pub write: bool,
    /// Report each change once (`EPOLLET`) instead of the state at each wait.
    pub edge: bool,
    /// Wake one of the epolls that watch this descriptor, not all (`EPOLLEXCLUSIVE`). It works with
    /// `Epoll::add` only, without `rdhup`, and cannot be modified afterwards (`EINVAL`).
    pub exclusive: bool,
    /// Report that the peer ended its output (`EPOLLRDHUP`), even while `read` is off.
    pub rdhup: bool,
    /// Report one event, then none until re-armed (`EPOLLONESHOT`): of several threads that share a
    /// descriptor, one gets the event.
    pub oneshot: bool,
}

impl Interest {
    /// Errors and hang-ups only.
    pub const NONE: Self = Self {
        read: false,
        write: false,
        edge: false,
        exclusive: false,
        rdhup: false,
        oneshot: false,
    };
    /// Reading, level-triggered.
    pub const READ: Self = Self { read: true, ..Self::NONE };
    /// Writing, level-triggered.
    pub const WRITE: Self = Self { write: true, ..Self::NONE };

    /// The interest for lists that support neither edges nor exclusive waits nor the peer's end.
    ///
    /// # Errors
    /// `InvalidInput` for those.
    pub(crate) fn plain(self) -> io::Result<(bool, bool)> {
        if self.edge || self.exclusive || self.rdhup || self.oneshot {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "expected an interest in reading or writing, found one that only epoll supports",
            ));
        }
        Ok((self.read, self.write))
    }
}

/// The events of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The key given when the descriptor was added.
    pub key: u64,
    /// A receive would not block: data, the end of input, or an error is pending.
    pub readable: bool,
    /// A send would not block: there is room, or an error is pending.
    pub writable: bool,
    /// The peer sends no more (`EPOLLRDHUP`, where requested), or both directions are shut
    /// (`EPOLLHUP`).
    pub hangup: bool,
    /// The descriptor has an error (`EPOLLERR`).
    pub error: bool,
}

/// Descriptors to wait for, each with a key, in a list of this process that the kernel reads at
/// each wait.
pub trait DescriptorSet: Default {
    /// Whether the number of `fd` fits.
    fn fits(fd: BorrowedFd<'_>) -> bool {
        let _ = fd;
        true
    }

    /// Watches `fd`; its events will carry `key`. Remove it before closing it: a closed descriptor
    /// fails every wait, or is reported as failed by each.
    ///
    /// # Errors
    /// `InvalidInput` for a descriptor that does not fit and for edges, `AlreadyExists` if it is
    /// watched already.
    fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()>;

    /// Replaces interest and key of a watched `fd`.
    ///
    /// # Errors
    /// `NotFound` if it is not watched, `InvalidInput` for edges.
    fn modify(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()>;

    /// Stops watching `fd`.
    ///
    /// # Errors
    /// `NotFound` if it is not watched.
    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Waits for events for at most `timeout` (`None`: forever; zero: only polls) and appends them
    /// to `ready`; none means that the timeout expired. An interrupted wait continues with the rest
    /// of the timeout. Failed or hung-up descriptors are reported as readable and writable.
    ///
    /// # Errors
    /// `EBADF` for a descriptor that was closed and not removed, `EINVAL` for more descriptors than
    /// the limit of open files, `ENOMEM`.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()>;
}
