//! The cost of a server's processes, one short read of `/proc` each. The supervisor does this
//! between its other duties, so it reads the kernel's sums and not every thread.

use std::fs;

/// The sums over some processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processes {
    /// User and system time, in seconds, to a hundredth, ended children included.
    pub cpu_seconds: f64,
    /// Resident memory; shared pages count for each process.
    pub resident_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Processes that were found.
    pub count: u64,
    /// The number of open descriptors of the supervisor, and their limit.
    pub fds: (u64, u64),
}

/// `sysconf(_SC_CLK_TCK)` on every Linux.
const TICKS: f64 = 100.0;
/// The size of a page on x86-64 and on aarch64 as it is usually built.
const PAGE: u64 = 4096;

impl Processes {
    /// Reads the processes in `pids` that still run, `root` first: only its ended children are
    /// counted.
    pub fn read(root: i32, pids: &[i32]) -> Processes {
        let mut sum = Processes::default();
        sum.add(root, true);
        pids.iter().filter(|pid| **pid != root).for_each(|pid| sum.add(*pid, false));
        let own = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
        let most = sys::limits::open_files().map_or(0, |limit| limit.soft);
        // One descriptor is that of the list itself.
        sum.fds = (own.saturating_sub(1), most);
        sum
    }

    fn add(&mut self, pid: i32, is_root: bool) {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return };
        // The name, in parentheses, may hold anything; after it follows field 3 of
        // proc_pid_stat(5).
        let Some((_, rest)) = stat.rsplit_once(')') else { return };
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|it| it.parse::<u64>().ok());
        let own = field(14).unwrap_or(0) + field(15).unwrap_or(0);
        let dead = if is_root { field(16).unwrap_or(0) + field(17).unwrap_or(0) } else { 0 };
        self.cpu_seconds += (own + dead) as f64 / TICKS;
        self.threads += field(20).unwrap_or(0);
        self.resident_bytes += field(24).unwrap_or(0) * PAGE;
        self.count += 1;
    }
}

/// Overflows of listeners in this network namespace, and connections dropped for any reason
/// (`TcpExt` of `/proc/net/netstat`).
pub fn overflows() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/net/netstat").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let mut pairs = names.split(' ').zip(values.split(' '));
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some((of("ListenOverflows")?, of("ListenDrops")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_one_process_that_costs_something() {
        let us = std::process::id() as i32;
        let found = Processes::read(us, &[us, us]);
        assert_eq!(found.count, 1);
        assert!(found.resident_bytes > 100_000 && found.threads >= 1, "{found:?}");
        assert!(found.fds.0 >= 3 && found.fds.1 >= found.fds.0, "{found:?}");
        assert!(overflows().is_some());
        assert_eq!(Processes::read(us, &[i32::MAX]).count, 1, "an ended process costs nothing");
    }
}
