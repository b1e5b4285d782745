//! CPU affinity of the calling thread (sched_setaffinity(2)).
//!
//! A child process or thread inherits a copy of its parent's mask.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of the calling thread, ascending.
///
/// # Errors
/// `EINVAL` on a machine with more than 1024 processors, the size of glibc's set.
pub fn affinity() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins the calling thread to `cpus`.
///
/// # Errors
/// `InvalidInput` for a number above 1023; `EINVAL` where none of them is usable.
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        let limit = CpuSet::MAX_CPU;
        if cpu >= limit {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("expected processors below {limit}, found {cpu}; name one from `nproc`"),
            ));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
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
            assert_eq!(rustix::thread::sched_getcpu(), cpu);
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
