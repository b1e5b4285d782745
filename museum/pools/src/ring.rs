//! Rings of bytes whose free and filled parts are two slices each, as `readv` and `writev` take
//! them.
//!
//! Indices run freely and are cut to the capacity, a power of two, on each memory access: full and
//! empty differ by construction, and no byte is wasted to tell them apart. A [`Ring`] has one
//! owner.
//!
//! The surprising thing: no index wraps at the capacity. `head` and `tail` may pass 2^32 at any
//! time; only their difference counts.

use std::io::{IoSlice, IoSliceMut};

/// The largest capacity: the difference of two indices must distinguish full from empty.
pub const CAPACITY_MAX: usize = 1 << 31;

/// A request that the ring cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum RingError {
    /// The storage's length is not a power of two up to [`CAPACITY_MAX`].
    #[display("expected a ring of 1 to 2^31 bytes, a power of two, found {found}; round it up")]
    Capacity { found: usize },
    /// More bytes are committed than were free, or consumed than were filled.
    #[display(
        "expected to move at most the {there} bytes that are there, found {asked}; count what was \
         really moved"
    )]
    TooMany { asked: usize, there: usize },
}

impl std::error::Error for RingError {}

/// A ring of bytes over storage from the caller: a box, or a buffer lent from a pool.
#[derive(Debug)]
pub struct Ring<B = Box<[u8]>> {
    storage: B,
    head: u32,
    tail: u32,
}

