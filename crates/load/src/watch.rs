//! The server's process tree over a stretch of time, and the generator's own thread.

use crate::report::{Generator, Server};
use meter::{Cost, Memory, ProcError, TreeCost};

/// A process tree that is being watched.
pub(crate) struct Watch {
    pid: u32,
    before: TreeCost,
}

impl Watch {
    /// Reads the tree for the first time.
    pub(crate) fn start(pid: u32) -> Result<Self, ProcError> {
        Ok(Self { pid, before: TreeCost::read(pid)? })
    }

    /// What was used since then.
    pub(crate) fn cost(&self) -> Result<Cost, ProcError> {
        Ok(TreeCost::read(self.pid)?.since(&self.before))
    }

    /// The same for a report; doubts go to `doubts`.
    pub(crate) fn report(
        &self,
        requests: u64,
        doubts: &mut Vec<String>,
    ) -> Result<Server, ProcError> {
        let cost = self.cost()?;
        // Second, because it makes the server's memory map busy for a moment.
        let memory = Memory::read(self.pid)?;
        doubts.extend(cost.doubts.iter().cloned());
        let each = |sum: u64| (requests > 0).then(|| sum as f64 / requests as f64);
        Ok(Server {
            pid: self.pid,
            cpu_ns: cost.cpu_ns,
            cpu_ns_per_request: each(cost.cpu_ns),
            switches_per_request: each(cost.switches()),
            rss_kb: memory.rss_kb,
            pss_kb: memory.pss_kb,
            peak_kb: memory.peak_kb,
            threads: cost.threads,
            processes: cost.processes,
        })
    }
}

/// CPU time of the calling thread so far (ns); zero where the kernel keeps none.
pub(crate) fn own_cpu_ns() -> u64 {
    meter::proc::own_thread_cpu_ns().unwrap_or(0)
}

/// What this thread used since `before_ns`, over a window of `window_ns`.
pub(crate) fn generator(before_ns: u64, window_ns: u64) -> Generator {
    let cpu_ns = own_cpu_ns().saturating_sub(before_ns);
    Generator { cpu_ns, busy: cpu_ns as f64 / window_ns.max(1) as f64 }
}
