//! A lock that names its owner, for memory that outlives the owner.
//!
//! One word: 0 is free; otherwise the owner's mark, and a bit that says a worker sleeps. It is the
//! mutex of Drepper, "Futexes Are Tricky" (2011), section 5, with a name in place of the 1.
//!
//! The surprising thing: a killed worker loses more than the lock. It may also lose a wake-up that
//! it had received or was about to send. Releasing on its behalf therefore wakes all sleepers, even
//! if the dead worker held nothing.

use seam::{SHARDS_MAX, WorkerId};

use crate::sync::{AtomicU32, Ordering, SPINS, spin, wait, wake};

const CONTENDED: u32 = 1 << 31;
/// Generations that a mark can distinguish: 31 bits less the worker slot.
const GENERATIONS: u32 = CONTENDED / SHARDS_MAX as u32;

/// A mutual exclusion between workers. It holds no data of its own: it guards adjacent atomics,
/// which may then be read and written one after the other.
///
/// The all-zero bytes are a free lock.
#[derive(Debug)]
#[repr(transparent)]
pub struct Lock {
    word: AtomicU32,
}

impl Default for Lock {
    fn default() -> Self {
        Self { word: AtomicU32::new(0) }
    }
}

impl Lock {
    /// Takes the lock for `me`, after waiting if need be. Dropping the returned value releases it,
    /// also when a panic unwinds.
    ///
    /// # Panics
    /// If `me` holds it already.
    pub fn lock(&self, me: WorkerId) -> Locked<'_> {
        let mark = mark(me);
        self.acquire(mark);
        Locked { lock: self, mark }
    }

    /// Takes the lock for `me` if it is free.
    pub fn try_lock(&self, me: WorkerId) -> Option<Locked<'_>> {
        let mark = mark(me);
        self.word
            .compare_exchange(0, mark, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| Locked { lock: self, mark })
    }

    /// Whether a worker holds it; exact only at the instant of asking.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::SeqCst) != 0
    }

    /// Whether `worker` holds it.
    #[must_use]
    pub fn is_held_by(&self, worker: WorkerId) -> bool {
        self.word.load(Ordering::SeqCst) & !CONTENDED == mark(worker)
    }

    /// Releases the lock on behalf of `dead`, which must have ended and have no successor yet;
    /// returns whether `dead` held the lock. Wakes all sleepers in any case.
    pub fn force_release(&self, dead: WorkerId) -> bool {
        let mark = mark(dead);
        let mut seen = self.word.load(Ordering::Acquire);
        let mut held = false;
        while seen & !CONTENDED == mark && !held {
            // The sleepers may still add their bit, but the mark cannot change: its owner is dead.
            match self.word.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => held = true,
                Err(now) => seen = now,
            }
        }
        wake(&self.word, u32::MAX);
        held
    }

    pub(crate) fn acquire(&self, mark: u32) {
        if self.word.compare_exchange(0, mark, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.acquire_contended(mark);
        }
    }

    #[cold]
    fn acquire_contended(&self, mark: u32) {
        let mut new = mark;
        loop {
            let seen = self.spin_while_held();
            if seen == 0 {
                match self.word.compare_exchange(0, new, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(_) => continue,
                }
            }
            self.sleep(seen, mark);
            // Other workers may sleep too, and the wake-up cleared the bit that says so.
            new = mark | CONTENDED;
        }
    }

    /// Waits until the lock is free, without taking it.
    #[cold]
    pub(crate) fn wait_until_free(&self, mark: u32) {
        loop {
            let seen = self.spin_while_held();
            if seen == 0 {
                return;
            }
            self.sleep(seen, mark);
        }
    }

    /// Releases the lock and wakes at most `count` sleepers.
    pub(crate) fn release(&self, mark: u32, count: u32) {
        let former = self.word.swap(0, Ordering::Release);
        debug_assert_eq!(former & !CONTENDED, mark, "a lock was released for a living owner");
        if former & CONTENDED != 0 {
            wake(&self.word, count);
        }
    }

    /// The word after a short wait for it to become 0.
    fn spin_while_held(&self) -> u32 {
        let mut seen = self.word.load(Ordering::Relaxed);
        for _ in 0..SPINS {
            // Where other workers sleep already, spinning would only overtake them.
            if seen == 0 || seen & CONTENDED != 0 {
                break;
            }
            spin();
            seen = self.word.load(Ordering::Relaxed);
        }
        seen
    }

    /// Sleeps if the word is still `seen`, after adding the sleeper bit.
    fn sleep(&self, seen: u32, mark: u32) {
        assert_ne!(seen & !CONTENDED, mark, "a worker waits for a lock that it holds itself");
        let told = seen | CONTENDED;
        let ready = seen == told
            || self.word.compare_exchange(seen, told, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if ready {
            wait(&self.word, told);
        }
    }
}

