//! The address that a server listens on.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The address that a server listens on.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display, derive_more::From)]
pub enum Address {
    /// An Internet address and port; port 0 picks a free one.
    #[from]
    Net(SocketAddr),
    /// A socket in the file system (unix(7)) and its permissions; without them the umask decides.
    #[display("unix:{}", _0.display())]
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
