//! All loops watch one listener, and the kernel wakes one of them (`EPOLLEXCLUSIVE`, epoll_ctl(2)).
//!
//! The surprising thing is whom it wakes: the one that was added first, as long as that one sleeps,
//! so the load is very uneven. Each loop therefore steps to the end of the line now and then, by
//! watching the listener anew, which is what nginx does since 2021.

use std::io;
use std::os::fd::BorrowedFd;

use sys::ready::Interest;
use sys::socket;

use super::{AcceptSource, Arrival};

/// Connections after which a loop steps to the end of the line.
const RENEW_AFTER: u32 = 16;

pub struct Listener<'h>(pub BorrowedFd<'h>);

impl AcceptSource for Listener<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0
    }

    fn interest(&self) -> Interest {
        Interest { exclusive: true, ..Interest::READ }
    }

    fn renew_after(&self) -> Option<u32> {
        Some(RENEW_AFTER)
    }

    fn take(&self, wait: bool) -> io::Result<Arrival> {
        socket::accept(self.0, !wait)
    }
}
