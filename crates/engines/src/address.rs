//! The address that a server listens on.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The address that a server listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An Internet address and port; port 0 picks a free one.
    Net(SocketAddr),
    /// A socket in the file system (unix(7)) and its permissions; without them the umask decides.
    Unix(PathBuf, Option<u32>),
}

impl Address {
    /// The Internet address.
    pub fn net(&self) -> Option<SocketAddr> {
        match self {
            Address::Net(address) => Some(*address),
            Address::Unix(..) => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Net(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Net(address) => address.fmt(f),
            Address::Unix(path, _) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket in the file system, known by its device and inode.
#[derive(Debug)]
pub(crate) struct SocketFile {
    pub path: PathBuf,
    id: (u64, u64),
}

impl SocketFile {
    /// The socket at `path`.
    pub fn of(path: &Path) -> io::Result<SocketFile> {
        let about = fs::symlink_metadata(path)?;
        Ok(SocketFile { path: path.to_owned(), id: (about.dev(), about.ino()) })
    }

    /// Removes it, unless a successor has replaced it.
    pub fn remove(&self) {
        if SocketFile::of(&self.path).is_ok_and(|found| found.id == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
