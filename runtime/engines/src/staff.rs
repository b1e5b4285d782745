//! The number of workers, the policy that decides it, and when a worker is replaced.
//!
//! The settings (`knobs.rs`) have separate names and take those of Apache's directives too
//! (docs/manual/mod: worker, prefork, mpm_common).

use crate::spare::{Policy, Terms};

/// Workers in one process of a hybrid by default (`ThreadsPerChild`).
pub const THREADS: usize = 25;

/// The staffing in force where workers are processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staffing {
    /// The policy.
    pub policy: Policy,
    /// Its limits.
    pub terms: Terms,
    /// Processes at the start.
    pub start: usize,
}
