//! Files that clients asked for lately, kept open: a turn in which clients ask for one needs a
//! statx(2) in place of opening, asking and closing for each request.
//!
//! A file is used again only while its path names the same inode with the same time of change
//! (ctime), which no program can set. So a file that was replaced, written, or closed to the server
//! (chmod(1)) is opened again. Its bytes are read for each request. A file that changed within the
//! last second is not kept, because the times of two changes in one tick of the clock are equal.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
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

/// A file that is kept open.
pub struct OpenFile {
    file: Arc<OwnedFd>,
    meta: Meta,
    id: FileId,
    /// The turn that looked last, as the time at which it began, in nanoseconds.
    turn: AtomicU64,
}

impl OpenFile {
    /// A file that a turn has opened; 0: no turn.
    pub fn new(file: Arc<OwnedFd>, meta: Meta, id: FileId, turn: u64) -> OpenFile {
        OpenFile { file, meta, id, turn: AtomicU64::new(turn) }
    }
}

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
    /// The file at `path`, if it is open and `id` gives the same file or has given it in this turn;
    /// turn 0 asks. Times are in nanoseconds.
    pub fn find(
        &self,
        path: &[u8],
        (now, turn): (u64, u64),
        id: impl FnOnce() -> Option<FileId>,
    ) -> Option<(Arc<OwnedFd>, Meta)> {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(files.since) >= KEPT.as_nanos() as u64 {
            return None;
        }
        let known = files.by_path.get(path)?;
        if turn == 0 || known.turn.load(Relaxed) != turn {
            if id()? != known.id {
                return None;
            }
            known.turn.store(turn, Relaxed);
        }
        Some((Arc::clone(&known.file), known.meta))
    }

    /// Keeps a file open, unless another thread keeps one at this moment.
    pub fn keep(&self, path: &[u8], now: u64, opened: OpenFile) {
        let Ok(mut files) = self.0.try_write() else { return };
        let is_old = now.saturating_sub(files.since) >= KEPT.as_nanos() as u64;
        if is_old || files.by_path.len() >= FILES_MAX {
            files.by_path.clear();
            files.since = now;
        }
        if opened.id.age().is_some_and(|age| age >= AT_REST) {
            files.by_path.insert(path.into(), opened);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs::File;

    #[test]
    fn a_turn_looks_once() {
        let file = File::open(std::env::current_exe().expect("a path")).expect("this program");
        let id = || FileId::from(&file.metadata().expect("an open file"));
        let meta = Meta { len: 1, modified_ns: 2, version: 3 };
        let (files, looks) = (OpenFiles::default(), Cell::new(0));
        let descriptor = file.try_clone().expect("a descriptor").into();
        files.keep(b"a", 1, OpenFile::new(Arc::new(descriptor), meta, id(), 5));
        let find = |turn, found: Option<FileId>| {
            looks.set(0);
            let look = || {
                looks.set(looks.get() + 1);
                found
            };
            (files.find(b"a", (1, turn), look).map(|(_, meta)| meta), looks.get())
        };
        assert_eq!(find(5, None), (Some(meta), 0), "the turn that has opened it");
        assert_eq!(find(6, None), (None, 1), "another turn, and the path names nothing");
        assert_eq!(find(6, Some(id())), (Some(meta), 1));
        assert_eq!(find(6, None), (Some(meta), 0), "the same turn");
        assert_eq!((find(0, Some(id())), find(0, None)), ((Some(meta), 1), (None, 1)));
    }
}
