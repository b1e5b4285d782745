//! The stop rule: it decides when a phase stops.
//!
//! A rule sees [`Progress`] once per loop turn. It decides how many more requests may be sent,
//! which arrivals still belong to the phase, whether the phase is over, and when to check again at
//! the latest.

use crate::Instant;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time after the end of a phase in which a generator that was kept from running catches up
/// with the arrivals of the phase; one that is too slow for its schedule never does.
pub const OVERRUN_MAX: Duration = Duration::from_secs(1);

/// The progress of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current moment.
    pub now: Instant,
    /// Requests sent in this phase, plus those outstanding when it began.
    pub asked: u64,
    /// Requests answered in this phase.
    pub done: u64,
    /// Requests outstanding, including those queued for a connection.
    pub outstanding: u64,
}

/// A stop rule.
pub trait Stop {
    /// The number of requests that may be sent after `asked`.
    fn room(&self, asked: u64) -> u64;

    /// Whether an arrival due at `due` still belongs to this phase.
    fn admits(&self, _due: Instant) -> bool {
        true
    }

    /// Whether the phase is over.
    fn over(&self, progress: Progress) -> bool;

    /// The moment at which the phase ends even if some of its arrivals are still to be handled.
    fn limit(&self) -> Option<Instant> {
        self.wake().map(|end| end + OVERRUN_MAX)
    }

    /// The time to check again even if no event comes; `None`: only on events.
    fn wake(&self) -> Option<Instant>;
}

/// A phase that ends at a moment at the latest, even if some replies are missing.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// The moment.
    pub end: Instant,
    /// The requests that may be sent until then.
    pub most: Most,
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

/// Another rule that can be interrupted.
pub struct Interruptible<'a> {
    /// Set to interrupt. The loop checks it at least a hundred times a second.
    pub stop: &'a AtomicBool,
    /// The rule.
    pub rule: &'a dyn Stop,
}

impl Stop for Interruptible<'_> {
    fn room(&self, asked: u64) -> u64 {
        self.rule.room(asked)
    }

    fn admits(&self, due: Instant) -> bool {
        self.rule.admits(due) && !self.stop.load(Ordering::Relaxed)
    }

    fn over(&self, progress: Progress) -> bool {
        self.rule.over(progress) || self.stop.load(Ordering::Relaxed)
    }

    fn wake(&self) -> Option<Instant> {
        self.rule.wake()
    }
}

impl Stop for Until {
    fn room(&self, asked: u64) -> u64 {
        match self.most {
            Most::Any => u64::MAX,
            Most::Count(count) => count.saturating_sub(asked),
            Most::Drain => 0,
        }
    }

    fn admits(&self, due: Instant) -> bool {
        match self.most {
            Most::Any => due < self.end,
            Most::Count(_) => true,
            Most::Drain => false,
        }
    }

    fn over(&self, progress: Progress) -> bool {
        let finished = match self.most {
            Most::Any => false,
            Most::Count(count) => progress.asked >= count && progress.outstanding == 0,
            Most::Drain => progress.outstanding == 0,
        };
        finished || progress.now >= self.end
    }

    fn wake(&self) -> Option<Instant> {
        Some(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Instant = Instant::from_ns(100);

    fn check(rule: &dyn Stop, at_ns: u64, asked: u64, done: u64, room: u64, over: bool) {
        let outstanding = asked - done;
        let progress = Progress { now: Instant::from_ns(at_ns), asked, done, outstanding };
        assert_eq!((rule.room(asked), rule.over(progress)), (room, over), "{progress:?}");
    }

    #[test]
    fn rules() {
        let by_time = Until { end: END, most: Most::Any };
        check(&by_time, 99, 5, 5, u64::MAX, false);
        check(&by_time, 100, 5, 0, u64::MAX, true);
        let by_count = Until { end: END, most: Most::Count(10) };
        check(&by_count, 0, 7, 5, 3, false);
        check(&by_count, 0, 10, 9, 0, false);
        check(&by_count, 0, 10, 10, 0, true);
        check(&by_count, 100, 10, 9, 0, true);
        let drained = Until { end: END, most: Most::Drain };
        check(&drained, 0, 3, 2, 0, false);
        check(&drained, 0, 3, 3, 0, true);
        check(&drained, 100, 3, 2, 0, true);
        assert!(by_time.admits(Instant::from_ns(99)) && !by_time.admits(END));
        assert!(by_count.admits(END) && !drained.admits(Instant::ZERO));
        for rule in [by_time, by_count, drained] {
            assert_eq!((rule.wake(), rule.limit()), (Some(END), Some(END + OVERRUN_MAX)));
        }
    }
}
