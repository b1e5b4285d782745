//! Accepting on a ring: an accept or a poll that is armed while connections are admitted. A
//! worker's own ring and the ring of a completion port use the same code.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use memory::Phase;
use seam::{Instant, Peer};
use sys::socket;
use sys::uring::{Acceptance, Armed, Uring};

use crate::context::WorkerContext;
use crate::limits::ACCEPTS;
use crate::parts::admission::{Admission, Attempt};

/// The token of the listener. Sessions have tokens below 2^60 and a generation of 1 or more; a
/// token without a generation names no session.
pub const TOKEN_LISTENER: u64 = 1;

/// A connection without a session, and its peer if the kernel told it.
pub type Incoming = (OwnedFd, Option<SocketAddr>);

/// A change of the accept of a ring.
#[derive(Clone, Copy, Debug)]
pub enum AcceptChange {
    /// It is armed, in this way; `None`: as a poll.
    Arm(Option<Acceptance>),
    /// It is told to stop.
    Stop(Armed),
}

/// The accept of a ring.
pub struct Accepting {
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
    /// The accept of a ring that polls, or else accepts.
    pub fn new(polls: bool) -> Accepting {
        let how = (!polls).then_some(Acceptance::Multishot);
        Accepting { how, waiting: VecDeque::new(), armed: None, stopping: false, allowed: 0 }
    }

    pub fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Whether the kernel has accepted connections beyond the limit.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
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

    /// The change that the admission asks for, with `live` sessions open: an accept that is armed
    /// while connections are admitted, and stopped while they are not.
    ///
    /// A multishot accept takes all that the kernel's queue has. Where the limit leaves less room
    /// than that, connections are accepted one at a time: the others stay in the queue, where they
    /// cost no descriptor.
    #[inline]
    pub fn change(
        &self,
        context: &WorkerContext<'_>,
        admission: &Admission,
        live: usize,
    ) -> Option<AcceptChange> {
        let room = admission.room(live + self.waiting.len());
        let is_near = room < context.knobs.limits.backlog as usize;
        let how = self.how.map(|how| if is_near { Acceptance::Once } else { how });
        match self.armed {
            None if admission.was_open() => Some(AcceptChange::Arm(how)),
            Some((armed, by)) if !(self.stopping || admission.was_open() && by == how) => {
                Some(AcceptChange::Stop(armed))
            }
            _ => None,
        }
    }

    /// Carries a change out on `ring`.
    pub fn apply(&mut self, context: &WorkerContext<'_>, change: AcceptChange, ring: &mut Uring) {
        let how = match change {
            AcceptChange::Arm(how) => how,
            AcceptChange::Stop(armed) => {
                self.stopping = true;
                ring.cancel(armed);
                return;
            }
        };
        self.allowed = 0;
        let armed = match how {
            Some(how) => ring.accept(context.listener.fd(), TOKEN_LISTENER, how),
            // The poll checks at once, so no connection is forgotten for which this turn had no
            // time.
            None => ring.watch_once(context.accept_source.fd(), TOKEN_LISTENER),
        };
        self.armed = Some((armed, how));
    }

    /// Takes a connection of which the kernel told no living ring, with the accept to arm again.
    ///
    /// The kernel wakes one accept for each connection, and that may be one of a killed worker,
    /// whose ring still exists. An accept that is armed while a connection waits takes it at once.
    pub fn retry(&mut self, context: &WorkerContext<'_>, ring: &mut Uring) {
        if let Some((armed, _)) = self.armed
            && !self.stopping
            && socket::has_queue(context.listener)
        {
            self.apply(context, AcceptChange::Stop(armed), ring);
        }
    }

    /// Handles the completion of an accept; `more`: it stays armed.
    pub fn accepted(
        &mut self,
        context: &WorkerContext<'_>,
        admission: &mut Admission,
        now: Instant,
        (result, more): (io::Result<OwnedFd>, bool),
    ) -> Option<AcceptChange> {
        let mut is_exhausted = false;
        // The accept was cancelled on request, or because the thread that armed it has ended.
        let was_cancelled = |error: &io::Error| error.raw_os_error() == Some(CANCELLED);
        if !result.as_ref().is_err_and(was_cancelled) {
            let result = result.map(|fd| (fd, None));
            match admission.sort(result, now, context.slot()) {
                Attempt::Taken(incoming) => self.waiting.push_back(incoming),
                Attempt::Exhausted => is_exhausted = true,
                Attempt::Gone | Attempt::Empty => {}
            }
        }
        if more {
            return None;
        }
        (self.armed, self.stopping) = (None, false);
        let is_leaving = context.phase() == Phase::Leaving;
        // The kernel wakes one accept for each connection. If it woke this accept, which was
        // cancelled before it ran, no other process was told; so arm one more accept to take the
        // waiting connection.
        (is_leaving && !is_exhausted && socket::has_queue(context.listener))
            .then_some(AcceptChange::Arm(self.how))
    }
}

/// The peer of a connection. A ring's accept does not tell it, and a peer that is gone has none.
pub fn peer_of((fd, peer): &Incoming) -> Peer {
    peer.or_else(|| socket::peer_addr(fd).ok()).map_or(Peer::Local, Peer::Net)
}

/// `ECANCELED` (errno(3)).
const CANCELLED: i32 = 125;
