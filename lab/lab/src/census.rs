//! The census of system calls: their names, and their number for each request.
//!
//! Counting slows a server by a large factor, so it never happens in a timed trial. A census is a
//! run of its own; its speeds are meaningless and are discarded.

use serde::{Deserialize, Serialize};

/// The system calls of one arm at one load point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Census {
    /// Name of the arm.
    pub arm: String,
    /// Name of the load point.
    pub point: String,
    /// The tool that counted: `strace` (in older records also `perf trace`), or empty.
    pub tool: String,
    /// Requests answered while it counted.
    pub requests: u64,
    /// The calls, the most frequent first.
    pub calls: Vec<Calls>,
    /// Page faults without a disk for each request.
    pub faults_per_request: Option<f64>,
    /// Context switches for each request, on connections that stay, without the tool.
    #[serde(default)]
    pub switches_per_request: Option<f64>,
    /// Time for each request that threads were ready and waited for a core, nanoseconds; taken with
    /// the switches.
    #[serde(default)]
    pub delay_ns_per_request: Option<f64>,
    /// CPU time for each request on connections that stay, nanoseconds. If it is known, calls and
    /// faults were counted on such connections too.
    #[serde(default)]
    pub steady_cpu_ns: Option<f64>,
    /// CPU time for each request that opening and ending connections takes, nanoseconds: the least
    /// difference of a few pairs of windows, one on such connections and one on those that stay.
    #[serde(default)]
    pub connections_ns: Option<f64>,
    /// Calls of the C library's allocator for each request; `None` where the kernel lets nobody
    /// count them, or the server has another allocator.
    #[serde(default)]
    pub allocations_per_request: Option<f64>,
    /// Misses of the last cache in the server's own code for each request; `None` where the machine
    /// has no counter.
    #[serde(default)]
    pub cache_misses_per_request: Option<f64>,
    /// Switches of stacks for each request, which only a server of ours counts.
    #[serde(default)]
    pub stack_switches_per_request: Option<f64>,
    /// The lengths and waits of its queues, a line each, which only a server of ours tells.
    #[serde(default)]
    pub queues: Vec<String>,
    /// The reason why there is no count.
    pub missing: Option<String>,
}

/// One system call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// Its name.
    pub name: String,
    /// The number of calls, without those of start and stop.
    pub calls: u64,
    /// The number of failures (`EAGAIN` included).
    pub errors: u64,
    /// Calls for each request.
    pub per_request: f64,
}

/// The figures that a server of ours tells about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnFigures {
    /// Switches of stacks since its start.
    pub stack_switches: u64,
    /// The lengths and waits of its queues, a line each.
    pub queues: Vec<String>,
}

impl Census {
    /// All calls for each request; `None` where nothing was counted.
    pub fn per_request(&self) -> Option<f64> {
        (!self.calls.is_empty()).then(|| self.calls.iter().map(|it| it.per_request).sum())
    }
}
