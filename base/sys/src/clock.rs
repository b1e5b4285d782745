//! The monotonic clock (clock_gettime(2), `CLOCK_MONOTONIC`), and CPU clocks.
//!
//! The monotonic clock counts from an unspecified start, usually boot, and is the same for all
//! processes of the machine: times in shared memory are comparable between processes.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds on the monotonic clock. Costs a few tens of nanoseconds through the vDSO, without a
/// system call.
#[must_use]
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// How long the difference between the two clocks of the machine is believed: a step of its clock
/// is seen after this time, and a request costs no further reading of a clock.
const BELIEF_NS: u64 = 10_000_000;

/// Nanoseconds since 1970 at a moment of [`now_ns`]'s clock.
#[must_use]
pub fn wall_ns(at_ns: u64) -> u64 {
    /// The time since 1970 at the start of the monotonic clock, and when it was read; both in ns.
    static START: AtomicU64 = AtomicU64::new(0);
    static READ_AT: AtomicU64 = AtomicU64::new(0);
    let read_at = READ_AT.load(Ordering::Relaxed);
    if read_at == 0 || at_ns > read_at.saturating_add(BELIEF_NS) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (wall, now) = (u64::try_from(since.as_nanos()).unwrap_or(u64::MAX), now_ns());
        // Two threads may read at the same time: each value is right.
        START.store(wall.wrapping_sub(now), Ordering::Relaxed);
        READ_AT.store(now.max(1), Ordering::Relaxed);
    }
    START.load(Ordering::Relaxed).wrapping_add(at_ns)
}

/// CPU time of the calling thread in nanoseconds. Costs a system call.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The time that the calling thread was ready to run and waited for a core, in nanoseconds (the
/// second field of `/proc/thread-self/schedstat`); `None` where the kernel does not count it
/// (`CONFIG_SCHED_INFO`). Costs three system calls, about 5 us.
#[must_use]
pub fn thread_wait_ns() -> Option<u64> {
    let mut text = [0; 96];
    let len = File::open("/proc/thread-self/schedstat").and_then(|mut it| it.read(&mut text));
    let text = std::str::from_utf8(text.get(..len.ok()?)?).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// CPU time of all threads of process `pid`, ended ones too, in nanoseconds
/// (clock_getcpuclockid(3)); `None` if there is no such process. Costs two system calls.
#[must_use]
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    let mut clock = 0;
    let pid = libc::pid_t::try_from(pid).ok()?;
    // SAFETY: `clock` is a clock id that the call may write.
    let found = unsafe { libc::clock_getcpuclockid(pid, &mut clock) };
    if found != 0 { None } else { try_read(clock) }
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
    // clock_gettime fails only for an unknown clock or a bad pointer.
    try_read(clock).unwrap_or_else(|| panic!("clock_gettime({clock}) failed"))
}

fn try_read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    let ns = || time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
    (result == 0).then(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_wall_clock_is_that_of_the_machine() {
        let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for _ in 0..3 {
            let before = wall();
            let read = Duration::from_nanos(wall_ns(now_ns()));
            let slack = Duration::from_secs(1);
            assert!(read + slack >= before && read <= wall() + slack, "{read:?}");
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    #[test]
    fn the_time_of_ended_threads_stays_with_their_process() {
        let before = process_cpu_ns(std::process::id()).expect("we run");
        let thread = std::thread::spawn(|| {
            let end = thread_cpu_ns() + 20_000_000;
            while thread_cpu_ns() < end {}
        });
        thread.join().expect("it only counts");
        let after = process_cpu_ns(std::process::id()).expect("we run");
        assert!(after - before >= 20_000_000, "{before} {after}");
        // No process has that number: it is above the kernel's limit (proc(5), pid_max).
        assert_eq!(process_cpu_ns(4_194_999), None);
    }

    #[test]
    fn a_sleep_until_a_moment_is_never_short_and_the_past_needs_none() {
        let at = now_ns() + 2_000_000;
        sleep_until(at);
        assert!(now_ns() >= at);
        sleep_until(0);
    }
}
