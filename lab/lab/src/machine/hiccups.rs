//! A thread that only sleeps, and records how late it wakes.
//!
//! When the hypervisor takes the machine away, or the kernel stalls, every sleeper wakes late, and
//! so would any measurement (after Gil Tene's *jHiccup*). The thread runs next to each trial at 100
//! Hz, which costs about a thousandth of a core. It may run on all cores, so that the scheduler
//! puts it where it wakes soonest. Pinned to the server's core it would measure the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The interval between two readings of the clock.
const PERIOD: Duration = Duration::from_millis(10);
/// The flag that ends the thread: the highest bit of the word that holds the greatest lateness.
const STOP: u64 = 1 << 63;

/// A running meter.
pub struct Hiccups {
    state: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Hiccups {
    /// Starts the thread. If that fails, the lateness stays 0.
    pub fn start() -> Hiccups {
        let state = Arc::new(AtomicU64::new(0));
        let mine = Arc::clone(&state);
        let thread = thread::Builder::new().name("hiccups".to_string()).spawn(move || {
            while mine.load(Ordering::Relaxed) & STOP == 0 {
                let due = Instant::now() + PERIOD;
                thread::park_timeout(PERIOD);
                let late = Instant::now().saturating_duration_since(due).as_nanos() as u64;
                // The highest bit is kept, because `fetch_max` would lose to a larger lateness.
                let _ = mine.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                    Some((state & STOP) | (state & !STOP).max(late))
                });
            }
        });
        Hiccups { state, thread: thread.ok() }
    }

    /// Ends the thread; returns its greatest wake-up delay.
    pub fn stop(mut self) -> Duration {
        self.end();
        Duration::from_nanos(self.state.load(Ordering::Relaxed) & !STOP)
    }

    fn end(&mut self) {
        self.state.fetch_or(STOP, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread does not panic, and a panic would change no result.
            let _ = thread.join();
        }
    }
}

impl Drop for Hiccups {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_at_once_and_has_an_answer() {
        let begun = Instant::now();
        let meter = Hiccups::start();
        thread::sleep(Duration::from_millis(25));
        let late = meter.stop();
        assert!(late < begun.elapsed(), "{late:?}");
    }
}
