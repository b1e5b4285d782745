//! When a worker takes new connections: not above its limit, not while descriptors are out, not
//! while the server drains.
//!
//! A closed door leaves peers in the kernel's queue, where they cost nothing; it opens again when
//! an eighth of the room is free (the hysteresis keeps it from flapping), or 100 ms after the
//! descriptors ran out.

use std::io;
use std::time::Duration;

use seam::Instant;

/// How long the door stays shut when descriptors or memory ran out.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Whether connections are taken.
#[derive(Debug)]
pub struct Door {
    sessions_max: usize,
    full: bool,
    shut_until: Option<Instant>,
    draining: bool,
}

/// What to do about a failed accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody waits any more.
    Empty,
    /// That peer is gone already; take the next.
    Peer,
    /// Descriptors or memory ran out; the door is shut for a moment.
    Exhausted,
}

impl Door {
    /// A door that admits up to `sessions_max` at one time.
    pub fn new(sessions_max: usize) -> Door {
        Door { sessions_max, full: false, shut_until: None, draining: false }
    }

    /// Admits up to `sessions_max` from now on.
    pub fn set_limit(&mut self, sessions_max: usize) {
        self.sessions_max = sessions_max;
    }

    /// Whether to accept now, with `live` sessions inside.
    pub fn is_open(&mut self, live: usize, now: Instant) -> bool {
        if live >= self.sessions_max {
            self.full = true;
        } else if live <= self.sessions_max - self.sessions_max.div_ceil(8) {
            self.full = false;
        }
        if self.shut_until.is_some_and(|until| until <= now) {
            self.shut_until = None;
        }
        self.was_open()
    }

    /// Whether it was open when last asked.
    pub fn was_open(&self) -> bool {
        !self.full && !self.draining && self.shut_until.is_none()
    }

    /// The machine is at its limit: the door is shut for a moment.
    pub fn shut(&mut self, now: Instant) {
        self.shut_until = Some(now + BACK_OFF);
    }

    /// When it opens again by itself.
    pub fn opens_at(&self) -> Option<Instant> {
        self.shut_until.filter(|_| !self.draining)
    }

    /// No more connections, ever.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Accepting failed: says what to do, and shuts the door if the machine is at its limit.
    pub fn failed(&mut self, error: &io::Error, now: Instant) -> Failure {
        if error.kind() == io::ErrorKind::WouldBlock {
            // The kernel's word, or that of a buffer in which nobody came in time.
            return Failure::Empty;
        }
        match error.raw_os_error() {
            Some(
                libc_errno::MFILE | libc_errno::NFILE | libc_errno::NOMEM | libc_errno::NOBUFS,
            ) => {
                self.shut(now);
                Failure::Exhausted
            }
            // accept(2): errors pending on the new connection are told here; treat them as if
            // the peer had never come.
            _ => Failure::Peer,
        }
    }
}

/// The errno values that tell a tired machine from a gone peer (errno(3), Linux).
mod libc_errno {
    pub const NOMEM: i32 = 12;
    pub const NFILE: i32 = 23;
    pub const MFILE: i32 = 24;
    pub const NOBUFS: i32 = 105;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_server_opens_when_an_eighth_is_free() {
        let mut door = Door::new(16);
        let now = Instant::ZERO;
        assert!(door.is_open(15, now));
        assert!(!door.is_open(16, now));
        assert!(!door.is_open(15, now));
        assert!(door.is_open(14, now));
        let mut single = Door::new(1);
        assert!(!single.is_open(1, now) && single.is_open(0, now));
        single.set_limit(2);
        assert!(single.is_open(1, now) && !single.is_open(2, now) && !single.is_open(3, now));
    }

    #[test]
    fn exhaustion_shuts_the_door_for_a_moment_and_a_gone_peer_does_not() {
        let mut door = Door::new(16);
        let error = |errno| io::Error::from_raw_os_error(errno);
        let now = Instant::from_ns(5);
        assert_eq!(door.failed(&error(11), now), Failure::Empty, "EAGAIN");
        assert_eq!(door.failed(&io::ErrorKind::WouldBlock.into(), now), Failure::Empty);
        assert_eq!(door.failed(&error(103), now), Failure::Peer);
        assert!(door.is_open(0, now));
        assert_eq!(door.failed(&error(libc_errno::MFILE), now), Failure::Exhausted);
        assert!(!door.is_open(0, now));
        assert_eq!(door.opens_at(), Some(now + BACK_OFF));
        assert!(door.is_open(0, now + BACK_OFF));
        door.drain();
        assert!(!door.is_open(0, now + BACK_OFF));
    }
}
