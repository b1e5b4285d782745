//! Numbers in a file that all processes map: what is stored there outlives every process, and is
//! lost only with the machine.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;

use sys::map::Mapping;

/// The words of a file, in memory.
#[derive(Debug)]
pub struct FileWords(Mapping);

impl FileWords {
    /// Maps `count` words of the file, which has them already and must never become shorter:
    /// touching a word beyond its end would raise `SIGBUS`.
    ///
    /// # Errors
    /// The file is shorter, or cannot be mapped.
    pub fn map(fd: OwnedFd, count: usize) -> io::Result<FileWords> {
        Mapping::file(fd, count * size_of::<AtomicU64>()).map(FileWords)
    }

    /// All words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.0.len() / size_of::<AtomicU64>();
        // SAFETY: the mapping is aligned to a page, lives as long as `self`, is readable and
        // writable for that many words, and every access is atomic, for which all bytes are values.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), count) }
    }
}
