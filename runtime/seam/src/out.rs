//! A connection's output: a rope of bytes, shared bytes and file ranges. The engine owns it, and
//! the service appends to it.
//!
//! Engines that write at once ask for the oldest piece ([`Out::single`], [`Out::gather`],
//! [`Out::front_file`]) and report what the kernel took ([`Out::advance`]). Engines that write
//! later take pieces out ([`Out::take`]) and report when they have landed ([`Out::landed`]). Output
//! that is taken counts until it has landed; otherwise taking it would silently disable
//! back-pressure.
//!
//! The common reply is one piece of bytes, so it needs no rope: it is appended to a spare buffer
//! that the engine lends ([`Out::lend`]) and takes back ([`Out::reclaim`]). An idle session owns no
//! memory for output.

use core::cell::RefCell;
use core::ops::Range;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::{AssetId, Limits};

/// A file as the source of output. It is only a name here: the service passes it on, and
/// the engine sends from the file.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file opened before the first worker, by its number.
    Asset(AssetId),
    /// A file opened later; it closes with the last piece of output that names it.
    Open(Arc<OwnedFd>),
}

impl PartialEq for Source {
    /// Compares the open file, not the content.
    fn eq(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Asset(one), Source::Asset(two)) => one == two,
            (Source::Open(one), Source::Open(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

impl Eq for Source {}

impl From<AssetId> for Source {
    fn from(asset: AssetId) -> Source {
        Source::Asset(asset)
    }
}

impl From<Arc<OwnedFd>> for Source {
    fn from(file: Arc<OwnedFd>) -> Source {
        Source::Open(file)
    }
}

/// One piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes of this connection alone.
    Bytes(Vec<u8>),
    /// A range of bytes that several connections send.
    Shared(Arc<[u8]>, Range<usize>),
    /// A range of a file, in bytes from its start; read or spliced by the engine.
    File(Source, Range<u64>),
}

impl Part {
    /// The length of the piece in bytes.
    pub fn len(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Shared(_, range) => range.len(),
            Part::File(_, range) => (range.end - range.start) as usize,
        }
    }

    /// True if the piece is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are in memory.
    pub fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Part::Bytes(bytes) => Some(bytes),
            Part::Shared(bytes, range) => Some(&bytes[range.clone()]),
            Part::File(..) => None,
        }
    }
}

/// Output that is not sent yet, oldest first.
#[derive(Debug)]
pub struct Out {
    /// Sealed pieces; the tail comes after them.
    parts: VecDeque<Part>,
    tail: Vec<u8>,
    /// Bytes in `parts`, including those of the front that are sent already.
    sealed: usize,
    /// Bytes of the oldest piece that are sent already.
    head: usize,
    /// Bytes taken and not landed.
    flying: usize,
    /// Bytes that the session itself keeps.
    kept: usize,
    high: usize,
    low: usize,
}

impl Out {
    /// An empty output that is full at [`Limits::output_high`].
    pub fn new(limits: &Limits) -> Out {
        Out {
            parts: VecDeque::new(),
            tail: Vec::new(),
            sealed: 0,
            head: 0,
            flying: 0,
            kept: 0,
            high: limits.output_high,
            low: limits.output_low,
        }
    }

    // ---- the service's side

