//! Streams on a timer wheel in virtual time, whose worker is held up: whatever their rate, spread
//! and tick, they are never early, never leave as a burst, and are in time again.

use std::time::Duration;

use seam::Instant;
use stats::Rng;

use super::wheel::{SLOT_NS, Wheel};
use crate::catch_up::{CatchUp, PART_MAX, SLACK};

/// How late a source may be before it skips (`services::media` has the same).
const DEBT: Duration = Duration::from_secs(3);

/// A stream of `burst` packets every `gap`, which skips what is late by more than [`DEBT`].
struct Stream {
    gap: Duration,
    burst: u64,
    tick: Duration,
    begin: Instant,
    /// Bursts sent or skipped.
    next: u64,
    skipped: u64,
    asked: Instant,
    catch_up: CatchUp,
}

impl Stream {
    fn new(gap: Duration, burst: u64, tick: Duration, begin: Instant) -> Stream {
        let catch_up = CatchUp::default();
        Stream { gap, burst, tick, begin, next: 0, skipped: 0, asked: begin, catch_up }
    }

    fn at(&self, burst: u64) -> Instant {
        self.begin + Duration::from_nanos(self.gap.as_nanos() as u64 * burst)
    }

    /// The packets due until a moment, as a source would append them: the due time of each burst.
    fn due(&mut self, until: Instant, now: Instant) -> Vec<Instant> {
        if now.since(until) > DEBT {
            while self.at(self.next) < now {
                self.next += 1;
                self.skipped += self.burst;
            }
        }
        let mut due = Vec::new();
        while self.at(self.next) <= until {
            due.push(self.at(self.next));
            self.next += 1;
        }
        due
    }
}

/// A worker in virtual time: each wake-up comes up to `latency` late, and one comes `stall` late.
struct Case {
    seed: u64,
    stall: Duration,
    latency: Duration,
    streams: Vec<Stream>,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let mut below = |most: u64| rng.below(most as usize) as u64;
        // 1 ms to 5 s, and gaps of 0.1 to 100 ms, evenly over the orders of magnitude.
        let stall = Duration::from_micros(
            [1_000, 7_000, 30_000, 300_000, 3_000_000][below(5) as usize]
                + below(2_000_000) * below(2),
        );
        let latency = Duration::from_micros(below(3_000));
        let streams = (0..1 + below(4)).map(|_| {
            let gap = Duration::from_micros(
                [100, 300, 1_000, 5_000, 20_000][below(5) as usize] * (1 + below(5)),
            );
            let begin = Instant::from_ns(1_000_000_000 + below(100_000_000));
            let tick = Duration::from_millis([0, 1, 5][below(3) as usize]);
            Stream::new(gap, 1 + below(8), tick, begin)
        });
        Case { seed, stall, latency, streams: streams.collect() }
    }

    fn play(mut self) {
        let mut rng = Rng::new(self.seed ^ 7);
        let mut wheel = Wheel::new(Instant::from_ns(900_000_000));
        for (key, stream) in self.streams.iter().enumerate() {
            wheel.insert(stream.asked, key as u32, 0);
        }
        let stalls_at = Instant::from_ns(1_500_000_000);
        let stalled = stalls_at + self.stall;
        // A delay is made up for in its own length, and each call may cost its latency.
        let debt = self.stall.min(DEBT + Duration::from_millis(100));
        let cured = stalled + debt * 2 + Duration::from_millis(200);
        let end = cured + Duration::from_secs(1);
        let mut now = Instant::ZERO;
        while now < end {
            let woken = wheel.next().expect("streams have no end");
            let latency =
                Duration::from_nanos(rng.below(self.latency.as_nanos() as usize + 1) as u64);
            let is_stalled = now < stalls_at && woken >= stalls_at;
            now = woken.max(now) + latency + if is_stalled { self.stall } else { Duration::ZERO };
            let keys: Vec<(u32, u32)> = wheel.advance(now).collect();
            for (key, _) in keys {
                let stream = &mut self.streams[key as usize];
                check(stream, now, (self.latency, cured), self.seed);
                wheel.insert(stream.catch_up.wake(stream.asked, now, stream.tick), key, 0);
            }
        }
        for stream in &self.streams {
            let is_long = self.stall + Duration::from_millis(100) > DEBT;
            assert!(is_long || stream.skipped == 0, "seed {}: skipped", self.seed);
        }
    }
}

/// Calls a stream as the worker does, and checks what leaves.
fn check(stream: &mut Stream, now: Instant, (latency, cured): (Duration, Instant), seed: u64) {
    // A wake-up may be late enough to seem a separate delay.
    let tolerance = (SLACK + stream.tick + latency + Duration::from_nanos(SLOT_NS)) * 2;
    let until = stream.catch_up.until(stream.asked, now, stream.tick);
    assert!(until <= now && until >= stream.asked, "seed {seed}: {until:?} at {now:?}");
    let due = stream.due(until, now);
    if let (Some(first), Some(last)) = (due.first(), due.last()) {
        assert!(*last <= now, "seed {seed}: early");
        assert!(last.since(*first) <= PART_MAX, "seed {seed}: a burst");
        let late = now.since(*first);
        assert!(now < cured || late <= tolerance, "seed {seed}: {late:?} late at {now:?}");
    }
    stream.asked = stream.at(stream.next);
}

#[test]
fn every_stream_is_in_time_again_after_every_stall() {
    (0..300).for_each(|seed| Case::new(seed).play());
}

#[test]
fn the_stream_of_4_mbit_that_never_recovered_does() {
    for stall_ms in [7, 8, 30, 300, 2_900, 5_000] {
        let (gap, tick) = (Duration::from_micros(2_632), Duration::from_millis(5));
        let stream = Stream::new(gap, 1, tick, Instant::from_ns(1_000_000_000));
        let (stall, latency) = (Duration::from_millis(stall_ms), Duration::from_micros(60));
        Case { seed: stall_ms, stall, latency, streams: vec![stream] }.play();
    }
}
