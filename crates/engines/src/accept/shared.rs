//! Every worker accepts from the listener it was given: all from one queue, or each from its own
//! (`SO_REUSEPORT`), which only the number of listeners tells apart.
//!
//! From one queue the kernel wakes sleepers in accept(2) one at a time, in order; loops that wait
//! for readiness are woken all together, and all but one find nobody.

use std::io;
use std::os::fd::BorrowedFd;

use sys::socket;

use super::{AcceptSource, Arrival};

pub struct Listener<'h>(pub BorrowedFd<'h>);

impl AcceptSource for Listener<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0
    }

    fn take(&self, wait: bool) -> io::Result<Arrival> {
        // The listener blocks, up to its timeout, exactly where workers wait in it.
        socket::accept(self.0, !wait)
    }
}
