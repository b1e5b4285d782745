//! A ring between two threads: one writes, one reads, neither waits.

use std::cell::UnsafeCell;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::{Lane, RingError, at_most, checked, copy_in, copy_out, spans};

/// The state that both sides share.
struct Shared {
    lane: Lane,
    bytes: Box<[UnsafeCell<u8>]>,
}

// SAFETY: the producer touches only bytes from `tail` to `head + capacity`, the consumer only those
// from `head` to `tail`, and one side moves each index, with release, after its accesses.
unsafe impl Sync for Shared {}

impl Shared {
    /// The bytes of one span.
    fn start(&self, at: usize) -> *mut u8 {
        UnsafeCell::raw_get(self.bytes[at..].as_ptr())
    }
}

/// The writing side.
pub struct Producer {
    shared: Arc<Shared>,
    tail: u32,
    /// The last known consumer index: the real one can only be further.
    head_seen: u32,
}

/// The reading side.
pub struct Consumer {
    shared: Arc<Shared>,
    head: u32,
    /// The last known producer index.
    tail_seen: u32,
}

/// An empty ring of `capacity` bytes, a side for each of two threads.
///
/// # Errors
/// [`RingError::Capacity`].
pub fn spsc(capacity: usize) -> Result<(Producer, Consumer), RingError> {
    let bytes = (0..checked(capacity)?).map(|_| UnsafeCell::new(0)).collect();
    let shared = Arc::new(Shared { lane: Lane::new(), bytes });
    let producer = Producer { shared: shared.clone(), tail: 0, head_seen: 0 };
    Ok((producer, Consumer { shared, head: 0, tail_seen: 0 }))
}

/// Whether the other side was dropped. All its earlier writes are visible then: its decrement of
/// the count is a release, and the fence orders ours after it.
fn is_alone(shared: &Arc<Shared>) -> bool {
    let alone = Arc::strong_count(shared) == 1;
    if alone {
        fence(Ordering::Acquire);
    }
    alone
}

impl Producer {
    /// Bytes that fit; loads the consumer's index only if fewer than `wanted` were known to fit.
    fn room(&mut self, wanted: usize) -> usize {
        let capacity = self.shared.bytes.len();
        let known = capacity - self.tail.wrapping_sub(self.head_seen) as usize;
        if known >= wanted {
            return known;
        }
        self.head_seen = self.shared.lane.head();
        capacity - self.tail.wrapping_sub(self.head_seen) as usize
    }

    /// The free bytes, in the order in which they will be read; the
    /// second slice lies past the wrap.
    pub fn writable(&mut self) -> [&mut [u8]; 2] {
        let room = self.room(usize::MAX);
        self.free(room)
    }

    fn free(&mut self, room: usize) -> [&mut [u8]; 2] {
        let shared = &*self.shared;
        let parts = spans(shared.bytes.len(), self.tail, room);
        parts.map(|span| {
            if span.is_empty() {
                return &mut [][..];
            }
            // SAFETY: the consumer has left these bytes (`head` was loaded with acquire) and they
            // are below `tail + capacity`; the two spans do not overlap, and `self` is borrowed.
            unsafe { slice::from_raw_parts_mut(shared.start(span.start), span.len()) }
        })
    }

    /// Hands `count` bytes of [`Producer::writable`] to the consumer.
    ///
    /// # Errors
    /// [`RingError::TooMany`]; then nothing is handed over.
    pub fn commit(&mut self, count: usize) -> Result<(), RingError> {
        let there = self.room(count);
        self.tail = self.tail.wrapping_add(at_most(count, there)?);
        self.shared.lane.written(self.tail);
        Ok(())
    }

    /// Copies as much of `from` as fits; returns the number of bytes.
    pub fn write(&mut self, from: &[u8]) -> usize {
        let room = self.room(from.len());
        let count = copy_in(from, self.free(room));
        self.tail = self.tail.wrapping_add(count as u32);
        self.shared.lane.written(self.tail);
        count
    }

