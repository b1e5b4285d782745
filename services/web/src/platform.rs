//! The platform that the service needs, implemented by the launcher: files beneath a root, CPU time
//! and sleep.
//!
//! Each file operation comes in two kinds. The quick one may be called in a step, because it never
//! blocks: it answers from the kernel's memory or returns `None`. The other runs as a job
//! ([`seam::Then::Offload`]). So a site whose files are cached is served without jobs, and a cold
//! disk delays only the client that requested the file.

use seam::{Instant, Source};
use std::io;
use std::ops::Range;
use std::time::Duration;

/// The platform of the web service.
pub trait Platform: Sync {
    /// An open file. Dropping it closes it.
    type File: Send + 'static;

    /// Opens `path`, which is relative to the root, without blocking; `None` if that would block.
    /// With the time at which a turn began, one look may serve all requests of this turn.
    fn try_find(
        &self,
        path: &[u8],
        turn: Option<Instant>,
    ) -> Option<Result<Resource<Self::File>, LookupError>>;

    /// Opens `path`; may block.
    ///
    /// # Errors
    /// Why nothing can be served.
    fn find(&self, path: &[u8]) -> Result<Resource<Self::File>, LookupError>;

    /// The file as a source that the engine sends by itself, if `range`, in bytes, can be sent
    /// without blocking. `None`: read it.
    fn lend(&self, file: &Self::File, range: Range<u64>) -> Option<Source> {
        let _ = (file, range);
        None
    }

    /// The file as a source for callers that may block. `None`: read it.
    fn source(&self, file: &Self::File) -> Option<Source> {
        let _ = file;
        None
    }

    /// Appends at most `len` bytes of `file` from `offset` on to `into` without blocking, and
    /// returns how many; 0 only at the end of the file. `None` if that would block.
    fn read_now(
        &self,
        file: &Self::File,
        offset: u64,
        len: usize,
        into: &mut Vec<u8>,
    ) -> Option<io::Result<usize>>;

    /// The same; may block.
    ///
    /// # Errors
    /// Those of reading.
    fn read(
        &self,
        file: &Self::File,
        offset: u64,
        len: usize,
        into: &mut Vec<u8>,
    ) -> io::Result<usize>;

    /// The entries of the folder `path`, in any order.
    ///
    /// # Errors
    /// Why it cannot be listed.
    fn list(&self, path: &[u8]) -> Result<Vec<Entry>, LookupError>;

    /// The time now, for the access log; `turn` is the time at which this turn began.
    fn now(&self, turn: Instant) -> Instant {
        turn
    }

    /// Uses `time` of CPU time.
    fn compute(&self, time: Duration);

    /// Blocks for `time`.
    fn sleep(&self, time: Duration);
}

/// The object that a path names.
#[derive(Debug, PartialEq, Eq)]
pub enum Resource<F> {
    /// A regular file.
    File(F, Meta),
    /// A folder.
    Folder,
}

/// A file's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Meta {
    /// Its length in bytes.
    pub len: u64,
    /// The modification time, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// A number that differs between two contents with the same length and modification time:
    /// images and package stores set one time for every file.
    pub version: u64,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which may be no UTF-8.
    pub name: Vec<u8>,
    /// The length of a file; `None` for a folder.
    pub len: Option<u64>,
    /// The modification time, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// Why nothing can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupError {
    /// There is no such file.
    Absent,
    /// It may not be read, is not a regular file, or a link leads out of the root.
    Forbidden,
    /// The server has no file descriptor left.
    Exhausted,
    /// The file system failed.
    Broken,
}
