//! SEDA's two controllers, as pure logic: how many threads serve a stage, and how many events a
//! thread takes at once (Welsh, Culler, Brewer, *SEDA*, SOSP 2001, section 4.2).

use std::time::Duration;

use seam::Instant;

/// The stages that share their threads.
pub(super) const SHARED: usize = 2;

/// The time between two samples of the queues. SEDA's is 2 s; here jobs block in a stage.
pub(super) const PERIOD: Duration = Duration::from_millis(10);
/// A thread without an event for this long leaves its stage, as in SEDA.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// A stage with more events in its queue than this gets another thread, as in SEDA.
const LENGTH_MAX: usize = 100;
/// So does a stage whose oldest event has waited for longer than this.
const WAIT_MAX: Duration = PERIOD;

/// A queue at the moment of a sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueSample {
    pub length: usize,
    /// How long its oldest event has waited.
    pub waited: Duration,
}

/// Decides which stage a thread serves. Each stage keeps one thread.
pub(super) struct ThreadController {
    /// The number of threads in each stage.
    pub threads: [usize; SHARED],
    sampled: Instant,
}

impl ThreadController {
    pub fn new() -> ThreadController {
        ThreadController { threads: [0; SHARED], sampled: Instant::ZERO }
    }

    /// The stage that a thread of the reserve joins: one without a thread at once, another one at
    /// most once a period.
    pub fn join(&mut self, queues: [QueueSample; SHARED], now: Instant) -> Option<usize> {
        let deserted = self.threads.iter().position(|threads| *threads == 0);
        let stage = match deserted {
            Some(stage) => stage,
            None if now.since(self.sampled) < PERIOD => return None,
            None => {
                self.sampled = now;
                let is_slow =
                    |queue: &QueueSample| queue.length > LENGTH_MAX || queue.waited > WAIT_MAX;
                let slow = (0..SHARED).filter(|stage| is_slow(&queues[*stage]));
                slow.max_by_key(|stage| queues[*stage].waited)?
            }
        };
        self.threads[stage] += 1;
        Some(stage)
    }

    /// Whether a thread that was idle for [`IDLE`] leaves its stage.
    pub fn leave(&mut self, stage: usize) -> bool {
        let is_spare = self.threads[stage] > 1;
        self.threads[stage] -= usize::from(is_spare);
        is_spare
    }

    /// Counts a thread that has died.
    pub fn lose(&mut self, stage: usize) {
        self.threads[stage] -= 1;
    }
}

/// The most events of a batch.
const BATCH_MAX: usize = 32;
/// The time over which a rate is measured.
const RATE_TIME: Duration = Duration::from_millis(50);

/// Looks for the smallest batch with which a stage is as fast as with larger ones: small batches
/// reply soon, large ones save wake-ups and warm caches.
pub(super) struct BatchController {
    size: usize,
    since: Instant,
    events: u64,
    /// Events a second, as a moving average.
    rate: u64,
}

impl BatchController {
    pub fn new() -> BatchController {
        BatchController { size: BATCH_MAX, since: Instant::ZERO, events: 0, rate: 0 }
    }

    /// The most events that a thread may take now.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Records that a batch was handled by `now`.
    pub fn record(&mut self, events: usize, now: Instant) {
        self.events += events as u64;
        let elapsed = now.since(self.since);
        if elapsed < RATE_TIME {
            return;
        }
        let rate = u64::try_from(u128::from(self.events) * 1_000_000_000 / elapsed.as_nanos())
            .unwrap_or(u64::MAX);
        self.size = match self.rate {
            // The load has fallen: the search begins again.
            before if rate < before / 2 => BATCH_MAX,
            // The batch was too small.
            before if rate < before / 10 * 9 => (self.size + self.size / 4 + 1).min(BATCH_MAX),
            _ => (self.size - 1).max(1),
        };
        self.rate = if rate < self.rate / 2 { rate } else { (self.rate * 3 + rate) / 4 };
        (self.events, self.since) = (0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    fn queue(length: usize, ms: u64) -> QueueSample {
        QueueSample { length, waited: Duration::from_millis(ms) }
    }

    #[test]
    fn a_long_queue_gets_a_thread_each_period_and_idle_threads_leave() {
        let mut controller = ThreadController::new();
        let calm = [queue(3, 1), queue(0, 0)];
        // Each stage has a thread before any has two.
        assert_eq!([0, 0, 0].map(|ms| controller.join(calm, at(ms))), [Some(0), Some(1), None]);
        assert_eq!(controller.join(calm, at(100)), None);
        let long = [queue(LENGTH_MAX + 1, 1), queue(0, 0)];
        let joined = |controller: &mut ThreadController, queues| {
            (200..240).filter(|ms| controller.join(queues, at(*ms)).is_some()).count()
        };
        assert_eq!(joined(&mut controller, long), 4, "one in each period");
        assert_eq!(controller.threads, [5, 1]);
        // One event behind a job that blocks; the stage that waits longer is first.
        let blocked = [queue(1, 11), queue(1, 12)];
        assert_eq!(controller.join(blocked, at(300)), Some(1));
        assert_eq!(
            [0; 6].map(|stage| controller.leave(stage)),
            [true, true, true, true, false, false]
        );
        controller.lose(1);
        controller.lose(1);
        assert_eq!(controller.join(calm, at(300)), Some(1), "a dead thread is replaced at once");
    }

    /// A stage in virtual time: a batch costs `fixed` ns, and each event `each` ns. Returns the
    /// mean batch of the last half.
    fn settle(controller: &mut BatchController, fixed: u64, each: u64) -> usize {
        let (mut now, mut sizes) = (controller.since.ns(), Vec::new());
        for _ in 0..200_000 {
            let size = controller.size();
            now += fixed + each * size as u64;
            controller.record(size, Instant::from_ns(now));
            sizes.push(size);
        }
        let last = &sizes[100_000..];
        last.iter().sum::<usize>() / last.len()
    }

    #[test]
    fn a_batch_is_as_large_as_its_fixed_cost_needs() {
        let cheap = settle(&mut BatchController::new(), 100, 10_000);
        let costly = settle(&mut BatchController::new(), 50_000, 5_000);
        assert!(cheap <= 2, "no gain, so no batch: {cheap}");
        assert!(costly > 2 * cheap, "{costly} {cheap}");
    }

    #[test]
    fn a_load_that_falls_begins_with_the_largest_batch() {
        let mut controller = BatchController::new();
        let mut now = 0;
        for rate in [1000, 1000, 1000, 10] {
            now += 60;
            controller.record(rate, at(now));
        }
        assert_eq!(controller.size(), BATCH_MAX);
    }
}
