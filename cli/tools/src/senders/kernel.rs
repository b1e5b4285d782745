//! The kernel's figures of a run: its memory, bytes read, time in interrupts. And how to evict a
//! file from its cache.

use std::fs::{self, File};
use std::io::Write;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use rustix::fs::{Advice, fadvise};

/// Nanoseconds of a tick in /proc (USER_HZ is 100).
const UNIT_NS: u64 = 10_000_000;
/// A page, and the length read to check that a file was evicted.
const PAGE: u64 = 4096;

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
    /// Bytes read from storage.
    pub storage: u64,
    /// Time of the core in interrupts and softirq, nanoseconds.
    pub irq_ns: Option<u64>,
    /// Softirqs of the network on that core.
    pub softirqs: Option<u64>,
}

impl Tally {
    /// The counters now; `core` is this process's own.
    pub fn now(core: Option<usize>) -> Tally {
        let [read, storage] = read();
        Tally { read, storage, irq_ns: core.and_then(irq_ns), softirqs: core.and_then(softirqs) }
    }

    /// The counts since `before`.
    pub fn since(&self, before: &Tally) -> Tally {
        let more = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Tally {
            read: self.read.saturating_sub(before.read),
            storage: self.storage.saturating_sub(before.storage),
            irq_ns: more(self.irq_ns, before.irq_ns),
            softirqs: more(self.softirqs, before.softirqs),
        }
    }
}

/// Bytes returned by read calls of this process, and bytes read from storage for it
/// (proc_pid_io(5)).
fn read() -> [u64; 2] {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    ["rchar: ", "read_bytes: "].map(|name| number(&text, name).unwrap_or(0))
}

/// Time of `core` in interrupts and softirqs since boot, nanoseconds (proc_stat(5)), sampled at the
/// tick.
fn irq_ns(core: usize) -> Option<u64> {
    irq_of(&fs::read_to_string("/proc/stat").ok()?, core)
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

fn irq_of(text: &str, core: usize) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{core} ")))?;
    // user nice system idle iowait irq softirq
    let mut times = line.split_whitespace().skip(5).map(str::parse::<u64>);
    let (irq, soft) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((irq + soft) * UNIT_NS)
}

/// An unlinked file of these bytes, repeated until it is `length` long.
///
/// # Errors
/// The temporary directory is not writable or full.
pub fn scratch(bytes: &[u8], length: u64) -> Result<File> {
    let mut file = tempfile::tempfile()?;
    let mut left = length;
    while left > 0 {
        let piece = &bytes[..bytes.len().min(left as usize)];
        file.write_all(piece).context("cannot write the file of payloads")?;
        left -= piece.len() as u64;
    }
    Ok(file)
}

/// Evicts the pages of `file` from the cache, so that the next read goes to storage.
///
/// # Errors
/// The kernel keeps them, as on a file system without storage (tmpfs).
pub fn forget(file: &File) -> Result<()> {
    // Only written-back pages can be evicted.
    file.sync_all()?;
    fadvise(file, 0, None, Advice::DontNeed)?;
    match sys::sendfile::is_resident(file, 0..PAGE) {
        Ok(true) => bail!(
            "expected a file that can leave the page cache, found one in {} that does not: name a \
             directory on a disk by TMPDIR",
            std::env::temp_dir().display()
        ),
        // An old kernel does not report it; reads from storage are counted in any case.
        Ok(false) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_core_are_found_among_others() {
        let text = "cpu  1 2 3 4 5 6 7 8\ncpu1 1 1 1 1 1 20 3 0 0 0\ncpu11 9 9 9 9 9 9 9\nintr 5\n";
        assert_eq!(irq_of(text, 1), Some(230_000_000));
        assert_eq!(irq_of(text, 11), Some(180_000_000));
        assert_eq!(irq_of(text, 2), None);
        assert!(irq_ns(0).is_some() && softirqs(0).is_some(), "every Linux has a first core");
        let text = "   CPU0  CPU2\n HI: 1 2\n NET_TX: 3 4\n NET_RX: 50 60\n TASKLET: 700 800\n";
        assert_eq!(softirqs_of(text, 2), Some(864));
        assert_eq!(softirqs_of(text, 1), None);
    }

    #[test]
    fn a_file_is_as_long_as_it_was_asked_to_be() {
        let file = scratch(b"abc", 8).expect("the temporary directory is writable");
        let mut text = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut text, 0).expect("eight bytes");
        assert_eq!((&text, file.metadata().expect("open").len()), (b"abcabcab", 8));
    }
}
