//! Memory directly from the kernel: zeroed, page aligned, allocated page by page when touched
//! (mmap(2), memfd_create(2)).
//!
//! A shared mapping is an anonymous file in memory. Forked children see the same bytes; any process
//! that receives the descriptor can adopt it. Its size is sealed (fcntl(2), `F_SEAL_SHRINK`),
//! because reading a truncated file would raise `SIGBUS`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use crate::call::{check, uninterrupted};

/// A memory mapping. It is unmapped when dropped; the bytes of a shared one persist while another
/// process maps or holds them.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    fd: Option<OwnedFd>,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this type never reads or writes
// the bytes: users of the pointer are responsible for that.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` only gives address, length and descriptor.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes private to this process.
    ///
    /// # Errors
    /// `EINVAL` for length zero, `ENOMEM`.
    pub fn private(len: usize) -> io::Result<Self> {
        let start = map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        Ok(Self { start, len, fd: None })
    }

    /// Asks for huge pages, where the kernel has them for this kind of memory (madvise(2),
    /// `MADV_HUGEPAGE`). It is a wish: nothing else changes if it is refused.
    pub fn wish_huge_pages(&self) {
        // SAFETY: the range is this mapping; the advice changes no byte.
        let _ = unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_HUGEPAGE) };
    }

    /// `len` bytes that other processes can share. `name` appears in `/proc/PID/maps`.
    ///
    /// # Errors
    /// `EINVAL` for length zero, `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn shared(len: usize, name: &CStr) -> io::Result<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with a NUL and outlives the call.
        let fd = check(unsafe { libc::memfd_create(name.as_ptr(), flags) })?;
        // SAFETY: the call made `fd` and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the descriptor is open; no memory is passed.
        uninterrupted(|| check(unsafe { libc::ftruncate(fd.as_raw_fd(), size) }))?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is open; no memory is passed.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Self::of_file(fd, len)
    }

    /// The first `len` bytes of a shared mapping that another process made, by its descriptor.
    ///
    /// # Errors
    /// `InvalidData` if the descriptor is no sealed memory, or memory of another length; `ENOMEM`.
    pub fn adopt(fd: OwnedFd, len: usize) -> io::Result<Self> {
        // SAFETY: the descriptor is open; no memory is passed.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals == -1 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(invalid(
                "expected shared memory of sealed size, found another kind of descriptor; \
                 pass the one that the running server gave",
            ));
        }
        let size = size(fd.as_fd())?;
        if size != len as u64 {
            return Err(invalid(&format!(
                "expected shared memory of {len} bytes, found {size}; \
                 the two programs differ, so restart instead of handing over"
            )));
        }
        Self::of_file(fd, len)
    }

    /// The first `len` bytes of a file, shared with all processes that map it.
    ///
    /// # Errors
    /// `InvalidData` if the file is shorter; those of mmap(2).
    pub fn file(fd: OwnedFd, len: usize) -> io::Result<Self> {
        let size = size(fd.as_fd())?;
        if size < len as u64 {
            return Err(invalid(&format!("expected a file of {len} bytes, found {size}")));
        }
        Self::of_file(fd, len)
    }

    fn of_file(fd: OwnedFd, len: usize) -> io::Result<Self> {
        let start = map(len, libc::MAP_SHARED, fd.as_raw_fd())?;
        Ok(Self { start, len, fd: Some(fd) })
    }

    /// The first byte, on a page boundary. Initially zeroed, readable and writable for
    /// [`Mapping::len`] bytes while `self` lives.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The requested length.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: the kernel refuses empty mappings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The descriptor of a shared mapping, to be adopted by another process.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly this range was mapped at creation and is unmapped nowhere else.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert_eq!(result, 0, "a mapping could not be unmapped");
    }
}

fn map(len: usize, flags: libc::c_int, fd: libc::c_int) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a null address lets the kernel choose a free range, so no memory in use is touched.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), len, access, flags | libc::MAP_NORESERVE, fd, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| invalid("the kernel mapped address zero"))
}

fn size(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: a stat is made of integers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open while borrowed and `stat` is writable.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
    Ok(stat.st_size.cast_unsigned())
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    fn word(mapping: &Mapping, index: usize) -> &AtomicU64 {
        assert!((index + 1) * 8 <= mapping.len());
        // SAFETY: inside the mapping, aligned to eight, and reached by atomics only.
        unsafe { AtomicU64::from_ptr(mapping.as_ptr().cast::<u64>().add(index)) }
    }

    #[test]
    fn memory_is_born_zero_and_on_a_page() {
        const LEN: usize = 3 * 4096 + 8;
        for mapping in [Mapping::private(LEN).unwrap(), Mapping::shared(LEN, c"test").unwrap()] {
            assert_eq!((mapping.as_ptr() as usize % 4096, mapping.len()), (0, LEN));
            assert!((0..LEN / 8).all(|index| word(&mapping, index).load(SeqCst) == 0));
            word(&mapping, LEN / 8 - 1).store(7, SeqCst);
            assert_eq!(word(&mapping, LEN / 8 - 1).load(SeqCst), 7);
        }
    }

    #[test]
    fn a_large_mapping_costs_nothing_until_touched() {
        let mapping = Mapping::private(1 << 40).unwrap();
        word(&mapping, (1 << 37) - 1).store(1, SeqCst);
    }

    #[test]
    fn an_adopted_mapping_shows_the_same_bytes() {
        let first = Mapping::shared(8192, c"test").unwrap();
        let fd = first.fd().unwrap().try_clone_to_owned().unwrap();
        let second = Mapping::adopt(fd, 8192).unwrap();
        word(&first, 1000).store(5, SeqCst);
        assert_eq!(word(&second, 1000).load(SeqCst), 5);
        drop(first);
        assert_eq!(word(&second, 1000).load(SeqCst), 5);
    }

    #[test]
    fn other_lengths_and_other_files_are_refused() {
        let mapping = Mapping::shared(8192, c"test").unwrap();
        let fd = mapping.fd().unwrap().try_clone_to_owned().unwrap();
        // SAFETY: the descriptor is open; no memory is passed.
        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), 0) }, -1, "the size must be sealed");
        for len in [4096, 16384] {
            let error = Mapping::adopt(fd.try_clone().unwrap(), len).unwrap_err();
            assert!(error.to_string().contains(&format!("{len} bytes, found 8192")), "{error}");
        }
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Mapping::adopt(file.into(), 8192).is_err());
        assert!(Mapping::private(0).is_err() && Mapping::shared(0, c"test").is_err());
        assert!(Mapping::private(0).is_err() && mapping.fd().is_some());
    }
}
