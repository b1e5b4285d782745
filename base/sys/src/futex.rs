//! Sleeping until a word of memory changes (futex(2)).
//!
//! The kernel compares and goes to sleep in one step, so a wake between a caller's last check and
//! its sleep is not lost. It does not report why a sleep ended: always check again.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

/// The processes that use the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of one process; the kernel finds the word by its address, which is cheaper.
    Private,
    /// Processes that map the same memory; the kernel finds the word by page and offset.
    Shared,
}

/// The result of a [`wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Woken, possibly by a signal: the word may or may not have changed.
    Woken,
    /// The word did not hold the expected value; the thread did not sleep.
    Differed,
    /// The timeout expired.
    TimedOut,
}

/// Sleeps while `word` holds `expected`, for at most `timeout` (`None`: forever).
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>, scope: Scope) -> Waited {
    // A time that cannot be represented never comes.
    let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
    match futex::wait(word, flags(scope), expected, timeout.as_ref()) {
        Ok(()) | Err(Errno::INTR) => Waited::Woken,
        Err(Errno::AGAIN) => Waited::Differed,
        Err(Errno::TIMEDOUT) => Waited::TimedOut,
        // The remaining errors are a bad address, alignment, operation or time; none is possible
        // here.
        Err(other) => panic!("futex wait failed: {other}"),
    }
}

/// Wakes at most `count` sleepers on `word`; returns how many it woke.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> usize {
    let count = count.min(i32::MAX.cast_unsigned());
    futex::wake(word, flags(scope), count).expect("a wake of a valid word cannot fail")
}

fn flags(scope: Scope) -> Flags {
    match scope {
        Scope::Private => Flags::PRIVATE,
        Scope::Shared => Flags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;

    const SCOPES: [Scope; 2] = [Scope::Private, Scope::Shared];

    #[test]
    fn a_word_that_differs_is_not_slept_on() {
        for scope in SCOPES {
            let word = AtomicU32::new(1);
            assert_eq!(wait(&word, 0, None, scope), Waited::Differed);
            assert_eq!(wait(&word, 1, Some(Duration::from_millis(1)), scope), Waited::TimedOut);
            assert_eq!(wake(&word, 1, scope), 0);
        }
    }

    #[test]
    fn a_change_and_a_wake_end_every_sleep() {
        for scope in SCOPES {
            let word = AtomicU32::new(0);
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| {
                        while word.load(SeqCst) == 0 {
                            wait(&word, 0, None, scope);
                        }
                    });
                }
                word.store(1, SeqCst);
                wake(&word, u32::MAX, scope);
            });
        }
    }

    #[test]
    fn a_wake_counts_the_woken() {
        let word = AtomicU32::new(0);
        std::thread::scope(|threads| {
            let sleeper = threads.spawn(|| wait(&word, 0, None, Scope::Private));
            while wake(&word, 1, Scope::Private) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(sleeper.join().unwrap(), Waited::Woken);
        });
    }
}
