//! Resource usage over a time: that of the server's process tree, and of the generator's own
//! thread.

use crate::report::Server;
use meter::{Cost, Memory, ProcError, TreeCost};

/// The resource usage of a process tree.
pub(crate) struct Reading {
    pid: u32,
    cost: Cost,
    memory: Memory,
}

/// A process tree being watched.
pub(crate) struct Watch {
    pid: u32,
    before: TreeCost,
}

impl Watch {
    /// Reads the tree for the first time.
    pub(crate) fn start(pid: u32) -> Result<Self, ProcError> {
        Ok(Self { pid, before: TreeCost::read(pid)? })
    }

    /// The usage since the start.
    pub(crate) fn cost(&self) -> Result<Cost, ProcError> {
        Ok(TreeCost::read(self.pid)?.since(&self.before))
    }

    /// The usage since the start, and the current memory.
    pub(crate) fn read(&self) -> Result<Reading, ProcError> {
        let cost = self.cost()?;
        // Memory is read second, because reading it locks the server's memory map for a moment.
        Ok(Reading { pid: self.pid, cost, memory: Memory::read(self.pid)? })
    }
}

impl Reading {
    /// The figures for this many requests; doubts are appended to `doubts`.
    pub(crate) fn report(self, requests: u64, doubts: &mut Vec<String>) -> Server {
        let Self { pid, cost, memory } = self;
        doubts.extend(cost.doubts.iter().cloned());
        let each = |sum: u64| (requests > 0).then(|| sum as f64 / requests as f64);
        Server {
            pid,
            cpu_ns: cost.cpu_ns,
            cpu_ns_per_request: each(cost.cpu_ns),
            switches_per_request: each(cost.switches()),
            rss_kb: memory.rss_kb,
            pss_kb: memory.pss_kb,
            peak_kb: memory.peak_kb,
            threads: cost.threads,
            processes: cost.processes,
        }
    }
}

/// CPU time of the calling thread so far (ns); zero where the kernel does not account it.
pub(crate) fn own_cpu_ns() -> u64 {
    meter::proc::own_thread_cpu_ns().unwrap_or(0)
}

/// Sets this thread's timer slack to the minimum: by default the kernel may delay a wake by up to
/// 50 us to merge it with others (PR_SET_TIMERSLACK; proc_pid_timerslack_ns(5)). If that is not
/// allowed, the delay is counted as tardiness.
pub(crate) fn wake_on_time() {
    let Ok(task) = std::fs::read_link("/proc/thread-self") else { return };
    if let Some(thread) = task.file_name() {
        let file = std::path::Path::new("/proc").join(thread).join("timerslack_ns");
        let _ = std::fs::write(file, "1");
    }
}