    /// The buffer that the service appends to; its present content must not change.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Appends `range` of `bytes` without copying.
    pub fn shared(&mut self, bytes: Arc<[u8]>, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= bytes.len());
        self.append(Part::Shared(bytes, range));
    }

    /// Appends `range` of a file, in bytes from its start.
    pub fn file(&mut self, source: impl Into<Source>, range: Range<u64>) {
        assert!(range.start <= range.end);
        self.append(Part::File(source.into(), range));
    }

    /// True if the service must stop making output; [`crate::Conn`] then offers it no input.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= self.high
    }

    /// Bytes not sent yet, including those in flight.
    #[inline]
    pub fn len(&self) -> usize {
        self.waiting() + self.flying
    }

    /// True if everything has been sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells how many bytes of input the session keeps in memory of its own, such as a body that is
    /// not complete: they count against the server's budget.
    pub fn note_kept(&mut self, bytes: usize) {
        self.kept = bytes;
    }

    // ---- the engine's side

    /// Bytes of memory that the session holds: waiting output of its own, output in flight, and
    /// what it keeps ([`Out::note_kept`]). Files and shared bytes that wait take none.
    #[inline]
    pub fn held(&self) -> usize {
        let own = |part: &Part| if let Part::Bytes(bytes) = part { bytes.len() } else { 0 };
        let parts: usize = match self.sealed {
            0 => 0,
            _ => self.parts.iter().map(own).sum(),
        };
        parts + self.tail.len() + self.flying + self.kept
    }

    /// Bytes neither taken nor sent.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.sealed + self.tail.len() - self.head
    }

    /// Bytes that were taken and have not landed.
    #[inline]
    pub fn flying(&self) -> usize {
        self.flying
    }

    /// True if the output has fallen so low that the service may continue.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.len() <= self.low
    }

    /// True if a file follows the oldest bytes in memory, so that [`Out::gather`] stops there.
    pub fn has_file(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::File(..)))
    }

    /// Fills `slices` with the oldest bytes in memory and returns their number; stops at a file.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        let mut skip = self.head;
        for part in &self.parts {
            let Some(bytes) = part.in_memory() else { return filled };
            if filled == slices.len() {
                return filled;
            }
            slices[filled] = IoSlice::new(&bytes[skip..]);
            skip = 0;
            filled += 1;
        }
        if filled < slices.len() && self.tail.len() > skip {
            slices[filled] = IoSlice::new(&self.tail[skip..]);
            filled += 1;
        }
        filled
    }

    /// The waiting bytes, if they are one slice of memory, which is the common case.
    #[inline]
    pub fn single(&self) -> Option<&[u8]> {
        self.parts.is_empty().then(|| &self.tail[self.head..])
    }

    /// The oldest piece, if it is a file: its source and the range not sent yet.
    pub fn front_file(&self) -> Option<(&Source, Range<u64>)> {
        match self.parts.front() {
            Some(Part::File(source, range)) => {
                Some((source, range.start + self.head as u64..range.end))
            }
            _ => None,
        }
    }

    /// Removes the oldest `sent` bytes: the kernel has them.
    #[inline]
    pub fn advance(&mut self, sent: usize) {
        assert!(sent <= self.waiting(), "more bytes sent than were waiting");
        self.head += sent;
        while let Some(front) = self.parts.front() {
            let len = front.len();
            if self.head < len {
                return;
            }
            self.head -= len;
            self.sealed -= len;
            self.parts.pop_front();
        }
        if self.head == self.tail.len() {
            self.head = 0;
            self.tail.clear();
        }
    }

    /// Takes the oldest piece, for engines that write later; it counts until it has landed.
    pub fn take(&mut self) -> Option<Part> {
        if self.waiting() == 0 {
            return None;
        }
        let head = core::mem::take(&mut self.head);
        let mut part = match self.parts.pop_front() {
            Some(part) => {
                self.sealed -= part.len();
                part
            }
            None => Part::Bytes(core::mem::take(&mut self.tail)),
        };
        match &mut part {
            Part::Bytes(bytes) if head > 0 => drop(bytes.drain(..head)),
            Part::Bytes(_) => {}
            Part::Shared(_, range) => range.start += head,
            Part::File(_, range) => range.start += head as u64,
        }
        self.flying += part.len();
        Some(part)
    }

    /// The kernel has `bytes` of the pieces taken, or they were lost with the connection.
    #[inline]
    pub fn landed(&mut self, bytes: usize) {
        assert!(bytes <= self.flying, "more bytes landed than were in flight");
        self.flying -= bytes;
    }

    /// Ensures that the service appends to a warm buffer.
    #[inline]
    pub fn lend(&mut self, buffers: &mut Buffers) {
        if self.tail.capacity() == 0 {
            self.tail = buffers.take();
        }
    }

    /// Takes the buffer back if it is empty.
    #[inline]
    pub fn reclaim(&mut self, buffers: &mut Buffers) {
        if self.tail.is_empty() && self.tail.capacity() > 0 {
            buffers.put(core::mem::take(&mut self.tail));
        }
    }

    /// Drops the bytes not taken yet.
    pub(crate) fn discard(&mut self) {
        self.parts.clear();
        self.tail.clear();
        (self.sealed, self.head) = (0, 0);
    }

    fn append(&mut self, part: Part) {
        if part.is_empty() {
            return;
        }
        if !self.tail.is_empty() {
            self.sealed += self.tail.len();
            self.parts.push_back(Part::Bytes(core::mem::take(&mut self.tail)));
        }
        self.sealed += part.len();
        self.parts.push_back(part);
    }
}

/// A worker's spare buffers, last in, first out: the warmest is used next,
/// and an idle session owns none.
#[derive(Debug)]
pub struct Buffers {
    spare: Vec<Vec<u8>>,
    spare_max: usize,
}

thread_local! {
    static OF_THREAD: RefCell<Buffers> =
        const { RefCell::new(Buffers { spare: Vec::new(), spare_max: Buffers::THREAD_MAX }) };
}

