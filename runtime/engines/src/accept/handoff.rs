//! One acceptor puts connections into a bounded buffer, from which workers take them: the thread
//! pool with sbuf (CS:APP section 12.5.4; UNP section 30.12).
//!
//! Blocking workers share one buffer, and the next free worker takes the next connection. Loops
//! have a buffer each, because a connection stays with its loop: the acceptor chooses the loop with
//! the fewest connections. A full buffer stops the acceptor, and new clients wait in the kernel's
//! queue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use memory::{Buffer, Slot, SlotState};
use seam::Peer;
use sys::eventfd::EventFd;

use super::source::{AcceptSource, Arrival};
use crate::axes::Wait;
use crate::limits::WAIT;
use crate::shape::Shape;

/// The number of slots of a buffer: the SBUFSIZE of CS:APP's echo server.
const SLOTS: usize = 16;

/// The buffers of all workers.
pub struct Lanes {
    lanes: Vec<Lane>,
    /// Each worker has its own buffer, and watches the bell.
    own: bool,
    /// Accept a connection only for a worker that is waiting, because otherwise another process may
    /// have an idle worker for it.
    modest: bool,
}

struct Lane {
    buffer: Buffer<Arrival>,
    /// Readable when a connection may wait.
    bell: EventFd,
}

impl Lanes {
    /// `modest`: see [`Lanes::modest`].
    pub fn new(shape: &Shape, modest: bool) -> io::Result<Lanes> {
        let own = shape.wait != Wait::Blocking;
        let count = if own { shape.workers } else { 1 };
        let lane = |_| Ok(Lane { buffer: Buffer::new(SLOTS), bell: EventFd::new()? });
        let lanes = (0..count).map(lane).collect::<io::Result<_>>()?;
        Ok(Lanes { lanes, own, modest })
    }

    pub fn accept_source<'h>(&'h self, index: usize, acceptor: &'h Slot) -> Inbox<'h> {
        Inbox { lane: &self.lanes[if self.own { index } else { 0 }], own: self.own, acceptor }
    }

    /// The worker for the next connection, once its buffer has room; `None` if no worker has room
    /// for [`WAIT`]. `open` gives the number of a worker's connections. Only the acceptor puts
    /// connections into buffers, so the room stays.
    pub fn choose(&self, open: impl Fn(usize) -> u64) -> Option<usize> {
        let load = |lane: &usize| open(*lane) + self.lanes[*lane].buffer.len() as u64;
        let least = if self.own { (0..self.lanes.len()).min_by_key(load)? } else { 0 };
        let buffer = &self.lanes[least].buffer;
        let room = if self.modest { buffer.wait_taker(WAIT) } else { buffer.wait_room(WAIT) };
        room.then_some(least)
    }

    /// The number of connections in the buffers, and the room for them.
    pub fn filled(&self) -> (u64, u64) {
        let lying: usize = self.lanes.iter().map(|lane| lane.buffer.len()).sum();
        (lying as u64, (self.lanes.len() * SLOTS) as u64)
    }

    /// Hands a connection to the chosen worker.
    pub fn deliver(&self, chosen: usize, fd: OwnedFd, peer: Peer) -> io::Result<()> {
        let lane = &self.lanes[chosen];
        if lane.buffer.try_put((fd, peer)).is_err() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.own {
            lane.bell.ring();
        }
        Ok(())
    }
}

pub struct Inbox<'h> {
    lane: &'h Lane,
    own: bool,
    acceptor: &'h Slot,
}

impl AcceptSource for Inbox<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.lane.bell.as_fd()
    }

    fn take(&self, wait: bool) -> io::Result<Arrival> {
        let buffer = &self.lane.buffer;
        let taken = match buffer.try_take() {
            None if wait => buffer.take(WAIT),
            None if self.own => {
                self.lane.bell.clear();
                // A connection may have arrived before the bell was cleared.
                buffer.try_take()
            }
            taken => taken,
        };
        taken.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn is_given(&self) -> bool {
        true
    }

    fn is_filled(&self) -> bool {
        !self.lane.buffer.is_empty()
    }

    fn is_over(&self) -> bool {
        // The order matters: an acceptor that is gone puts no more in.
        self.acceptor.state() == SlotState::Gone && self.lane.buffer.is_empty()
    }
}
