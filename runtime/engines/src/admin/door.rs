//! The listening socket of the administration: in the file system, where only the server's own user
//! can open it, or at a TCP address.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::address::SocketFile;

/// The administration's listening socket.
#[derive(Debug)]
pub struct Door {
    listener: Listener,
    /// A socket in the file system. It is removed at the end.
    file: Option<SocketFile>,
}

#[derive(Debug)]
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
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
        Ok(Door { listener: Listener::Unix(listener), file: Some(file) })
    }

    /// A socket at a TCP address; port 0 picks one.
    ///
    /// # Errors
    /// Those of bind(2).
    pub fn at_address(address: SocketAddr) -> io::Result<Door> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Door { listener: Listener::Tcp(listener), file: None })
    }

    /// The address of a TCP socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Unix(_) => None,
            Listener::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// The path of a socket in the file system.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        let stream = match &self.listener {
            Listener::Unix(listener) => Stream::Unix(listener.accept()?.0),
            Listener::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
        };
        match &stream {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true),
        }?;
        Ok(stream)
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
        match &self.listener {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// A client's connection.
#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    /// Ends the stream at once, even if a forked worker has a copy of the descriptor.
    pub(super) fn end(&self) {
        let how = std::net::Shutdown::Write;
        // A client that is gone needs no end.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(how),
            Stream::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}