impl Ring {
    /// An empty ring of `capacity` bytes.
    ///
    /// # Errors
    /// [`RingError::Capacity`].
    pub fn new(capacity: usize) -> Result<Ring, RingError> {
        Ring::over(vec![0; checked(capacity)?].into_boxed_slice())
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Ring<B> {
    /// An empty ring over `storage`, whose length must not change.
    ///
    /// # Errors
    /// [`RingError::Capacity`].
    pub fn over(storage: B) -> Result<Ring<B>, RingError> {
        checked(storage.as_ref().len())?;
        Ok(Ring { storage, head: 0, tail: 0 })
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.storage.as_ref().len()
    }

    /// The number of filled bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Whether the ring is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The number of free bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// The filled bytes, oldest first; the second slice lies past the wrap and is often empty.
    #[must_use]
    pub fn readable(&self) -> [&[u8]; 2] {
        let bytes = self.storage.as_ref();
        let [first, second] = spans(bytes.len(), self.head, self.len());
        [&bytes[first], &bytes[second]]
    }

    /// The same for `writev(2)` and its relatives.
    #[must_use]
    pub fn io_readable(&self) -> [IoSlice<'_>; 2] {
        self.readable().map(IoSlice::new)
    }

    /// The free bytes, in the order in which they will be read.
    pub fn writable(&mut self) -> [&mut [u8]; 2] {
        let (tail, room) = (self.tail, self.room());
        let bytes = self.storage.as_mut();
        let [first, second] = spans(bytes.len(), tail, room);
        // The second span, if there is one, ends at the start of the first, or before it.
        let (low, high) = bytes.split_at_mut(first.start);
        [&mut high[..first.len()], &mut low[second]]
    }

    /// The same for `readv(2)` and its relatives.
    pub fn io_writable(&mut self) -> [IoSliceMut<'_>; 2] {
        self.writable().map(IoSliceMut::new)
    }

    /// Counts `count` bytes of [`Ring::writable`] as filled.
    ///
    /// # Errors
    /// [`RingError::TooMany`]; then nothing is counted.
    pub fn commit(&mut self, count: usize) -> Result<(), RingError> {
        self.tail = self.tail.wrapping_add(at_most(count, self.room())?);
        Ok(())
    }

    /// Counts the oldest `count` bytes of [`Ring::readable`] as read.
    ///
    /// # Errors
    /// [`RingError::TooMany`]; then nothing is counted.
    pub fn consume(&mut self, count: usize) -> Result<(), RingError> {
        self.head = self.head.wrapping_add(at_most(count, self.len())?);
        Ok(())
    }

    /// Copies as much of `from` as fits; returns the number of bytes.
    pub fn write(&mut self, from: &[u8]) -> usize {
        let count = copy_in(from, self.writable());
        self.tail = self.tail.wrapping_add(count as u32);
        count
    }

    /// Moves as much as fits into `to`; returns the number of bytes.
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        let count = copy_out(self.readable(), to);
        self.head = self.head.wrapping_add(count as u32);
        count
    }
}

fn checked(capacity: usize) -> Result<usize, RingError> {
    let fits = capacity.is_power_of_two() && capacity <= CAPACITY_MAX;
    if fits { Ok(capacity) } else { Err(RingError::Capacity { found: capacity }) }
}

fn at_most(asked: usize, there: usize) -> Result<u32, RingError> {
    if asked <= there { Ok(asked as u32) } else { Err(RingError::TooMany { asked, there }) }
}

/// The spans of `len` bytes from index `from` in a ring of `capacity` bytes.
fn spans(capacity: usize, from: u32, len: usize) -> [std::ops::Range<usize>; 2] {
    let start = from as usize & (capacity - 1);
    let first = len.min(capacity - start);
    [start..start + first, 0..len - first]
}

fn copy_in(from: &[u8], to: [&mut [u8]; 2]) -> usize {
    let [first, second] = to;
    let near = from.len().min(first.len());
    let far = (from.len() - near).min(second.len());
    first[..near].copy_from_slice(&from[..near]);
    second[..far].copy_from_slice(&from[near..near + far]);
    near + far
}

fn copy_out(from: [&[u8]; 2], to: &mut [u8]) -> usize {
    let [first, second] = from;
    let near = to.len().min(first.len());
    let far = (to.len() - near).min(second.len());
    to[..near].copy_from_slice(&first[..near]);
    to[near..near + far].copy_from_slice(&second[..far]);
    near + far
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_is_not_empty_and_the_wrap_is_two_slices() {
        let mut ring = Ring::new(8).unwrap();
        assert_eq!(ring.write(b"abcdefghij"), 8);
        assert_eq!((ring.room(), ring.len(), ring.is_empty()), (0, 8, false));
        let mut some = [0; 5];
        assert_eq!((ring.read(&mut some), &some), (5, b"abcde"));
        assert_eq!(ring.write(b"xyz"), 3);
        assert_eq!(ring.readable(), [&b"fgh"[..], b"xyz"]);
        assert_eq!(ring.io_readable().map(|slice| slice.len()), [3, 3]);
        assert_eq!(ring.io_writable().map(|slice| slice.len()), [2, 0]);
        ring.consume(6).unwrap();
        assert_eq!(ring.writable().map(|slice| slice.len()), [5, 3]);
    }

    #[test]
    fn what_is_not_there_is_not_moved() {
        let mut ring = Ring::new(4).unwrap();
        assert_eq!(ring.commit(5), Err(RingError::TooMany { asked: 5, there: 4 }));
        ring.commit(3).unwrap();
        assert_eq!(ring.consume(4), Err(RingError::TooMany { asked: 4, there: 3 }));
        assert!(ring.consume(usize::MAX).is_err());
        assert_eq!(ring.len(), 3);
        for capacity in [0, 3, 6, CAPACITY_MAX + 1] {
            assert_eq!(Ring::new(capacity).err(), Some(RingError::Capacity { found: capacity }));
        }
    }

    #[test]
    fn indices_pass_their_end_unnoticed() {
        let mut ring = Ring::over([0; 16]).unwrap();
        (ring.head, ring.tail) = (u32::MAX - 5, u32::MAX - 5);
        for round in 0..10_u8 {
            assert_eq!(ring.write(&[round; 7]), 7);
            let mut back = [0; 7];
            assert_eq!((ring.read(&mut back), back), (7, [round; 7]));
        }
        assert!(ring.head < 100, "it has passed the end");
    }
}
