//! Files below a root directory, opened so that no path and no link leads out of it (openat2(2),
//! `RESOLVE_BENEATH`), and read without blocking where the kernel can (preadv2(2), `RWF_NOWAIT`).
//!
//! The kernel checks while it resolves the path, so swapping a link between a check and an open
//! gains an attacker nothing.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, makedev, openat2, statx};
use rustix::io::retry_on_intr;

use crate::call::{check_count, uninterrupted};

/// A directory; everything is opened below it.
#[derive(Debug)]
pub struct RootDir {
    fd: OwnedFd,
    /// Its path without links.
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

/// Whether a call may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It may block.
    May,
    /// The call fails with `WouldBlock` instead.
    Not,
}

/// A file with its last change: two that are equal are the same file with the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
    /// The time of the last change of content or rights (ctime): seconds and nanoseconds.
    changed: (i64, i64),
    len: u64,
}

impl From<&Metadata> for FileId {
    fn from(about: &Metadata) -> FileId {
        let changed = (about.ctime(), about.ctime_nsec());
        FileId { device: about.dev(), inode: about.ino(), changed, len: about.len() }
    }
}

impl FileId {
    /// The time since the last change; `None` for a change in the future.
    pub fn age(&self) -> Option<Duration> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let (seconds, nanoseconds) = self.changed;
        let changed = Duration::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?);
        now.checked_sub(changed)
    }
}

impl RootDir {
    /// Opens the root directory.
    ///
    /// # Errors
    /// Those of open(2); `NotADirectory` for a file.
    pub fn open(path: &Path) -> io::Result<RootDir> {
        let path = path.canonicalize()?;
        let file = File::open(&path)?;
        let about = file.metadata()?;
        if !about.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(RootDir { fd: file.into(), path, id: (about.dev(), about.ino()) })
    }

    /// Device and inode: two roots that are equal here are the same directory.
    pub fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Opens `path`, relative to the root, for reading. It may be a directory or a device: check
    /// its metadata first. Opening a pipe without a writer does not block. An absolute link is
    /// followed if it leads to a place below the root.
    ///
    /// # Errors
    /// `CrossesDevices` where the path leads out of the root; `FilesystemLoop`; `WouldBlock` where
    /// it would block and must not; those of open(2).
    pub fn find(&self, path: impl AsRef<Path>, wait: Wait) -> io::Result<File> {
        let path = path.as_ref();
        match self.open_beneath(path, wait) {
            // The kernel refuses every absolute link.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                if wait == Wait::Not {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                let target = self.path.join(path).canonicalize();
                match target.as_ref().map(|target| target.strip_prefix(&self.path)) {
                    // If a link has been put into this path since, the kernel refuses it.
                    Ok(Ok(below)) => self.open_beneath(below, wait),
                    _ => Err(error),
                }
            }
            found => found,
        }
    }

    /// The file that `path`, relative to the root, names now: only to compare it with an open one,
    /// because links may lead out of the root.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn id_of(&self, path: impl AsRef<Path>) -> io::Result<FileId> {
        let wanted = StatxFlags::BASIC_STATS;
        let path = path.as_ref();
        let about = retry_on_intr(|| statx(&self.fd, path, AtFlags::STATX_DONT_SYNC, wanted))?;
        let device = makedev(about.stx_dev_major, about.stx_dev_minor);
        let changed = (about.stx_ctime.tv_sec, i64::from(about.stx_ctime.tv_nsec));
        Ok(FileId { device, inode: about.stx_ino, changed, len: about.stx_size })
    }

    fn open_beneath(&self, path: &Path, wait: Wait) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        // Links in /proc lead to places without a path.
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // Fails with `EAGAIN` unless all names are in the kernel's memory (Linux 5.12).
        resolve.set(ResolveFlags::CACHED, wait == Wait::Not);
        let opened = retry_on_intr(|| openat2(&self.fd, path, flags, Mode::empty(), resolve));
        Ok(File::from(opened?))
    }
}

