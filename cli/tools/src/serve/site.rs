//! The platform of the web service: a folder beneath which the kernel opens files, CPU time and
//! sleep.
//!
//! Services name no file, so this is where the web and media services meet the file system. Each
//! path is resolved by the kernel beneath the root's descriptor (openat2(2), RESOLVE_BENEATH),
//! which refuses links and `..` that lead out, without a race. `try_find` and `read_now` answer
//! from the caches or say that they would block; `find` and `read` may block and run on helpers.
//! The root's own path is looked up again every second, so that a deployment can switch a link. A
//! version from inode and change time makes tags differ where the modification time is constant.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use ::stock::work::compute;
use ::web::{Entry, LookupError, Meta, Platform, Resource};
use seam::{Instant, Source};
use sys::beneath::{FileId, RootDir, Wait, read_at};
use sys::clock::{now_ns, thread_cpu_ns};
use sys::sendfile::is_resident;

use super::open_files::{OpenFile, OpenFiles};

/// A folder, or none.
pub struct Site {
    root: Option<Root>,
    open_files: OpenFiles,
    /// Whether the engine may send files by itself, which TLS rules out.
    lends: bool,
}

/// The root of a site. Its path may be a link that a deployment switches from one version to the
/// next: it is looked up again once a second.
struct Root {
    path: PathBuf,
    dir: RwLock<RootDir>,
    looked_up: AtomicU64,
}

/// The time between two lookups of the root's path, in nanoseconds.
const LOOKUP_EVERY: u64 = 1_000_000_000;

impl Root {
    fn open(path: &Path) -> io::Result<Root> {
        // The path of a site given as `.` must not follow a later change of the directory.
        let path = std::path::absolute(path)?;
        let dir = RwLock::new(RootDir::open(&path)?);
        Ok(Root { path, dir, looked_up: AtomicU64::new(now_ns()) })
    }

    /// The directory that the path named at most a second ago.
    fn dir(&self, now: u64) -> RwLockReadGuard<'_, RootDir> {
        let last = self.looked_up.load(Relaxed);
        if now.saturating_sub(last) >= LOOKUP_EVERY
            && self.looked_up.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
        {
            self.look_up();
        }
        self.dir.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, path: &[u8], wait: Wait) -> io::Result<File> {
        self.dir(now_ns()).find(OsStr::from_bytes(path), wait)
    }

    /// Opens the path again. If it names nothing now, the directory that was opened stays.
    fn look_up(&self) {
        let Ok(fresh) = RootDir::open(&self.path) else { return };
        let is_same = |dir: &RootDir| dir.id() == fresh.id();
        if !is_same(&self.dir.read().unwrap_or_else(PoisonError::into_inner)) {
            *self.dir.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
    }
}

/// The steps of computation between two readings of the clock; they take some microseconds.
const STEPS: u64 = 2_000;
/// The longest listing of a folder: its page holds about 100 bytes an entry. A folder with more is
/// not listed, because an incomplete list looks whole.
const ENTRIES_MAX: usize = 1_000_000;

impl Site {
    /// The site of a folder; if `lends`, the engine may send its files by itself.
    pub fn open(dir: &Path, lends: bool) -> io::Result<Site> {
        language::debug!("serving the files of {}", dir.display());
        Ok(Site { root: Some(Root::open(dir)?), open_files: OpenFiles::default(), lends })
    }

    /// A site without files.
    pub fn without_files() -> Site {
        Site { root: None, open_files: OpenFiles::default(), lends: false }
    }

    fn look(
        &self,
        path: &[u8],
        turn: Option<Instant>,
        wait: Wait,
    ) -> io::Result<Resource<Arc<OwnedFd>>> {
        let root = self.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let now = now_ns();
        let id = || root.dir(now).id_of(OsStr::from_bytes(path)).ok();
        let turn = turn.map_or(0, Instant::ns);
        if let Some((file, meta)) = self.open_files.find(path, (now, turn), id) {
            return Ok(Resource::File(file, meta));
        }
        let file = root.find(path, wait)?;
        let about = file.metadata()?;
        if about.is_dir() {
            return Ok(Resource::Folder);
        }
        if !about.is_file() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (modified_ns, version) = (modified_ns(&about), version(&about));
        let meta = Meta { len: about.len(), modified_ns, version };
        let file: Arc<OwnedFd> = Arc::new(file.into());
        let opened = OpenFile::new(Arc::clone(&file), meta, FileId::from(&about), turn);
        self.open_files.keep(path, now, opened);
        Ok(Resource::File(file, meta))
    }
}

