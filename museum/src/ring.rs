//! The portfolio's ring of bytes, whose filled and free parts are two slices each.
//!
//! Indices run freely and are cut to the capacity, a power of two, on each access: full and empty
//! differ by construction, and no byte is wasted to tell them apart.

use std::ops::Range;

/// A ring of bytes with one owner.
#[derive(Debug)]
pub struct Ring {
    bytes: Box<[u8]>,
    head: u32,
    tail: u32,
}

impl Ring {
    /// An empty ring of `capacity` bytes, rounded up to a power of two, at most 2^31.
    pub fn new(capacity: usize) -> Ring {
        let capacity = capacity.clamp(1, 1 << 31).next_power_of_two();
        Ring { bytes: vec![0; capacity].into_boxed_slice(), head: 0, tail: 0 }
    }

    /// Filled bytes.
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Whether no byte is filled.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Free bytes.
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len()
    }

    /// The two spans of `len` bytes from index `from`.
    fn spans(&self, from: u32, len: usize) -> [Range<usize>; 2] {
        let start = from as usize & (self.bytes.len() - 1);
        let first = len.min(self.bytes.len() - start);
        [start..start + first, 0..len - first]
    }

    /// The filled bytes, oldest first; the second slice lies past the wrap and is often empty.
    pub fn readable(&self) -> [&[u8]; 2] {
        self.spans(self.head, self.len()).map(|span| &self.bytes[span])
    }

    /// Copies as much of `from` as fits; returns the number of bytes.
    pub fn write(&mut self, from: &[u8]) -> usize {
        let count = from.len().min(self.room());
        let [first, second] = self.spans(self.tail, count);
        let (near, far) = from[..count].split_at(first.len());
        self.bytes[first].copy_from_slice(near);
        self.bytes[second].copy_from_slice(far);
        self.tail = self.tail.wrapping_add(count as u32);
        count
    }

    /// Moves as much as fits into `to`; returns the number of bytes.
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        let count = to.len().min(self.len());
        let [first, second] = self.spans(self.head, count);
        let (near, far) = to[..count].split_at_mut(first.len());
        near.copy_from_slice(&self.bytes[first]);
        far.copy_from_slice(&self.bytes[second]);
        self.head = self.head.wrapping_add(count as u32);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Rng;
    use std::collections::VecDeque;

    #[test]
    fn bytes_come_out_in_order_however_they_are_split() {
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let capacity = 1 << rng.below(7);
            let mut ring = Ring::new(capacity);
            // Indices pass their end unnoticed.
            (ring.head, ring.tail) = (u32::MAX - 5, u32::MAX - 5);
            let mut model = VecDeque::new();
            for _ in 0..200 {
                let mut bytes: Vec<u8> =
                    (0..rng.below(capacity + 3)).map(|_| rng.roll() as u8).collect();
                if rng.below(2) == 0 {
                    let written = ring.write(&bytes);
                    assert_eq!(written, bytes.len().min(capacity - model.len()), "seed {seed}");
                    model.extend(&bytes[..written]);
                } else {
                    let expected: Vec<u8> = model.drain(..bytes.len().min(model.len())).collect();
                    let read = ring.read(&mut bytes);
                    assert_eq!(bytes[..read], expected, "seed {seed}");
                }
                assert_eq!((ring.len(), ring.room()), (model.len(), capacity - model.len()));
                assert_eq!(ring.readable().concat(), Vec::from(model.clone()), "seed {seed}");
                assert_eq!(ring.is_empty(), model.is_empty(), "seed {seed}");
            }
        }
    }
}
