//! Every worker accepts from its listener: all from one queue, or each from its own
//! (`SO_REUSEPORT`); only the number of listeners differs.
//!
//! With one queue the kernel wakes workers that sleep in accept(2) one at a time, in order. Loops
//! that wait for readiness are all woken, and all but one find no connection.

use std::io;
use std::os::fd::BorrowedFd;

use super::set::WorkerListener;
use super::source::{AcceptSource, Arrival};

pub struct Listener<'h>(pub WorkerListener<'h>);

impl AcceptSource for Listener<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    fn take(&self, wait: bool) -> io::Result<Arrival> {
        // The listener blocks, up to its timeout, exactly where workers wait in it.
        self.0.accept(!wait)
    }
}
