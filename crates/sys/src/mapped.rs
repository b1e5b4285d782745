//! A file in memory, to be sent from there (mmap(2)).
//!
//! Nobody can look at its bytes through this type: another process may change the file or cut it
//! off at any moment, and a look at what is gone ends the process (`SIGBUS`). Calls that send from
//! it copy inside the kernel, where the same is an ordinary error (`EFAULT`).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// A file mapped for reading; unmapped when dropped.
#[derive(Debug)]
pub struct MappedFile {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is read by the kernel only and belongs to no thread.
unsafe impl Send for MappedFile {}
// SAFETY: as above; there is nothing that could be changed through it.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps the whole of `file` as long as it is now.
    ///
    /// # Errors
    /// `InvalidInput` for an empty file; `EACCES` if it is not open for reading; `ENODEV` where its
    /// file system cannot.
    pub fn new(file: &File) -> io::Result<MappedFile> {
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let (access, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        if len == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "expected a file with bytes in it, found an empty one",
            ));
        }
        // SAFETY: a null address lets the kernel choose a free range, so no memory in use is
        // touched.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, file.as_raw_fd(), 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => {
                Ok(MappedFile { start, len })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How many bytes are mapped.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Never: an empty file cannot be mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Where a range lies, for calls that pass it to the kernel.
    pub(crate) fn range(&self, range: Range<u64>) -> (*const u8, usize) {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {}", self.len);
        // SAFETY: the offset is inside the mapping.
        let start = unsafe { self.start.as_ptr().add(range.start as usize) };
        (start, (range.end - range.start) as usize)
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and nothing borrows from it any more.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert_eq!(result, 0, "what was mapped can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Batch, Udp, UdpOptions};
    use std::net::SocketAddr;
    use std::time::Duration;

    #[test]
    fn a_file_that_became_shorter_fails_the_call_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("roundhouse-mapped-{}", std::process::id()));
        std::fs::write(&path, vec![7; 8192]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mapped = MappedFile::new(&file).unwrap();
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = Udp::bind(local, &UdpOptions::default()).unwrap();
        let to = socket.local_addr().unwrap();
        let mut batch = Batch::default();
        let mut send = || {
            batch.send(&socket, |filling| {
                filling.datagram(to);
                filling.mapped(&mapped, 5000..5010);
            })
        };
        assert_eq!(send().count, 1);
        assert!(socket.wait_readable(Duration::from_secs(10)).unwrap());
        let mut buffer = [0; 64];
        assert_eq!(socket.receive(&mut buffer).unwrap().0, 10);
        assert_eq!(buffer[..10], [7; 10]);
        file.set_len(0).unwrap();
        assert_eq!(send().error.unwrap().raw_os_error(), Some(libc::EFAULT));
        assert!(MappedFile::new(&file).is_err());
    }
}
