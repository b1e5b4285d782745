//! When the next request is due: the arrival process.
//!
//! The driver asks each time a connection may have become free. A closed loop answers from the
//! state of that connection alone; a process that follows a schedule answers from its list and
//! names the next moment in [`Arrive::due`]. Latency runs from [`Batch::due`], whenever the bytes
//! leave.

use seam::Instant;

/// What the driver says about a connection that could carry a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Requests on this connection that are still unanswered.
    pub outstanding: u32,
    /// Since when there are none; meaningless while there are some.
    pub idle_since: Instant,
}

/// Requests that go out together in one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// How many, at least one.
    pub requests: u32,
    /// When they should have been sent.
    pub due: Instant,
}

/// An arrival process.
pub trait Arrive {
    /// What goes out now on a connection in the state `slot`, if anything.
    fn take(&mut self, slot: Slot, now: Instant) -> Option<Batch>;

    /// When something falls due that no reply brings about; `None` if only replies do.
    fn due(&self) -> Option<Instant>;
}

/// The closed loop: a user with `depth` requests in one hand, who waits for all the replies and
/// then asks again at once.
///
/// It never asks while the server is slow, so what it measures is the *service time*; the wait of
/// those who would have come meanwhile is not in it.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    depth: u32,
}

impl Closed {
    /// A closed loop of `depth` requests a batch; a depth of zero is taken as one.
    pub fn new(depth: u32) -> Self {
        Self { depth: depth.max(1) }
    }
}

impl Arrive for Closed {
    fn take(&mut self, slot: Slot, _now: Instant) -> Option<Batch> {
        (slot.outstanding == 0).then_some(Batch { requests: self.depth, due: slot.idle_since })
    }

    fn due(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_loop_waits_for_the_whole_batch() {
        let mut closed = Closed::new(16);
        let (idle_since, now) = (Instant::from_ns(5), Instant::from_ns(9));
        let batch = closed.take(Slot { outstanding: 0, idle_since }, now);
        assert_eq!(batch, Some(Batch { requests: 16, due: idle_since }));
        assert_eq!(closed.take(Slot { outstanding: 1, idle_since }, now), None);
        assert_eq!(closed.due(), None);
        let batch = Closed::new(0).take(Slot { outstanding: 0, idle_since }, now);
        assert_eq!(batch.map(|batch| batch.requests), Some(1));
    }
}
