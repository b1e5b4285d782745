//! The listening socket of the administration: in the file system, where only the server's own user
//! can open it, or at a TCP address.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use sys::socket::{self, ListenOptions};

use crate::address::SocketFile;

/// The administration's listening socket.
#[derive(Debug)]
pub struct Door {
    listener: OwnedFd,
    /// A socket in the file system. It is removed at the end.
    file: Option<SocketFile>,
}

impl Door {
    /// A socket at `path`, which only the server's own user can open. It replaces the socket of a
    /// dead server, and with `is_successor` that of a predecessor too.
    ///
    /// # Errors
    /// `AddrInUse` if another server answers there or the path is not a socket; those of bind(2).
    pub fn at_path(path: &Path, is_successor: bool) -> io::Result<Door> {
        if let Ok(found) = fs::symlink_metadata(path) {
            let answers = || UnixStream::connect(path).is_ok();
            if !found.file_type().is_socket() || (!is_successor && answers()) {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    format!(
                        "another server answers at {}, or the path is not a socket",
                        path.display()
                    ),
                ));
            }
        }
        // The socket is made under another name and then renamed, so that it never has the wrong
        // permissions, and the replaced socket answers until then.
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let fresh = PathBuf::from(name);
        let _ = fs::remove_file(&fresh);
        let listener = UnixListener::bind(&fresh)?;
        let done = fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&fresh, path))
            .and_then(|()| SocketFile::of(path));
        let file = done.inspect_err(|_| drop(fs::remove_file(&fresh)))?;
        listener.set_nonblocking(true)?;
        Ok(Door { listener: listener.into(), file: Some(file) })
    }

    /// A socket at a TCP address; port 0 picks one.
    ///
    /// # Errors
    /// Those of bind(2).
    pub fn at_address(address: SocketAddr) -> io::Result<Door> {
        Ok(Door { listener: socket::listen(address, &ListenOptions::default())?, file: None })
    }

    /// The address of a TCP socket.
    pub fn address(&self) -> Option<SocketAddr> {
        socket::local_addr(&self.listener).ok()
    }

    /// The path of a socket in the file system.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    pub(super) fn accept(&self) -> io::Result<OwnedFd> {
        socket::accept(&self.listener, true).map(|(client, _)| client)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            file.remove();
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
