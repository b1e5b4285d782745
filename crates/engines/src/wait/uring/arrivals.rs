//! Who comes: one multishot accept, armed while the door is open.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use memory::Phase;
use seam::{Peer, Service};
use sys::poll::{PollFd, poll};
use sys::socket;

use super::{Loop, Ops, TOKEN_DOOR};
use crate::parts::door::Failure;

/// What a loop keeps about those who come.
#[derive(Default)]
pub(super) struct Arrivals {
    /// Those that the kernel took for us and that have no session yet.
    pub parked: VecDeque<OwnedFd>,
    /// An accept is armed.
    pub armed: bool,
    /// It has been asked to stop.
    stopping: bool,
}

impl<S: Service> Loop<'_, S> {
    /// Accepts while the door is open and stops while it is not.
    ///
    /// A multishot accept takes all who wait at once, so those who are too many wait here. When we
    /// leave they are served whatever the limit, for the successor cannot see them.
    pub(super) fn watch_door(&mut self) {
        let is_leaving = self.floor.desk.phase() == Phase::Leaving;
        let mut open = self.floor.door.is_open(self.floor.table.len(), self.floor.now);
        while (open || is_leaving)
            && let Some(fd) = self.arrivals.parked.pop_front()
        {
            self.admit(fd);
            open = self.floor.door.is_open(self.floor.table.len(), self.floor.now);
        }
        if open && !self.arrivals.armed {
            self.arrivals.armed = true;
            self.ring.accept(self.floor.desk.listener, TOKEN_DOOR);
        } else if !open && self.arrivals.armed && !self.arrivals.stopping {
            self.arrivals.stopping = true;
            self.ring.cancel_accept(TOKEN_DOOR);
        }
    }

    pub(super) fn accepted(&mut self, result: io::Result<OwnedFd>, more: bool) {
        let desk = self.floor.desk;
        let mut is_exhausted = false;
        match result {
            Ok(fd) => self.arrivals.parked.push_back(fd),
            Err(error) if error.raw_os_error() == Some(CANCELLED) => {}
            Err(error) => {
                desk.seat().refused.add(1);
                is_exhausted = self.floor.door.failed(&error, self.floor.now) == Failure::Exhausted;
            }
        }
        if more {
            return;
        }
        (self.arrivals.armed, self.arrivals.stopping) = (false, false);
        let is_leaving = desk.phase() == Phase::Leaving;
        if is_leaving && !is_exhausted && is_readable(desk.listener) {
            // The kernel wakes one accept for each connection; if it woke ours, and that was
            // cancelled before it ran, nobody else knows. One more round takes what waits.
            self.arrivals.armed = true;
            self.ring.accept(desk.listener, TOKEN_DOOR);
        }
    }

    fn admit(&mut self, fd: OwnedFd) {
        // A multishot accept does not tell the address; a peer that is gone has none.
        let peer = socket::peer_addr(&fd).map_or(Peer::Local, Peer::Net);
        let id = self.floor.open(fd, peer, Ops::default());
        self.touch(id);
    }
}

/// Whether somebody waits to be accepted.
fn is_readable(listener: BorrowedFd<'_>) -> bool {
    let mut list = [PollFd::new(listener, true, false)];
    poll(&mut list, Some(Duration::ZERO)).is_ok_and(|ready| ready > 0)
}

/// `ECANCELED` (errno(3)).
const CANCELLED: i32 = 125;