impl Buffers {
    /// Buffers that a thread keeps for services around another one: TLS and HTTP/2 in it.
    const THREAD_MAX: usize = 2;

    /// Gives `act` the spare buffers of this thread.
    pub(crate) fn of_thread<T>(act: impl FnOnce(&mut Buffers) -> T) -> T {
        OF_THREAD.with_borrow_mut(act)
    }

    /// The initial capacity of a new buffer, in bytes: a batch of short replies.
    const FRESH: usize = 4 * 1024;
    /// A buffer that grew beyond this, in bytes, is freed instead of kept.
    pub const KEEP_MAX: usize = 256 * 1024;

    /// A pool that keeps at most `spare_max` buffers.
    pub fn new(spare_max: usize) -> Buffers {
        Buffers { spare: Vec::new(), spare_max }
    }

    /// An empty buffer.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(Buffers::FRESH))
    }

    /// Returns a buffer; its content is dropped.
    #[inline]
    pub fn put(&mut self, mut buffer: Vec<u8>) {
        let kept = 1..=Buffers::KEEP_MAX;
        if self.spare.len() < self.spare_max && kept.contains(&buffer.capacity()) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// The number of spare buffers.
    pub fn len(&self) -> usize {
        self.spare.len()
    }

    /// True if there is no spare buffer.
    pub fn is_empty(&self) -> bool {
        self.spare.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { input_max: 64, output_high: 32, output_low: 8, sessions_max: 1 };

    /// Reads all of `out`, like an engine that sends at most `step` bytes at once.
    fn drain_by_sending(out: &mut Out, step: usize) -> Vec<u8> {
        let mut sent = Vec::new();
        while out.waiting() > 0 {
            if let Some((source, range)) = out.front_file() {
                let Source::Asset(asset) = source else { panic!("an asset was appended") };
                let (len, digit) = ((range.end - range.start) as usize, b'0' + asset.0 as u8);
                let len = len.min(step);
                sent.extend(std::iter::repeat_n(digit, len));
                out.advance(len);
                continue;
            }
            let mut slices = [IoSlice::new(&[]); 4];
            let filled = out.gather(&mut slices);
            let first: Vec<u8> =
                slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
            let now = first.len().min(step);
            sent.extend_from_slice(&first[..now]);
            out.advance(now);
        }
        sent
    }

    fn rope() -> Out {
        let mut out = Out::new(&LIMITS);
        out.bytes().extend_from_slice(b"head ");
        out.shared(Arc::from(&b"xxmiddlexx"[..]), 2..8);
        out.file(AssetId(7), 10..15);
        out.bytes().extend_from_slice(b" tail");
        out
    }

    #[test]
    fn order_is_kept_whatever_the_size_of_a_send() {
        for step in 1..30 {
            let mut out = rope();
            assert_eq!(out.len(), 21);
            assert_eq!(drain_by_sending(&mut out, step), b"head middle77777 tail", "step {step}");
            assert!(out.is_empty());
        }
    }

    #[test]
    fn taken_parts_count_until_they_have_landed() {
        let mut out = rope();
        out.advance(7);
        let mut seen = Vec::new();
        let mut flying = 0;
        while let Some(part) = out.take() {
            flying += part.len();
            assert_eq!(out.len(), 14);
            match &part {
                Part::File(Source::Asset(asset), range) => {
                    seen.extend(range.clone().map(|_| b'0' + asset.0 as u8));
                }
                memory => seen.extend_from_slice(memory.in_memory().expect("not a file")),
            }
        }
        assert_eq!(seen, b"ddle77777 tail");
        assert_eq!((out.waiting(), out.flying()), (0, flying));
        out.landed(flying);
        assert!(out.is_empty());
    }

    #[test]
    fn a_full_output_is_low_only_after_it_has_fallen() {
        let mut out = Out::new(&LIMITS);
        out.bytes().extend_from_slice(&[1; 32]);
        assert!(out.is_full());
        out.advance(23);
        assert!(!out.is_full() && !out.is_low());
        out.advance(1);
        assert!(out.is_low());
    }

    #[test]
    fn an_idle_output_owns_no_buffer() {
        let mut buffers = Buffers::new(2);
        let mut out = Out::new(&LIMITS);
        out.lend(&mut buffers);
        out.bytes().push(1);
        out.reclaim(&mut buffers);
        assert!(buffers.is_empty(), "a buffer with bytes in it stays");
        out.advance(1);
        out.reclaim(&mut buffers);
        assert_eq!(buffers.len(), 1);
        buffers.put(Vec::with_capacity(Buffers::KEEP_MAX + 1));
        assert_eq!(buffers.len(), 1, "a buffer that grew too far is freed");
    }
}
