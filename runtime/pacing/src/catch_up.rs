//! Catching up after a delay: the packets of a late stream leave at twice the rate of their
//! schedule, never as one burst.
//!
//! A worker that was held up for 300 ms owes ten packets of a stream that has one every 30 ms. Sent
//! at once they would overrun a queue on the way, and the last would hardly arrive earlier. So a
//! late stream has a [`CatchUpLine`]: from the moment at which the delay was noticed, the schedule
//! is
//! followed at twice its speed, until the line meets the clock. A packet may leave once the line
//! has passed its due time. How often a stream is called, and to which multiples its wake-ups are
//! rounded, does not matter then: a later call gets more packets.

use std::time::Duration;

use seam::Instant;

/// Packets due within this span leave together as usual: two slots of the wheel.
pub const SLACK: Duration = Duration::from_millis(2);
/// The longest part of a schedule that leaves in one call of a late stream. A worker that needs
/// less than half of it from one call to the next gains on the schedule.
pub const PART_MAX: Duration = Duration::from_millis(20);

/// The way of a late stream back to its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUpLine {
    /// The part of the schedule that had been followed.
    from: Instant,
    /// The moment at which it had been.
    since: Instant,
}

impl CatchUpLine {
    /// The line of a stream that had followed its schedule up to `from` at the moment `since`.
    pub fn new(from: Instant, since: Instant) -> CatchUpLine {
        CatchUpLine { from, since }
    }

    /// How far the schedule may be followed at `now`.
    fn position(self, now: Instant) -> Instant {
        self.from + now.since(self.since) * 2
    }

    /// When a packet that is due at `at` leaves, which is never early.
    pub fn leaves(self, at: Instant) -> Instant {
        let ahead = at.since(self.from);
        at.max(self.since + (ahead + Duration::from_nanos(1)) / 2)
    }
}

/// Whether a stream is catching up, and how far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatchUp {
    line: Option<CatchUpLine>,
}

impl CatchUp {
    /// The moment up to which to request packets from a stream that wanted to be called at `asked`,
    /// is called `now`, and may be called later by `tick`.
    pub fn until(&mut self, asked: Instant, now: Instant, tick: Duration) -> Instant {
        if !self.is_behind(asked, now, tick) {
            return now;
        }
        let line = self.line.unwrap_or(CatchUpLine::new(asked, now));
        let position = line.position(now);
        // The lower bound holds where packets before `asked` are no longer wanted, the upper one
        // where the worker was held up once more.
        let until = position.max(asked).min(asked + PART_MAX);
        if until >= now {
            self.line = None;
            return now;
        }
        self.line = Some(if until == position { line } else { CatchUpLine::new(until, now) });
        until
    }

    /// When to call the stream, if it was called `now` and wants to be called at `next`. A stream
    /// in time is called at a multiple of `tick`, because then it shares its wake-up with others.
    pub fn wake(&mut self, next: Instant, now: Instant, tick: Duration) -> Instant {
        // Nothing is due any more: it has caught up, or skipped what it owed.
        self.line = self.line.filter(|_| next <= now);
        if let Some(line) = self.line {
            return line.leaves(next);
        }
        let together = next.ns().checked_next_multiple_of(tick.as_nanos() as u64);
        together.map_or(next, Instant::from_ns)
    }

    /// Whether not all that is due may leave at once.
    pub fn is_behind(&self, asked: Instant, now: Instant, tick: Duration) -> bool {
        self.line.is_some() || now.since(asked) > SLACK + tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    const NO_TICK: Duration = Duration::ZERO;

    /// Calls a schedule of one packet every `gap` ms, as a worker would whose first call comes
    /// `stall` ms late; returns the due time of each of `count` packets and when it left.
    fn play(gap: u64, stall: u64, count: usize) -> Vec<(u64, u64)> {
        let (mut catch_up, mut asked, mut now) = (CatchUp::default(), ms(0), ms(stall));
        let (mut left, mut sent) = (Vec::new(), 0);
        while left.len() < count {
            let until = catch_up.until(asked, now, NO_TICK);
            while ms(sent * gap) <= until {
                left.push((sent * gap, now.ns() / 1_000_000));
                sent += 1;
            }
            asked = ms(sent * gap);
            now = catch_up.wake(asked, now, NO_TICK).max(now);
        }
        left
    }

    #[test]
    fn in_time_nothing_changes() {
        assert!(play(30, 0, 50).iter().all(|(due, left)| due == left));
    }

    #[test]
    fn what_is_late_leaves_at_twice_the_rate_until_it_is_not() {
        let left = play(30, 300, 40);
        assert_eq!(left[..4], [(0, 300), (30, 315), (60, 330), (90, 345)]);
        let gaps = left.windows(2).map(|pair| pair[1].1 - pair[0].1);
        assert!(gaps.into_iter().all(|gap| gap >= 15), "{left:?}");
        assert_eq!(left[20], (600, 600));
        assert!(left[20..].iter().all(|(due, left)| due == left), "{left:?}");
    }

    #[test]
    fn a_call_within_the_tick_gets_all_that_is_due() {
        let tick = Duration::from_millis(5);
        let mut catch_up = CatchUp::default();
        assert_eq!(catch_up.until(ms(10), ms(17), tick), ms(17));
        assert_eq!(catch_up.wake(ms(18), ms(17), tick), ms(20), "wake-ups are shared");
        assert_eq!(catch_up.until(ms(10), ms(18), tick), ms(10), "later calls catch up");
        assert_eq!(catch_up.wake(ms(12), ms(18), tick), ms(19), "by wake-ups of their own");
        assert_eq!(catch_up.until(ms(12), ms(20), tick), ms(14), "twice as fast as the clock");
        assert_eq!(catch_up.until(ms(15), ms(26), tick), ms(26));
        assert_eq!(catch_up, CatchUp::default(), "and then the delay is over");
    }

    #[test]
    fn what_is_skipped_is_not_waited_for() {
        let mut catch_up = CatchUp::default();
        assert_eq!(catch_up.until(ms(10), ms(4010), NO_TICK), ms(10));
        assert_eq!(catch_up.wake(ms(4015), ms(4010), NO_TICK), ms(4015));
        assert_eq!(catch_up.until(ms(4015), ms(4015), NO_TICK), ms(4015));
    }

    #[test]
    fn a_line_plans_what_it_permits() {
        let line = CatchUpLine::new(ms(100), ms(400));
        for at_ns in (101_000_000..900_000_000).step_by(3_333_333) {
            let (at, leaves) = (Instant::from_ns(at_ns), line.leaves(Instant::from_ns(at_ns)));
            assert!(leaves >= at && line.position(leaves) >= at, "{at:?}");
            let early = Instant::from_ns(leaves.ns() - 2);
            assert!(early < at || line.position(early) < at, "{at:?} could have left before");
        }
        assert_eq!((line.leaves(ms(300)), line.leaves(ms(700))), (ms(500), ms(700)));
    }
}
