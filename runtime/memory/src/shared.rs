//! State for services, in safe Rust: each type here is a [`Share`] of fixed size, so it may lie in
//! memory that threads or processes share. An array of them is a fixed table.
//!
//! | type | what |
//! |---|---|
//! | [`Counter`] | a number that workers add to |
//! | [`Map`] | values by key |
//! | [`Log`] | entries in the order in which they were appended |
//! | [`SnapshotCell`] | a value that is read and replaced as a whole |
//! | [`Bytes`] | a byte string as a key or a value |
//!
//! Values are plain data ([`Fixed`]): numbers, arrays, [`Bytes`], and `Copy` structs of them. A
//! change that a killed worker had begun has happened or not: each change is written next to the
//! old value and published by one store. Methods that lock take the worker of the call
//! ([`seam::Cx`]); a job has none, so it uses counters and reads logs.

mod bytes;
mod log;
mod map;

use std::sync::atomic::{AtomicU64, Ordering};

use seam::Share;

pub use bytes::Bytes;
pub use log::{Log, SnapshotCell};
pub use map::Map;

use crate::Padded;

/// Plain data: values that are copied and hold no pointer.
pub trait Fixed: Share + Copy {}

impl<T: Share + Copy> Fixed for T {}

/// This number of places is taken, and there are no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("expected a free place, found all {} taken: declare more", self.0)]
pub struct NoRoom(pub usize);

impl std::error::Error for NoRoom {}

/// A number that all workers add to, on a separate cache line.
#[derive(Debug, Default)]
pub struct Counter(Padded<AtomicU64>);

impl Counter {
    /// Adds `count` and returns the new number.
    pub fn add(&self, count: u64) -> u64 {
        self.0.fetch_add(count, Ordering::Relaxed).wrapping_add(count)
    }

    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

// SAFETY: an atomic number, which is valid if zero.
unsafe impl Share for Counter {}
