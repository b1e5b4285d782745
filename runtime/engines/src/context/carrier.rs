//! A worker's record for the governor.

use std::cell::Cell;
use std::time::Duration;

/// The part of a worker that carries requests out, where a governor watches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// No governor watches.
    Unwatched,
    /// A loop: requests wait for its turn, and jobs for a helper.
    Loop,
    /// A thread with one connection after another.
    Thread,
    /// A thread that gets ready connections from a queue.
    Pool,
}

/// A worker's record for the governor.
#[derive(Debug)]
pub struct Governed {
    pub carrier: Carrier,
    /// The length of a loop's last turn: input may have waited as long before this one.
    pub turn_before: Cell<Duration>,
    /// A thread's place among the requests that are executed.
    pub place: Cell<Permit>,
    /// A thread's connection has not brought any input.
    pub is_fresh: Cell<bool>,
}

impl Governed {
    pub fn new(carrier: Carrier) -> Governed {
        Governed {
            carrier,
            turn_before: Cell::new(Duration::ZERO),
            place: Cell::new(Permit::default()),
            is_fresh: Cell::new(true),
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.carrier != Carrier::Unwatched
    }
}

/// A place among the requests that are executed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Permit {
    /// Since when; 0: it has none.
    pub since_ns: u64,
    /// The thread's wait for a core until then, if this request is measured.
    pub waited_ns: Option<u64>,
}
