//! The files of the web service, in a folder that the kernel keeps lookups beneath, and the clock
//! of its demonstration routes.

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
use services::web::{Backstage, Entry, Found, Meta, Missing};
use sys::beneath::{Root, Wait, read_at};
use sys::clock::thread_cpu_ns;
use sys::sendfile::is_resident;

/// A folder, or none.
pub struct Site {
    root: Option<Root>,
    /// Whether the engine may send files by itself; it may not under TLS.
    lends: bool,
}

/// Rounds of computing between two looks at the clock: some microseconds.
const ROUNDS: u32 = 2_000;
/// The longest list of a folder.
const ENTRIES_MAX: usize = 10_000;

impl Site {
    /// The site of a folder; if it `lends` files, the engine may send them by itself.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn open(dir: &Path, lends: bool) -> io::Result<Site> {
        Ok(Site { root: Some(Root::open(dir)?), lends })
    }

    /// A site that has only routes.
    pub fn without_files() -> Site {
        Site { root: None, lends: false }
    }

    fn look(&self, path: &str, wait: Wait) -> io::Result<Found<Arc<OwnedFd>>> {
        let root = self.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let file = root.find(path, wait)?;
        let about = file.metadata()?;
        if about.is_dir() {
            return Ok(Found::Folder);
        }
        if !about.is_file() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let meta = Meta { len: about.len(), modified_ns: modified_ns(&about) };
        Ok(Found::File(Arc::new(file.into()), meta))
    }
}

/// The modification time; earlier ones count as 1970.
fn modified_ns(about: &Metadata) -> u64 {
    let seconds = u64::try_from(about.mtime()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec() as u64)
}

/// The web service's reason for an error of the file system.
fn missing(error: &io::Error) -> Missing {
    // errno(3), Linux.
    const NO_SUCH_DEVICE: i32 = 6;
    const TOO_MANY_IN_SYSTEM: i32 = 23;
    const TOO_MANY: i32 = 24;
    const NAME_TOO_LONG: i32 = 36;
    const LOOP_OF_LINKS: i32 = 40;
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
            return Missing::Absent;
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::CrossesDevices => {
            return Missing::Forbidden;
        }
        _ => {}
    }
    match error.raw_os_error() {
        Some(NAME_TOO_LONG) => Missing::Absent,
        // A socket cannot be opened; neither can a link that leads to itself, or out of the tree.
        Some(NO_SUCH_DEVICE | LOOP_OF_LINKS) => Missing::Forbidden,
        Some(TOO_MANY | TOO_MANY_IN_SYSTEM) => Missing::Exhausted,
        _ => Missing::Broken,
    }
}

impl Backstage for Site {
    type File = Arc<OwnedFd>;

    fn glance(&self, path: &str) -> Option<Result<Found<Arc<OwnedFd>>, Missing>> {
        match self.look(path, Wait::Not) {
            Ok(found) => Some(Ok(found)),
            // Old kernels do not know how to answer without waiting (InvalidInput).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            Err(error) => Some(Err(missing(&error))),
        }
    }

    fn find(&self, path: &str) -> Result<Found<Arc<OwnedFd>>, Missing> {
        self.look(path, Wait::May).map_err(|error| missing(&error))
    }

    fn lend(&self, file: &Arc<OwnedFd>, range: Range<u64>) -> Option<Source> {
        // If the kernel does not tell whether pages are resident, sending may block: read instead.
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

    fn list(&self, path: &str) -> Result<Vec<Entry>, Missing> {
        let list = || -> io::Result<Vec<Entry>> {
            let root = self.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let folder = root.find(path, Wait::May)?;
            // By the descriptor, because the name may lead elsewhere by now.
            let entries = std::fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
            let mut found = Vec::new();
            for entry in entries.take(ENTRIES_MAX) {
                let entry = entry?;
                // Names that no request can contain and dangling links are not listed.
                let Ok(name) = entry.file_name().into_string() else { continue };
                let Ok(at) = self.look(&format!("{path}/{name}"), Wait::May) else { continue };
                found.push(match at {
                    Found::File(_, meta) => Entry { name, len: Some(meta.len) },
                    Found::Folder => Entry { name, len: None },
                });
            }
            Ok(found)
        };
        list().map_err(|error| missing(&error))
    }

    fn toil(&self, time: Duration) {
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
        let check = |path: &str, want: Missing| {
            let patient = site.find(path).expect_err(path);
            assert_eq!(patient, want, "{path}");
            if let Some(quick) = site.glance(path) {
                assert_eq!(quick.expect_err(path), want, "{path}, at a glance");
            }
        };
        check("none", Missing::Absent);
        check("a.txt/x", Missing::Absent);
        check(&"x".repeat(300), Missing::Absent);
        check("loop", Missing::Forbidden);
        check("leak", Missing::Forbidden);
        check("socket", Missing::Forbidden);
        check("../etc/passwd", Missing::Forbidden);
        assert!(matches!(site.find("d"), Ok(Found::Folder)));
        let Ok(Found::File(file, meta)) = site.find("a.txt") else { panic!("a file") };
        let mut bytes = Vec::new();
        assert_eq!(site.read(&file, 8, 100, &mut bytes).expect("a file"), 2);
        assert_eq!((meta.len, bytes.as_slice()), (10, &b"89"[..]));
        let mut names: Vec<String> =
            site.list(".").expect("our own folder").into_iter().map(|entry| entry.name).collect();
        names.sort();
        assert_eq!(names, ["a.txt", "d"], "what cannot be served is not listed");
        assert!(matches!(Site::without_files().find("a.txt"), Err(Missing::Absent)));
        std::fs::remove_dir_all(&folder).expect("our own folder");
    }
}
