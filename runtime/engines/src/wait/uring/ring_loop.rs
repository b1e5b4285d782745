//! The data of the loop of a ring.

use std::collections::VecDeque;

use seam::{Instant, SessionId};
use sys::uring::Uring;

use crate::helpers::Helpers;
use crate::parts::event_loop::EventLoop;
use crate::parts::ring::accepting::Accepting;
use crate::parts::ring::flight::Flight;

/// The loop's record for each session.
#[derive(Default)]
pub(super) struct Ops {
    pub flight: Flight,
    /// It is in the list of sessions to settle.
    pub dirty: bool,
    /// It is in the list of sessions with more of a file to send.
    pub again: bool,
}

// Tokens of the loop itself, which have no generation and so name no session, like TOKEN_LISTENER.
pub(super) const TOKEN_STOP: u64 = 2;
pub(super) const TOKEN_JOBS: u64 = 3;

/// The loop: its sessions, and the rest.
pub(super) struct RingLoop<'a> {
    pub event_loop: EventLoop<'a, Ops>,
    pub accepting: Accepting,
    pub mover: Mover<'a>,
    /// The end of [`RING_YOUTH`](crate::limits::RING_YOUTH).
    pub young_until: Instant,
}

/// The means to move the bytes of a session, apart from the sessions.
pub(super) struct Mover<'a> {
    pub ring: Uring,
    pub helpers: &'a dyn Helpers,
    /// Sessions that had an event in this turn.
    pub dirty: Vec<SessionId>,
    /// Sessions that have more of a file to send than a turn allows.
    pub again: VecDeque<SessionId>,
    /// For receives by a call, while the server drains.
    pub scratch: Vec<u8>,
}

impl Mover<'_> {
    /// Notes that a session had an event.
    #[inline]
    pub fn touch(&mut self, id: SessionId, x: &mut Ops) {
        if !std::mem::replace(&mut x.dirty, true) {
            self.dirty.push(id);
        }
    }
}