/// Times before 1970 count as 1970.
fn modified_ns(about: &Metadata) -> u64 {
    let seconds = u64::try_from(about.mtime()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec() as u64)
}

/// A number that changes with the content of a path even where its modification time is set to a
/// constant: the kernel itself counts the inode and the time of its last change (inode(7)).
fn version(about: &Metadata) -> u64 {
    let seconds = about.ctime() as u64;
    let changed = seconds.wrapping_mul(1_000_000_000).wrapping_add(about.ctime_nsec() as u64);
    changed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ about.ino()
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

    fn try_find(
        &self,
        path: &[u8],
        turn: Option<Instant>,
    ) -> Option<Result<Resource<Arc<OwnedFd>>, LookupError>> {
        match self.look(path, turn, Wait::Not) {
            Ok(found) => Some(Ok(found)),
            // Old kernels cannot answer without blocking (InvalidInput).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            Err(error) => Some(Err(missing(&error))),
        }
    }

    fn find(&self, path: &[u8]) -> Result<Resource<Arc<OwnedFd>>, LookupError> {
        self.look(path, None, Wait::May).map_err(|error| missing(&error))
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

    fn list(&self, path: &[u8]) -> Result<Vec<Entry>, LookupError> {
        let list = || -> io::Result<Vec<Entry>> {
            let root = self.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let folder = root.find(path, Wait::May)?;
            // The folder that was opened, even if it has been renamed since.
            let entries = std::fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
            let mut found = Vec::new();
            for entry in entries {
                let entry = entry?;
                if found.len() == ENTRIES_MAX {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                let name = entry.file_name().into_vec();
                // Targets with a backslash are refused; broken links lead nowhere.
                let at = root.find(&[path, b"/", &name].concat(), Wait::May);
                let Ok(about) = at.and_then(|file| file.metadata()) else { continue };
                if name.contains(&b'\\') || !(about.is_file() || about.is_dir()) {
                    continue;
                }
                let len = about.is_file().then_some(about.len());
                found.push(Entry { name, len, modified_ns: modified_ns(&about) });
            }
            Ok(found)
        };
        list().map_err(|error| missing(&error))
    }

    fn now(&self, _turn: Instant) -> Instant {
        Instant::from_ns(now_ns())
    }

    fn compute(&self, time: Duration) {
        let until = thread_cpu_ns().saturating_add(time.as_nanos() as u64);
        while thread_cpu_ns() < until {
            compute(STEPS);
        }
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Folder;

    #[test]
    fn what_is_found_and_why_the_rest_is_not() {
        let room = Folder::new();
        let folder = room.path();
        std::fs::create_dir(folder.join("d")).expect("a folder");
        std::fs::write(folder.join("a.txt"), "0123456789").expect("a temporary file");
        for name in [&b"caf\xe9"[..], b"back\\x"] {
            std::fs::write(folder.join(OsStr::from_bytes(name)), "").expect("a temporary file");
        }
        std::os::unix::fs::symlink("loop", folder.join("loop")).expect("a link");
        std::os::unix::fs::symlink("/etc/passwd", folder.join("leak")).expect("a link");
        std::os::unix::fs::symlink(folder.join("a.txt"), folder.join("link")).expect("a link");
        let _socket =
            std::os::unix::net::UnixListener::bind(folder.join("socket")).expect("a name");
        let site = Site::open(folder, true).expect("our own folder");
        let check = |path: &str, want: LookupError| {
            let patient = site.find(path.as_bytes()).expect_err(path);
            assert_eq!(patient, want, "{path}");
            if let Some(quick) = site.try_find(path.as_bytes(), None) {
                assert_eq!(quick.expect_err(path), want, "{path}, at a try_find");
            }
        };
        assert!(matches!(site.find(b"link"), Ok(Resource::File(..))), "an absolute link within");
        check("none", LookupError::Absent);
        check("a.txt/x", LookupError::Absent);
        check(&"x".repeat(300), LookupError::Absent);
        check("loop", LookupError::Forbidden);
        check("leak", LookupError::Forbidden);
        check("socket", LookupError::Forbidden);
        check("../etc/passwd", LookupError::Forbidden);
        assert!(matches!(site.find(b"d"), Ok(Resource::Folder)));
        let Ok(Resource::File(file, meta)) = site.find(b"a.txt") else { panic!("a file") };
        let mut bytes = Vec::new();
        assert_eq!(site.read(&file, 8, 100, &mut bytes).expect("a file"), 2);
        assert_eq!((meta.len, bytes.as_slice()), (10, &b"89"[..]));
        let mut names: Vec<Vec<u8>> =
            site.list(b".").expect("our own folder").into_iter().map(|entry| entry.name).collect();
        names.sort();
        assert_eq!(names, [&b"a.txt"[..], b"caf\xe9", b"d", b"link"], "no dead link is listed");
        assert!(matches!(site.find(b"caf\xe9"), Ok(Resource::File(..))), "a name in Latin-1");
        assert!(matches!(Site::without_files().find(b"a.txt"), Err(LookupError::Absent)));
    }

    #[test]
    fn an_open_file_is_that_of_the_path() {
        let folder = Folder::new();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), "old").expect("a file");
        let site = Site::open(folder.path(), true).expect("our own folder");
        let found = || match site.find(b"a") {
            Ok(Resource::File(file, _)) => {
                let mut bytes = Vec::new();
                site.read(&file, 0, 100, &mut bytes).expect("a file");
                Ok((String::from_utf8(bytes).expect("text"), file))
            }
            Ok(Resource::Folder) => panic!("a file"),
            Err(why) => Err(why),
        };
        let one = found().expect("a file").1;
        let same = |file: &Arc<OwnedFd>| Arc::ptr_eq(file, &found().expect("a file").1);
        assert!(!same(&one), "a file that changes is opened for each request");
        std::thread::sleep(Duration::from_millis(1_100));
        let one = found().expect("a file").1;
        assert!(same(&one), "a file at rest stays open");
        std::fs::write(at("a"), "new").expect("a file");
        assert!(!same(&one), "it was written");
        assert_eq!(found().expect("a file").0, "new");
        std::fs::write(at("b"), "other").expect("a file");
        std::fs::rename(at("b"), at("a")).expect("a file is replaced");
        assert_eq!(found().expect("a file").0, "other");
        std::fs::remove_file(at("a")).expect("a file");
        assert_eq!(found().expect_err("no file"), LookupError::Absent);
    }

    #[test]
    fn a_folder_is_listed_whole() {
        let folder = Folder::new();
        for number in 0..10_003 {
            std::fs::write(folder.path().join(number.to_string()), "").expect("a temporary file");
        }
        let site = Site::open(folder.path(), true).expect("our own folder");
        assert_eq!(site.list(b".").expect("our own folder").len(), 10_003);
    }

    #[test]
    fn a_root_that_is_a_link_follows_a_deployment() {
        let folder = Folder::new();
        let at = |name: &str| folder.path().join(name);
        for (version, text) in [("v1", "old"), ("v2", "new")] {
            std::fs::create_dir(at(version)).expect("a folder");
            std::fs::write(at(version).join("a.txt"), text).expect("a file");
        }
        std::os::unix::fs::symlink("v1", at("current")).expect("a link");
        let site = Site::open(&at("current"), true).expect("a folder");
        let text = || {
            let Ok(Resource::File(file, _)) = site.find(b"a.txt") else { panic!("a file") };
            let mut bytes = Vec::new();
            site.read(&file, 0, 100, &mut bytes).expect("a file");
            String::from_utf8(bytes).expect("text")
        };
        assert_eq!(text(), "old");
        std::os::unix::fs::symlink("v2", at("next")).expect("a link");
        std::fs::rename(at("next"), at("current")).expect("a link is replaced");
        site.root.as_ref().expect("a root").look_up();
        assert_eq!(text(), "new");
        std::fs::remove_file(at("current")).expect("the link");
        site.root.as_ref().expect("a root").look_up();
        assert_eq!(text(), "new", "a path that is gone for a moment");
    }
}
