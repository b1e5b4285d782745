//! The workloads, each written once and run over every source of objects.
//!
//! Two of the peers are allocators, and a program has one global allocator. So `heap-mimalloc` and
//! `heap-snmalloc` are programs of their own that run the same workloads over `Box` when they are
//! asked on their standard input, one line a round, and answer with nanoseconds: rounds stay
//! paired although the arms live in different processes.

mod heap;
pub mod objects;
pub mod sessions;

pub use heap::{Child, serve};

/// Objects of 64 bytes, one line: large enough to be worth a pool, small enough that the pool is
/// what is measured.
pub type Object = [u64; 8];

/// What a pair costs depends on how many objects live meanwhile: few fit the nearest cache.
pub const LIVE: [usize; 3] = [1, 64, 4096];

/// Objects that a producer hands to a consumer at a time (the xmalloc test of mimalloc-bench).
pub const BATCH: usize = 4096;

/// Operations of one round.
pub const OPERATIONS: u64 = 400_000;
