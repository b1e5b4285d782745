//! Who comes: an accept or a poll that is armed while the door is open.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use memory::{Phase, Refusal};
use seam::{Peer, Service};
use sys::poll::{PollFd, poll};
use sys::socket;
use sys::uring::{Acceptance, Armed};

use super::tactics::Tactics;
use super::{Loop, Ops, TOKEN_DOOR};
use crate::context::WorkerContext;
use crate::parts::door::Failure;

/// What a loop keeps about those who come.
pub(super) struct Arrivals {
    /// How the ring accepts; `None`: it polls, and we accept.
    how: Option<Acceptance>,
    /// Those that the kernel took for us and that have no session yet.
    pub parked: VecDeque<(OwnedFd, Option<SocketAddr>)>,
    /// The accept or poll that waits.
    armed: Option<Armed>,
    /// It has been asked to stop.
    stopping: bool,
    /// A poll has ended: somebody may be there.
    knocked: bool,
}

impl Arrivals {
    pub(super) fn new<S: Service>(
        context: &WorkerContext<'_, S>,
        tactics: Tactics,
    ) -> io::Result<Arrivals> {
        let how = tactics.acceptance();
        // The ring does not wait on a descriptor that says it must not, and a call of ours must not
        // wait. All workers of a server want the same of what is one open file; an acceptor's
        // listener is its own affair.
        if !context.accept_source.is_given() {
            socket::set_nonblocking(context.listener, how.is_none())?;
        }
        let parked = VecDeque::new();
        Ok(Arrivals { how, parked, armed: None, stopping: false, knocked: false })
    }

    pub(super) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// The poll has ended.
    pub(super) fn knocked(&mut self) {
        (self.armed, self.stopping, self.knocked) = (None, false, true);
    }
}

impl<S: Service> Loop<'_, S> {
    /// Accepts while the door is open and stops while it is not.
    ///
    /// A multishot accept takes all who wait at once, so those who are too many wait here. When we
    /// leave or drain they are served whatever the limit: no successor can see them, and they may
    /// have asked already.
    pub(super) fn watch_door(&mut self) {
        let is_leaving =
            matches!(self.event_loop.context.phase(), Phase::Leaving | Phase::Draining);
        let mut open = self.is_open();
        while (open || is_leaving)
            && let Some((fd, peer)) = self.arrivals.parked.pop_front()
        {
            self.admit(fd, peer);
            open = self.is_open();
        }
        if open && std::mem::take(&mut self.arrivals.knocked) {
            open = self.accept();
        }
        if open && self.arrivals.armed.is_none() {
            self.arm();
        } else if !open
            && let Some(armed) = self.arrivals.armed
            && !self.arrivals.stopping
        {
            self.arrivals.stopping = true;
            self.ring.cancel(armed);
        }
    }

    fn is_open(&mut self) -> bool {
        self.event_loop.door.is_open(self.event_loop.table.len(), self.event_loop.now)
    }

    fn arm(&mut self) {
        let context = self.event_loop.context;
        self.arrivals.armed = Some(match self.arrivals.how {
            Some(how) => self.ring.accept(context.listener, TOKEN_DOOR, how),
            // It looks first, so that nobody is forgotten whom this turn had no time for.
            None => self.ring.watch_once(context.accept_source.fd(), TOKEN_DOOR),
        });
    }

    /// Accepts those who wait, a bounded number of them; false if the door must be shut.
    fn accept(&mut self) -> bool {
        let context = self.event_loop.context;
        for _ in 0..context.knobs.turn_accepts {
            if !self.is_open() {
                return false;
            }
            match context.accept_source.take(false) {
                Ok((fd, peer)) => self.admit(fd, Some(peer)),
                Err(error) => match self.event_loop.door.failed(&error, self.event_loop.now) {
                    Failure::Empty => return true,
                    Failure::Peer => context.slot().refuse(Refusal::Gone),
                    Failure::Exhausted => {
                        context.slot().refuse(Refusal::Exhausted);
                        return false;
                    }
                },
            }
        }
        true
    }

    pub(super) fn accepted(
        &mut self,
        result: io::Result<(OwnedFd, Option<SocketAddr>)>,
        more: bool,
    ) {
        let context = self.event_loop.context;
        let mut is_exhausted = false;
        match result {
            Ok(arrival) => self.arrivals.parked.push_back(arrival),
            Err(error) if error.raw_os_error() == Some(CANCELLED) => {}
            Err(error) => {
                is_exhausted =
                    self.event_loop.door.failed(&error, self.event_loop.now) == Failure::Exhausted;
                let why = if is_exhausted { Refusal::Exhausted } else { Refusal::Gone };
                context.slot().refuse(why);
            }
        }
        if more {
            return;
        }
        (self.arrivals.armed, self.arrivals.stopping) = (None, false);
        let is_leaving = context.phase() == Phase::Leaving;
        if is_leaving && !is_exhausted && is_readable(context.listener) {
            // The kernel wakes one accept for each connection; if it woke ours, and that was
            // cancelled before it ran, nobody else knows. One more round takes what waits.
            self.arm();
        }
    }

    fn admit(&mut self, fd: OwnedFd, peer: Option<SocketAddr>) {
        // A multishot accept does not tell the address; a peer that is gone has none.
        let peer = peer.or_else(|| socket::peer_addr(&fd).ok()).map_or(Peer::Local, Peer::Net);
        let id = self.event_loop.open(fd, peer, Ops::default());
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
