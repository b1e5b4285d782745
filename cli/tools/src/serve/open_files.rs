//! Files that clients asked for lately, kept open: a request for one needs a statx(2) in place of
//! opening, asking and closing.
//!
//! A file is used again only while its path names the same inode with the same time of change
//! (ctime), which no program can set. So a file that was replaced, written, or closed to the server
//! (chmod(1)) is opened again. Its bytes are read for each request. A file that changed within the
//! last second is not kept, because the times of two changes in one tick of the clock are equal.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ::web::Meta;
use sys::beneath::FileId;

/// The most files that stay open.
const FILES_MAX: usize = 64;
/// The age at which the next request closes all, so that a deleted file gives its disk space back.
const KEPT: Duration = Duration::from_secs(5);
/// The age of a change from which on its time names it.
const AT_REST: Duration = Duration::from_secs(1);

type OpenFile = (Arc<OwnedFd>, Meta, FileId);

/// The open files of a process, by path.
#[derive(Default)]
pub struct OpenFiles(RwLock<Files>);

#[derive(Default)]
struct Files {
    by_path: HashMap<Box<[u8]>, OpenFile>,
    /// The time at which the list was empty, in nanoseconds.
    since: u64,
}

impl OpenFiles {
    /// The file at `path`, if it is open and `id` gives the same file. `now` is in nanoseconds.
    pub fn find(
        &self,
        path: &[u8],
        now: u64,
        id: impl FnOnce() -> Option<FileId>,
    ) -> Option<(Arc<OwnedFd>, Meta)> {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(files.since) >= KEPT.as_nanos() as u64 {
            return None;
        }
        let (file, meta, known) = files.by_path.get(path)?;
        (id()? == *known).then(|| (Arc::clone(file), *meta))
    }

    /// Keeps a file open, unless another thread keeps one at this moment.
    pub fn keep(&self, path: &[u8], now: u64, (file, meta, id): OpenFile) {
        let Ok(mut files) = self.0.try_write() else { return };
        let is_old = now.saturating_sub(files.since) >= KEPT.as_nanos() as u64;
        if is_old || files.by_path.len() >= FILES_MAX {
            files.by_path.clear();
            files.since = now;
        }
        if id.age().is_some_and(|age| age >= AT_REST) {
            files.by_path.insert(path.into(), (file, meta, id));
        }
    }
}
