//! What to be told about a descriptor, and what is told: the words that select(2), poll(2) and
//! epoll(7) have in common.

use std::io;

/// What to be told about a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// A receive or an accept would not block.
    pub read: bool,
    /// A send would not block.
    pub write: bool,
    /// Tell each change once (`EPOLLET`) instead of telling the state at each wait.
    pub edge: bool,
    /// Wake one of the epolls that watch this descriptor, not all (`EPOLLEXCLUSIVE`). It can be
    /// given to [`Epoll::add`] only, without `rdhup`, and cannot be modified afterwards (`EINVAL`).
    pub exclusive: bool,
    /// Tell that the peer ended its output (`EPOLLRDHUP`), even while `read` is off.
    pub rdhup: bool,
    /// Tell one thing, then nothing until it is asked for again (`EPOLLONESHOT`): what several
    /// threads hand to one another is told to one of them.
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
    /// Reading, told at each wait.
    pub const READ: Self = Self { read: true, ..Self::NONE };
    /// Writing, told at each wait.
    pub const WRITE: Self = Self { write: true, ..Self::NONE };

    /// What a list without edges, exclusive waits and news of a peer's end can be asked for.
    ///
    /// # Errors
    /// `InvalidInput` for anything else.
    pub(crate) fn plain(self) -> io::Result<(bool, bool)> {
        if self.edge || self.exclusive || self.rdhup || self.oneshot {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "expected an interest in reading or writing, found one that only epoll knows",
            ));
        }
        Ok((self.read, self.write))
    }
}

/// What happened to one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The key given when the descriptor was added.
    pub key: u64,
    /// A receive would not block: there are bytes, the end of input, or an error to collect.
    pub readable: bool,
    /// A send would not block: there is room, or an error to collect.
    pub writable: bool,
    /// The peer sends no more (`EPOLLRDHUP`, where asked for), or both ways are shut (`EPOLLHUP`).
    pub hangup: bool,
    /// The descriptor carries an error (`EPOLLERR`).
    pub error: bool,
}
