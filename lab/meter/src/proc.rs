//! The cost of a process tree: CPU time, switches, delays, memory, read from `/proc` as text.
//!
//! A server may be one thread or a hundred processes, so the unit is the tree below one pid. CPU
//! time comes in nanoseconds from the clock of each process (clock_getcpuclockid(3)), which holds
//! the time of its ended threads too. The time of an ended process is known afterwards only from
//! the clock ticks (10 ms) of the parent that waited for it (proc_pid_stat(5));
//! [`TreeCost::since`] takes it from there and says so.

mod files;

pub use files::stat;

use serde::{Deserialize, Serialize};

/// The reason why a tree cannot be read.
#[derive(Debug, derive_more::Display)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ProcError {
    /// There is no such process, or it has ended.
    #[display("expected a running process {pid}, found none: has the server ended?")]
    Gone { pid: u32 },
    /// A file under `/proc` is there but has unexpected contents.
    #[display("{path}: {why}")]
    Unreadable { path: String, why: String },
}

/// CPU time and context switches of a tree from its start up to one moment.
///
/// One reading alone means little, since ended processes are missing; the difference of two
/// ([`TreeCost::since`]) is the figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeCost {
    processes: Vec<ProcessCost>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ProcessCost {
    pid: u32,
    /// Start time in ticks since boot; it distinguishes processes with the same pid.
    started: u64,
    /// Time of all its threads, ended ones too (ns).
    cpu_ns: u64,
    /// Time of the children that ended and were waited for, and of theirs, by ticks (ns).
    reaped_ns: u64,
    /// Page faults of those children; each has some, however short its life.
    #[serde(default)]
    reaped_faults: u64,
    threads: Vec<ThreadCost>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ThreadCost {
    tid: u32,
    voluntary: u64,
    involuntary: u64,
    /// Time on a core (ns); 0 where the kernel does not say.
    #[serde(default)]
    run_ns: u64,
    /// Time that it could have run and waited for a core (ns); 0 where the kernel does not say.
    #[serde(default)]
    delay_ns: u64,
}

/// The resource use of a tree between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// User and system time of all threads of all processes (ns).
    pub cpu_ns: u64,
    /// Context switches because a thread waited.
    pub voluntary: u64,
    /// Context switches because a thread's time was up or another was preferred.
    pub involuntary: u64,
    /// Time that threads were ready to run and waited for a core (ns).
    #[serde(default)]
    pub delay_ns: u64,
    /// Processes at the second reading.
    pub processes: usize,
    /// Threads at the second reading.
    pub threads: usize,
    /// Whether part of the CPU time was taken from clock ticks, because processes ended.
    pub is_coarse: bool,
    /// Whether threads or processes ended in between, so that the context switches and delays of
    /// the others are only a part.
    #[serde(default)]
    pub is_partial: bool,
    /// Sentences to be printed next to the figures; empty if they are exact.
    pub doubts: Vec<String>,
}

/// Memory of a tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident pages (kB); a page that two processes share counts twice.
    pub rss_kb: u64,
    /// Resident pages divided by the number of processes that share each (kB); `None` where
    /// `smaps_rollup` may not be read.
    pub pss_kb: Option<u64>,
    /// The same without pages of files (kB): what two programs need, not what copies of one program
    /// share; `None` where `smaps_rollup` does not tell.
    pub own_kb: Option<u64>,
    /// Sum of each process's own peak of resident pages (kB).
    pub peak_kb: u64,
    /// Live processes.
    pub processes: usize,
    /// Live threads.
    pub threads: usize,
}

/// Ticks of `/proc/PID/stat` are a hundredth of a second on every Linux that this runs on.
const TICK_NS: u64 = 10_000_000;
/// One part in this many of the time may be that of ended threads: the kernel's figure of a thread
/// that runs is up to a tick old.
const LOST_MAX: u64 = 20;

impl TreeCost {
    /// Reads process `pid` and all its living descendants.
    ///
    /// # Errors
    /// [`ProcError::Gone`] if `pid` has ended; a descendant that ends meanwhile is left out.
    pub fn read(pid: u32) -> Result<Self, ProcError> {
        let mut tree = Self::default();
        let mut ahead = vec![pid];
        while let Some(next) = ahead.pop() {
            match files::process(next, &mut ahead) {
                Ok(process) => tree.processes.push(process),
                Err(ProcError::Gone { .. }) if next != pid => {}
                Err(other) => return Err(other),
            }
        }
        Ok(tree)
    }

