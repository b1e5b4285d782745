//! What all workers of the echo service share: why connections were ended, and who is here.
//!
//! Nothing is counted for a packet: a line of memory that every worker writes would cost more than
//! the echo.

use core::sync::atomic::{AtomicU64, Ordering};

use seam::{BadSeed, SessionId, Share, WorkerId};

use crate::roster::Roster;

/// Sessions that an operator can call at one time.
pub const SEATS: usize = 4096;

/// Why a connection was ended that had not ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The length field said something else than 8.
    BadLength,
    /// The peer ended in the middle of a packet.
    CutShort,
    /// The operator wanted it gone.
    Dismissed,
}

/// The shared state.
pub struct Register {
    closed: [AtomicU64; 3],
    roster: Roster<SEATS>,
}

// SAFETY: atomics only, of which zero is a valid value.
unsafe impl Share for Register {
    fn init(&mut self, _seed: &[u8]) -> Result<(), BadSeed> {
        Ok(())
    }

    fn heal(&self, dead: WorkerId) {
        self.roster.heal(dead);
    }
}

impl CloseReason {
    /// All of them.
    pub const ALL: [CloseReason; 3] =
        [CloseReason::BadLength, CloseReason::CutShort, CloseReason::Dismissed];

    /// What is said of those it happened to.
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
    /// How many connections ended so.
    pub fn closed(&self, why: CloseReason) -> u64 {
        self.closed[why as usize].load(Ordering::Relaxed)
    }

    /// Ends the session that has been here longest, when it next looks; says which.
    pub fn dismiss_first(&self) -> Option<SessionId> {
        self.roster.call_first()
    }

    /// Who is here, where sessions are registered.
    pub(super) fn roster(&self) -> &Roster<SEATS> {
        &self.roster
    }

    pub(super) fn count(&self, why: CloseReason) {
        self.closed[why as usize].fetch_add(1, Ordering::Relaxed);
    }
}
