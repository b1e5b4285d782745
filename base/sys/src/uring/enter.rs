//! `io_uring_enter(2)` called directly, because a port enters without exclusive access to its ring.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::{EnterFlags, IoUring};

use crate::call::check_long;

/// The settings for entering a ring.
#[derive(Clone, Copy)]
pub(super) struct Enter {
    /// The ring's descriptor.
    fd: i32,
    flags: EnterFlags,
}

/// `struct io_uring_getevents_arg` (5.11).
#[repr(C)]
struct Arguments {
    sigmask: u64,
    sigmask_len: u32,
    min_wait_us: u32,
    timespec: u64,
}

/// `struct __kernel_timespec`.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// The number of <linux/io_uring.h>.
const REGISTER_NAPI: libc::c_ulong = 27;

impl Enter {
    /// A waiting worker does not count as waiting for a disk, which would raise the clock of an
    /// idle core (`IORING_ENTER_NO_IOWAIT`, 6.15).
    pub(super) fn new(ring: &IoUring) -> Enter {
        let is_known = ring.params().is_feature_no_iowait();
        let flags = if is_known { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        Enter { fd: ring.as_raw_fd(), flags }
    }

    /// Submits what is queued and waits for `want` completions, at most `timeout`.
    pub(super) fn call(
        &self,
        ring: &mut IoUring,
        want: u32,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let queued = ring.submission().len() as libc::c_uint;
        self.go(queued, want, timeout)
    }

    /// Submits up to `queued` entries and waits as [`Enter::call`] does. Exclusive access to the
    /// ring is not needed.
    pub(super) fn go(&self, queued: u32, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        let mut flags = self.flags;
        if want > 0 {
            flags |= EnterFlags::GETEVENTS;
        }
        let timespec = timeout.map(|timeout| Timespec {
            seconds: timeout.as_secs().cast_signed(),
            nanoseconds: timeout.subsec_nanos().into(),
        });
        let arguments = timespec.as_ref().map(|timespec| Arguments {
            sigmask: 0,
            sigmask_len: 0,
            min_wait_us: 0,
            timespec: std::ptr::from_ref(timespec) as u64,
        });
        let (pointer, len) = match &arguments {
            Some(arguments) => {
                flags |= EnterFlags::EXT_ARG;
                (std::ptr::from_ref(arguments), size_of::<Arguments>())
            }
            None => (std::ptr::null(), 0),
        };
        // SAFETY: the descriptor is the ring's own; the arguments and what they point to outlive
        // the call.
        check_long(unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.fd,
                queued,
                want,
                flags.bits(),
                pointer,
                len,
            )
        })
        .map(|_| ())
    }
}

/// `struct io_uring_napi` of <linux/io_uring.h>.
#[repr(C)]
struct Napi {
    microseconds: u32,
    is_preferred: u8,
    operation: u8,
    zero: [u8; 2],
    /// 0: the kernel finds the devices of the sockets.
    strategy: u32,
    reserved: u32,
}

/// Registers busy polling (io_uring_register_napi(3)); returns the former microseconds.
pub(super) fn poll_busily(ring: &IoUring, microseconds: u32) -> io::Result<u32> {
    let mut napi = Napi {
        microseconds,
        is_preferred: 1,
        operation: 0,
        zero: [0; 2],
        strategy: 0,
        reserved: 0,
    };
    // SAFETY: the kernel reads the struct and writes the former settings to it; it outlives the
    // call.
    check_long(unsafe {
        let napi = std::ptr::from_mut(&mut napi);
        libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), REGISTER_NAPI, napi, 1)
    })?;
    Ok(napi.microseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_polling_is_what_the_kernel_keeps() {
        let Ok(ring) = IoUring::new(8) else {
            println!("skipped: this machine has no ring");
            return;
        };
        match poll_busily(&ring, 60) {
            Ok(former) => assert_eq!((former, poll_busily(&ring, 10).unwrap()), (0, 60)),
            Err(why) => assert_eq!(why.raw_os_error(), Some(libc::EINVAL), "before Linux 6.9"),
        }
    }
}
