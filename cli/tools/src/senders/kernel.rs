//! The kernel's figures of a run: its memory, bytes read, softirqs.

use std::fs;
use std::str::FromStr;

/// The first number after `name` in a text of lines `NAME NUMBER …`.
fn number<T: FromStr>(text: &str, name: &str) -> Option<T> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Slab, kernel stacks and page tables of the machine, bytes.
pub fn bytes() -> i64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let parts = ["Slab:", "KernelStack:", "PageTables:"];
    parts.iter().filter_map(|name| number::<i64>(&text, name)).sum::<i64>() * 1024
}

/// Counters of this process and of its core.
pub struct Tally {
    /// Bytes returned by read calls.
    pub read: u64,
    /// Softirqs of the network on that core.
    pub softirqs: Option<u64>,
}

impl Tally {
    /// The counters now; `core` is this process's own.
    pub fn now(core: Option<usize>) -> Tally {
        Tally { read: read(), softirqs: core.and_then(softirqs) }
    }

    /// The counts since `before`.
    pub fn since(&self, before: &Tally) -> Tally {
        let more = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Tally {
            read: self.read.saturating_sub(before.read),
            softirqs: more(self.softirqs, before.softirqs),
        }
    }
}

/// Bytes returned by read calls of this process (proc_pid_io(5)).
fn read() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    number(&text, "rchar: ").unwrap_or(0)
}

/// Network softirqs on `core` since boot: sending, receiving, and the tasklets of devices such as
/// `ifb`.
fn softirqs(core: usize) -> Option<u64> {
    softirqs_of(&fs::read_to_string("/proc/softirqs").ok()?, core)
}

fn softirqs_of(text: &str, core: usize) -> Option<u64> {
    let mut lines = text.lines();
    let name = format!("CPU{core}");
    let column = lines.next()?.split_whitespace().position(|it| it == name)?;
    let row = |line: &str| {
        let (kind, counts) = line.split_once(':')?;
        let is_network = ["NET_TX", "NET_RX", "TASKLET"].contains(&kind.trim());
        is_network.then(|| counts.split_whitespace().nth(column)?.parse::<u64>().ok())?
    };
    Some(lines.filter_map(row).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softirqs_of_a_core_are_found_among_others() {
        assert!(softirqs(0).is_some(), "every Linux has a first core");
        let text = "   CPU0  CPU2\n HI: 1 2\n NET_TX: 3 4\n NET_RX: 50 60\n TASKLET: 700 800\n";
        assert_eq!(softirqs_of(text, 2), Some(864));
        assert_eq!(softirqs_of(text, 1), None);
    }
}
