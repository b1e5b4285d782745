//! The workloads, each written once and run over every allocator of objects.
//!
//! Two of the peers are allocators, and a program has one global allocator. So `heap-mimalloc` and
//! `heap-snmalloc` are separate programs that run the same workloads over `Box`. They read one line
//! a round from their standard input and answer with nanoseconds, so rounds stay paired although
//! the arms live in different processes.

use std::fmt;
use std::mem::MaybeUninit;

mod heap;
pub mod objects;
pub mod sessions;

pub use heap::{Child, serve};

/// Objects of 64 bytes, one cache line, whose first word is written. This touches the line; the
/// rest of the time belongs to the allocator and not to filling the object.
#[derive(Clone, Copy)]
pub struct Object {
    first: u64,
    _rest: [MaybeUninit<u64>; 7],
}

impl Object {
    /// An object whose first word is `first`.
    #[inline(always)]
    #[must_use]
    pub fn new(first: u64) -> Object {
        Object { first, _rest: [const { MaybeUninit::uninit() }; 7] }
    }

    /// Its first word.
    #[inline(always)]
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({})", self.first)
    }
}

/// The numbers of live objects. The cost of a pair depends on them, because only few objects fit
/// the first-level cache.
pub const LIVE: [usize; 3] = [1, 64, 4096];

/// Objects that a producer hands to a consumer at a time (the xmalloc test of mimalloc-bench).
pub const BATCH: usize = 4096;

/// The number of operations in one round.
pub const OPERATIONS: u64 = 400_000;