    /// Whether the consumer is gone, so that written bytes are never read.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        is_alone(&self.shared)
    }
}

impl Consumer {
    /// Bytes that are filled; loads the producer's index only if fewer
    /// than `wanted` were known to be.
    fn filled(&mut self, wanted: usize) -> usize {
        let known = self.tail_seen.wrapping_sub(self.head) as usize;
        if known >= wanted {
            return known;
        }
        self.tail_seen = self.shared.lane.tail();
        self.tail_seen.wrapping_sub(self.head) as usize
    }

    /// The filled bytes, oldest first; the second slice lies past the wrap.
    pub fn readable(&mut self) -> [&[u8]; 2] {
        let filled = self.filled(usize::MAX);
        self.there(filled)
    }

    fn there(&self, filled: usize) -> [&[u8]; 2] {
        let shared = &*self.shared;
        let parts = spans(shared.bytes.len(), self.head, filled);
        parts.map(|span| {
            if span.is_empty() {
                return &[][..];
            }
            // SAFETY: the producer has written these bytes (`tail` was loaded with acquire) and
            // does not touch them before `head` passes them, which needs `self`.
            unsafe { slice::from_raw_parts(shared.start(span.start), span.len()) }
        })
    }

    /// Gives the oldest `count` bytes of [`Consumer::readable`] back to the producer.
    ///
    /// # Errors
    /// [`RingError::TooMany`]; then nothing is given back.
    pub fn consume(&mut self, count: usize) -> Result<(), RingError> {
        let there = self.filled(count);
        self.head = self.head.wrapping_add(at_most(count, there)?);
        self.shared.lane.consumed(self.head);
        Ok(())
    }

    /// Moves as much as fits into `to`; returns the number of bytes.
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        let filled = self.filled(to.len());
        let count = copy_out(self.there(filled), to);
        self.head = self.head.wrapping_add(count as u32);
        self.shared.lane.consumed(self.head);
        count
    }

    /// Whether the producer is gone, so that no more bytes will come.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        is_alone(&self.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_keeps_to_its_part() {
        let (mut producer, mut consumer) = spsc(8).unwrap();
        assert_eq!(producer.write(b"abcdefghij"), 8);
        assert_eq!(producer.commit(1), Err(RingError::TooMany { asked: 1, there: 0 }));
        assert_eq!(consumer.consume(9), Err(RingError::TooMany { asked: 9, there: 8 }));
        consumer.consume(6).unwrap();
        assert_eq!(producer.writable().map(|part| part.len()), [6, 0]);
        producer.write(b"xyz");
        assert_eq!(consumer.readable(), [&b"gh"[..], b"xyz"]);
        assert_eq!(producer.writable().map(|part| part.len()), [3, 0]);
        drop(producer);
        assert!(consumer.is_abandoned());
    }

    #[test]
    fn a_stream_arrives_as_it_was_written() {
        const BYTES: u32 = 200_000;
        let (mut producer, mut consumer) = spsc(256).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(move || {
                let (mut sent, mut chunk) = (0_u32, 1);
                while sent < BYTES {
                    let len = chunk.min(BYTES - sent);
                    let bytes: Vec<u8> = (sent..sent + len).map(|at| (at % 251) as u8).collect();
                    let written = producer.write(&bytes) as u32;
                    if written == 0 {
                        std::thread::yield_now();
                    }
                    sent += written;
                    chunk = chunk % 97 + 1;
                }
            });
            let mut read = 0_u32;
            while read < BYTES {
                let mut bytes = [0; 61];
                let count = consumer.read(&mut bytes);
                if count == 0 {
                    std::thread::yield_now();
                }
                for byte in &bytes[..count] {
                    assert_eq!(u32::from(*byte), read % 251, "byte {read}");
                    read += 1;
                }
            }
        });
    }
}
