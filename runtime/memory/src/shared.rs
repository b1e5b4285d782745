//! State for services, in safe Rust: each type here is a [`Share`] of fixed size, so it may lie in
//! memory that threads or processes share. An array of them is a fixed table.
//!
//! | type | what |
//! |---|---|
//! | [`Counter`] | a number that workers add to |
//! | [`Map`] | values by key |
//! | [`ByteMap`] | byte strings of any length by key, within a budget, with a moment of expiry |
//! | [`Log`] | entries in the order in which they were appended |
//! | [`SnapshotCell`] | a value that is read and replaced as a whole |
//! | [`Bytes`] | a byte string as a key or a value |
//!
//! Values are plain data ([`Fixed`]): numbers, arrays, [`Bytes`], and `Copy` structs of them. A
//! change that a killed worker had begun has happened or not: each change is written next to the
//! old value and published by one store. Helper threads use them as workers do.

mod byte_map;
mod bytes;
mod log;
mod map;

use std::sync::atomic::{AtomicU64, Ordering};

use seam::Share;

pub use byte_map::ByteMap;
pub use bytes::Bytes;
pub use log::{Log, SnapshotCell};
pub use map::Map;

use crate::Padded;

/// Plain data: values that are copied and hold no pointer.
pub trait Fixed: Share + Copy {}

impl<T: Share + Copy> Fixed for T {}

/// A state is full: its type names the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("expected room in `{}`, found all {limit} {unit} taken: declare more", short(kind))]
pub struct NoRoom {
    kind: &'static str,
    limit: usize,
    unit: &'static str,
}

impl NoRoom {
    /// The limit of a state of type `S`.
    fn of<S>(limit: usize, unit: &'static str) -> NoRoom {
        NoRoom { kind: std::any::type_name::<S>(), limit, unit }
    }
}

/// The name of a type without the modules of its parts.
fn short(kind: &str) -> String {
    let ends = |mark: char| !mark.is_alphanumeric() && !"_:".contains(mark);
    kind.split_inclusive(ends).map(|word| word.rsplit("::").next().unwrap_or(word)).collect()
}

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
