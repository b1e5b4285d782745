//! Readiness by `select(2)`: one loop, all sessions of the worker, three bit sets.
//!
//! The cost of a turn grows with the open connections: the kernel examines every descriptor up to
//! the highest, and so does this loop in the answer. A descriptor of 1024 or more does not fit:
//! such a connection is closed at once, without effect on the others.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::ready::{Interest, Ready};
use sys::select::SelectSet;

use crate::context::WorkerContext;
use crate::parts::readiness::Poller;

/// The set of watched descriptors.
pub struct Waiter(SelectSet);

impl Poller for Waiter {
    const TELLS_EDGES: bool = false;

    fn open(_context: &WorkerContext<'_>) -> io::Result<Waiter> {
        Ok(Waiter(SelectSet::new()))
    }

    fn can_watch(&self, fd: BorrowedFd<'_>) -> bool {
        SelectSet::fits(fd)
    }

    fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        self.0.add(fd, interest, key)
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        self.0.modify(fd, interest, key)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.0.remove(fd)
    }

    fn forget(&mut self, fd: BorrowedFd<'_>) {
        // A closed descriptor in the set would fail every wait. One that did not fit is not in it.
        let _ = self.0.remove(fd);
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.0.wait(timeout, ready)
    }
}
