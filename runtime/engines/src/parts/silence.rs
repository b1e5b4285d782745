//! When a server is full and clients wait: a client that is silent inside a request, or between
//! two, loses its place, the longest silent one first. For workers that serve one client at a time,
//! and for loops whose sessions are spread over threads (`port`, `event`); a loop that holds its
//! sessions itself sorts them (`event_loop`).
//!
//! Each worker compares the silence of its client with a bound that halves while clients wait. All
//! workers see the wait begin at about the same time, so their bounds agree without a word.

use std::time::Duration;

use seam::Instant;

use crate::limits::WAIT;

/// The first bound: a client that was silent for longer leaves at once.
const SILENCE_FIRST: Duration = Duration::from_secs(8);
/// No client leaves before it was silent for this long: two looks of a worker.
const SILENCE_MIN: Duration = Duration::from_millis(500);

/// One worker's view of the wait.
#[derive(Debug, Default)]
pub struct SilenceBound {
    since: Option<Instant>,
}

impl SilenceBound {
    /// Whether a client that has been silent for `silence` must leave; `waits`: others wait for a
    /// worker.
    pub fn must_leave(&mut self, waits: bool, silence: Duration, now: Instant) -> bool {
        self.bound(waits, now).is_some_and(|bound| silence >= bound)
    }

    /// The silence after which a client must leave; `None` while no other waits.
    pub fn bound(&mut self, waits: bool, now: Instant) -> Option<Duration> {
        if !waits {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let halvings = (now.since(since).as_millis() / WAIT.as_millis()).min(31) as u32;
        Some((SILENCE_FIRST / (1 << halvings)).max(SILENCE_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silent_leaves_first_and_only_while_others_wait() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let leaves_at = |silence_ms: u64| {
            let mut bound = SilenceBound::default();
            let mut look =
                |ms: &u64| bound.must_leave(true, Duration::from_millis(silence_ms + ms), at(*ms));
            (0..4000).step_by(250).find(|ms| look(ms)).expect("each one in the end")
        };
        assert_eq!([9000, 5000, 700, 0].map(leaves_at), [0, 250, 750, 1000]);
        let mut bound = SilenceBound::default();
        assert!(!bound.must_leave(true, Duration::from_secs(1), at(0)));
        assert!(!bound.must_leave(false, Duration::from_secs(9), at(2000)));
        assert!(!bound.must_leave(true, Duration::from_secs(1), at(2000)), "it begins again");
    }
}
