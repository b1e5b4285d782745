//! The state that all workers of the echo service share: why connections were closed, and the
//! roster.
//!
//! Packets are not counted: a cache line that every worker writes would cost more than the echo.

use core::sync::atomic::{AtomicU64, Ordering};

use seam::{Dead, SessionId, Share};

use crate::roster::Roster;

/// The most sessions that an operator can call.
pub const SEATS: usize = 4096;

/// Why the server closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The length field was not 8.
    BadLength,
    /// The peer ended inside a packet.
    CutShort,
    /// The operator disconnected it.
    Dismissed,
}

/// The shared state.
pub struct Register {
    closed: [AtomicU64; 3],
    roster: Roster<SEATS>,
}

// SAFETY: atomics only, of which zero is a valid value.
unsafe impl Share for Register {
    fn heal(&self, dead: Dead) {
        self.roster.heal(dead.worker());
    }
}

impl CloseReason {
    /// All reasons.
    pub const ALL: [CloseReason; 3] =
        [CloseReason::BadLength, CloseReason::CutShort, CloseReason::Dismissed];

    /// The reason as the predicate of a sentence such as "N connections ended in the middle of a
    /// packet".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            CloseReason::BadLength => "closed for a length that was not 8",
            CloseReason::CutShort => "ended in the middle of a packet",
            CloseReason::Dismissed => "disconnected by the operator",
        }
    }
}

impl Register {
    /// How many connections were closed for this reason.
    pub fn closed(&self, why: CloseReason) -> u64 {
        self.closed[why as usize].load(Ordering::Relaxed)
    }

    /// Marks the oldest session to be closed; returns its id.
    pub fn dismiss_first(&self) -> Option<SessionId> {
        self.roster.call_first()
    }

    pub(super) fn roster(&self) -> &Roster<SEATS> {
        &self.roster
    }

    pub(super) fn count(&self, why: CloseReason) {
        self.closed[why as usize].fetch_add(1, Ordering::Relaxed);
    }
}