/// Proof of holding a [`Lock`]; dropping it releases the lock.
#[must_use = "a lock is given up when its proof is dropped"]
#[derive(Debug)]
pub struct Locked<'a> {
    lock: &'a Lock,
    mark: u32,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.lock.release(self.mark, 1);
    }
}

/// A worker in 31 bits, never 0. The mark keeps 19 of the generation's 20 bits. That is safe for
/// half a million successors, because a worker slot has one living worker and its locks are healed
/// before the next one starts.
pub(crate) fn mark(worker: WorkerId) -> u32 {
    let generation = (worker.generation() - 1) % (GENERATIONS - 1) + 1;
    generation * SHARDS_MAX as u32 + worker.slot() as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn worker(slot: usize) -> WorkerId {
        WorkerId::new(slot, 1)
    }

    #[test]
    fn marks_are_never_free_nor_contended_and_tell_neighbours_apart() {
        for slot in [0, 1, 77, SHARDS_MAX - 1] {
            for generation in [1, 2, GENERATIONS - 1, GENERATIONS, GENERATIONS + 1, (1 << 20) - 2] {
                let mark_of = mark(WorkerId::new(slot, generation));
                assert!(mark_of != 0 && mark_of & CONTENDED == 0);
                assert_ne!(mark_of, mark(WorkerId::new(slot, generation + 1)));
                assert_ne!(mark_of, mark(WorkerId::new((slot + 1) % SHARDS_MAX, generation)));
            }
        }
    }

    #[test]
    fn a_held_lock_is_refused_and_named() {
        let lock = Lock::default();
        let held = lock.lock(worker(3));
        assert!(lock.is_held() && lock.is_held_by(worker(3)) && !lock.is_held_by(worker(4)));
        assert!(lock.try_lock(worker(4)).is_none());
        assert!(!lock.force_release(worker(4)));
        assert!(!lock.force_release(WorkerId::new(3, 2)), "a successor is not the dead");
        drop(held);
        assert!(!lock.is_held() && lock.try_lock(worker(4)).is_some());
    }

    #[test]
    #[should_panic(expected = "holds itself")]
    fn locking_twice_is_told_not_slept() {
        let lock = Lock::default();
        let _held = lock.lock(worker(1));
        let _again = lock.lock(worker(1));
    }

    #[test]
    fn a_wake_up_that_died_with_its_sender_is_made_up_for() {
        let lock = Lock::default();
        std::mem::forget(lock.lock(worker(0)));
        std::thread::scope(|threads| {
            for slot in 1..3 {
                let lock = &lock;
                threads.spawn(move || drop(lock.lock(worker(slot))));
            }
            while lock.word.load(Ordering::Relaxed) & CONTENDED == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            // A release that is killed half-way leaves a free word and two sleepers.
            lock.word.store(0, Ordering::Release);
            assert!(!lock.force_release(worker(0)));
        });
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{Watched, explore};
    use loom::sync::Arc;
    use loom::thread;

    #[derive(Default)]
    struct Shared {
        lock: Lock,
        value: Watched,
    }

    fn add(shared: &Shared, slot: usize) {
        let _held = shared.lock.lock(WorkerId::new(slot, 1));
        shared.value.add(1);
    }

    #[test]
    fn loom_three_workers_exclude_each_other() {
        explore(|| {
            let shared = Arc::new(Shared::default());
            let others: Vec<_> = (1..3)
                .map(|slot| {
                    let shared = shared.clone();
                    thread::spawn(move || add(&shared, slot))
                })
                .collect();
            add(&shared, 0);
            others.into_iter().for_each(|it| it.join().unwrap());
            assert_eq!(shared.value.read(), 3);
        });
    }

    #[test]
    fn loom_a_forced_release_lets_the_living_go_on() {
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            let dead = WorkerId::new(0, 1);
            std::mem::forget(shared.lock.lock(dead));
            let living = {
                let shared = shared.clone();
                thread::spawn(move || add(&shared, 1))
            };
            assert!(shared.lock.force_release(dead));
            living.join().unwrap();
        });
    }
}
