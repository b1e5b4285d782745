//! Every worker accepts from its listener: all from one queue, or each from its own
//! (`SO_REUSEPORT`); only the number of listeners differs.
//!
//! With one queue the kernel wakes workers that sleep in accept(2) one at a time, in order. Loops
//! that wait for readiness are all woken, and all but one find no connection; or the kernel wakes
//! one of them (`EPOLLEXCLUSIVE`, epoll_ctl(2)). That is the loop that registered first, as long as
//! it sleeps, so the load is very uneven. Each such loop therefore registers again from time to
//! time, which puts it at the end of the line; nginx has done so since 2021.

use std::io;
use std::os::fd::BorrowedFd;

use sys::ready::Interest;

use super::set::WorkerListener;
use super::source::{AcceptSource, Arrival};

/// Connections after which a loop registers again.
const RENEW_AFTER: u32 = 16;

pub struct Listener<'h> {
    pub listener: WorkerListener<'h>,
    /// The kernel wakes one of the loops that watch it.
    pub wakes_one: bool,
}

impl AcceptSource for Listener<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.listener.fd()
    }

    fn interest(&self) -> Interest {
        Interest { exclusive: self.wakes_one, ..Interest::READ }
    }

    fn renew_after(&self) -> Option<u32> {
        self.wakes_one.then_some(RENEW_AFTER)
    }

    fn take(&self, wait: bool) -> io::Result<Arrival> {
        // The listener blocks, up to its timeout, exactly where workers wait in it.
        self.listener.accept(!wait)
    }
}
