//! The monotonic clock (clock_gettime(2), `CLOCK_MONOTONIC`), and a thread's CPU clock.
//!
//! The monotonic clock counts from an unspecified start, usually boot, and is the same for all
//! processes of the machine: times in shared memory are comparable between processes.

/// Nanoseconds on the monotonic clock. Costs a few tens of nanoseconds through the vDSO, without a
/// system call.
#[must_use]
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in nanoseconds. Costs a system call.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Sleeps until `at_ns` on [`now_ns`]'s clock; returns at once if that is past (clock_nanosleep(2)
/// with `TIMER_ABSTIME`). A sleep interrupted by a signal continues: an absolute time needs no new
/// arithmetic.
pub fn sleep_until(at_ns: u64) {
    let at = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
    };
    let (clock, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
    // SAFETY: `at` is a timespec that the call may read; with an absolute time nothing is written.
    while unsafe { libc::clock_nanosleep(clock, flags, &at, std::ptr::null_mut()) } == libc::EINTR {
    }
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    // clock_gettime fails only for an unknown clock or a bad pointer.
    assert_eq!(result, 0, "clock_gettime({clock}) failed");
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::{now_ns, sleep_until};

    #[test]
    fn it_never_goes_back_and_does_go_on() {
        let first = now_ns();
        let mut last = first;
        while last < first + 1_000_000 {
            let now = now_ns();
            assert!(now >= last, "{now} came after {last}");
            last = now;
        }
    }

    #[test]
    fn a_sleep_until_a_moment_is_never_short_and_the_past_needs_none() {
        let at = now_ns() + 2_000_000;
        sleep_until(at);
        assert!(now_ns() >= at);
        sleep_until(0);
    }
}
