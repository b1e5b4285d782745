//! The bounded buffer between producers and consumers (CS:APP section 12.5.4, sbuf): a ring with a
//! front, a rear and two counts, for threads of one process.
//!
//! The classic has two semaphores, for slots and for items. Here one lock guards the counts and two
//! conditions announce their changes, because a wait must be able to time out. Threads that
//! wait are counted under the lock, so a change that no thread waits for costs no system call.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, MutexGuard};

/// A first-in, first-out queue of at most a fixed number of values between threads.
#[derive(Debug)]
pub struct Buffer<T> {
    inside: Mutex<Inside<T>>,
    capacity: usize,
    /// An item has come.
    came: Condvar,
    /// A slot became free, or a thread began to wait for an item.
    freed: Condvar,
}

#[derive(Debug)]
struct Inside<T> {
    items: VecDeque<T>,
    /// Threads that wait for an item, also those that were woken and have not run yet.
    takers: usize,
    /// Threads that wait for a slot or for a taker.
    watchers: usize,
}

impl<T> Buffer<T> {
    /// An empty buffer of `capacity` slots, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let items = VecDeque::with_capacity(capacity);
        let inside = Mutex::new(Inside { items, takers: 0, watchers: 0 });
        Self { inside, capacity, came: Condvar::new(), freed: Condvar::new() }
    }

    /// The number of values in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Whether the buffer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().items.is_empty()
    }

    /// Puts `value` at the rear.
    ///
    /// # Errors
    /// The value, if all slots are taken.
    pub fn try_put(&self, value: T) -> Result<(), T> {
        let mut inside = self.lock();
        if inside.items.len() == self.capacity {
            return Err(value);
        }
        inside.items.push_back(value);
        // If there were as many items as takers already, each of them was woken for one.
        let is_awaited = inside.items.len() <= inside.takers;
        drop(inside);
        if is_awaited {
            self.came.notify_one();
        }
        Ok(())
    }

    /// Waits up to `timeout` for a free slot; returns whether there is one. With a single producer,
    /// the slot stays free until that producer fills it.
    #[must_use]
    pub fn wait_room(&self, timeout: Duration) -> bool {
        self.watch(timeout, |inside| inside.items.len() < self.capacity)
    }

    /// Waits up to `timeout` until a slot is free and more threads wait in [`Buffer::take`] than
    /// there are items; returns whether that is so. With a single producer, its next item is taken
    /// at once, unless a thread stops waiting at that moment.
    #[must_use]
    pub fn wait_taker(&self, timeout: Duration) -> bool {
        self.watch(timeout, |inside| inside.items.len() < inside.takers.min(self.capacity))
    }

    /// Waits up to `timeout` until `is_so`; returns whether it is.
    fn watch(&self, timeout: Duration, is_so: impl Fn(&Inside<T>) -> bool) -> bool {
        let until = Instant::now() + timeout;
        let mut inside = self.lock();
        while !is_so(&inside) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            inside.watchers += 1;
            let waited = self.freed.wait_timeout(inside, left);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
            inside.watchers -= 1;
        }
        true
    }

    /// Takes the value at the front, if there is one.
    #[must_use]
    pub fn try_take(&self) -> Option<T> {
        self.take_front(self.lock()).ok()
    }

    /// Takes the value at the front, after waiting up to `timeout` for one.
    #[must_use]
    pub fn take(&self, timeout: Duration) -> Option<T> {
        let until = Instant::now() + timeout;
        let mut inside = self.lock();
        loop {
            inside = match self.take_front(inside) {
                Ok(value) => return Some(value),
                Err(inside) => inside,
            };
            let left = until.checked_duration_since(Instant::now())?;
            inside.takers += 1;
            if inside.watchers > 0 {
                self.freed.notify_one();
            }
            let waited = self.came.wait_timeout(inside, left);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
            inside.takers -= 1;
        }
    }

    /// Takes the value at the front; the lock, if there is none.
    fn take_front<'a>(
        &self,
        mut inside: MutexGuard<'a, Inside<T>>,
    ) -> Result<T, MutexGuard<'a, Inside<T>>> {
        let Some(value) = inside.items.pop_front() else { return Err(inside) };
        let is_watched = inside.watchers > 0;
        drop(inside);
        if is_watched {
            self.freed.notify_one();
        }
        Ok(value)
    }

    /// A panic elsewhere leaves the ring intact.
    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    const LATE: Duration = Duration::from_secs(10);

    #[test]
    fn a_full_buffer_gives_the_value_back_and_an_empty_one_nothing() {
        let buffer = Buffer::new(2);
        assert_eq!(
            (buffer.try_put(1), buffer.try_put(2), buffer.try_put(3)),
            (Ok(()), Ok(()), Err(3))
        );
        assert!(!buffer.wait_room(Duration::from_millis(1)));
        assert_eq!((buffer.try_take(), buffer.len()), (Some(1), 1));
        assert!(buffer.wait_room(Duration::ZERO));
        assert_eq!((buffer.take(LATE), buffer.try_take()), (Some(2), None));
        assert_eq!(buffer.take(Duration::from_millis(1)), None);
        assert!(buffer.is_empty());
    }

    #[test]
    fn who_waits_is_counted_until_an_item_is_there_for_him() {
        let buffer = Buffer::new(8);
        assert!(!buffer.wait_taker(Duration::from_millis(1)), "nobody waits");
        thread::scope(|threads| {
            let takers: Vec<_> =
                (0..2).map(|_| threads.spawn(|| buffer.take(LATE).expect("an item"))).collect();
            let mut put = 0;
            while put < 2 {
                assert!(buffer.wait_taker(LATE), "item {put}");
                buffer.try_put(put).expect("room");
                put += 1;
            }
            let mut taken: Vec<_> = takers.into_iter().map(|it| it.join().unwrap()).collect();
            taken.sort_unstable();
            assert_eq!(taken, [0, 1]);
        });
        assert!(!buffer.wait_taker(Duration::from_millis(1)), "nobody waits any more");
    }

    #[test]
    fn no_more_is_asked_for_than_there_are_slots() {
        // Threads that were notified and have not run yet still count as waiting.
        let inside = Inside { items: VecDeque::from([1, 2]), takers: 5, watchers: 0 };
        let buffer = Buffer {
            inside: Mutex::new(inside),
            capacity: 2,
            came: Condvar::new(),
            freed: Condvar::new(),
        };
        assert!(!buffer.wait_taker(Duration::from_millis(1)), "five wait, but nothing fits");
        assert_eq!(buffer.try_take(), Some(1));
        assert!(buffer.wait_taker(LATE));
    }

    #[test]
    fn every_value_comes_out_once_and_in_the_order_of_its_thread() {
        let (buffer, each) = (Buffer::new(3), 2000);
        let taken = thread::scope(|threads| {
            for lane in 0..2 {
                let buffer = &buffer;
                threads.spawn(move || {
                    for number in 0..each {
                        let mut value = (lane, number);
                        while let Err(back) = buffer.try_put(value) {
                            value = back;
                            let _ = buffer.wait_room(LATE);
                        }
                    }
                });
            }
            let take = || {
                let next = || buffer.take(Duration::from_millis(500));
                std::iter::from_fn(next).collect::<Vec<_>>()
            };
            let takers = [(); 3].map(|()| threads.spawn(take));
            takers.map(|taker| taker.join().unwrap())
        });
        for list in &taken {
            for lane in 0..2 {
                let numbers = list.iter().filter(|value| value.0 == lane).map(|value| value.1);
                assert!(numbers.is_sorted(), "one taker sees a lane in its order");
            }
        }
        let mut all = taken.concat();
        all.sort_unstable();
        let expected: Vec<_> = (0..2).flat_map(|lane| (0..each).map(move |n| (lane, n))).collect();
        assert_eq!(all, expected);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::explore;
    use loom::sync::Arc;
    use loom::thread;

    /// No wait of the model ends by itself, so a lost wake-up is a deadlock.
    const EVER: Duration = Duration::from_secs(1_000_000);

    /// Two threads take an item each, and `put` puts each into `capacity` slots.
    fn check(capacity: usize, put: impl Fn(&Buffer<usize>, usize) + Sync + Send + 'static) {
        explore(move || {
            let buffer = Arc::new(Buffer::new(capacity));
            let takers = [(); 2].map(|()| {
                let buffer = Arc::clone(&buffer);
                thread::spawn(move || buffer.take(EVER))
            });
            (0..2).for_each(|item| put(&buffer, item));
            let mut taken = takers.map(|taker| taker.join().unwrap());
            taken.sort_unstable();
            assert_eq!(taken, [Some(0), Some(1)]);
        });
    }

    #[test]
    fn loom_each_item_wakes_a_taker() {
        check(1, |buffer, item| {
            while buffer.try_put(item).is_err() {
                assert!(buffer.wait_room(EVER));
            }
        });
    }

    #[test]
    fn loom_a_taker_and_a_free_slot_wake_the_producer() {
        check(2, |buffer, item| {
            assert!(buffer.wait_taker(EVER));
            assert_eq!(buffer.try_put(item), Ok(()));
        });
    }

    #[test]
    fn loom_a_take_without_a_wait_leaves_no_waiter_asleep() {
        check(2, |buffer, item| {
            assert_eq!(buffer.try_put(item), Ok(()));
            if let Some(back) = buffer.try_take() {
                assert_eq!(buffer.try_put(back), Ok(()));
            }
        });
    }
}
