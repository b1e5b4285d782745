//! What the service needs of the outside world, told as a trait that the launcher fulfils: files
//! beneath a root, and time that passes.
//!
//! Each look at a file comes in two mime. The quick one may be asked for in a step, because it
//! promises not to wait: it answers from what the kernel has in memory or says that it cannot. The
//! patient one runs as a job behind [`seam::Then::Offload`]. A site whose files are warm is so
//! served without any job, and a cold disk holds up nobody but who asked for it.

use seam::Source;
use std::io;
use std::ops::Range;
use std::time::Duration;

/// The launcher's half.
pub trait Platform: Sync {
    /// An open file. Dropping it closes it.
    type File: Send + 'static;

    /// Opens `path`, which is relative to the root, without waiting; `None` if that takes a wait.
    fn try_find(&self, path: &str) -> Option<Result<Resource<Self::File>, LookupError>>;

    /// Opens `path`; may wait.
    ///
    /// # Errors
    /// Why there is nothing to serve.
    fn find(&self, path: &str) -> Result<Resource<Self::File>, LookupError>;

    /// The file as the engine sends it by itself, if that takes no wait for `range` of it, in
    /// bytes. `None`: read it.
    fn lend(&self, file: &Self::File, range: Range<u64>) -> Option<Source> {
        let _ = (file, range);
        None
    }

    /// The file itself, for who sends from it and may wait. `None`: read it.
    fn source(&self, file: &Self::File) -> Option<Source> {
        let _ = file;
        None
    }

    /// Appends at most `len` bytes of `file` from `offset` on to `into`, without waiting, and says
    /// how many; 0 only at the end of the file. `None` if that takes a wait.
    fn read_now(
        &self,
        file: &Self::File,
        offset: u64,
        len: usize,
        into: &mut Vec<u8>,
    ) -> Option<io::Result<usize>>;

    /// The same; may wait.
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

    /// What lies in the folder `path`, in any order.
    ///
    /// # Errors
    /// Why it cannot be listed.
    fn list(&self, path: &str) -> Result<Vec<Entry>, LookupError>;

    /// Computes for `time` of CPU time.
    fn compute(&self, time: Duration);

    /// Blocks for `time`.
    fn sleep(&self, time: Duration);
}

/// What stands at a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Resource<F> {
    /// A regular file.
    File(F, Meta),
    /// A folder.
    Folder,
}

/// What is known of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Its length in bytes.
    pub len: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// One line of a folder's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The length of a file; `None` for a folder.
    pub len: Option<u64>,
}

/// Why there is nothing to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupError {
    /// There is no such file.
    Absent,
    /// It may not be read, is no regular file, or a link leads out of the root.
    Forbidden,
    /// The server has no descriptor left for it.
    Exhausted,
    /// The file system failed.
    Broken,
}

/// For a server that has no files: nothing is found, and time passes by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl Platform for NoFiles {
    type File = ();

    fn try_find(&self, _path: &str) -> Option<Result<Resource<()>, LookupError>> {
        Some(Err(LookupError::Absent))
    }

    fn find(&self, _path: &str) -> Result<Resource<()>, LookupError> {
        Err(LookupError::Absent)
    }

    fn read_now(
        &self,
        _file: &(),
        _offset: u64,
        _len: usize,
        _into: &mut Vec<u8>,
    ) -> Option<io::Result<usize>> {
        Some(Ok(0))
    }

    fn read(&self, _: &(), _: u64, _: usize, _: &mut Vec<u8>) -> io::Result<usize> {
        Ok(0)
    }

    fn list(&self, _path: &str) -> Result<Vec<Entry>, LookupError> {
        Err(LookupError::Absent)
    }

    fn compute(&self, _time: Duration) {}

    fn sleep(&self, _time: Duration) {}
}
