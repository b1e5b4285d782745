//! Resource usage over a time: that of the server's process tree, and of the generator's own
//! thread.

use crate::report::Server;
use meter::counters::CounterPlace;
use meter::{Cost, CounterSample, CounterSource, Memory, ProcError};
use std::path::PathBuf;

/// The server whose resource usage is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The root of its process tree.
    pub pid: u32,
    /// The folder of the control group that holds that tree and nothing else, if there is one.
    pub group: Option<PathBuf>,
    /// The counter server of its machine; `None` if that is this one.
    pub place: Option<CounterPlace>,
}

/// The resource usage of a process tree.
pub(crate) struct Reading {
    pid: u32,
    pub(crate) cost: Cost,
    memory: Memory,
}

#[derive(Debug)]
pub(crate) struct Watch {
    watched: Watched,
    counters: CounterSource,
}

impl Watch {
    pub(crate) fn open(watched: &Watched) -> Result<Self, ProcError> {
        let counters = CounterSource::open(watched.place.as_ref())?;
        Ok(Self { watched: watched.clone(), counters })
    }

    /// Reads them without memory.
    pub(crate) fn sample(&self) -> Result<CounterSample, ProcError> {
        self.counters.read(self.watched.pid, self.watched.group.as_deref(), false)
    }

    /// The usage since `before`, and the current memory.
    pub(crate) fn since(&self, before: &CounterSample) -> Result<Reading, ProcError> {
        let Watched { pid, group, .. } = &self.watched;
        let now = self.counters.read(*pid, group.as_deref(), true)?;
        let memory = now.memory.unwrap_or_default();
        Ok(Reading { pid: *pid, cost: now.tree.since(&before.tree), memory })
    }
}

impl Reading {
    /// The figures for this many requests; doubts are appended to `doubts`.
    pub(crate) fn report(self, requests: u64, doubts: &mut Vec<String>) -> Server {
        let Self { pid, cost, memory } = self;
        doubts.extend(cost.doubts.iter().cloned());
        let each = |sum: u64| (requests > 0).then(|| sum as f64 / requests as f64);
        // Those of workers that ended are lost, and a part would look like a whole.
        let whole = |sum: u64| each(sum).filter(|_| !cost.is_partial);
        Server {
            pid,
            cpu_ns: cost.cpu_ns,
            cpu_ns_per_request: each(cost.cpu_ns),
            switches_per_request: whole(cost.switches()),
            delay_ns_per_request: whole(cost.delay_ns),
            rss_kb: memory.rss_kb,
            pss_kb: memory.pss_kb,
            own_kb: memory.own_kb,
            peak_kb: memory.peak_kb,
            threads: cost.threads,
            processes: cost.processes,
        }
    }
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
