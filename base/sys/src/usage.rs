//! Resource usage of a process or thread (getrusage(2)).
//!
//! The sum of user and system time is exact, in microseconds. Only its split is sampled at the
//! tick, so the split is not offered here. Ended threads count for their process.

use std::time::Duration;

/// CPU time and context switches since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// Voluntary context switches.
    pub waits: u64,
    /// Involuntary context switches.
    pub preempted: u64,
}

impl Usage {
    /// The usage of the process, including all of its threads.
    #[must_use]
    pub fn of_process() -> Usage {
        Usage::read(libc::RUSAGE_SELF)
    }

    /// The usage of the calling thread.
    #[must_use]
    pub fn of_thread() -> Usage {
        Usage::read(libc::RUSAGE_THREAD)
    }

    /// The usage since `before`.
    #[must_use]
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            cpu: self.cpu.saturating_sub(before.cpu),
            waits: self.waits.saturating_sub(before.waits),
            preempted: self.preempted.saturating_sub(before.preempted),
        }
    }

    fn read(who: libc::c_int) -> Usage {
        // SAFETY: a rusage is made of integers, for which zero is a value.
        let mut found: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `found` is a rusage that the call may write.
        let result = unsafe { libc::getrusage(who, &mut found) };
        // It fails only for an unknown `who` or a bad pointer.
        assert_eq!(result, 0, "getrusage({who}) failed");
        let time = |it: libc::timeval| {
            Duration::from_micros(
                it.tv_sec.cast_unsigned() * 1_000_000 + it.tv_usec.cast_unsigned(),
            )
        };
        Usage {
            cpu: time(found.ru_utime) + time(found.ru_stime),
            waits: found.ru_nvcsw.cast_unsigned(),
            preempted: found.ru_nivcsw.cast_unsigned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Usage;
    use std::time::Duration;

    #[test]
    fn a_thread_that_waits_is_charged_for_waiting_and_one_that_spins_for_time() {
        let before = (Usage::of_thread(), Usage::of_process());
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let spinning = crate::clock::thread_cpu_ns() + 3_000_000;
        while crate::clock::thread_cpu_ns() < spinning {}
        let mine = Usage::of_thread().since(&before.0);
        let all = Usage::of_process().since(&before.1);
        assert!(mine.waits >= 3 && mine.cpu >= Duration::from_millis(2), "{mine:?}");
        assert!(all.waits >= mine.waits && all.cpu >= Duration::from_millis(2), "{all:?}");
    }
}
