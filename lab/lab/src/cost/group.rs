//! A control group for one server.
//!
//! Version 2 is one tree with one `cpu.stat`; version 1 has a tree for each controller, of which
//! this module uses `cpuacct` and `memory`. It uses both as they are mounted, under a folder of its
//! own, and neither mounts nor reconfigures anything.

use super::Reading;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The mount point of control groups.
const ROOT: &str = "/sys/fs/cgroup";
/// Distinguishes the groups of one process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The folders that make one group; removed with it.
pub struct Group {
    /// The path of `cpu.stat` (version 2) or `cpuacct.usage` (version 1).
    cpu: PathBuf,
    /// The memory controller's folder, which may be the same one or missing.
    memory: Option<PathBuf>,
    version_2: bool,
}

impl Group {
    /// Makes a group, if that is possible and allowed here.
    pub fn make(name: &str) -> Option<Group> {
        Group::make_under(Path::new(ROOT), name)
    }

    fn make_under(root: &Path, name: &str) -> Option<Group> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let own = format!("roundhouse-{}-{number}-{}", std::process::id(), plain(name));
        let mine = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        if number == 0 {
            ["", "cpuacct", "memory"]
                .iter()
                .for_each(|tree| sweep(&root.join(tree).join(place(&mine, tree))));
        }
        if root.join("cgroup.controllers").exists() {
            // A group with processes may have no controllers below it, but `cpu.stat` is always
            // there, controllers or not.
            let cpu = made(&root.join(place(&mine, "")).join(&own))?;
            let memory = cpu.join("memory.peak").exists().then(|| cpu.clone());
            return Some(Group { cpu, memory, version_2: true });
        }
        let in_tree = |tree: &str| {
            let parent = root.join(tree).join(place(&mine, tree));
            parent.join("cgroup.procs").exists().then(|| parent.join(&own))
        };
        let cpu = made(&in_tree("cpuacct")?)?;
        let memory = in_tree("memory").and_then(|path| made(&path));
        Some(Group { cpu, memory, version_2: false })
    }

    /// The command prefix that starts a command in the group: a shell that moves itself and then
    /// becomes the command.
    pub fn prefix(&self) -> Vec<String> {
        let mut folders = vec![self.cpu.clone()];
        folders.extend(self.memory.clone().filter(|memory| *memory != self.cpu));
        let moves: String = folders
            .iter()
            .map(|folder| format!("echo $$ >'{}/cgroup.procs' && ", folder.display()))
            .collect();
        ["sh".to_string(), "-c".to_string(), format!("{moves}exec \"$@\""), "sh".to_string()]
            .to_vec()
    }

    /// The folder whose files tell the CPU time.
    pub(super) fn folder(&self) -> &Path {
        &self.cpu
    }

    /// The CPU time of all processes that ever ran in the group.
    pub(super) fn cpu(&self) -> Option<Reading> {
        if self.version_2 {
            let text = fs::read_to_string(self.cpu.join("cpu.stat")).ok()?;
            return Some(Reading {
                total_ns: 1_000 * value(&text, "usage_usec")?,
                user_ns: 1_000 * value(&text, "user_usec")?,
                system_ns: 1_000 * value(&text, "system_usec")?,
            });
        }
        let read = |name: &str| -> Option<u64> {
            fs::read_to_string(self.cpu.join(name)).ok()?.trim().parse().ok()
        };
        // `usage_user` and `usage_sys` name the mode at the moment of charging, nearly always the
        // kernel's; `stat` is sampled at the tick.
        let text = fs::read_to_string(self.cpu.join("cpuacct.stat")).ok()?;
        Some(Reading {
            total_ns: read("cpuacct.usage")?,
            user_ns: super::TICK_NS * value(&text, "user")?,
            system_ns: super::TICK_NS * value(&text, "system")?,
        })
    }

    /// The group's highest memory use in kilobytes; page cache that it read first counts too.
    pub(super) fn memory_peak_kb(&self) -> Option<u64> {
        let name = if self.version_2 { "memory.peak" } else { "memory.max_usage_in_bytes" };
        let text = fs::read_to_string(self.memory.as_ref()?.join(name)).ok()?;
        text.trim().parse::<u64>().ok().map(|bytes| bytes / 1024)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that still has processes stays; it costs nothing, and its name identifies its
        // owner.
        for folder in self.memory.iter().chain([&self.cpu]) {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Removes the groups of killed processes; the kernel keeps those in which a process is left.
fn sweep(parent: &Path) {
    // Only the first process namespace sees every owner; its number is fixed (PROC_PID_INIT_INO).
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let sees_all = space.ends_with("pid:[4026531836]");
    let Some(entries) = fs::read_dir(parent).ok().filter(|_| sees_all) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix("roundhouse-")?.split('-').next());
        let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn made(folder: &Path) -> Option<PathBuf> {
    fs::create_dir(folder).ok()?;
    // A folder that accepts no process is no group.
    let procs = folder.join("cgroup.procs");
    let open = fs::OpenOptions::new().write(true).open(procs).is_ok();
    if !open {
        let _ = fs::remove_dir(folder);
    }
    open.then(|| folder.to_path_buf())
}

/// The group of this process in one tree, without its leading slash; empty for the root. Lines are
/// `NUMBER:CONTROLLERS:PATH` (cgroups(7)).
fn place<'a>(mine: &'a str, tree: &str) -> &'a str {
    let line = mine.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|it| it == tree).then_some(path)
    });
    line.unwrap_or("").trim_start_matches('/')
}

fn value(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
    line.split(' ').nth(1)?.parse().ok()
}

/// The name, made safe for a path and a shell's quotes.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_own_tree() {
        let text = "2:cpuacct,cpu:/a/b\n1:memory:/\n0::/c\n";
        assert_eq!(place(text, "cpuacct"), "a/b");
        assert_eq!(place(text, "memory"), "");
        assert_eq!(place(text, ""), "c");
        assert_eq!(value("usage_usec 9\nuser_usec 5\n", "user_usec"), Some(5));
        assert_eq!(plain("a b/c'd"), "abcd");
    }

    #[test]
    fn the_groups_of_the_dead_are_swept() {
        let root = tempfile::tempdir().expect("a temporary directory");
        // No process has that number: it is above the kernel's limit (proc(5), pid_max).
        let names = ["roundhouse-4194999-0-epoll", "roundhouse-1-0-epoll", "others-4194999-0"];
        let groups = names.map(|name| root.path().join(name));
        groups.iter().for_each(|group| fs::create_dir_all(group).expect("a temporary directory"));
        sweep(root.path());
        assert_eq!(groups.map(|group| group.exists()), [false, true, true]);
    }

    #[test]
    fn a_machine_without_groups_has_none() {
        let empty = tempfile::tempdir().expect("a temporary directory");
        assert!(Group::make_under(empty.path(), "x").is_none());
    }
}
