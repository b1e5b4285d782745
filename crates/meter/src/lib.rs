//! Meters: what a laboratory reads off a running server, and how it adds the readings up.
//!
//! - [`histogram`]: times in nanoseconds, recorded in constant time and memory.
//! - [`hlog`], [`hgrm`]: files of them that the plotters of HdrHistogram read.
//! - [`spectrum`]: the same in a tenth of the memory and to 2 %, for slices of a run.
//! - [`proc`]: CPU time, context switches and memory of a whole process tree, read from `/proc`.
//! - [`machine`]: which machine this is and how much of it was stolen meanwhile.
//!
//! Everything is read as text files from outside the process that is measured, so a foreign
//! server is metered exactly as one of ours. The surprising thing is how much can go missing: a
//! thread that ends takes its counters with it. Nothing is guessed in silence here; what could
//! not be known exactly comes back as a *doubt*, a sentence to be printed beside the number.

pub mod hgrm;
pub mod histogram;
pub mod hlog;
pub mod machine;
pub mod proc;
pub mod spectrum;

pub use histogram::{Histogram, Quantiles};
pub use machine::{CpuTimes, Machine};
pub use proc::{Cost, Memory, ProcError, TreeCost};
pub use spectrum::Spectrum;
