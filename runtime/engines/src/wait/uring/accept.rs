//! Accepting on a ring: an accept or a poll that is armed while connections are admitted. A
//! worker's own ring and the ring of a completion port use the same code.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::os::fd::OwnedFd;

use memory::Phase;
use seam::{Instant, Peer};
use sys::socket;
use sys::uring::{Acceptance, Armed, Uring};

use super::tactics::Tactics;
use super::{Loop, Ops, TOKEN_LISTENER};
use crate::context::WorkerContext;
use crate::limits::ACCEPTS;
use crate::parts::admission::{Admission, Attempt};
use crate::parts::event_loop::EventLoop;

/// A connection without a session, and its peer if the kernel told it.
pub(in crate::wait) type Incoming = (OwnedFd, Option<SocketAddr>);

/// The accept of a ring.
pub(in crate::wait) struct Accepting {
    /// How the ring accepts; `None`: it polls, and a call accepts.
    how: Option<Acceptance>,
    /// Connections that the kernel accepted beyond the limit.
    waiting: VecDeque<Incoming>,
    /// The accept that is armed, and how it accepts; a poll if not at all.
    armed: Option<(Armed, Option<Acceptance>)>,
    /// The accept has been told to stop.
    stopping: bool,
    /// The number of accepts that the last poll allows.
    allowed: usize,
}

impl Accepting {
    pub fn new(tactics: Tactics) -> Accepting {
        let how = tactics.acceptance();
        Accepting { how, waiting: VecDeque::new(), armed: None, stopping: false, allowed: 0 }
    }

    pub fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Reports that the poll has ended, so the listener may be readable.
    pub fn polled(&mut self) {
        (self.armed, self.stopping, self.allowed) = (None, false, ACCEPTS);
    }

    /// Closes the waiting connections, because the server is forced.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The next connection to open a session for, with `live` sessions open.
    ///
    /// An excess waits here. While the server leaves or drains, it is served regardless of the
    /// limit: no successor can see these connections, and their requests may have been sent
    /// already.
    pub fn next(
        &mut self,
        context: &WorkerContext<'_>,
        admission: &mut Admission,
        live: usize,
        now: Instant,
    ) -> Option<Incoming> {
        let is_open = admission.is_open(live, now);
        let is_leaving = || matches!(context.phase(), Phase::Leaving | Phase::Draining);
        if !self.waiting.is_empty() && (is_open || is_leaving()) {
            return self.waiting.pop_front();
        }
        while is_open && self.allowed > 0 {
            self.allowed -= 1;
            match admission.sort(context.accept_source.take(false), now, context.slot()) {
                Attempt::Taken((fd, Peer::Net(address))) => return Some((fd, Some(address))),
                Attempt::Taken((fd, Peer::Local)) => return Some((fd, None)),
                Attempt::Gone => {}
                Attempt::Empty | Attempt::Exhausted => self.allowed = 0,
            }
        }
        None
    }

    /// Arms the accept while connections are admitted, and stops it while they are not, with `live`
    /// sessions open.
    ///
    /// A multishot accept takes all that the kernel's queue has. Where the limit leaves less room
    /// than that, connections are accepted one at a time: the others stay in the queue, where they
    /// cost no descriptor.
    pub fn follow<R: DerefMut<Target = Uring>>(
        &mut self,
        context: &WorkerContext<'_>,
        admission: &Admission,
        live: usize,
        ring: impl FnOnce() -> R,
    ) {
        let room = admission.room(live + self.waiting.len());
        let is_near = room < context.knobs.backlog as usize;
        let how = self.how.map(|how| if is_near { Acceptance::Once } else { how });
        match self.armed {
            None if admission.was_open() => self.arm(context, how, &mut ring()),
            Some((armed, by)) if !(self.stopping || admission.was_open() && by == how) => {
                self.stopping = true;
                ring().cancel(armed);
            }
            _ => {}
        }
    }

    fn arm(&mut self, context: &WorkerContext<'_>, how: Option<Acceptance>, ring: &mut Uring) {
        self.allowed = 0;
        let armed = match how {
            Some(how) => ring.accept(context.listener, TOKEN_LISTENER, how),
            // The poll checks at once, so no connection is forgotten for which this turn had no
            // time.
            None => ring.watch_once(context.accept_source.fd(), TOKEN_LISTENER),
        };
        self.armed = Some((armed, how));
    }

    /// Handles the completion of an accept.
    pub fn accepted<R: DerefMut<Target = Uring>>(
        &mut self,
        context: &WorkerContext<'_>,
        admission: &mut Admission,
        now: Instant,
        (result, more): (io::Result<Incoming>, bool),
        ring: impl FnOnce() -> R,
    ) {
        let mut is_exhausted = false;
        // The accept was cancelled on request, or because the thread that armed it has ended.
        let was_cancelled = |error: &io::Error| error.raw_os_error() == Some(CANCELLED);
        if !result.as_ref().is_err_and(was_cancelled) {
            match admission.sort(result, now, context.slot()) {
                Attempt::Taken(incoming) => self.waiting.push_back(incoming),
                Attempt::Exhausted => is_exhausted = true,
                Attempt::Gone | Attempt::Empty => {}
            }
        }
        if more {
            return;
        }
        (self.armed, self.stopping) = (None, false);
        let is_leaving = context.phase() == Phase::Leaving;
        if is_leaving && !is_exhausted && socket::has_queue(context.listener) {
            // The kernel wakes one accept for each connection. If it woke this accept, which was
            // cancelled before it ran, no other process was told; so arm one more accept to take
            // the waiting connection.
            self.arm(context, self.how, &mut ring());
        }
    }
}

/// The peer of a connection. A multishot accept does not tell it, and a peer that is gone has none.
pub(in crate::wait) fn peer_of((fd, peer): &Incoming) -> Peer {
    peer.or_else(|| socket::peer_addr(fd).ok()).map_or(Peer::Local, Peer::Net)
}

impl Loop<'_> {
    /// Opens a session for each connection that is admitted, and follows the admission.
    pub(super) fn accept(&mut self) {
        loop {
            let EventLoop { context, admission, table, now, .. } = &mut self.event_loop;
            let next = self.accepting.next(context, admission, table.len(), *now);
            let Some(incoming) = next else { break };
            let peer = peer_of(&incoming);
            let id = self.event_loop.open(incoming.0, peer, Ops::default());
            self.touch(id);
        }
        let EventLoop { context, admission, table, .. } = &self.event_loop;
        self.accepting.follow(context, admission, table.len(), || &mut self.ring);
    }

    pub(super) fn accepted(&mut self, result: io::Result<Incoming>, more: bool) {
        let EventLoop { context, admission, now, .. } = &mut self.event_loop;
        self.accepting.accepted(context, admission, *now, (result, more), || &mut self.ring);
    }
}

/// Whether a connection waits to be accepted.
/// `ECANCELED` (errno(3)).
const CANCELLED: i32 = 125;
