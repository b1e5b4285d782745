//! One worker at a time waits in accept(2), the one that holds the lock; the others sleep until
//! they get it (UNP section 30.7; Apache's `AcceptMutex`).
//!
//! The lock names its owner, so the supervisor frees it when the owner is killed. It cannot help
//! when the owner is stopped: then no worker accepts until the owner continues.

use std::io;
use std::os::fd::BorrowedFd;

use memory::{Board, Lock, Padded, Region};
use seam::{Share, WorkerId};

use super::set::WorkerListener;
use super::source::{AcceptSource, Arrival};
use crate::shape::Shape;

/// The lock in memory that all workers share.
pub struct Shared(Region<Turnstile>);

/// The lock on a separate cache line.
#[repr(C)]
struct Turnstile(Padded<Lock>);

// SAFETY: one word of atomics, for which zero is a value; no pointer, no destructor.
unsafe impl Share for Turnstile {}

impl Shared {
    pub fn new(shape: &Shape) -> io::Result<Shared> {
        let mut region: Region<Turnstile> = Region::place(shape.placement())?;
        region.init(&[]).map_err(|_| io::Error::other("a lock needs no seed"))?;
        Ok(Shared(region))
    }

    pub fn accept_source<'h>(
        &'h self,
        listener: WorkerListener<'h>,
        me: WorkerId,
        board: &'h Board,
    ) -> Listener<'h> {
        Listener { listener, lock: &self.0.0, me, board }
    }

    pub fn heal(&self, dead: WorkerId) {
        self.0.0.force_release(dead);
    }
}

pub struct Listener<'h> {
    listener: WorkerListener<'h>,
    lock: &'h Lock,
    me: WorkerId,
    board: &'h Board,
}

impl AcceptSource for Listener<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.listener.fd()
    }

    fn take(&self, wait: bool) -> io::Result<Arrival> {
        let _turn = self.lock.lock(self.me);
        if !self.board.accepts() {
            // The server began to leave while we waited for the lock.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.listener.accept(!wait)
    }
}
