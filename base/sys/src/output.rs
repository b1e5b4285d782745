//! Output to a pipe, a FIFO, a terminal or a socket whose reader may pause: a write never waits.
//!
//! `O_NONBLOCK` belongs to the open file, which this process shares with those that it inherited
//! the descriptor from: set there, it would break a shell or a launcher. So [`Output`] opens the
//! same pipe or terminal once more through `/proc/self/fd`. Where that is denied, as for a pipe of
//! another user, it asks poll(2) first and writes at most `PIPE_BUF` bytes, for which a pipe that
//! is writable has room.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::net::{SendFlags, send};

use crate::call::uninterrupted;
use crate::poll::{PollFd, poll};

/// A file, pipe, terminal or socket for output.
pub struct Output {
    file: File,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Its writes do not wait: it is a file on a disk, or an own non-blocking description.
    Own,
    /// A blocking description that others share.
    Shared,
    Socket,
}

impl Output {
    /// Output to what `fd` names; `fd` and its description stay as they are.
    ///
    /// # Errors
    /// `EBADF`, `EMFILE`, `ENFILE`.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Output> {
        let file = File::from(fd.try_clone_to_owned()?);
        let kind = file.metadata()?.file_type();
        if kind.is_socket() {
            return Ok(Output { file, kind: Kind::Socket });
        }
        if !(kind.is_fifo() || kind.is_char_device()) {
            return Ok(Output { file, kind: Kind::Own });
        }
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        match OpenOptions::new().write(true).custom_flags(flags).open(name) {
            Ok(file) => Ok(Output { file, kind: Kind::Own }),
            Err(_) => Ok(Output { file, kind: Kind::Shared }),
        }
    }

    /// Opens a file for appending, and creates it if there is none. A FIFO needs no reader: what is
    /// written waits in its buffer for one.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn append(path: &Path) -> io::Result<Output> {
        let is_fifo = std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo());
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        // Opened for reading too, a FIFO is writable without a reader (fifo(7)).
        let options = if is_fifo { options.read(true) } else { options.create(true) };
        Ok(Output { file: options.open(path)?, kind: Kind::Own })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes what there is room for, and returns its length.
    ///
    /// # Errors
    /// `WouldBlock` while there is no room; those of write(2).
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        uninterrupted(|| match self.kind {
            Kind::Own => (&self.file).write(bytes),
            Kind::Socket => Ok(send(&self.file, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?),
            Kind::Shared if self.has_room(Duration::ZERO)? => {
                (&self.file).write(&bytes[..bytes.len().min(libc::PIPE_BUF)])
            }
            Kind::Shared => Err(ErrorKind::WouldBlock.into()),
        })
    }

    /// Writes all of `bytes`, and waits for room for at most `patience`.
    ///
    /// # Errors
    /// `WouldBlock` after that time; those of write(2). A part may have been written.
    pub fn write_all(&self, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
        let until = Instant::now() + patience;
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.has_room(until.saturating_duration_since(Instant::now()))? {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until there is room, for at most `patience`; returns whether there is.
    ///
    /// # Errors
    /// Those of poll(2).
    pub fn has_room(&self, patience: Duration) -> io::Result<bool> {
        let mut list = [PollFd::new(self.file.as_fd(), false, true)];
        Ok(poll(&mut list, Some(patience))? > 0)
    }
}

/// Lines of a server and its processes, which are dropped and counted while the reader pauses.
pub struct LossyLines {
    output: Output,
    counts: &'static Counts,
}

/// Counts in memory that processes share which are forked later.
struct Counts {
    dropped: AtomicU64,
    /// The dropped lines that a line has reported.
    reported: AtomicU64,
    /// 1: the last line was cut within.
    torn: AtomicU64,
}

impl LossyLines {
    /// Lines to what `fd` names. Its counts live as long as the process.
    ///
    /// # Errors
    /// Those of [`Output::of`], `ENOMEM`.
    pub fn to(fd: BorrowedFd<'_>) -> io::Result<LossyLines> {
        Ok(LossyLines { output: Output::of(fd)?, counts: Counts::new()? })
    }

    /// Prints a line, or counts it if there is no room. The next line that has room is preceded by
    /// the number of those that were dropped.
    pub fn print(&self, line: &str) {
        let counts = self.counts;
        let lost = counts.dropped.load(Ordering::Relaxed) - counts.reported.load(Ordering::Relaxed);
        let mut text = String::new();
        if counts.torn.swap(0, Ordering::Relaxed) == 1 {
            text.push('\n');
        }
        if lost > 0 {
            text += &format!("{lost} lines were dropped here, because their reader paused\n");
        }
        text += line;
        text.push('\n');
        match self.output.write(text.as_bytes()) {
            Ok(count) => {
                counts.reported.fetch_add(lost, Ordering::Relaxed);
                if count < text.len() {
                    counts.torn.store(1, Ordering::Relaxed);
                    counts.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
            // Nothing can be done about a closed descriptor.
            Err(_) => {}
        }
    }

    /// The lines that were dropped, of all processes.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }
}

impl Counts {
    fn new() -> io::Result<&'static Counts> {
        let (access, len) = (ProtFlags::READ | ProtFlags::WRITE, size_of::<Counts>());
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::SHARED) }?;
        // SAFETY: the mapping is aligned to a page, as long as a `Counts`, never unmapped, and
        // filled with zeros, which are valid atomics.
        Ok(unsafe { &*start.cast::<Counts>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    /// Writes until there is no room, on a thread: a write that waits fails the test.
    #[track_caller]
    fn fill(output: Output) -> (Output, usize) {
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut count = 0;
            let error = loop {
                match output.write(&[b'x'; 1000]) {
                    Ok(written) => count += written,
                    Err(error) => break error,
                }
            };
            let _ = done.send((output, count, error.kind()));
        });
        let waited = ended.recv_timeout(Duration::from_secs(10));
        let (output, count, kind) = waited.expect("a write that does not wait");
        assert_eq!(kind, ErrorKind::WouldBlock);
        (output, count)
    }

    fn is_blocking(fd: impl AsFd) -> bool {
        !rustix::fs::fcntl_getfl(fd).unwrap().contains(rustix::fs::OFlags::NONBLOCK)
    }

    #[test]
    fn a_full_pipe_is_reported_and_stays_blocking_for_others() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (output, count) = fill(Output::of(writer.as_fd()).unwrap());
        assert!(count >= 4096 && is_blocking(&writer) && output.kind == Kind::Own);
        let shared = Output { file: File::from(OwnedFd::from(writer)), kind: Kind::Shared };
        let (shared, more) = fill(shared);
        assert_eq!(more, 0);
        reader.read_exact(&mut vec![0; count]).unwrap();
        let (shared, again) = fill(shared);
        assert!(again >= count - libc::PIPE_BUF, "{again} of {count}");
        drop(reader);
        assert_eq!(shared.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_socket_and_a_stopped_terminal_are_reported() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        fill(Output::of(ours.as_fd()).unwrap());
        assert!(is_blocking(&ours));
        drop(theirs);
        let master = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let flags = libc::O_NOCTTY;
        let name = name.into_string().unwrap();
        let terminal =
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(name).unwrap();
        // Ctrl-S.
        rustix::termios::tcflow(&terminal, rustix::termios::Action::OOff).unwrap();
        let (_, count) = fill(Output::of(terminal.as_fd()).unwrap());
        assert_eq!(count, 0);
        assert!(is_blocking(&terminal));
    }

    #[test]
    fn a_fifo_needs_no_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        let output = Output::append(&path).unwrap();
        output.write(b"early\n").unwrap();
        let mut text = [0; 6];
        File::open(&path).unwrap().read_exact(&mut text).unwrap();
        assert_eq!(&text, b"early\n");
        fill(output);
    }

    #[test]
    fn dropped_lines_are_counted_and_reported() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = LossyLines::to(writer.as_fd()).unwrap();
        let line = "x".repeat(999);
        let mut printed = 0;
        while lines.dropped() < 3 {
            lines.print(&line);
            printed += 1;
        }
        let mut text = vec![0; (printed - 3) * 1000];
        reader.read_exact(&mut text).unwrap();
        lines.print("again");
        drop((lines, writer));
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let expected = "3 lines were dropped here, because their reader paused\nagain\n";
        assert_eq!(rest, expected);
    }

    #[test]
    fn a_write_with_patience_follows_a_slow_reader() {
        let (mut reader, writer) = io::pipe().unwrap();
        let output = Output::of(writer.as_fd()).unwrap();
        let bytes = vec![b'y'; 1 << 20];
        let patience = Duration::from_secs(20);
        std::thread::scope(|scope| {
            scope.spawn(|| reader.read_exact(&mut vec![0; 1 << 20]).unwrap());
            output.write_all(&bytes, patience).unwrap();
        });
        let refused = output.write_all(&bytes, Duration::from_millis(10)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }
}