    /// The pids of the tree, root first.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.iter().map(|process| process.pid)
    }

    /// Every thread: its process, its number, its context switches so far.
    pub fn threads(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let of = |process: &ProcessCost, it: &ThreadCost| {
            (process.pid, it.tid, it.voluntary + it.involuntary)
        };
        let all = self.processes.iter();
        all.flat_map(move |process| process.threads.iter().map(move |it| of(process, it)))
    }

    /// The resource use since an `earlier` reading of the same tree.
    pub fn since(&self, earlier: &TreeCost) -> Cost {
        let mut cost = Cost {
            processes: self.processes.len(),
            threads: self.processes.iter().map(|process| process.threads.len()).sum(),
            ..Cost::default()
        };
        let mut reaped_ns = 0;
        for process in &self.processes {
            let old = earlier.processes.iter().find(|old| old.is(process));
            reaped_ns += process.add_since(old, &mut cost);
        }
        for dead in &earlier.processes {
            if !self.processes.iter().any(|process| process.is(dead)) {
                // The waited-for time covers a whole life; use before the first reading is not part
                // of the difference.
                reaped_ns = reaped_ns.saturating_sub(dead.cpu_ns + dead.reaped_ns);
                (cost.is_coarse, cost.is_partial) = (true, true);
                cost.doubts.push(dead.obituary());
            }
        }
        cost.cpu_ns += reaped_ns;
        cost
    }
}

impl ProcessCost {
    fn is(&self, other: &ProcessCost) -> bool {
        self.pid == other.pid && self.started == other.started
    }

    /// Adds this process's use since `old`, or since its start; returns the time (ns) of the
    /// children that it waited for meanwhile.
    fn add_since(&self, old: Option<&ProcessCost>, cost: &mut Cost) -> u64 {
        let nothing = ProcessCost::default();
        let old = old.unwrap_or(&nothing);
        cost.cpu_ns += self.cpu_ns.saturating_sub(old.cpu_ns);
        let mut seen = 0;
        for thread in &self.threads {
            let before = old.threads.iter().find(|before| before.tid == thread.tid);
            seen += usize::from(before.is_some());
            let before = before.copied().unwrap_or_default();
            cost.voluntary += thread.voluntary.saturating_sub(before.voluntary);
            cost.involuntary += thread.involuntary.saturating_sub(before.involuntary);
            cost.delay_ns += thread.delay_ns.saturating_sub(before.delay_ns);
        }
        let ended = old.threads.len() - seen;
        cost.is_partial |=
            ended > 0 || self.reaped_faults > old.reaped_faults || self.has_lost_threads(old);
        if ended > 0 {
            cost.doubts.push(format!(
                "{ended} threads of process {} ended meanwhile: their context switches are lost",
                self.pid
            ));
        }
        let reaped_ns = self.reaped_ns.saturating_sub(old.reaped_ns);
        if reaped_ns > 0 {
            cost.is_coarse = true;
            cost.doubts.push(format!(
                "children of process {} ended meanwhile: their CPU time is known to 10 ms each",
                self.pid
            ));
        }
        reaped_ns
    }

    /// Whether threads that began and ended since `old` took more than a twentieth of the time: the
    /// clock of the process has it, and no living thread.
    fn has_lost_threads(&self, old: &ProcessCost) -> bool {
        let living = |it: &ProcessCost| it.threads.iter().map(|thread| thread.run_ns).sum::<u64>();
        let ended = |it: &ProcessCost| it.cpu_ns.saturating_sub(living(it));
        let used = self.cpu_ns.saturating_sub(old.cpu_ns);
        living(self) > 0 && ended(self).saturating_sub(ended(old)) * LOST_MAX > used
    }

    fn obituary(&self) -> String {
        format!(
            "process {} ended between the readings: its CPU time is rough, its context switches \
             are lost",
            self.pid
        )
    }
}

impl Cost {
    /// Voluntary and involuntary context switches together.
    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    /// Adds the figures of another stretch of time; the newer counts of processes and threads
    /// stay, and each doubt is kept once.
    pub fn add(&mut self, newer: Cost) {
        self.cpu_ns += newer.cpu_ns;
        self.voluntary += newer.voluntary;
        self.involuntary += newer.involuntary;
        self.delay_ns += newer.delay_ns;
        self.processes = newer.processes;
        self.threads = newer.threads;
        self.is_coarse |= newer.is_coarse;
        self.is_partial |= newer.is_partial;
        for doubt in newer.doubts {
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
    }
}

impl Memory {
    /// Reads the memory of process `pid` and all its living descendants.
    ///
    /// # Errors
    /// [`ProcError::Gone`] if `pid` has ended; a descendant that ends meanwhile is left out.
    pub fn read(pid: u32) -> Result<Self, ProcError> {
        let mut sum = Self { pss_kb: Some(0), own_kb: Some(0), ..Self::default() };
        for pid in TreeCost::read(pid)?.pids() {
            let Some(one) = files::memory(pid) else { continue };
            sum.rss_kb += one.rss_kb;
            sum.pss_kb = sum.pss_kb.zip(one.pss_kb).map(|(all, one)| all + one);
            sum.own_kb = sum.own_kb.zip(one.own_kb).map(|(all, one)| all + one);
            sum.peak_kb += one.peak_kb;
            sum.processes += 1;
            sum.threads += one.threads;
        }
        Ok(sum)
    }
}

impl std::error::Error for ProcError {}

#[cfg(test)]
mod tests;
