//! When a phase stops, and which requests and arrivals belong to it.

use crate::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time after the end of a phase in which a generator that was kept from running catches up
/// with the arrivals of the phase; one that is too slow for its schedule never does.
pub const OVERRUN_MAX: Duration = Duration::from_secs(1);

/// A stop rule.
#[derive(Clone, Debug)]
pub struct Stop {
    /// The phase ends at this moment at the latest, even if some replies are missing.
    pub end: Instant,
    /// The requests that may be sent until then.
    pub most: Most,
    /// Set to end the phase. The loop checks it at least a hundred times a second.
    pub flag: Option<Arc<AtomicBool>>,
}

/// The requests of a phase.
#[derive(Clone, Copy, Debug)]
pub enum Most {
    /// Any number. Arrivals due before the end belong to the phase, even if the loop notices them
    /// after it.
    Any,
    /// This many; the phase is over when none of them is outstanding.
    Count(u64),
    /// None; the phase is over when every reply has arrived.
    Drain,
}

impl Stop {
    /// A phase that nothing else ends.
    pub fn at(end: Instant, most: Most) -> Self {
        Self { end, most, flag: None }
    }

    /// The number of requests that may be sent after `asked`.
    pub fn room(&self, asked: u64) -> u64 {
        match self.most {
            Most::Any => u64::MAX,
            Most::Count(count) => count.saturating_sub(asked),
            Most::Drain => 0,
        }
    }

    /// Whether an arrival due at `due` still belongs to this phase.
    pub fn admits(&self, due: Instant) -> bool {
        let belongs = match self.most {
            Most::Any => due < self.end,
            Most::Count(_) => true,
            Most::Drain => false,
        };
        belongs && !self.is_interrupted()
    }

    /// Whether the phase is over, in which `asked` requests were sent, those outstanding when it
    /// began among them, and `outstanding` have no reply or wait for a connection.
    pub fn is_over(&self, now: Instant, asked: u64, outstanding: u64) -> bool {
        let finished = match self.most {
            Most::Any => false,
            Most::Count(count) => asked >= count && outstanding == 0,
            Most::Drain => outstanding == 0,
        };
        finished || now >= self.end || self.is_interrupted()
    }

    /// The moment at which the phase ends even if some of its arrivals are still to be handled.
    pub fn limit(&self) -> Instant {
        self.end + OVERRUN_MAX
    }

    fn is_interrupted(&self) -> bool {
        self.flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Instant = Instant::from_ns(100);

    #[track_caller]
    fn check(rule: &Stop, at_ns: u64, asked: u64, done: u64, room: u64, over: bool) {
        let is_over = rule.is_over(Instant::from_ns(at_ns), asked, asked - done);
        assert_eq!((rule.room(asked), is_over), (room, over), "{rule:?}");
    }

    #[test]
    fn rules() {
        let by_time = Stop::at(END, Most::Any);
        check(&by_time, 99, 5, 5, u64::MAX, false);
        check(&by_time, 100, 5, 0, u64::MAX, true);
        let by_count = Stop::at(END, Most::Count(10));
        check(&by_count, 0, 7, 5, 3, false);
        check(&by_count, 0, 10, 9, 0, false);
        check(&by_count, 0, 10, 10, 0, true);
        check(&by_count, 100, 10, 9, 0, true);
        let drained = Stop::at(END, Most::Drain);
        check(&drained, 0, 3, 2, 0, false);
        check(&drained, 0, 3, 3, 0, true);
        check(&drained, 100, 3, 2, 0, true);
        assert!(by_time.admits(Instant::from_ns(99)) && !by_time.admits(END));
        assert!(by_count.admits(END) && !drained.admits(Instant::ZERO));
        let stopped = Stop { flag: Some(Arc::new(true.into())), ..by_count };
        check(&stopped, 0, 7, 5, 3, true);
        assert!(!stopped.admits(Instant::ZERO));
    }
}
