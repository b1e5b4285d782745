//! The platform of the web service: a folder beneath which the kernel opens files, CPU time and
//! sleep.

use std::fs::Metadata;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seam::Source;
use services::web::{Entry, LookupError, Meta, Platform, Resource};
use sys::beneath::{RootDir, Wait, read_at};
use sys::clock::thread_cpu_ns;
use sys::sendfile::is_resident;

/// A folder, or none.
pub struct Site {
    root: Option<RootDir>,
    /// Whether the engine may send files by itself, which TLS rules out.
    lends: bool,
}

/// The number of rounds of computing between two readings of the clock; they take some
/// microseconds.
const ROUNDS: u32 = 2_000;
/// The longest listing of a folder.
const ENTRIES_MAX: usize = 10_000;

impl Site {
    /// The site of a folder; if `lends`, the engine may send its files by itself.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn open(dir: &Path, lends: bool) -> io::Result<Site> {
        Ok(Site { root: Some(RootDir::open(dir)?), lends })
    }

    /// A site without files.
    pub fn without_files() -> Site {
        Site { root: None, lends: false }
    }

    fn look(&self, path: &str, wait: Wait) -> io::Result<Resource<Arc<OwnedFd>>> {
        let root = self.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let file = root.find(path, wait)?;
        let about = file.metadata()?;
        if about.is_dir() {
            return Ok(Resource::Folder);
        }
        if !about.is_file() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let meta = Meta { len: about.len(), modified_ns: modified_ns(&about) };
        Ok(Resource::File(Arc::new(file.into()), meta))
    }
}

/// Times before 1970 count as 1970.
fn modified_ns(about: &Metadata) -> u64 {
    let seconds = u64::try_from(about.mtime()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec() as u64)
}

/// The answer to an error of the file system.
fn missing(error: &io::Error) -> LookupError {
    // errno(3), Linux.
    const NO_SUCH_DEVICE: i32 = 6;
    const TOO_MANY_IN_SYSTEM: i32 = 23;
    const TOO_MANY: i32 = 24;
    const NAME_TOO_LONG: i32 = 36;
    const LOOP_OF_LINKS: i32 = 40;
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
            return LookupError::Absent;
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::CrossesDevices => {
            return LookupError::Forbidden;
        }
        _ => {}
    }
    match error.raw_os_error() {
        Some(NAME_TOO_LONG) => LookupError::Absent,
        // Sockets, links to themselves and links out of the tree cannot be opened.
        Some(NO_SUCH_DEVICE | LOOP_OF_LINKS) => LookupError::Forbidden,
        Some(TOO_MANY | TOO_MANY_IN_SYSTEM) => LookupError::Exhausted,
        _ => LookupError::Broken,
    }
}

impl Platform for Site {
    type File = Arc<OwnedFd>;

    fn try_find(&self, path: &str) -> Option<Result<Resource<Arc<OwnedFd>>, LookupError>> {
        match self.look(path, Wait::Not) {
            Ok(found) => Some(Ok(found)),
            // Old kernels cannot answer without blocking (InvalidInput).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            Err(error) => Some(Err(missing(&error))),
        }
    }

    fn find(&self, path: &str) -> Result<Resource<Arc<OwnedFd>>, LookupError> {
        self.look(path, Wait::May).map_err(|error| missing(&error))
    }

    fn lend(&self, file: &Arc<OwnedFd>, range: Range<u64>) -> Option<Source> {
        // If the kernel does not report its cached pages, sending might block: read instead.
        let is_ready = self.lends && is_resident(file, range).is_ok_and(|is| is);
        is_ready.then(|| Arc::clone(file).into())
    }

    fn source(&self, file: &Arc<OwnedFd>) -> Option<Source> {
        Some(Arc::clone(file).into())
    }

    fn read_now(
        &self,
        file: &Arc<OwnedFd>,
        offset: u64,
        len: usize,
        into: &mut Vec<u8>,
    ) -> Option<io::Result<usize>> {
        match read_at(file, offset, len, Wait::Not, into) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            read => Some(read),
        }
    }

    fn read(
        &self,
        file: &Arc<OwnedFd>,
        offset: u64,
        len: usize,
        into: &mut Vec<u8>,
    ) -> io::Result<usize> {
        read_at(file, offset, len, Wait::May, into)
    }

    fn list(&self, path: &str) -> Result<Vec<Entry>, LookupError> {
        let list = || -> io::Result<Vec<Entry>> {
            let root = self.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let folder = root.find(path, Wait::May)?;
            // The folder that was opened, even if it has been renamed since.
            let entries = std::fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
            let mut found = Vec::new();
            for entry in entries.take(ENTRIES_MAX) {
                let entry = entry?;
                // Names that are not UTF-8 cannot be requested and are not listed, nor are broken
                // links.
                let Ok(name) = entry.file_name().into_string() else { continue };
                let Ok(at) = self.look(&format!("{path}/{name}"), Wait::May) else { continue };
                found.push(match at {
                    Resource::File(_, meta) => Entry { name, len: Some(meta.len) },
                    Resource::Folder => Entry { name, len: None },
                });
            }
            Ok(found)
        };
        list().map_err(|error| missing(&error))
    }

    fn compute(&self, time: Duration) {
        let until = thread_cpu_ns().saturating_add(time.as_nanos() as u64);
        let mut state = 1_u64;
        while thread_cpu_ns() < until {
            for _ in 0..ROUNDS {
                state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
        }
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_and_why_the_rest_is_not() {
        let folder = std::env::temp_dir().join(format!("roundhouse-site-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("d")).expect("a temporary directory");
        std::fs::write(folder.join("a.txt"), "0123456789").expect("a temporary file");
        std::os::unix::fs::symlink("loop", folder.join("loop")).expect("a link");
        std::os::unix::fs::symlink("/etc/passwd", folder.join("leak")).expect("a link");
        let _socket =
            std::os::unix::net::UnixListener::bind(folder.join("socket")).expect("a name");
        let site = Site::open(&folder, true).expect("our own folder");
        let check = |path: &str, want: LookupError| {
            let patient = site.find(path).expect_err(path);
            assert_eq!(patient, want, "{path}");
            if let Some(quick) = site.try_find(path) {
                assert_eq!(quick.expect_err(path), want, "{path}, at a try_find");
            }
        };
        check("none", LookupError::Absent);
        check("a.txt/x", LookupError::Absent);
        check(&"x".repeat(300), LookupError::Absent);
        check("loop", LookupError::Forbidden);
        check("leak", LookupError::Forbidden);
        check("socket", LookupError::Forbidden);
        check("../etc/passwd", LookupError::Forbidden);
        assert!(matches!(site.find("d"), Ok(Resource::Folder)));
        let Ok(Resource::File(file, meta)) = site.find("a.txt") else { panic!("a file") };
        let mut bytes = Vec::new();
        assert_eq!(site.read(&file, 8, 100, &mut bytes).expect("a file"), 2);
        assert_eq!((meta.len, bytes.as_slice()), (10, &b"89"[..]));
        let mut names: Vec<String> =
            site.list(".").expect("our own folder").into_iter().map(|entry| entry.name).collect();
        names.sort();
        assert_eq!(names, ["a.txt", "d"], "what cannot be served is not listed");
        assert!(matches!(Site::without_files().find("a.txt"), Err(LookupError::Absent)));
        std::fs::remove_dir_all(&folder).expect("our own folder");
    }
}