/// Reads at most `len` bytes of `file` from `offset` on and appends them to `into`; 0 at its end.
///
/// # Errors
/// `WouldBlock` where it would block and must not, also where the file system cannot tell
/// (`EOPNOTSUPP`); those of read(2).
pub fn read_at(
    file: impl AsFd,
    offset: u64,
    len: usize,
    wait: Wait,
    into: &mut Vec<u8>,
) -> io::Result<usize> {
    into.reserve(len);
    let room = into.spare_capacity_mut();
    let slice = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: len.min(room.len()) };
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = if wait == Wait::Not { libc::RWF_NOWAIT } else { 0 };
    let fd = file.as_fd().as_raw_fd();
    let read = uninterrupted(|| {
        // SAFETY: the slice is writable for the announced length, and outlives the call.
        check_count(unsafe { libc::preadv2(fd, &raw const slice, 1, offset, flags) })
    });
    match read {
        Ok(read) => {
            // SAFETY: the kernel has filled `read` bytes after the current end.
            unsafe { into.set_len(into.len() + read) };
            Ok(read)
        }
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A folder with a secret next to its root, removed at the end.
    struct Ground(TempDir);

    impl Ground {
        fn new() -> Ground {
            let ground = Ground(tempfile::tempdir().unwrap());
            fs::create_dir_all(ground.path("root/in")).unwrap();
            fs::write(ground.path("secret"), "secret").unwrap();
            fs::write(ground.path("root/in/a.txt"), "inside").unwrap();
            ground
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn root(&self) -> RootDir {
            RootDir::open(&self.path("root")).unwrap()
        }
    }

    #[test]
    fn no_path_and_no_link_leads_out() {
        let ground = Ground::new();
        let root = ground.root();
        symlink("../secret", ground.path("root/near")).unwrap();
        symlink(ground.path("secret"), ground.path("root/far")).unwrap();
        symlink("../..", ground.path("root/in/up")).unwrap();
        symlink("in/a.txt", ground.path("root/good")).unwrap();
        symlink("loop", ground.path("root/loop")).unwrap();
        symlink(ground.path("root/in/a.txt"), ground.path("root/absolute")).unwrap();
        symlink("/no/such/file", ground.path("root/broken")).unwrap();
        assert_eq!(
            io::read_to_string(root.find("absolute", Wait::May).unwrap()).unwrap(),
            "inside"
        );
        let hurried = root.find("absolute", Wait::Not).unwrap_err().kind();
        assert_eq!(hurried, io::ErrorKind::WouldBlock);
        let broken = root.find("broken", Wait::May).unwrap_err().kind();
        assert_eq!(broken, io::ErrorKind::CrossesDevices, "a stranger learns nothing");
        for path in ["../secret", "/etc/passwd", "near", "far", "in/up/secret", "in/../../secret"] {
            let kind = root.find(path, Wait::May).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::CrossesDevices, "{path}");
            // If the kernel may not block, it may refuse to decide; then the caller asks again with
            // blocking.
            let kind = root.find(path, Wait::Not).unwrap_err().kind();
            let good = matches!(kind, io::ErrorKind::CrossesDevices | io::ErrorKind::WouldBlock);
            assert!(good, "{path}: {kind}");
        }
        assert_eq!(io::read_to_string(root.find("good", Wait::May).unwrap()).unwrap(), "inside");
        assert_eq!(
            io::read_to_string(root.find("in/../good", Wait::May).unwrap()).unwrap(),
            "inside"
        );
        assert_eq!(root.find("loop", Wait::May).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        let absent = root.find("in/b.txt", Wait::May).unwrap_err().kind();
        assert_eq!(absent, io::ErrorKind::NotFound);
        assert!(RootDir::open(&ground.path("secret")).is_err(), "a file is not a root");
        assert!(root.find("in\0", Wait::May).is_err());
    }

    #[test]
    fn what_the_kernel_has_in_memory_is_read_without_waiting() {
        let ground = Ground::new();
        let root = ground.root();
        let mut bytes = b"> ".to_vec();
        let file = root.find("in/a.txt", Wait::May).unwrap();
        assert_eq!(read_at(&file, 0, 100, Wait::May, &mut bytes).unwrap(), 6);
        let file = root.find("in/a.txt", Wait::Not).unwrap();
        match read_at(&file, 2, 3, Wait::Not, &mut bytes) {
            Ok(read) => assert_eq!((read, bytes.as_slice()), (3, &b"> insidesid"[..])),
            // Some file systems cannot tell whether a read would block.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        assert_eq!(read_at(&file, 6, 100, Wait::May, &mut bytes).unwrap(), 0);
    }
}
