//! All loops watch one listener, and the kernel wakes one of them (`EPOLLEXCLUSIVE`, epoll_ctl(2)).
//!
//! The kernel wakes the loop that registered first, as long as that loop sleeps, so the load is
//! very uneven. Each loop therefore registers again from time to time, which puts it at the end of
//! the line; nginx has done so since 2021.

use std::io;
use std::os::fd::BorrowedFd;

use sys::ready::Interest;

use super::set::WorkerListener;
use super::source::{AcceptSource, Arrival};

/// Connections after which a loop registers again.
const RENEW_AFTER: u32 = 16;

pub struct Listener<'h>(pub WorkerListener<'h>);

impl AcceptSource for Listener<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    fn interest(&self) -> Interest {
        Interest { exclusive: true, ..Interest::READ }
    }

    fn renew_after(&self) -> Option<u32> {
        Some(RENEW_AFTER)
    }

    fn take(&self, wait: bool) -> io::Result<Arrival> {
        self.0.accept(!wait)
    }
}
