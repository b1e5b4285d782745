//! Making a ring. All flags are those of Linux 6.1, the oldest kernel for which rings are made.
//!
//! Two modes of io_uring are not used. `IORING_SETUP_SQPOLL` makes a kernel thread spin for each
//! ring, which takes a core from a worker and excludes `DEFER_TASKRUN`. Descriptors that exist only
//! in the ring cannot be shut down, measured or passed by system calls, as the engine needs.

use std::io;

use io_uring::IoUring;

/// The settings of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Submission queue entries, 1 to 32768; the kernel rounds up to a power of two. The queue of
    /// completions is four times as long.
    pub entries: u32,
    /// The number of provided receive buffers: a power of two, at most 32768.
    pub buffers: u16,
    /// Bytes in each of them.
    pub buffer_len: u32,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { entries: 256, buffers: 256, buffer_len: 2048 }
    }
}

/// The threads that submit to a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Issuers {
    /// One, which processes completions only while it waits (`IORING_SETUP_DEFER_TASKRUN`, 6.1).
    One,
    /// Several.
    Many,
}

/// Makes a ring. One bad entry does not stop those after it (`SUBMIT_ALL`), and a completion
/// interrupts no thread (`COOP_TASKRUN`).
pub(super) fn build(setup: &Setup, issuers: Issuers) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork();
    builder.setup_cqsize(setup.entries.saturating_mul(4)).setup_submit_all().setup_coop_taskrun();
    if issuers == Issuers::One {
        builder.setup_single_issuer().setup_defer_taskrun();
    }
    builder.build(setup.entries)
}
