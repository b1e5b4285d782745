//! The four rings of an AF_XDP socket: memory of the kernel with two counters, of which each side
//! moves one.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::MapFlags;

use crate::call::{check, set_option};
use crate::map::{ACCESS, Mapping};

/// The rings of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// Frames that the kernel has filled.
    Receive,
    /// Frames to be sent.
    Send,
    /// Empty frames for the kernel.
    Fill,
    /// Frames that have been sent.
    Completion,
}

/// A ring, of which this process moves one counter.
#[derive(Debug)]
pub struct Ring {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    /// Entries are an `xdp_desc`, not a place alone.
    is_described: bool,
    mask: u32,
    /// Our own counter, which `publish` shows to the kernel.
    at: u32,
}

impl Ring {
    /// Asks the kernel for a ring of `size` entries, a power of two, and maps it.
    pub fn new(socket: BorrowedFd<'_>, kind: RingKind, size: u32) -> io::Result<Ring> {
        let (option, page) = match kind {
            RingKind::Receive => (libc::XDP_RX_RING, libc::XDP_PGOFF_RX_RING as u64),
            RingKind::Send => (libc::XDP_TX_RING, libc::XDP_PGOFF_TX_RING as u64),
            RingKind::Fill => (libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_PGOFF_FILL_RING),
            RingKind::Completion => {
                (libc::XDP_UMEM_COMPLETION_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING)
            }
        };
        set_option(socket, libc::SOL_XDP, option, &size)?;
        let offsets = offsets(socket)?;
        let (offset, is_described) = match kind {
            RingKind::Receive => (offsets.rx, true),
            RingKind::Send => (offsets.tx, true),
            RingKind::Fill => (offsets.fr, false),
            RingKind::Completion => (offsets.cr, false),
        };
        let entry = if is_described { size_of::<libc::xdp_desc>() } else { 8 };
        let len = offset.desc as usize + size as usize * entry;
        Ok(Ring {
            memory: Mapping::of(socket, len, ACCESS, MapFlags::POPULATE, page)?,
            producer: offset.producer as usize,
            consumer: offset.consumer as usize,
            flags: offset.flags as usize,
            entries: offset.desc as usize,
            is_described,
            mask: size - 1,
            at: 0,
        })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.memory.len());
        // SAFETY: inside the mapping, which lives as long as `self`; the kernel aligns its counters
        // and both sides reach them by atomics.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(offset).cast()) }
    }

    /// The address of the entry that counter `at` names.
    fn entry(&self, at: u32) -> *mut u8 {
        let entry = if self.is_described { size_of::<libc::xdp_desc>() } else { 8 };
        let offset = self.entries + (at & self.mask) as usize * entry;
        assert!(offset + entry <= self.memory.len());
        // SAFETY: inside the mapping, as was just checked.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    /// Writes an entry; the caller has no more entries under way than the ring has places.
    pub fn push(&mut self, place: u64, len: u32) {
        let entry = self.entry(self.at);
        if self.is_described {
            let described = libc::xdp_desc { addr: place, len, options: 0 };
            // SAFETY: an aligned entry of this type; the kernel reads it after `publish`.
            unsafe { entry.cast::<libc::xdp_desc>().write(described) };
        } else {
            // SAFETY: as above.
            unsafe { entry.cast::<u64>().write(place) };
        }
        self.at = self.at.wrapping_add(1);
    }

    /// Shows the written entries to the kernel.
    pub fn publish(&mut self) {
        self.word(self.producer).store(self.at, Ordering::Release);
    }

    /// Whether the kernel has written no further entry.
    pub fn is_empty(&self) -> bool {
        self.word(self.producer).load(Ordering::Acquire) == self.at
    }

    /// Whether the kernel has read all entries.
    pub fn is_taken(&self) -> bool {
        self.word(self.consumer).load(Ordering::Acquire) == self.at
    }

    /// Takes an entry that the kernel has written: a place, and a length where the ring has one.
    pub fn pop(&mut self) -> Option<(u64, u32)> {
        if self.is_empty() {
            return None;
        }
        let entry = self.entry(self.at);
        let (place, len) = if self.is_described {
            // SAFETY: an aligned entry, which the kernel wrote before it moved its counter.
            let described = unsafe { entry.cast::<libc::xdp_desc>().read() };
            (described.addr, described.len)
        } else {
            // SAFETY: as above.
            (unsafe { entry.cast::<u64>().read() }, 0)
        };
        self.at = self.at.wrapping_add(1);
        self.word(self.consumer).store(self.at, Ordering::Release);
        Some((place, len))
    }

    /// Whether the kernel goes on only after a call (`XDP_RING_NEED_WAKEUP`).
    pub fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Where the kernel keeps the counters and entries of a socket's rings.
fn offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    let none = || libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
    let mut offsets = libc::xdp_mmap_offsets { rx: none(), tx: none(), fr: none(), cr: none() };
    let mut len = size_of_val(&offsets) as libc::socklen_t;
    let (fd, start) = (socket.as_raw_fd(), (&raw mut offsets).cast());
    // SAFETY: the value is writable for its length.
    check(unsafe {
        libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, start, &raw mut len)
    })?;
    if len as usize != size_of_val(&offsets) {
        // Rings without flags, before Linux 5.4.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(offsets)
}
