//! Atomics and sleeping, from the standard library or from loom.
//!
//! loom (`--cfg loom`) runs a test under every interleaving and every value that the memory model
//! lets a load return. Its futex is a lock and a condition, so a lost wake-up shows as a
//! deadlock, which loom reports.

#[cfg(not(loom))]
pub(crate) use machine::*;
#[cfg(loom)]
pub(crate) use model::*;

#[cfg(not(loom))]
mod machine {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    use std::time::Duration;
    use sys::futex::{self, Scope};

    /// Polls of a word before its waiter sleeps: about a microsecond, the order of a section
    /// guarded here and below the cost of a sleep and a wake.
    pub(crate) const SPINS: u32 = 40;

    pub(crate) fn wait(word: &AtomicU32, expected: u32) {
        futex::wait(word, expected, None, Scope::Shared);
    }

    pub(crate) fn wake(word: &AtomicU32, count: u32) {
        futex::wake(word, count, Scope::Shared);
    }

    pub(crate) fn spin() {
        std::hint::spin_loop();
    }

    /// Waits a little for an event without a notification: the `turn`-th time in a row.
    pub(crate) fn pause(turn: u32) {
        match turn {
            0..SPINS => spin(),
            // A writer that lost its processor, perhaps to this thread, gets it back here.
            SPINS..100 => std::thread::yield_now(),
            // A writer was stopped or killed: the supervisor heals it in milliseconds, or never.
            _ => std::thread::sleep(Duration::from_micros(100)),
        }
    }

    /// Writes `value` so that it is visible before any later load of this thread.
    #[inline]
    pub(crate) fn announce(word: &AtomicU64, value: u64) {
        // On x86-64 the exchange is a full barrier and cheaper than a store with a fence.
        word.swap(value, Ordering::SeqCst);
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

    pub(crate) const SPINS: u32 = 0;

    loom::lazy_static! {
        /// The queue of all sleepers. Waking too many is harmless; the
        /// model searches for waking too few.
        static ref BED: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn wait(word: &AtomicU32, expected: u32) {
        let guard = BED.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(BED.1.wait(guard).unwrap());
        }
    }

    pub(crate) fn wake(_word: &AtomicU32, count: u32) {
        let _guard = BED.0.lock().unwrap();
        if count == 1 { BED.1.notify_one() } else { BED.1.notify_all() }
    }

    pub(crate) fn spin() {
        loom::thread::yield_now();
    }

    pub(crate) fn pause(_turn: u32) {
        loom::thread::yield_now();
    }

    pub(crate) fn announce(word: &AtomicU64, value: u64) {
        word.swap(value, Ordering::SeqCst);
        // loom treats sequentially consistent accesses as acquire and release; the fence restores
        // the meaning of the exchange.
        fence(Ordering::SeqCst);
    }

    /// Runs a test under every interleaving with up to three preemptions.
    #[cfg(test)]
    pub(crate) fn explore(life: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(life);
    }

    /// A number of which loom reports every access that another thread's change overlaps.
    #[cfg(test)]
    #[derive(Default)]
    pub(crate) struct Watched(loom::cell::UnsafeCell<u32>);

    // SAFETY: the model checks that accesses do not overlap.
    #[cfg(test)]
    unsafe impl Sync for Watched {}

    #[cfg(test)]
    impl Watched {
        pub(crate) fn add(&self, more: u32) {
            // SAFETY: loom reports any concurrent access.
            self.0.with_mut(|value| unsafe { *value += more });
        }

        pub(crate) fn read(&self) -> u32 {
            // SAFETY: loom reports any concurrent change.
            self.0.with(|value| unsafe { *value })
        }
    }
}
