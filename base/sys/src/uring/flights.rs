//! Memory that the kernel may be reading or writing: send payloads and receive buffers, kept from
//! submission to the last completion.

use std::ops::Range;
use std::sync::Arc;

/// One piece of a payload.
#[derive(Debug)]
pub enum Chunk {
    /// Bytes that are returned with the last completion, for reuse.
    Owned(Vec<u8>),
    /// A range of bytes shared with other sends.
    Shared(Arc<[u8]>, Range<usize>),
}

impl Chunk {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Owned(bytes) => bytes,
            Chunk::Shared(bytes, range) => &bytes[range.clone()],
        }
    }
}

/// The payload of one send.
#[derive(Debug)]
pub enum Load {
    /// The common case: one piece, sent by `send(2)`.
    One(Chunk),
    /// Several pieces, sent by `sendmsg(2)`; at most 1024 (`IOV_MAX`).
    Rope(Vec<Chunk>),
}

impl Load {
    pub(super) fn len(&self) -> usize {
        match self {
            Load::One(chunk) => chunk.bytes().len(),
            Load::Rope(chunks) => chunks.iter().map(|chunk| chunk.bytes().len()).sum(),
        }
    }
}

/// A send that the kernel may be reading.
pub(super) struct Sending {
    pub token: u64,
    pub fd: i32,
    pub load: Load,
    pub sent: usize,
    pub len: usize,
    /// The message header and slices of several pieces; the kernel reads them at submission.
    pub message: Option<Box<Message>>,
}

/// The header of several pieces.
pub(super) struct Message {
    pub header: libc::msghdr,
    /// The slices that the header refers to.
    _slices: Vec<libc::iovec>,
}

impl Message {
    /// A header for what is left of `chunks` after their first `skip` bytes.
    pub(super) fn of(chunks: &[Chunk], mut skip: usize) -> Box<Message> {
        let mut slices = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let bytes = chunk.bytes();
            let skipped = skip.min(bytes.len());
            skip -= skipped;
            let rest = &bytes[skipped..];
            if !rest.is_empty() {
                let iov_base = rest.as_ptr().cast_mut().cast();
                slices.push(libc::iovec { iov_base, iov_len: rest.len() });
            }
        }
        // SAFETY: an all-zero message header is valid: no name, no control data.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = slices.as_mut_ptr();
        header.msg_iovlen = slices.len() as _;
        Box::new(Message { header, _slices: slices })
    }
}

/// A receive into a separate buffer.
pub(super) struct Receiving {
    pub token: u64,
    pub buffer: Box<[u8]>,
}

/// Operations in flight by number; a number is reused after completion.
pub(super) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn put(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(thing);
                index
            }
            None => {
                self.slots.push(Some(thing));
                self.slots.len() as u32 - 1
            }
        }
    }

    /// # Panics If no operation with that number is in flight.
    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut T {
        self.slots[index as usize].as_mut().expect("a completion is of what is in flight")
    }

    /// # Panics
    /// As [`Slots::at`].
    #[inline]
    pub(super) fn take(&mut self, index: u32) -> T {
        let thing = self.slots[index as usize].take();
        self.free.push(index);
        thing.expect("a completion is of what is in flight")
    }

    /// All operations in flight.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// Leaks everything until the process ends.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.slots));
        self.free.clear();
    }
}

/// Free buffers for receives, last used first.
pub(super) struct Spare {
    small: Vec<Box<[u8]>>,
    large: Vec<Box<[u8]>>,
}

/// The buffer of a waiting connection. A request of the market has 10 to 20 bytes, so that 16 of
/// them in one segment fit; ten thousand idle connections hold 10 MB.
pub const OWN_SMALL: usize = 1024;
/// The buffer for a connection whose input is known to be pending.
pub const OWN_LARGE: usize = 16 * 1024;
/// The maximum number of kept buffers of each size; a turn rarely needs more.
const SPARE: usize = 256;

impl Spare {
    pub(super) fn new() -> Spare {
        Spare { small: Vec::new(), large: Vec::new() }
    }

    #[inline]
    pub(super) fn take(&mut self, large: bool) -> Box<[u8]> {
        let (spare, len) =
            if large { (&mut self.large, OWN_LARGE) } else { (&mut self.small, OWN_SMALL) };
        spare.pop().unwrap_or_else(|| vec![0; len].into_boxed_slice())
    }

    #[inline]
    pub(super) fn put(&mut self, buffer: Box<[u8]>) {
        let (spare, most) = if buffer.len() == OWN_LARGE {
            (&mut self.large, SPARE / 16)
        } else {
            (&mut self.small, SPARE)
        };
        if spare.len() < most {
            spare.push(buffer);
        }
    }
}
