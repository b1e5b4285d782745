//! A claim: a lock file whose holder alone may do something, such as write the file next to it.
//!
//! The lock is that of flock(2), which the kernel releases with the last copy of the descriptor: a
//! killed holder leaves nothing locked, and a process that inherits the descriptor holds the lock
//! without a gap. The file contains the holder's process id for those that are refused. A holder
//! that ends in order removes the file; one that is left is used again.

use crate::inherit;
use crate::own;
use crate::process::{self, Pid};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A lock file that this process holds.
#[derive(Debug)]
pub struct Claim {
    file: File,
    path: PathBuf,
    /// The process that this one inherited the claim from.
    predecessor: Option<Pid>,
}

/// Why there is no claim.
#[derive(Debug)]
pub enum Unclaimed {
    /// Another process holds the lock.
    Held {
        /// The content of its lock file: a process id, and the machine's name if it is another.
        by: String,
    },
    /// The lock file cannot be made, opened or locked: an unwritable directory, a symbolic link, or
    /// a file system without locks.
    Failed(io::Error),
}

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

impl Claim {
    /// Locks the file at `path`, and makes it if it is not there; waits at most `patience` for
    /// another holder. A symbolic link is not followed, because in a shared directory anybody could
    /// have made it.
    ///
    /// # Errors
    /// [`Unclaimed`].
    pub fn take(path: &Path, patience: Duration) -> Result<Claim, Unclaimed> {
        let until = Instant::now() + patience;
        loop {
            match Claim::attempt(path) {
                Ok(Some(claim)) => return Ok(claim),
                Ok(None) => {}
                Err(Unclaimed::Held { .. }) if Instant::now() < until => thread::sleep(PAUSE),
                Err(refused) => return Err(refused),
            }
        }
    }

    /// The only lock of this name among the processes of this user on this machine, after waiting
    /// at most a minute.
    ///
    /// # Errors
    /// The folder of locks cannot be made, or another process keeps the lock.
    pub fn of_machine(name: &str) -> io::Result<Claim> {
        let path = own::locks()?.join(format!("{name}.lock"));
        Claim::take(&path, Duration::from_secs(60)).map_err(|refused| {
            let path = path.display();
            io::Error::other(format!("expected the lock {path} within a minute: {refused}"))
        })
    }

    /// One attempt; `None` if the former holder removed the file at the same time.
    fn attempt(path: &Path) -> Result<Option<Claim>, Unclaimed> {
        let options = |write: bool| {
            let mut options = OpenOptions::new();
            options.read(true).write(write).create(write).mode(0o644);
            options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
            options
        };
        // Another user's file can still be asked for its holder.
        let opened = options(true).open(path).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => options(false).open(path).map_err(|_| error),
            _ => Err(error),
        });
        let file = opened.map_err(Unclaimed::Failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                // An empty file belongs to a holder that has not written its name yet.
                let _ = (&file).take(256).read_to_string(&mut by);
                return Err(Unclaimed::Held { by: by.trim().to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(Unclaimed::Failed(error)),
        }
        let (ours, there) = (file.metadata().map_err(Unclaimed::Failed)?, fs::metadata(path));
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            let mut claim = Claim { file, path: path.to_path_buf(), predecessor: None };
            claim.sign(process::this()).map_err(Unclaimed::Failed)?;
            return Ok(Some(claim));
        }
        Ok(None)
    }

    /// The claim of a parent process, whose descriptor this process has inherited. As long as the
    /// parent runs, it shares the claim.
    ///
    /// # Errors
    /// The lock file cannot be written.
    pub fn inherit(fd: OwnedFd, path: &Path) -> io::Result<Claim> {
        inherit::set_inheritable(fd.as_fd(), false)?;
        let (file, path, predecessor) = (File::from(fd), path.to_path_buf(), process::parent());
        let mut claim = Claim { file, path, predecessor };
        claim.sign(process::this())?;
        Ok(claim)
    }

    fn sign(&mut self, holder: Pid) -> io::Result<()> {
        self.file.rewind()?;
        self.file.set_len(0)?;
        writeln!(self.file, "{} {}", holder.number(), machine())
    }

    fn is_ours(&mut self) -> bool {
        let mut text = String::new();
        self.file.rewind().is_ok()
            && self.file.read_to_string(&mut text).is_ok()
            && text.split(' ').next() == Some(&process::this().number().to_string())
    }
}

/// The name of this machine.
fn machine() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

impl AsFd for Claim {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Claim {
    /// Removes the file, unless another process holds the claim too.
    fn drop(&mut self) {
        let predecessor = self.predecessor.filter(|it| process::parent() == Some(*it));
        match predecessor {
            _ if !self.is_ours() => {}
            // Only messages name the holder, so an error does no harm.
            Some(predecessor) => drop(self.sign(predecessor)),
            // The lock is still held: whoever opens the file from now on makes a new one.
            None => drop(fs::remove_file(&self.path)),
        }
    }
}

impl std::fmt::Display for Unclaimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unclaimed::Held { by } => match by.split_once(' ') {
                Some((pid, there)) if there == machine() => write!(f, "process {pid}"),
                Some((pid, there)) => write!(f, "process {pid} on {there}"),
                None => f.write_str("another process"),
            },
            Unclaimed::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unclaimed {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::tempdir;

    #[test]
    fn one_holder_at_a_time_and_no_file_afterwards() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("lock");
        for _ in 0..3 {
            let first = Claim::take(&path, Duration::ZERO).unwrap();
            let refused = Claim::take(&path, Duration::ZERO).unwrap_err();
            assert_eq!(refused.to_string(), format!("process {}", std::process::id()));
            // An inherited copy holds the lock too, and its end leaves the file to the parent.
            let copy = first.as_fd().try_clone_to_owned().unwrap();
            drop(Claim::inherit(copy, &path).unwrap());
            let refused = Claim::take(&path, Duration::ZERO).unwrap_err();
            let parent = process::parent().unwrap().number();
            assert_eq!(refused.to_string(), format!("process {parent}"));
            drop(first);
            assert!(path.exists(), "it names another holder");
            drop(Claim::take(&path, Duration::ZERO).unwrap());
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("lock");
        symlink(folder.path().join("elsewhere"), &path).unwrap();
        let refused = Claim::take(&path, Duration::ZERO).unwrap_err();
        assert!(matches!(refused, Unclaimed::Failed(_)), "{refused}");
        assert!(!folder.path().join("elsewhere").exists());
    }

    #[test]
    fn many_that_want_it_get_it_one_after_the_other() {
        let folder = tempdir().unwrap();
        let (path, count) = (folder.path().join("lock"), folder.path().join("count"));
        fs::write(&count, "0").unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let claim = Claim::take(&path, Duration::from_secs(60)).unwrap();
                        let seen: u32 = fs::read_to_string(&count).unwrap().parse().unwrap();
                        fs::write(&count, (seen + 1).to_string()).unwrap();
                        drop(claim);
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(&count).unwrap(), "160");
    }
}
