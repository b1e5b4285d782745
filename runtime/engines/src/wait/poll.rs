//! Readiness by `poll(2)`: one loop, all sessions of the worker, one array. `select(2)` differs
//! only in the set.
//!
//! The cost of a turn grows with the open connections: the whole array goes into the kernel, and
//! both sides walk through it. Unlike select's sets, the array is limited only by memory.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::ready::{DescriptorSet, Interest, Ready};

use crate::context::WorkerContext;
use crate::parts::readiness::Poller;

pub use sys::poll::PollSet as Waiter;

impl<S: DescriptorSet> Poller for S {
    const TELLS_EDGES: bool = false;

    fn open(_context: &WorkerContext<'_>) -> io::Result<S> {
        Ok(S::default())
    }

    fn can_watch(&self, fd: BorrowedFd<'_>) -> bool {
        S::fits(fd)
    }

    fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        DescriptorSet::add(self, fd, interest, key)
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        DescriptorSet::modify(self, fd, interest, key)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        DescriptorSet::remove(self, fd)
    }

    fn forget(&mut self, fd: BorrowedFd<'_>) {
        // A closed descriptor in the set would fail every wait, or be reported as failed by each.
        // One that did not fit is not in it.
        let _ = DescriptorSet::remove(self, fd);
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        DescriptorSet::wait(self, timeout, ready)
    }
}
