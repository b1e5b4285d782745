//! The readers-writers lock of the course: readers enter concurrently, a writer enters alone, and
//! no reader waits unless a writer is inside (the first readers-writers problem: Bryant and
//! O'Hallaron, Computer Systems: A Programmer's Perspective, 12.5.4).
//!
//! The lock counts its readers and does not name them. A killed reader stays counted for ever and
//! cannot be healed, so an engine with worker processes must refuse this lock by name;
//! [`crate::Lock`] and [`crate::Gate`] are for those. Readers go first, so a steady stream of them
//! keeps a writer out for ever, as in the textbook.

use crate::sync::{AtomicU32, Ordering, SPINS, spin, wait, wake};

/// A writer is inside.
const WRITER: u32 = 1 << 31;
/// A thread sleeps until the word changes.
const SLEEPER: u32 = 1 << 30;
/// The bits that count readers.
const READERS: u32 = SLEEPER - 1;

/// A readers-writers lock between threads. Like [`crate::Lock`] it guards adjacent data.
///
/// The all-zero bytes are a free lock.
#[derive(Debug)]
#[repr(transparent)]
pub struct RwLock {
    word: AtomicU32,
}

impl Default for RwLock {
    fn default() -> Self {
        Self { word: AtomicU32::new(0) }
    }
}

impl RwLock {
    /// Enters as a reader, after waiting while a writer is inside.
    pub fn read(&self) -> Reading<'_> {
        self.enter(|word| {
            assert!(word & READERS < READERS, "a readers-writers lock has {READERS} readers");
            (word & WRITER == 0).then_some(word + 1)
        });
        Reading { lock: self }
    }

    /// Enters as the writer, after waiting while any other thread is inside.
    pub fn write(&self) -> Sole<'_> {
        self.enter(|word| (word & !SLEEPER == 0).then_some(word | WRITER));
        Sole { lock: self }
    }

    /// Replaces the word by the result of `next`, sleeping while that is `None`.
    fn enter(&self, next: impl Fn(u32) -> Option<u32>) {
        let mut spins = 0;
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let wanted = next(seen);
            if wanted.is_none() && spins < SPINS {
                spins += 1;
                spin();
                seen = self.word.load(Ordering::Relaxed);
                continue;
            }
            let told = wanted.unwrap_or(seen | SLEEPER);
            match self.word.compare_exchange(seen, told, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if wanted.is_some() => return,
                Ok(_) => {
                    wait(&self.word, told);
                    seen = self.word.load(Ordering::Relaxed);
                }
                Err(now) => seen = now,
            }
        }
    }
}

/// Proof that the thread is inside as a reader; dropping it leaves.
#[must_use = "a reader leaves when its proof is dropped"]
#[derive(Debug)]
pub struct Reading<'a> {
    lock: &'a RwLock,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let word = &self.lock.word;
        let last = word.fetch_sub(1, Ordering::Release) == SLEEPER + 1;
        // A reader that entered since then finds the bit and wakes the sleepers when it leaves.
        if last && word.compare_exchange(SLEEPER, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            wake(word, u32::MAX);
        }
    }
}

/// Proof that the thread is inside as the only writer; dropping it leaves.
#[must_use = "the writer leaves when its proof is dropped"]
#[derive(Debug)]
pub struct Sole<'a> {
    lock: &'a RwLock,
}

impl Drop for Sole<'_> {
    fn drop(&mut self) {
        if self.lock.word.swap(0, Ordering::Release) & SLEEPER != 0 {
            wake(&self.lock.word, u32::MAX);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let lock = RwLock::default();
        let (first, second) = (lock.read(), lock.read());
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| drop(lock.write()));
            while lock.word.load(Ordering::Relaxed) & SLEEPER == 0 {
                std::thread::yield_now();
            }
            // A waiting writer does not keep readers out.
            drop(lock.read());
            drop(first);
            assert!(!writer.is_finished());
            drop(second);
            writer.join().unwrap();
        });
        assert_eq!(lock.word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_reader_never_sees_half_a_write() {
        const ROUNDS: u64 = 10_000;
        let (lock, pair) = (RwLock::default(), [AtomicU64::new(0), AtomicU64::new(0)]);
        let bump = |it: &AtomicU64| it.store(it.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for _ in 0..ROUNDS {
                        let _sole = lock.write();
                        pair.iter().for_each(bump);
                    }
                });
                threads.spawn(|| {
                    for _ in 0..ROUNDS {
                        let _reading = lock.read();
                        let [left, right] = pair.each_ref().map(|it| it.load(Ordering::Relaxed));
                        assert_eq!(left, right);
                    }
                });
            }
        });
        assert_eq!(pair.map(AtomicU64::into_inner), [2 * ROUNDS; 2]);
        assert_eq!(lock.word.load(Ordering::Relaxed), 0);
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
        lock: RwLock,
        value: Watched,
    }

    #[test]
    fn loom_a_reader_and_two_writers() {
        explore(|| {
            let shared = Arc::new(Shared::default());
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        let _sole = shared.lock.write();
                        shared.value.add(1);
                    })
                })
                .collect();
            {
                let _reading = shared.lock.read();
                assert!(shared.value.read() <= 2);
            }
            writers.into_iter().for_each(|it| it.join().unwrap());
            let _reading = shared.lock.read();
            assert_eq!(shared.value.read(), 2);
        });
    }
}
