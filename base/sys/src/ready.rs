//! Interest in a descriptor, and its events: the common part of select(2), poll(2) and epoll(7).

use std::io;

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
