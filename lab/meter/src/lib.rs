//! Meters: readings of a running server, and their sums.
//!
//! - [`histogram`]: times in nanoseconds, recorded in constant time and memory.
//! - [`spectrum`]: histograms in a tenth of the memory and to 2 %, for slices of a run and kinds of
//!   requests.
//! - [`proc`]: CPU time, context switches and memory of a whole process tree, read from `/proc`.
//! - [`counters`]: the same and control groups, on this machine or asked of another one.
//! - [`events`]: allocations and misses of the cache, where the kernel lets them be counted.
//! - [`machine`]: the machine's identity, the share of its time that was stolen, its TCP sockets.
//!
//! Everything is read from outside the measured process, so a foreign server is
//! metered exactly as one of ours. Much can go missing: a thread that ends takes its counters with
//! it. This crate guesses nothing silently; a figure that is not exact comes with a *doubt*, a
//! sentence to be printed next to the number.

pub mod counters;
pub mod events;
pub mod histogram;
pub mod machine;
pub mod proc;
pub mod spectrum;

pub use counters::{CounterSample, CounterServer, CounterSource};
pub use events::{EventCounts, TreeEvents};
pub use histogram::{Histogram, Quantiles};
pub use machine::{CpuTimes, Machine};
pub use proc::{Cost, Memory, ProcError, TreeCost};
pub use spectrum::Spectrum;
