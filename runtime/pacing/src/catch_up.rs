//! Catching up after a delay: late packets leave at twice the rate of their schedule, never as one
//! burst.
//!
//! A worker that was held up for 300 ms owes ten packets of a stream that has one every 30 ms. Sent
//! at once they would overrun a queue on the way, and the last would hardly arrive earlier. So the
//! worker requests from a stream only the packets due at the moment that the stream had named, and
//! calls it again after half the time of its schedule, until it has caught up.

use std::time::Duration;

use seam::Instant;

/// Packets due within this span leave together as usual: two slots of the wheel.
pub const SLACK: Duration = Duration::from_millis(2);

/// The moment up to which to request packets from a stream that wanted to be called at `asked`, is
/// called `now`, and may be called later by `tick`.
pub fn until(asked: Instant, now: Instant, tick: Duration) -> Instant {
    now.min(asked + SLACK).max(if is_late(asked, now, tick) { asked } else { now })
}

/// When to call the stream again, if it now wants to be called at `next`.
pub fn wake(asked: Instant, now: Instant, next: Instant, tick: Duration) -> Instant {
    if is_late(asked, now, tick) { next.max(now + next.since(asked) / 2) } else { next }
}

/// Whether the stream was called too late for all due packets to leave at once.
pub fn is_late(asked: Instant, now: Instant, tick: Duration) -> bool {
    now.since(asked) > SLACK + tick
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    /// Calls a schedule of one packet every `gap` ms, as a worker would whose first call comes
    /// `stall` ms late; returns the time at which each of `count` packets left.
    fn play(gap: u64, stall: u64, count: usize) -> Vec<(u64, u64)> {
        let (mut asked, mut now, mut sent) = (ms(0), ms(stall), 0);
        let mut left = Vec::new();
        while left.len() < count {
            let limit = until(asked, now, Duration::ZERO);
            assert!(limit <= now, "never ahead of the clock");
            while ms(sent * gap) <= limit {
                left.push((sent * gap, now.ns() / 1_000_000));
                sent += 1;
            }
            let next = ms(sent * gap);
            let wake = wake(asked, now, next, Duration::ZERO);
            assert!(wake >= next, "never early");
            (asked, now) = (next, wake.max(now));
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
        assert_eq!(until(ms(10), ms(17), tick), ms(17));
        assert_eq!(wake(ms(10), ms(17), ms(20), tick), ms(20));
        assert_eq!(until(ms(10), ms(18), tick), ms(12), "later calls catch up");
        assert_eq!(wake(ms(10), ms(18), ms(20), tick), ms(23));
    }

    #[test]
    fn a_dense_stream_catches_up_too() {
        // A packet each millisecond is as much as this test's clock resolves.
        let left = play(1, 100, 400);
        let behind: Vec<u64> = left.iter().map(|(due, left)| left - due).collect();
        assert!(behind[300..].iter().all(|&ms| ms <= 2), "{behind:?}");
        let most = |ms: u64| left.iter().filter(|(_, left)| *left == ms).count();
        assert!((100..400).all(|ms| most(ms) <= 3), "{left:?}");
    }
}
