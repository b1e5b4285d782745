//! A file mapped to be sent from memory (mmap(2)).
//!
//! This type does not expose the bytes: another process may change or truncate the file at any
//! moment, and reading a truncated page ends the process (`SIGBUS`). Calls that send from it copy
//! inside the kernel, where this is an ordinary error (`EFAULT`).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::call::check_count;

/// The most ranges read by one call (`IOV_MAX`).
const PARTS_MAX: usize = 1024;

/// A file mapped for reading; unmapped when dropped.
#[derive(Debug)]
pub struct MappedFile {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: only the kernel reads the mapping, and it belongs to no thread.
unsafe impl Send for MappedFile {}
// SAFETY: as above; nothing can be changed through it.
unsafe impl Sync for MappedFile {}

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
        // SAFETY: a null address lets the kernel choose a free range, so no memory in use is
        // touched.
        let start =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(MappedFile { start, len })
    }

    /// The mapped length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Always false: an empty file cannot be mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Appends ranges of mapped files to `into`, as many per call as possible; returns the number
    /// of calls. The kernel reads them (process_vm_readv(2)), so a truncated file does no harm.
    ///
    /// # Errors
    /// `EFAULT` for a truncated file; `EPERM` where a filter forbids the call. `into` is then
    /// unchanged.
    pub fn read<'m>(
        parts: impl Iterator<Item = (&'m MappedFile, Range<u64>)>,
        into: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let mut joined: Vec<libc::iovec> = Vec::new();
        for (file, range) in parts {
            let (start, len) = file.range(range);
            match joined.last_mut() {
                // Contiguous ranges of a file are merged: a longer part costs no more.
                Some(last) if last.iov_base.addr() + last.iov_len == start.addr() => {
                    last.iov_len += len;
                }
                _ => joined.push(libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len }),
            }
        }
        let parts = joined;
        let (before, mut calls) = (into.len(), 0);
        for parts in parts.chunks(PARTS_MAX) {
            let len: usize = parts.iter().map(|part| part.iov_len).sum();
            let at = into.len();
            into.resize(at + len, 0);
            let place = libc::iovec { iov_base: into[at..].as_mut_ptr().cast(), iov_len: len };
            calls += 1;
            // SAFETY: the destination is writable for its length, and the parts are counted; the
            // kernel validates their addresses, in this very process.
            let read = check_count(unsafe {
                let (own, count) = (libc::getpid(), parts.len() as libc::c_ulong);
                libc::process_vm_readv(own, &place, 1, parts.as_ptr(), count, 0)
            });
            let fault = io::Error::from_raw_os_error(libc::EFAULT);
            match read {
                Ok(read) if read == len => {}
                other => {
                    into.truncate(before);
                    return Err(other.err().unwrap_or(fault));
                }
            }
        }
        Ok(calls)
    }

    /// The address of a range, for calls that pass it to the kernel.
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
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "what was mapped can be unmapped");
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
        let mut read = vec![1];
        let parts = || [(&mapped, 5000..5003), (&mapped, 0..2)].into_iter();
        assert_eq!(MappedFile::read(parts(), &mut read).unwrap(), 1);
        assert_eq!(read, [1, 7, 7, 7, 7, 7]);
        let follow = (0..3000).map(|at| (&mapped, at..at + 1));
        assert_eq!(MappedFile::read(follow, &mut Vec::new()).unwrap(), 1);
        let apart = (0..3000).map(|at| (&mapped, at * 2..at * 2 + 1));
        assert_eq!(MappedFile::read(apart, &mut Vec::new()).unwrap(), 3);
        file.set_len(0).unwrap();
        let error = MappedFile::read(parts(), &mut read).unwrap_err();
        assert_eq!((error.raw_os_error(), read.len()), (Some(libc::EFAULT), 6));
        assert_eq!(send().error.unwrap().raw_os_error(), Some(libc::EFAULT));
        assert!(MappedFile::new(&file).is_err());
    }
}
