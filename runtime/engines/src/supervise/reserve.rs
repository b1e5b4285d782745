//! A descriptor for the last save.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A descriptor held in reserve: where workers are threads, their clients can take all descriptors
/// of the process, and saving needs one.
pub(super) struct Reserve(Option<File>);

impl Reserve {
    /// Takes a descriptor, if one is left.
    pub(super) fn take() -> Reserve {
        Reserve(File::open(NOTHING).ok())
    }

    /// The descriptor, while it is held.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Frees the descriptor, for a file that is about to be opened.
    pub(super) fn release(&mut self) {
        self.0 = None;
    }

    /// Whether no other descriptor is left while the reserve is.
    pub(super) fn is_needed(&self) -> bool {
        let is_out = |error: io::Error| matches!(error.raw_os_error(), Some(MFILE | NFILE));
        self.0.is_some() && File::open(NOTHING).is_err_and(is_out)
    }

    /// Takes a descriptor again, as soon as one is free.
    pub(super) fn refill(&mut self) {
        if self.0.is_none() {
            self.0 = File::open(NOTHING).ok();
        }
    }
}

/// A file that always opens.
const NOTHING: &str = "/dev/null";

// errno(3), Linux: no descriptor is left in the system, in the process.
const NFILE: i32 = 23;
const MFILE: i32 = 24;
