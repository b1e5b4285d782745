//! Readiness by `poll(2)`: one loop, all sessions of the worker, one array.
//!
//! The cost of a turn grows with the open connections: the whole array goes into the kernel, and
//! both sides walk through it. Unlike select's sets, the array is limited only by memory.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::poll::PollSet;
use sys::ready::{Interest, Ready};

use crate::context::WorkerContext;
use crate::parts::readiness::Poller;

/// The set of watched descriptors.
pub struct Waiter(PollSet);

impl Poller for Waiter {
    const TELLS_EDGES: bool = false;

    fn open(_context: &WorkerContext<'_>) -> io::Result<Waiter> {
        Ok(Waiter(PollSet::new()))
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
        // Each wait would report a closed descriptor in the array as failed.
        let _ = self.0.remove(fd);
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.0.wait(timeout, ready)
    }
}
