//! Memory directly from the kernel: zeroed, page aligned, allocated page by page when touched
//! (mmap(2), memfd_create(2)).
//!
//! A shared mapping is an anonymous file in memory. Forked children see the same bytes; any process
//! that receives the descriptor can adopt it. Its size is sealed (fcntl(2), `F_SEAL_SHRINK`),
//! because reading a truncated file would raise `SIGBUS`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::retry_on_intr;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

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
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a null address lets the kernel choose a free range, so no memory in use is
        // touched.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, ACCESS, flags) }?;
        Ok(Self { start: mapped(start)?, len, fd: None })
    }

    /// Asks for huge pages, where the kernel has them for this kind of memory (madvise(2),
    /// `MADV_HUGEPAGE`). It is a wish: nothing else changes if it is refused.
    pub fn wish_huge_pages(&self) {
        // SAFETY: the range is this mapping; the advice changes no byte.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxHugepage) };
    }

    /// `len` bytes that other processes can share. `name` appears in `/proc/PID/maps`.
    ///
    /// # Errors
    /// `EINVAL` for length zero, `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn shared(len: usize, name: &CStr) -> io::Result<Self> {
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        retry_on_intr(|| ftruncate(&fd, len as u64))?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::of_file(fd, len)
    }

    /// The first `len` bytes of a shared mapping that another process made, by its descriptor.
    ///
    /// # Errors
    /// `InvalidData` if the descriptor is no sealed memory, or memory of another length; `ENOMEM`.
    pub fn adopt(fd: OwnedFd, len: usize) -> io::Result<Self> {
        if !fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
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
        let mut mapping = Self::of(&fd, len, ACCESS, MapFlags::NORESERVE, 0)?;
        mapping.fd = Some(fd);
        Ok(mapping)
    }

    /// `len` bytes of an open file from `offset` on, shared with all that map it.
    pub(crate) fn of(
        fd: impl AsFd,
        len: usize,
        access: ProtFlags,
        flags: MapFlags,
        offset: u64,
    ) -> io::Result<Self> {
        let flags = flags | MapFlags::SHARED;
        // SAFETY: as in `private`.
        let start = unsafe { mmap(ptr::null_mut(), len, access, flags, fd, offset) }?;
        Ok(Self { start: mapped(start)?, len, fd: None })
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
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "a mapping could not be unmapped");
    }
}

pub(crate) const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

fn mapped(start: *mut std::ffi::c_void) -> io::Result<NonNull<u8>> {
    NonNull::new(start.cast()).ok_or_else(|| invalid("the kernel mapped address zero"))
}

fn size(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(fstat(fd)?.st_size.cast_unsigned())
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
        assert!(ftruncate(&fd, 0).is_err(), "the size must be sealed");
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
