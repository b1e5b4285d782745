//! Resource usage over a time: that of the server's process tree, and of the generator's own
//! thread.

use crate::report::Server;
use meter::{Cost, Memory, ProcError, TreeCost};
use std::path::Path;

/// The resource usage of a process tree.
pub(crate) struct Reading {
    pid: u32,
    pub(crate) cost: Cost,
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

/// The CPU time of all processes that ever ran in the control group with this folder (ns):
/// `cpu.stat` of version 2, `cpuacct.usage` of version 1 (cgroups(7)). Unlike `/proc` it keeps the
/// exact time of threads and processes that have ended.
pub(crate) fn group_ns(folder: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    if let Some(text) = read("cpuacct.usage") {
        return text.trim().parse().ok();
    }
    let text = read("cpu.stat")?;
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    usage.trim().parse::<u64>().ok().map(|us| us * 1_000)
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
