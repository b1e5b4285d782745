//! Admission: when a worker accepts connections, and what it does when accepting fails. All loops
//! use this policy. No connection is accepted above the worker's limit, while no descriptors are
//! left, or while the server drains.
//!
//! Connections that are not accepted wait in the kernel's queue, where they cost nothing. Accepting
//! resumes when an eighth of the room is free (the hysteresis avoids flapping), or
//! [`ACCEPT_BACK_OFF`] after descriptors ran out. Meanwhile the clients that were silent for
//! longest lose their places, so that silence cannot keep others out.

use std::io;

use memory::{Refusal, Slot};
use seam::Instant;

use crate::limits::{ACCEPT_BACK_OFF, WAIT};

/// Whether connections are accepted.
#[derive(Debug)]
pub struct Admission {
    sessions_max: usize,
    full: bool,
    backs_off_until: Option<Instant>,
    draining: bool,
}

/// The result of one attempt to accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<T> {
    /// A connection.
    Taken(T),
    /// The peer is gone already, which is counted; the next connection may be there.
    Gone,
    /// No connection waits.
    Empty,
    /// Descriptors or memory ran out, which is counted; accepting pauses.
    Exhausted,
}

impl Admission {
    /// Admits up to `sessions_max` at once.
    pub fn new(sessions_max: usize) -> Admission {
        Admission { sessions_max, full: false, backs_off_until: None, draining: false }
    }

    /// Admits up to `sessions_max` from now on.
    pub fn set_limit(&mut self, sessions_max: usize) {
        self.sessions_max = sessions_max;
    }

    /// Whether to accept now, with `live` sessions open.
    pub fn is_open(&mut self, live: usize, now: Instant) -> bool {
        if live >= self.sessions_max {
            self.full = true;
        } else if live <= self.sessions_max - self.sessions_max.div_ceil(8) {
            self.full = false;
        }
        if self.backs_off_until.is_some_and(|until| until <= now) {
            self.backs_off_until = None;
        }
        self.was_open()
    }

    /// Whether the limit was reached, and too little room has come since.
    pub fn is_full(&self) -> bool {
        self.full && !self.draining
    }

    /// How many of `live` sessions must end before it opens again.
    pub fn excess(&self, live: usize) -> usize {
        live.saturating_sub(self.sessions_max - self.sessions_max.div_ceil(8))
    }

    /// How many more it would admit, with `live` sessions open.
    pub fn room(&self, live: usize) -> usize {
        self.sessions_max.saturating_sub(live)
    }

    /// Whether it was open at the last check.
    pub fn was_open(&self) -> bool {
        !self.full && !self.draining && self.backs_off_until.is_none()
    }

    /// Pauses accepting, because the machine is at its limit.
    pub fn back_off(&mut self, now: Instant) {
        self.backs_off_until = Some(now + ACCEPT_BACK_OFF);
    }

    /// The time when accepting resumes by itself.
    pub fn resumes_at(&self) -> Option<Instant> {
        self.backs_off_until.filter(|_| !self.draining)
    }

    /// Sleeps until accepting resumes; for a worker that has no other task.
    pub fn sleep_back_off(&self, now: Instant) {
        std::thread::sleep(self.resumes_at().map_or(WAIT, |moment| moment.since(now)));
    }

    /// Stops accepting for good.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Classifies the result of an accept; a failure is counted on `slot`.
    #[inline]
    pub fn sort<T>(&mut self, accepted: io::Result<T>, now: Instant, slot: &Slot) -> Attempt<T> {
        match accepted {
            Ok(connection) => Attempt::Taken(connection),
            Err(error) => self.failed(&error, now, slot),
        }
    }

    fn failed<T>(&mut self, error: &io::Error, now: Instant, slot: &Slot) -> Attempt<T> {
        if error.kind() == io::ErrorKind::WouldBlock {
            // The kernel, or a buffer, had no connection in time.
            return Attempt::Empty;
        }
        match error.raw_os_error() {
            Some(errno::MFILE | errno::NFILE | errno::NOMEM | errno::NOBUFS) => {
                self.back_off(now);
                slot.refuse(Refusal::Exhausted);
                Attempt::Exhausted
            }
            // accept(2) reports errors pending on the new connection; treat it as if it had never
            // arrived.
            _ => {
                slot.refuse(Refusal::Gone);
                Attempt::Gone
            }
        }
    }
}

/// The errno values that tell an exhausted machine from a gone peer (errno(3), Linux).
mod errno {
    pub const NOMEM: i32 = 12;
    pub const NFILE: i32 = 23;
    pub const MFILE: i32 = 24;
    pub const NOBUFS: i32 = 105;
}

#[cfg(test)]
mod tests {
    use memory::{Board, Region};

    use super::*;

    #[test]
    fn a_full_server_opens_when_an_eighth_is_free() {
        let mut admission = Admission::new(16);
        let now = Instant::ZERO;
        assert!(admission.is_open(15, now));
        assert!(!admission.is_open(16, now) && admission.is_full());
        assert!(!admission.is_open(15, now));
        assert_eq!([16, 15, 14, 3].map(|live| admission.excess(live)), [2, 1, 0, 0]);
        assert!(admission.is_open(14, now) && !admission.is_full());
        let mut single = Admission::new(1);
        assert!(!single.is_open(1, now) && single.is_open(0, now));
        single.set_limit(2);
        assert!(single.is_open(1, now) && !single.is_open(2, now) && !single.is_open(3, now));
    }

    #[test]
    fn exhaustion_pauses_accepting_and_a_gone_peer_does_not() {
        let board = Region::<Board>::alone(&[]);
        let slot = board.slot(0);
        let mut admission = Admission::new(16);
        let now = Instant::from_ns(5);
        let fails = |admission: &mut Admission, errno| {
            admission.failed::<()>(&io::Error::from_raw_os_error(errno), now, slot)
        };
        assert_eq!(fails(&mut admission, 11), Attempt::Empty, "EAGAIN");
        let timeout = io::ErrorKind::WouldBlock.into();
        assert_eq!(admission.failed::<()>(&timeout, now, slot), Attempt::Empty);
        assert_eq!(fails(&mut admission, 103), Attempt::Gone);
        assert!(admission.is_open(0, now));
        assert_eq!(slot.refused.read(), 1);
        assert_eq!(fails(&mut admission, errno::MFILE), Attempt::Exhausted);
        assert!(!admission.is_open(0, now));
        assert_eq!(slot.refused.read(), 2);
        assert_eq!(admission.resumes_at(), Some(now + ACCEPT_BACK_OFF));
        assert!(admission.is_open(0, now + ACCEPT_BACK_OFF));
        admission.drain();
        assert!(!admission.is_open(0, now + ACCEPT_BACK_OFF));
    }
}
