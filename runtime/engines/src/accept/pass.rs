//! One acceptor passes connections to processes, each over a separate channel, by descriptor
//! passing (`SCM_RIGHTS`, unix(7); UNP section 30.9).
//!
//! The acceptor passes only to a worker that has room. It computes the room from the scoreboard:
//! the connections it has passed, less those that the worker has finished. A worker reports the end
//! of a connection by a byte in the other direction, which only wakes the acceptor, so a lost byte
//! does no harm. The successor of a dead worker takes the connections left in its channel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use memory::{Slot, SlotState};
use seam::Peer;
use sys::pass;
use sys::poll::{PollFd, poll};
use sys::socket::{self, Received, SockRef};

use super::source::{AcceptSource, Arrival};
use crate::axes::Wait;
use crate::limits::WAIT;
use crate::shape::Shape;

/// Room for the address of a peer as text; the longest has 58 bytes (IPv6 with scope and port).
const WORDS: usize = 64;
/// The text of a peer without an address.
const LOCAL: &str = "local";

/// The channels of all workers.
pub struct Channels {
    /// The acceptor's end and the worker's.
    pairs: Vec<(OwnedFd, OwnedFd)>,
}

impl Channels {
    pub fn new(shape: &Shape) -> io::Result<Channels> {
        let pairs = (0..shape.workers).map(|_| pass::pair()).collect::<io::Result<Vec<_>>>()?;
        if shape.wait == Wait::Blocking {
            for (_, worker) in &pairs {
                SockRef::from(worker).set_read_timeout(Some(WAIT))?;
            }
        }
        Ok(Channels { pairs })
    }

    pub fn accept_source<'h>(&'h self, index: usize, acceptor: &'h Slot) -> Channel<'h> {
        Channel { fd: self.pairs[index].1.as_fd(), acceptor }
    }

    /// The worker for the next connection: the one with the fewest, if it has room; `None` if none
    /// has room for [`WAIT`]. `load` gives a worker's connections, including those on their way,
    /// and `each` the maximum.
    pub fn choose(&self, load: impl Fn(usize) -> u64, each: u64) -> io::Result<Option<usize>> {
        self.clear_ends();
        let least = || (0..self.pairs.len()).min_by_key(|&index| load(index));
        let has_room = |index: &usize| load(*index) < each;
        if let Some(index) = least().filter(has_room) {
            return Ok(Some(index));
        }
        let ends = self.pairs.iter().map(|(ours, _)| PollFd::new(ours.as_fd(), true, false));
        poll(&mut ends.collect::<Vec<_>>(), Some(WAIT))?;
        self.clear_ends();
        Ok(least().filter(has_room))
    }

    /// The number of workers.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Passes a connection to the chosen worker.
    ///
    /// # Errors
    /// `WouldBlock` if its channel is full.
    pub fn deliver(&self, chosen: usize, fd: &OwnedFd, peer: Peer) -> io::Result<()> {
        let words = match peer {
            Peer::Net(address) => address.to_string(),
            Peer::Local => LOCAL.to_owned(),
        };
        pass::send(&self.pairs[chosen].0, fd.as_fd(), words.as_bytes())
    }

    /// Takes the bytes by which the worker reported ends of connections.
    fn clear_ends(&self) {
        let mut bytes = [0; 64];
        for (ours, _) in &self.pairs {
            while let Received::Bytes(_) = socket::recv_nowait(ours, &mut bytes) {}
        }
    }
}

pub struct Channel<'h> {
    fd: BorrowedFd<'h>,
    acceptor: &'h Slot,
}

impl Channel<'_> {
    fn is_filled(&self) -> bool {
        let mut list = [PollFd::new(self.fd, true, false)];
        poll(&mut list, Some(Duration::ZERO)).is_ok_and(|count| count > 0)
    }
}

impl AcceptSource for Channel<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd
    }

    fn take(&self, wait: bool) -> io::Result<Arrival> {
        // The kernel closes a passed connection for which no descriptor is free, so look first.
        // Only this loop opens descriptors in its process.
        drop(self.fd.try_clone_to_owned()?);
        let mut words = [0; WORDS];
        let passed = pass::receive(self.fd, wait, &mut words)?;
        let (fd, len) = passed.ok_or(io::ErrorKind::WouldBlock)?;
        let text = std::str::from_utf8(&words[..len]).ok();
        let peer = text.and_then(|text| match text {
            LOCAL => Some(Peer::Local),
            text => text.parse().ok().map(Peer::Net),
        });
        Ok((fd, peer.ok_or(io::ErrorKind::InvalidData)?))
    }

    fn is_given(&self) -> bool {
        true
    }

    fn is_over(&self) -> bool {
        // The order matters: an acceptor that is gone passes no more.
        self.acceptor.state() == SlotState::Gone && !self.is_filled()
    }

    fn left(&self) {
        // A full channel has woken the acceptor often enough.
        let _ = socket::send_nowait(self.fd, &[0]);
    }
}
