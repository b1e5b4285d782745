//! Scheduling of a thread: nice values (setpriority(2)) and real-time priorities
//! (sched_setscheduler(2)).
//!
//! POSIX assigns a nice value to a process, Linux to a thread; here it is the thread's. Where
//! sessions are grouped (`sched_autogroup_enabled`, common on desktops) a nice value counts only
//! among the threads of its session; a real-time priority counts everywhere.

use std::io;

use rustix::process::{Resource, getpriority_process, getrlimit, setpriority_process};

use crate::call::check_long;
use crate::process::Pid;

/// The argument of glibc's sched_setscheduler(3), which musl lacks.
#[repr(C)]
struct Priority(libc::c_int);

/// The policy and priority of a thread, to be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    policy: libc::c_int,
    priority: libc::c_int,
}

impl Turn {
    /// The real-time priority (1 to 99) under `SCHED_FIFO`.
    #[must_use]
    pub fn fifo(self) -> Option<u32> {
        let is_fifo = self.policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO;
        is_fifo.then(|| self.priority.cast_unsigned())
    }

    /// Whether its children start with the default policy (`SCHED_RESET_ON_FORK`).
    #[must_use]
    pub fn resets_on_fork(self) -> bool {
        self.policy & libc::SCHED_RESET_ON_FORK != 0
    }

    /// `SCHED_FIFO` at a priority of 1 to 99, ahead of all threads with a lower one or none. With
    /// `resets`, threads and processes that it starts have the default policy; without
    /// `CAP_SYS_NICE` that flag cannot be cleared.
    #[must_use]
    pub fn in_front(priority: u32, resets: bool) -> Turn {
        let flag = if resets { libc::SCHED_RESET_ON_FORK } else { 0 };
        Turn { policy: libc::SCHED_FIFO | flag, priority: priority.cast_signed() }
    }

    /// The policy of a thread; `None` is the calling one.
    ///
    /// # Errors
    /// `ESRCH` if there is no such thread.
    pub fn of(thread: Option<Pid>) -> io::Result<Turn> {
        let number = thread.map_or(0, Pid::number);
        let mut priority = Priority(0);
        // SAFETY: no memory is passed.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, number) };
        let policy = check_long(policy)? as libc::c_int;
        // SAFETY: `priority` is writable and as long as the kernel's struct of one number.
        check_long(unsafe { libc::syscall(libc::SYS_sched_getparam, number, &mut priority) })?;
        Ok(Turn { policy, priority: priority.0 })
    }

    /// Applies the policy to a thread; `None` is the calling one.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_NICE` beyond the limit of [`bounds`], or in a control group without
    /// a real-time budget (`cpu.rt_runtime_us`); `EINVAL` for an invalid priority; `ESRCH`.
    pub fn give(self, thread: Option<Pid>) -> io::Result<()> {
        let (number, priority) = (thread.map_or(0, Pid::number), Priority(self.priority));
        // SAFETY: `priority` is readable and as long as the kernel's struct of one number.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_setscheduler, number, self.policy, &priority) };
        check_long(result).map(|_| ())
    }
}

/// The nice value of a thread, -20 to 19; `None` is the calling one.
///
/// # Errors
/// `ESRCH` if there is no such thread.
pub fn nice(thread: Option<Pid>) -> io::Result<i32> {
    Ok(getpriority_process(thread.map(Pid::raw))?)
}

/// Sets the nice value of a thread; `None` is the calling one. Its children inherit it.
///
/// # Errors
/// `EACCES` for a lower value than it has, without `CAP_SYS_NICE` and beyond the limit of
/// [`bounds`].
pub fn set_nice(thread: Option<Pid>, value: i32) -> io::Result<()> {
    Ok(setpriority_process(thread.map(Pid::raw), value)?)
}

/// The lowest nice value (`RLIMIT_NICE`) and the highest real-time priority (`RLIMIT_RTPRIO`, 0:
/// none) that this process may take without a privilege.
///
/// # Errors
/// None in practice.
pub fn bounds() -> io::Result<(i32, u32)> {
    let soft = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
    let (nice, priority) = (soft(Resource::Nice), soft(Resource::Rtprio));
    // A limit of 40 is a nice value of -20; 0 is below the worst one.
    Ok((20 - nice.clamp(1, 40) as i32, priority.min(99) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_has_a_nice_value_of_its_own() {
        let before = nice(None).unwrap();
        let worse = (before + 3).min(19);
        thread::spawn(move || {
            set_nice(None, worse).unwrap();
            assert_eq!(nice(None).unwrap(), worse);
            assert_eq!(thread::spawn(|| nice(None).unwrap()).join().unwrap(), worse);
        })
        .join()
        .unwrap();
        assert_eq!(nice(None).unwrap(), before);
        let (lowest, priority) = bounds().unwrap();
        assert!((-20..=19).contains(&lowest) && priority <= 99);
    }

    #[test]
    fn a_priority_is_one_threads_and_can_be_given_back() {
        thread::spawn(|| {
            let before = Turn::of(None).unwrap();
            assert_eq!((before.fifo(), before.resets_on_fork()), (None, false));
            if let Err(error) = Turn::in_front(1, false).give(None) {
                assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
                return;
            }
            assert_eq!(Turn::of(None).unwrap().fifo(), Some(1));
            before.give(None).unwrap();
            assert_eq!(Turn::of(None).unwrap(), before);
            Turn::in_front(1, true).give(None).unwrap();
            assert!(Turn::of(None).unwrap().resets_on_fork());
            let heir = thread::spawn(|| Turn::of(None).unwrap()).join().unwrap();
            assert_eq!(heir, before);
        })
        .join()
        .unwrap();
        let wrong = Turn::in_front(100, false).give(None).unwrap_err();
        assert_eq!(wrong.raw_os_error(), Some(libc::EINVAL));
    }
}
