//! The machine of a race: the roles of its cores, and its other activity.
//!
//! This module records the facts that a race reads once: processor, kernel, settings, cores.
//! `conditions` and `kernel` hold the values that are watched in every trial. `hiccups` is a thread
//! that notices when the whole platform stands still.

mod conditions;
mod hiccups;
mod kernel;

pub use conditions::{Conditions, Watch};
pub use hiccups::Hiccups;
pub use kernel::{Counters, named as kernel_count};

use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use std::{fs, io};

/// A run's record of its machine, so that others can judge or repeat the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Processor, kernel, memory.
    pub machine: meter::Machine,
    /// Whether a hypervisor runs the machine (the `hypervisor` flag in `/proc/cpuinfo`).
    pub virtual_machine: bool,
    /// Settings that affect results, each as the kernel prints it.
    pub settings: Vec<(String, String)>,
}

/// Kernel files that the manifest records.
const SETTINGS: [(&str, &str); 7] = [
    ("clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("transparent huge pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("address randomisation", "/proc/sys/kernel/randomize_va_space"),
    ("listen backlog limit", "/proc/sys/net/core/somaxconn"),
    ("SYN backlog limit", "/proc/sys/net/ipv4/tcp_max_syn_backlog"),
    ("local ports", "/proc/sys/net/ipv4/ip_local_port_range"),
    ("io_uring disabled", "/proc/sys/kernel/io_uring_disabled"),
];

impl Host {
    /// Reads the available files and leaves out missing ones.
    ///
    /// # Errors
    /// If `/proc` cannot be read at all.
    pub fn identify() -> io::Result<Host> {
        let mut settings: Vec<(String, String)> = SETTINGS
            .iter()
            .filter_map(|(name, path)| {
                let text = fs::read_to_string(path).ok()?;
                Some((name.to_string(), text.split_whitespace().collect::<Vec<_>>().join(" ")))
            })
            .collect();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        if let Some(line) = limits.lines().find(|line| line.starts_with("Max open files")) {
            let soft = line.split_whitespace().nth(3).unwrap_or("?");
            settings.push(("open files".to_string(), soft.to_string()));
        }
        let flags = fs::read_to_string("/proc/cpuinfo")?;
        let virtual_machine = flags.lines().any(|line| {
            line.starts_with("flags") && line.split_whitespace().any(|word| word == "hypervisor")
        });
        Ok(Host { machine: meter::Machine::identify()?, virtual_machine, settings })
    }
}

/// The roles of the cores. Without two cores nothing is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The server's core in even blocks, the generator's in odd ones.
    pub first: usize,
    /// The generator's core in even blocks, the server's in odd ones.
    pub second: usize,
    /// The two are threads of one physical core, which share its execution units.
    pub siblings: bool,
}

impl Placement {
    /// Chooses two of the cores that this process may use, on different physical cores if possible.
    /// `None` if there is only one.
    pub fn choose() -> Option<Placement> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        let cores = cpu_list(list);
        let first = *cores.first()?;
        let path = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
        let siblings = fs::read_to_string(path).map(|text| cpu_list(&text)).unwrap_or_default();
        let apart = cores.iter().find(|&&core| core != first && !siblings.contains(&core));
        let second = *apart.or(cores.get(1))?;
        Some(Placement { first, second, siblings: apart.is_none() })
    }

    /// (server's core, generator's core) of a block.
    pub fn cores(&self, swapped: bool) -> (usize, usize) {
        if swapped { (self.second, self.first) } else { (self.first, self.second) }
    }
}

/// Reads the kernel's list format: `0-2,5` is 0, 1, 2 and 5 (cpuset(7)).
fn cpu_list(text: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(low), Ok(high)) = (low.parse::<usize>(), high.parse::<usize>()) {
            cores.extend(low..=high);
        }
    }
    cores
}

/// The date and time now, UTC, as `2026-11-21T20:29:05Z` (RFC 3339).
pub fn date_now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list("7"), [7]);
        assert_eq!(cpu_list(""), [0usize; 0]);
    }

    #[test]
    fn cores_swap_in_odd_blocks() {
        let placement = Placement { first: 0, second: 1, siblings: false };
        assert_eq!(placement.cores(false), (0, 1));
        assert_eq!(placement.cores(true), (1, 0));
    }

    #[test]
    fn this_machine_can_be_named() {
        assert!(Host::identify().expect("/proc is mounted").machine.cores >= 1);
    }
}
