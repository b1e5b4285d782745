//! The limits of this process: open descriptors (getrlimit(2), `RLIMIT_NOFILE`) and memory.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A limit: its current value, and how far the process may raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The current value.
    pub soft: u64,
    /// The highest value of `soft` without a privilege.
    pub hard: u64,
}

/// The limit of open descriptors: descriptors are numbered below `soft`.
///
/// # Errors
/// None in practice.
pub fn open_files() -> io::Result<Limit> {
    let limit = getrlimit(Resource::Nofile);
    let [soft, hard] = [limit.current, limit.maximum].map(|it| it.unwrap_or(u64::MAX));
    Ok(Limit { soft, hard })
}

/// Sets the soft limit of open descriptors. Descriptors above a lowered limit stay open.
///
/// # Errors
/// `EINVAL` above the hard limit.
pub fn set_open_files(soft: u64) -> io::Result<()> {
    let limit = Rlimit { current: Some(soft), ..getrlimit(Resource::Nofile) };
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Raises the soft limit to `wanted`, or as far as the hard limit allows, and returns the new
/// value. Never lowers it.
///
/// # Errors
/// None in practice.
pub fn raise_open_files(wanted: u64) -> io::Result<u64> {
    let limit = open_files()?;
    let reachable = wanted.min(limit.hard);
    if reachable <= limit.soft {
        return Ok(limit.soft);
    }
    set_open_files(reachable)?;
    Ok(reachable)
}

/// The memory that this process may use, in bytes: the machine's (proc_meminfo(5)), or less where a
/// control group bounds it (`memory.max`, the kernel's admin-guide/cgroup-v2.rst, or
/// `memory.limit_in_bytes`, cgroup-v1/memory.rst); 0 if `/proc` does not tell.
#[must_use]
pub fn memory() -> u64 {
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    bounded(machine(&text(Path::new("/proc/meminfo"))), text)
}

/// Where control groups of the second version are mounted, and the first version's memory
/// controller.
const GROUPS: &str = "/sys/fs/cgroup";
const MEMORY: &str = "/sys/fs/cgroup/memory";

/// `total`, or the least bound of this process's groups and those above them.
fn bounded(total: u64, text: impl Fn(&Path) -> String) -> u64 {
    let groups = text(Path::new("/proc/self/cgroup"));
    // hierarchy-ID:controller-list:cgroup-path (cgroups(7)).
    let rows = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => (GROUPS, "memory.max"),
            some if some.split(',').any(|it| it == "memory") => (MEMORY, "memory.limit_in_bytes"),
            _ => return None,
        };
        Some((Path::new(root).join(path.trim_start_matches('/')), root, file))
    });
    rows.fold(total, |least, (own, root, file)| {
        let above = own.ancestors().take_while(|group| group.starts_with(root));
        let bounds = above.filter_map(|group| text(&group.join(file)).trim().parse().ok());
        bounds.fold(least, |least: u64, bound| least.min(bound))
    })
}

/// `MemTotal`, in bytes.
fn machine(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.map_or(0, |kib: u64| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_the_machines_or_the_groups() {
        assert_eq!(machine("MemTotal:       1024 kB\nMemFree: 1 kB\n"), 1 << 20);
        assert_eq!(machine("nothing"), 0);
        assert!(memory() > 1 << 20, "this test runs in some memory");
        let check = |groups: &str, bounds: &[(&str, &str)], want: u64| {
            let all = [&[("/proc/self/cgroup", groups)], bounds].concat();
            let text = |path: &Path| {
                let known = all.iter().find(|(known, _)| path == Path::new(known));
                known.map_or(String::new(), |(_, text)| (*text).to_owned())
            };
            assert_eq!(bounded(1000, text), want, "{groups}");
        };
        check("0::/a/b\n", &[("/sys/fs/cgroup/a/memory.max", "70\n")], 70);
        check("0::/a\n", &[("/sys/fs/cgroup/a/memory.max", "max\n")], 1000);
        // The first version, also in a container that sees its own group as the root.
        let old = "12:cpu,cpuacct:/d\n4:memory:/d/e\n0::/\n";
        check(old, &[("/sys/fs/cgroup/memory/d/memory.limit_in_bytes", "64\n")], 64);
        check(old, &[("/sys/fs/cgroup/memory/memory.limit_in_bytes", "65\n")], 65);
        check(old, &[("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")], 1000);
        check("", &[], 1000);
    }

    // One test, because the limit belongs to the whole process.
    #[test]
    fn the_soft_limit_moves_below_the_hard_one() {
        let before = open_files().unwrap();
        set_open_files(before.soft - 1).unwrap();
        assert_eq!(raise_open_files(10).unwrap(), before.soft - 1);
        assert_eq!(raise_open_files(before.soft).unwrap(), before.soft);
        assert_eq!(open_files().unwrap(), before);
        if let Some(past) = before.hard.checked_add(1) {
            assert!(set_open_files(past).is_err());
            assert_eq!(raise_open_files(past).unwrap(), before.hard);
        }
        set_open_files(before.soft).unwrap();
    }
}
