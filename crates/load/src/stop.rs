//! When it is enough: the stop rule.
//!
//! A rule sees [`Progress`] once a turn of the loop and says three things: how many more requests
//! may be asked, whether the phase is over, and when to look again at the latest.

use seam::Instant;

/// How far a phase has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The present moment.
    pub now: Instant,
    /// Requests asked in this phase, and those that were outstanding when it began.
    pub asked: u64,
    /// Requests answered in this phase.
    pub done: u64,
    /// Requests outstanding.
    pub outstanding: u64,
}

/// A stop rule.
pub trait Stop {
    /// How many more requests may be asked, when `asked` have been.
    fn room(&self, asked: u64) -> u64;

    /// Whether the phase is over.
    fn over(&self, progress: Progress) -> bool;

    /// When to ask again even if nothing happens; `None`: only events matter.
    fn wake(&self) -> Option<Instant>;
}

/// Over at a moment.
#[derive(Clone, Copy, Debug)]
pub struct ByTime {
    /// The moment.
    pub end: Instant,
}

/// Over when a number of requests is asked and none is outstanding; never asks more than that.
#[derive(Clone, Copy, Debug)]
pub struct ByCount {
    /// The number.
    pub count: u64,
    /// The moment at which patience ends, should some never be answered.
    pub end: Instant,
}

/// Asks nothing more; over when every reply is in.
#[derive(Clone, Copy, Debug)]
pub struct Drained {
    /// The moment at which patience ends.
    pub end: Instant,
}

impl Stop for ByTime {
    fn room(&self, _asked: u64) -> u64 {
        u64::MAX
    }

    fn over(&self, progress: Progress) -> bool {
        progress.now >= self.end
    }

    fn wake(&self) -> Option<Instant> {
        Some(self.end)
    }
}

impl Stop for ByCount {
    fn room(&self, asked: u64) -> u64 {
        self.count.saturating_sub(asked)
    }

    fn over(&self, progress: Progress) -> bool {
        let finished = progress.asked >= self.count && progress.outstanding == 0;
        finished || progress.now >= self.end
    }

    fn wake(&self) -> Option<Instant> {
        Some(self.end)
    }
}

impl Stop for Drained {
    fn room(&self, _asked: u64) -> u64 {
        0
    }

    fn over(&self, progress: Progress) -> bool {
        progress.outstanding == 0 || progress.now >= self.end
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
        let by_time = ByTime { end: END };
        check(&by_time, 99, 5, 5, u64::MAX, false);
        check(&by_time, 100, 5, 0, u64::MAX, true);
        let by_count = ByCount { count: 10, end: END };
        check(&by_count, 0, 7, 5, 3, false);
        check(&by_count, 0, 10, 9, 0, false);
        check(&by_count, 0, 10, 10, 0, true);
        check(&by_count, 100, 10, 9, 0, true);
        let drained = Drained { end: END };
        check(&drained, 0, 3, 2, 0, false);
        check(&drained, 0, 3, 3, 0, true);
        check(&drained, 100, 3, 2, 0, true);
        for rule in [&by_time as &dyn Stop, &by_count, &drained] {
            assert_eq!(rule.wake(), Some(END));
        }
    }
}
