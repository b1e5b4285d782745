//! The bounded queue of a stage. A full one makes the stage before it wait: that is the back
//! pressure, down to the reader, which then receives and accepts nothing.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use seam::Instant;

use super::controller::{BatchController, IDLE, QueueSample};
use crate::parts::lock::lock;

/// The counts of a queue since the server started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// Events that were taken out.
    pub events: u64,
    pub wait_ns: u64,
    pub wait_ns_max: u64,
    pub length_max: usize,
    /// How often the stage before had to wait because the queue was full.
    pub full: u64,
}

impl Figures {
    /// Counts an event that came at `put`, is taken at `now`, and was one of `length`.
    pub fn note(&mut self, put: Instant, now: Instant, length: usize) {
        let wait_ns = now.ns().saturating_sub(put.ns());
        self.events += 1;
        self.wait_ns += wait_ns;
        self.wait_ns_max = self.wait_ns_max.max(wait_ns);
        self.length_max = self.length_max.max(length);
    }
}

/// A queue of events with a limit.
pub(super) struct StageQueue<T> {
    inside: Mutex<Inside<T>>,
    limit: usize,
    /// An event has come.
    came: Condvar,
    /// An event has been taken.
    freed: Condvar,
}

struct Inside<T> {
    events: VecDeque<(Instant, T)>,
    batches: BatchController,
    figures: Figures,
    /// Threads that wait for an event.
    takers: usize,
    /// Threads that wait for room.
    putters: usize,
    is_closed: bool,
}

impl<T> StageQueue<T> {
    pub fn new(limit: usize) -> StageQueue<T> {
        let inside = Inside {
            events: VecDeque::with_capacity(limit),
            batches: BatchController::new(),
            figures: Figures::default(),
            takers: 0,
            putters: 0,
            is_closed: false,
        };
        let (came, freed) = (Condvar::new(), Condvar::new());
        StageQueue { inside: Mutex::new(inside), limit, came, freed }
    }

    /// Puts an event at the end, and waits before that while the queue is full. Returns whether
    /// the threads that wait are too few.
    pub fn put(&self, event: T, now: Instant) -> bool {
        let mut inside = lock(&self.inside);
        if inside.events.len() >= self.limit && !inside.is_closed {
            inside.figures.full += 1;
            inside.putters += 1;
            let is_full =
                |inside: &mut Inside<T>| inside.events.len() >= self.limit && !inside.is_closed;
            let waited = self.freed.wait_while(inside, is_full);
            inside = waited.unwrap_or_else(PoisonError::into_inner);
            inside.putters -= 1;
        }
        inside.events.push_back((now, event));
        self.announce(inside)
    }

    /// Puts an event at the end whatever the length. For a stage after this one, which must not
    /// wait for it; the number of sessions is the bound.
    pub fn put_at_once(&self, event: T, now: Instant) -> bool {
        let mut inside = lock(&self.inside);
        inside.events.push_back((now, event));
        self.announce(inside)
    }

    /// Puts back, at the front, what a thread has taken and not handled.
    pub fn put_back(&self, batch: &mut VecDeque<T>, now: Instant) -> bool {
        let mut inside = lock(&self.inside);
        while let Some(event) = batch.pop_back() {
            inside.events.push_front((now, event));
        }
        self.announce(inside)
    }

    /// Wakes a thread that waits.
    fn announce(&self, inside: MutexGuard<'_, Inside<T>>) -> bool {
        let (length, takers) = (inside.events.len(), inside.takers);
        drop(inside);
        if takers > 0 {
            self.came.notify_one();
        }
        length > takers
    }

    /// Takes a batch; none after [`IDLE`]. False if the queue is closed and empty.
    pub fn take(&self, batch: &mut VecDeque<T>, clock: impl Fn() -> Instant) -> bool {
        let mut inside = lock(&self.inside);
        if inside.events.is_empty() && !inside.is_closed {
            inside.takers += 1;
            let has_none = |inside: &mut Inside<T>| inside.events.is_empty() && !inside.is_closed;
            let waited = self.came.wait_timeout_while(inside, IDLE, has_none);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
            inside.takers -= 1;
        }
        let now = clock();
        let Inside { events, batches, figures, .. } = &mut *inside;
        let length = events.len();
        for (put, event) in events.drain(..batches.size().min(length)) {
            figures.note(put, now, length);
            batch.push_back(event);
        }
        let has_room = inside.putters > 0 && inside.events.len() < self.limit;
        let is_open = length > 0 || !inside.is_closed;
        drop(inside);
        if has_room {
            self.freed.notify_all();
        }
        is_open
    }

    /// Records that a batch of `events` was handled by `now`.
    pub fn record(&self, events: usize, now: Instant) {
        lock(&self.inside).batches.record(events, now);
    }

    pub fn sample(&self, now: Instant) -> QueueSample {
        let inside = lock(&self.inside);
        let waited = inside.events.front().map(|(put, _)| now.since(*put));
        QueueSample { length: inside.events.len(), waited: waited.unwrap_or_default() }
    }

    /// Its counts, its length and the present batch.
    pub fn figures(&self) -> (Figures, usize, usize) {
        let inside = lock(&self.inside);
        (inside.figures, inside.events.len(), inside.batches.size())
    }

    /// No event will come any more.
    pub fn close(&self) {
        lock(&self.inside).is_closed = true;
        self.came.notify_all();
        self.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        Instant::from_ns(sys::clock::now_ns())
    }

    #[test]
    fn a_full_queue_makes_the_stage_before_it_wait_and_keeps_the_order() {
        const LIMIT: usize = 4;
        let queue = StageQueue::new(LIMIT);
        let mut taken = VecDeque::new();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                (0..1000).for_each(|number| {
                    queue.put(number, now());
                });
                queue.close();
            });
            while queue.figures().0.full == 0 {
                std::thread::yield_now();
            }
            assert_eq!(queue.sample(now()).length, LIMIT, "no more fits");
            while queue.take(&mut taken, now) {
                assert!(queue.figures().1 <= LIMIT);
            }
        });
        assert!(taken.iter().copied().eq(0..1000));
        let (figures, length, _) = queue.figures();
        assert_eq!((figures.events, figures.length_max, length), (1000, LIMIT, 0));
        assert!(figures.full > 0 && figures.wait_ns >= figures.wait_ns_max);
    }

    #[test]
    fn what_is_put_back_comes_first_and_the_stage_after_never_waits() {
        let queue = StageQueue::new(2);
        let mut batch = VecDeque::from([1, 2]);
        assert!(queue.put_at_once(3, now()), "no thread waits for it");
        queue.put_back(&mut batch, now());
        queue.put_at_once(4, now());
        queue.close();
        while queue.take(&mut batch, now) && queue.figures().1 > 0 {}
        assert_eq!(batch, [1, 2, 3, 4]);
    }
}
