//! The identity of the machine, and the share of its time that went elsewhere.
//!
//! Figures from two machines are never put in one table, so each run carries a [`Machine`]. On a
//! virtual machine the host may take the processor away in the middle of a window; the kernel
//! counts that as *steal* in `/proc/stat`, and a window with much of it says nothing
//! (proc_stat(5)).

use serde::{Deserialize, Serialize};
use std::{fs, io};

/// The properties of a machine that matter to a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Model name of the first processor, from `/proc/cpuinfo`; empty where it says none.
    pub cpu: String,
    /// Processors that are online.
    pub cores: usize,
    /// Usable memory (kB).
    pub memory_kb: u64,
}

/// Time of all processors since boot, in clock ticks of which there are a hundred a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// All time, idle included. Guest time is part of user time and not counted twice.
    pub total: u64,
    /// Neither idle nor waiting for a disk.
    pub busy: u64,
    /// Taken by the host for other guests.
    pub steal: u64,
}

impl Machine {
    /// Reads the identity of this machine.
    ///
    /// # Errors
    /// If `/proc` is not mounted or not readable.
    pub fn identify() -> io::Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let meminfo = fs::read_to_string("/proc/meminfo")?;
        let stat = fs::read_to_string("/proc/stat")?;
        Ok(Self {
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cpu: value_of(&cpuinfo, "model name").unwrap_or_default().to_owned(),
            cores: stat.lines().filter(|line| is_one_cpu(line)).count(),
            memory_kb: value_of(&meminfo, "MemTotal").and_then(kilobytes).unwrap_or(0),
        })
    }
}

impl CpuTimes {
    /// Reads the times of all processors together.
    ///
    /// # Errors
    /// If `/proc/stat` cannot be read or does not begin with the line `cpu`.
    pub fn read() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/stat")?)
            .ok_or_else(|| io::Error::other("/proc/stat: expected a first line `cpu` and numbers"))
    }

    /// The difference from an `earlier` reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            total: self.total.saturating_sub(earlier.total),
            busy: self.busy.saturating_sub(earlier.busy),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// Stolen time as a share of all time, 0 to 1; 0 if no time passed.
    pub fn steal_share(self) -> f64 {
        if self.total == 0 { 0.0 } else { self.steal as f64 / self.total as f64 }
    }

    /// Fields: user nice system idle iowait irq softirq steal guest guest_nice.
    fn parse(stat: &str) -> Option<Self> {
        let mut words = stat.lines().next()?.split_ascii_whitespace();
        words.next().filter(|name| name.starts_with("cpu"))?;
        let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let [_, _, _, idle, iowait, _, _, steal] = times[..] else { return None };
        let total: u64 = times.iter().sum();
        Some(Self { total, busy: total - idle - iowait - steal, steal })
    }
}

/// The text after the colon on the first line `key ... : value`.
pub(crate) fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim_end() == key).then(|| value.trim())
    })
}

/// `123 kB` as a number.
pub(crate) fn kilobytes(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim_end().parse().ok()
}

/// `cpu0`, `cpu1` and so on, but not the sum `cpu`.
fn is_one_cpu(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The state of a listener in [`tcp_sockets`].
pub const LISTENS: &str = "0A";
/// The state of an open connection there.
pub const CONNECTED: &str = "01";
/// The state of a connection there whose SYN was not answered.
pub const CONNECTING: &str = "02";

/// The TCP sockets of this machine in a state (proc_net_tcp(5)): the ports of each one and of its
/// peer, and its number in the links of `/proc/PID/fd`, 0 if no process holds it.
pub fn tcp_sockets(state: &str) -> impl Iterator<Item = ([u16; 2], u32)> {
    let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
    let read = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, its, _, _, _, _, _, inode, ..] = words[..] else { return None };
        (its == state).then_some(([port(local)?, port(remote)?], inode.parse().ok()?))
    };
    // A machine without IPv6 has no second table.
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let text = tables.into_iter().flatten().collect::<String>();
    text.lines().filter_map(read).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_and_a_size() {
        let machine = Machine::identify().expect("/proc is mounted");
        assert!(machine.kernel.contains('.'), "{machine:?}");
        assert!(machine.cores >= 1, "{machine:?}");
        assert!(machine.memory_kb > 10_000, "{machine:?}");
    }

    #[test]
    fn times_are_read_by_field() {
        let line = "cpu  10 20 30 400 5 6 7 8 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let found = CpuTimes::parse(line).expect("ten numbers");
        assert_eq!(found, CpuTimes { total: 486, busy: 73, steal: 8 });
        assert_eq!(CpuTimes::parse("cpu 1 2 3"), None);
        assert_eq!(CpuTimes::parse("intr 1 2 3 4 5 6 7 8"), None);
    }

    #[test]
    fn time_goes_forward() {
        let before = CpuTimes::read().expect("/proc/stat");
        let after = CpuTimes::read().expect("/proc/stat");
        let passed = after.since(before);
        assert!(passed.steal <= passed.total);
        assert!((0.0..=1.0).contains(&passed.steal_share()));
    }

    #[test]
    fn keyed_values() {
        let text = "Name:\tx y\nRss:            1684 kB\nmodel name\t: Some CPU\n";
        assert_eq!(value_of(text, "Rss").and_then(kilobytes), Some(1684));
        assert_eq!(value_of(text, "model name"), Some("Some CPU"));
        assert_eq!(value_of(text, "Pss"), None);
    }
}
