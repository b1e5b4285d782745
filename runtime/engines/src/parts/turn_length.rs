//! How long a turn of an event loop has become, and what its next receive may take.
//!
//! All sessions of a turn wait for each other. Bytes do not tell what they cost: 64 KiB hold one
//! part of an upload, or 800 requests that each open a file. So the clock is looked at every few
//! receives, and after each that brought much; the longer the turn, the less a receive takes.

use seam::Instant;

use crate::limits::{
    CLOCK_LOOK, RECEIVE_BYTES, RECEIVE_BYTES_LATE, RECEIVE_BYTES_LONG, TURN_BYTES, TURN_TIME,
    TURN_TIME_LATE,
};

/// The length of one turn.
#[derive(Debug, Default)]
pub struct TurnLength {
    receives: u32,
    /// Bytes moved at the last look at the clock.
    looked_at: usize,
    is_late: bool,
}

impl TurnLength {
    /// The bytes that the next receive of a turn that began at `began` may take, after `moved`
    /// bytes; `now` reads the clock. Marks the turn as long by adding to `moved`.
    #[inline]
    pub fn receive_bytes(
        &mut self,
        moved: &mut usize,
        began: Instant,
        now: impl FnOnce() -> Instant,
    ) -> usize {
        self.receives += 1;
        let much = *moved - self.looked_at.min(*moved) >= RECEIVE_BYTES_LONG;
        if (self.receives.is_multiple_of(CLOCK_LOOK) || much) && !self.is_late {
            let elapsed = now().since(began);
            self.is_late = elapsed >= TURN_TIME_LATE;
            if elapsed >= TURN_TIME {
                *moved = TURN_BYTES.max(*moved);
            }
            self.looked_at = *moved;
        }
        match (self.is_late, *moved >= TURN_BYTES) {
            (true, _) => RECEIVE_BYTES_LATE,
            (false, true) => RECEIVE_BYTES_LONG,
            (false, false) => RECEIVE_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of a turn in which 256 clients have sent 64 KiB each, at this cost of a byte.
    fn turn_ns(byte_ns: u64) -> u64 {
        let (mut length, mut moved, mut ns) = (TurnLength::default(), 0, 0);
        for _ in 0..256 {
            let now = || Instant::from_ns(ns);
            let took = length.receive_bytes(&mut moved, Instant::ZERO, now);
            moved += took;
            ns += took as u64 * byte_ns;
        }
        ns
    }

    #[test]
    fn requests_that_cost_much_make_no_turn_long() {
        // A small file is opened and described in some 14 us for each request of 80 bytes.
        assert!(turn_ns(175) < 50_000_000, "{}", turn_ns(175));
        assert!(turn_ns(1000) < 250_000_000, "{}", turn_ns(1000));
        // Uploads are copied.
        assert!(turn_ns(1) < 5_000_000, "{}", turn_ns(1));
        let (mut length, mut moved) = (TurnLength::default(), 0);
        for _ in 0..100 {
            let now = || Instant::ZERO;
            assert_eq!(length.receive_bytes(&mut moved, Instant::ZERO, now), RECEIVE_BYTES);
        }
    }
}
