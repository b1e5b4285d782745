//! Readiness by `epoll(7)`: one loop, all sessions of the worker.
//!
//! The kernel keeps the set of watched descriptors, so the cost of a turn grows with the ready
//! connections, not with the open ones. By default it is level-triggered: one `epoll_ctl(2)` when a
//! session opens and one for each change of interest, which a steady session never has.
//! With `--busy-poll` a wait asks the network card for packets before it sleeps, so that a packet
//! needs no interrupt and no wake-up. Edge-triggered (`--edge`) needs only the first call; the loop
//! remembers which sessions may still be readable.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::epoll::{Epoll, Events};
use sys::ready::{Interest, Ready};

use crate::context::WorkerContext;
use crate::limits::EVENTS;
use crate::parts::readiness::Poller;

/// The set of watched descriptors.
pub struct Waiter {
    epoll: Epoll,
    events: Events,
    edge: bool,
}

impl Poller for Waiter {
    const TELLS_EDGES: bool = true;

    fn open(context: &WorkerContext<'_>) -> io::Result<Waiter> {
        let (events, loops) = (Events::with_capacity(EVENTS), &context.knobs.loops);
        let epoll = Epoll::new()?;
        loops.poll_busily(|microseconds| epoll.poll_busily(microseconds))?;
        Ok(Waiter { epoll, events, edge: loops.edge })
    }

    fn is_edge(&self) -> bool {
        self.edge
    }

    fn add(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        self.epoll.add(fd, interest, key)
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        self.epoll.modify(fd, interest, key)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.epoll.remove(fd)
    }

    fn forget(&mut self, _fd: BorrowedFd<'_>) {
        // The kernel forgets a descriptor with its last copy, and there are no copies of a
        // session's.
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.epoll.wait(&mut self.events, timeout)?;
        ready.extend(self.events.iter());
        Ok(())
    }
}
