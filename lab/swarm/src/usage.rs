//! The resource usage reported in heartbeats: the busiest thread and the memory, from `/proc`.

use crate::worker::ProcessUsage;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// The minimum interval; a shorter one would measure clock ticks rather than threads.
const INTERVAL: Duration = Duration::from_millis(900);

/// Reads the usage, at most once per interval.
#[derive(Debug, Default)]
pub(crate) struct UsageMeter {
    at: Option<Instant>,
    /// CPU time (ns) of each thread at the last reading.
    used: BTreeMap<u32, u64>,
    usage: ProcessUsage,
}

impl UsageMeter {
    /// The usage over the last second or so. Without exact times in `/proc` the CPU share is 0.
    pub(crate) fn read(&mut self) -> ProcessUsage {
        let span = self.at.map(|at| at.elapsed());
        if span.is_none_or(|span| span >= INTERVAL) {
            let used = meter::proc::thread_times(std::process::id());
            let grown = |(thread, ns): (&u32, &u64)| {
                let before = self.used.get(thread).copied().unwrap_or(0);
                ns.saturating_sub(before)
            };
            let most = used.iter().map(grown).max().unwrap_or(0);
            if let Some(span) = span {
                self.usage.cpu = most as f64 / span.as_nanos() as f64 * 100.0;
            }
            self.usage.memory = resident();
            (self.at, self.used) = (Some(Instant::now()), used);
        }
        self.usage
    }
}

/// Resident bytes: `VmRSS` of `/proc/self/status` (proc_pid_status(5)), in kB there.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kb.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_is_seen() {
        let mut meter = UsageMeter::default();
        let first = meter.read();
        assert_eq!(first.cpu, 0.0);
        assert!(first.memory > 100_000, "{first:?}");
        let begun = Instant::now();
        let mut sum = 0u64;
        while begun.elapsed() < INTERVAL {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let second = meter.read();
        let exact = fs::metadata("/proc/self/schedstat").is_ok();
        assert!(!exact || (1.0..=110.0).contains(&second.cpu), "{second:?}");
    }
}
