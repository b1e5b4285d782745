//! A ring of provided buffers (`io_uring_register_buf_ring(3)`, 5.19): the kernel takes one when
//! data arrives, so a waiting connection holds none.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// A buffer that the kernel has filled.
#[derive(Debug)]
pub(super) struct BufferId {
    index: u16,
    len: u32,
}

/// The ring of buffer descriptors.
pub(super) struct BufferRing {
    pages: Arc<Pages>,
    tail: u16,
}

/// Page-aligned memory for the descriptor ring and the buffers after it. The holder of a filled
/// buffer's id may read that buffer, on any thread.
pub(super) struct Pages {
    base: NonNull<u8>,
    layout: Layout,
    count: u16,
    len: u32,
    leaked: AtomicBool,
}

// SAFETY: this value alone owns the memory; the kernel's side is tied to the ring.
unsafe impl Send for Pages {}
// SAFETY: descriptors are written by the one `BufferRing` of these pages, which needs it whole; a
// buffer is read by the holder of its id, which is unique and which the kernel respects.
unsafe impl Sync for Pages {}

const PAGE: usize = 4096;
const ENTRY: usize = size_of::<BufRingEntry>();

impl BufferRing {
    pub(super) fn new(ring: &IoUring, group: u16, count: u16, len: u32) -> io::Result<BufferRing> {
        assert!(count.is_power_of_two() && count <= 1 << 15, "the kernel's rule for buffer rings");
        let entries = (usize::from(count) * ENTRY).next_multiple_of(PAGE);
        let size = entries + usize::from(count) * len as usize;
        let layout = Layout::from_size_align(size, PAGE).expect("a ring's size is small");
        // SAFETY: the layout is not empty, since `count` is at least one.
        let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        let leaked = AtomicBool::new(false);
        let pages = Arc::new(Pages { base, layout, count, len, leaked });
        let mut buffers = BufferRing { pages, tail: 0 };
        // SAFETY: the memory outlives the registration: it is freed after the ring was drained, or
        // never.
        unsafe {
            let address = base.as_ptr() as u64;
            ring.submitter().register_buf_ring_with_flags(address, count, group, 0)?;
        }
        for index in 0..count {
            buffers.give_back(BufferId { index, len: 0 });
        }
        Ok(buffers)
    }

    /// The buffer of a completion.
    pub(super) fn taken(&self, index: u16, len: u32) -> BufferId {
        let known = index < self.pages.count && len <= self.pages.len;
        assert!(known, "a buffer that was never provided");
        BufferId { index, len }
    }

    /// The memory of the buffers, for readers.
    pub(super) fn pages(&self) -> &Arc<Pages> {
        &self.pages
    }

    pub(super) fn give_back(&mut self, buffer: BufferId) {
        let Pages { base, count, len, .. } = *self.pages;
        let slot = usize::from(self.tail & (count - 1));
        // SAFETY: the slot lies in the ring of descriptions; the kernel reads it only after the
        // tail has moved past it, and nothing else writes.
        unsafe {
            let address = base.as_ptr().add(self.pages.offset(buffer.index)) as u64;
            let entry = &mut *base.as_ptr().cast::<BufRingEntry>().add(slot);
            entry.set_addr(address);
            entry.set_len(len);
            entry.set_bid(buffer.index);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is the aligned `u16` that the kernel's layout keeps in the first entry.
        let tail = unsafe {
            let tail = BufRingEntry::tail(base.as_ptr().cast());
            &*tail.cast::<AtomicU16>()
        };
        tail.store(self.tail, Ordering::Release);
    }

    /// Makes sure that the memory is never freed.
    pub(super) fn leak(&mut self) {
        self.pages.leaked.store(true, Ordering::Relaxed);
    }
}

impl Pages {
    pub(super) fn bytes(&self, buffer: &BufferId) -> &[u8] {
        assert!(buffer.index < self.count && buffer.len <= self.len, "a buffer of another ring");
        // SAFETY: the kernel filled `len` bytes and does not touch the buffer until it is returned,
        // which consumes the id.
        unsafe {
            let start = self.base.as_ptr().add(self.offset(buffer.index));
            std::slice::from_raw_parts(start, buffer.len as usize)
        }
    }

    fn offset(&self, index: u16) -> usize {
        let entries = (usize::from(self.count) * ENTRY).next_multiple_of(PAGE);
        entries + usize::from(index) * self.len as usize
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if !*self.leaked.get_mut() {
            // SAFETY: it was allocated with this layout, and the ring was drained before.
            unsafe { dealloc(self.base.as_ptr(), self.layout) };
        }
    }
}
