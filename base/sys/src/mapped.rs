//! A file mapped to be sent from memory (mmap(2)).
//!
//! This type does not expose the bytes: another process may change or truncate the file at any
//! moment, and reading a truncated page ends the process (`SIGBUS`). Calls that send from it copy
//! inside the kernel, where this is an ordinary error (`EFAULT`).

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::mm::{MapFlags, ProtFlags};

use crate::map::Mapping;

/// A file mapped for reading; unmapped when dropped.
#[derive(Debug)]
pub struct MappedFile(Mapping);

impl MappedFile {
    /// Maps the whole of `file` at its current length.
    ///
    /// # Errors
    /// `InvalidInput` for an empty file; `EACCES` if it is not open for reading; `ENODEV` where its
    /// file system does not support it.
    pub fn new(file: &File) -> io::Result<MappedFile> {
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if len == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "expected a file with bytes in it, found an empty one",
            ));
        }
        Mapping::of(file, len, ProtFlags::READ, MapFlags::empty(), 0).map(MappedFile)
    }

    /// The mapped length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Always false: an empty file cannot be mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The address of a range, for calls that pass it to the kernel.
    pub(crate) fn range(&self, range: Range<u64>) -> (*const u8, usize) {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {}", self.len());
        // SAFETY: the offset is inside the mapping.
        let start = unsafe { self.0.as_ptr().add(range.start as usize) };
        (start, (range.end - range.start) as usize)
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
        let file = crate::udp::tests::file(&[7; 8192]);
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
