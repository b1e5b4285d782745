//! CPU affinity of the calling thread (sched_setaffinity(2)).
//!
//! A child process or thread inherits a copy of its parent's mask.

use std::io;

use crate::call::check;

/// The processors of the calling thread, ascending.
///
/// # Errors
/// `EINVAL` on a machine with more than 1024 processors, the size of glibc's set.
pub fn affinity() -> io::Result<Vec<usize>> {
    // SAFETY: a cpu_set_t is an array of integers, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable and has the size that is passed; 0 means the calling thread.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) })?;
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: every index is below CPU_SETSIZE, hence inside the set.
    Ok(all.filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Pins the calling thread to `cpus`.
///
/// # Errors
/// `InvalidInput` for a number above 1023; `EINVAL` where none of them is usable.
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: a cpu_set_t is an array of integers, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            let limit = libc::CPU_SETSIZE;
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("expected processors below {limit}, found {cpu}; name one from `nproc`"),
            ));
        }
        // SAFETY: `cpu` is below CPU_SETSIZE, hence inside the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` is readable and has the size that is passed; 0 means the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) }).map(|_| ())
}

/// The number of processors that the calling thread may use; at least one.
#[must_use]
pub fn count() -> usize {
    affinity().map_or(1, |cpus| cpus.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_was_tied_to() {
        let before = affinity().unwrap();
        assert_eq!(before.len(), count());
        for &cpu in &before {
            set_affinity(&[cpu]).unwrap();
            assert_eq!(affinity().unwrap(), [cpu]);
            assert_eq!(count(), 1);
            // SAFETY: no argument, no memory.
            assert_eq!(unsafe { libc::sched_getcpu() }, i32::try_from(cpu).unwrap());
        }
        set_affinity(&before).unwrap();
        assert_eq!(affinity().unwrap(), before);
    }

    #[test]
    fn processors_that_do_not_exist_are_refused() {
        let before = affinity().unwrap();
        assert_eq!(set_affinity(&[1 << 20]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(set_affinity(&[]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(affinity().unwrap(), before);
    }
}
