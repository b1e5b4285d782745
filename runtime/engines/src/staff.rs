//! The number of workers, the policy that decides it, and when a worker is replaced.
//!
//! The options have names of our own; each comment gives the directive of Apache's configuration
//! (docs/manual/mod: worker, prefork, mpm_common).

use crate::spare::{Policy, Terms};

/// Workers in one process of a hybrid by default (`ThreadsPerChild`).
pub const THREADS: usize = 25;

/// The settings of the workers; `None`: the container's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staff {
    /// The policy that decides how many processes there are.
    pub policy: Option<Policy>,
    /// Workers in each process of a hybrid (`ThreadsPerChild`).
    pub threads: Option<usize>,
    /// Processes at the start (`StartServers`).
    pub start: Option<usize>,
    /// The fewest idle workers (`MinSpareThreads`, `MinSpareServers`).
    pub spare_min: Option<usize>,
    /// The most idle workers (`MaxSpareThreads`, `MaxSpareServers`).
    pub spare_max: Option<usize>,
    /// Connections after which a process is replaced (`MaxConnectionsPerChild`), less up to a tenth
    /// that differs between processes, so that not all are replaced at once.
    pub lifetime: Option<u32>,
}

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
