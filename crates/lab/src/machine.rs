//! The machine under the race: which cores play which part, and what else was going on.
//!
//! Shares are counted in clock ticks of `/proc/stat` over a whole trial, so they are coarse (one
//! tick of two cores in a second is half a percent) but they see everything. Soft interrupts are
//! left out: on loopback they are the race's own packets.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

/// What a run must say about its machine so that somebody else can judge or repeat it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Processor, kernel, memory.
    pub machine: meter::Machine,
    /// Whether a hypervisor is below (the `hypervisor` flag in `/proc/cpuinfo`).
    pub virtual_machine: bool,
    /// Settings that move results, each as the kernel prints it.
    pub settings: Vec<(String, String)>,
}

/// Kernel files worth a line in the manifest.
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
    /// Reads what can be read; a file that is missing is left out.
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

/// Which core is whose. Without two cores nothing is pinned.
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
    /// Chooses two cores of those this process may use, on different physical cores if possible.
    /// `None` when there is only one.
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

/// What the environment did while a trial ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Share of the machine's time that the hypervisor took, 0 to 1; unknown is absent.
    pub steal: Option<f64>,
    /// Share of the machine's time that other processes took, 0 to 1; unknown is absent.
    pub foreign: Option<f64>,
    /// Movement of the wall clock against the monotonic clock, milliseconds.
    pub clock_step_ms: f64,
    /// How late a thread that slept was woken at worst, milliseconds.
    #[serde(default)]
    pub hiccup_ms: Option<f64>,
    /// Share of the time in which some task waited for a processor (PSI), 0 to 1; no gate, because
    /// a server of many processes on one core is such pressure itself.
    #[serde(default)]
    pub cpu_pressure: Option<f64>,
    /// The same for memory.
    #[serde(default)]
    pub memory_pressure: Option<f64>,
    /// The same for disks.
    #[serde(default)]
    pub io_pressure: Option<f64>,
    /// TCP segments sent again, without SYNs and loss probes.
    #[serde(default)]
    pub retransmits: Option<u64>,
    /// SYNs sent again: clients that a full accept queue sent home.
    #[serde(default)]
    pub syn_retransmits: Option<u64>,
    /// Connections that found an accept queue full (`ListenOverflows`).
    #[serde(default)]
    pub listen_overflows: Option<u64>,
    /// Packets that a processor's backlog dropped (`softnet_stat`).
    #[serde(default)]
    pub backlog_drops: Option<u64>,
}

/// A reading taken before a trial; [`Watch::stop`] compares it with one taken after.
pub struct Watch {
    ticks: Option<Ticks>,
    clock: Instant,
    wall: SystemTime,
}

/// Clock ticks since boot.
#[derive(Clone, Copy)]
struct Ticks {
    total: u64,
    steal: u64,
    /// User, nice and system time of everybody.
    work: u64,
    /// The same of this process and of all children it has waited for.
    own: u64,
}

impl Watch {
    /// Takes the first reading.
    pub fn start() -> Watch {
        Watch { ticks: Ticks::read(), clock: Instant::now(), wall: SystemTime::now() }
    }

    /// Takes the second reading. To be called when all children of the trial have been waited for,
    /// or their work counts as foreign.
    pub fn stop(self) -> Conditions {
        let monotonic = self.clock.elapsed();
        let wall = SystemTime::now().duration_since(self.wall).unwrap_or(Duration::ZERO);
        let clock_step_ms = (wall.as_secs_f64() - monotonic.as_secs_f64()) * 1e3;
        let (Some(before), Some(after)) = (self.ticks, Ticks::read()) else {
            return Conditions { clock_step_ms, ..Conditions::default() };
        };
        let share =
            |part: u64| part as f64 / (after.total.saturating_sub(before.total)).max(1) as f64;
        let work = after.work.saturating_sub(before.work);
        let foreign = work.saturating_sub(after.own.saturating_sub(before.own));
        Conditions {
            steal: Some(share(after.steal.saturating_sub(before.steal))),
            foreign: Some(share(foreign)),
            clock_step_ms,
            ..Conditions::default()
        }
    }
}

impl Ticks {
    fn read() -> Option<Ticks> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Ticks::parse(&stat, &own)
    }

    /// Columns of proc_stat(5) and proc_pid_stat(5).
    fn parse(stat: &str, own: &str) -> Option<Ticks> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let cpu: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // The command name may hold spaces; fields are counted after its closing bracket.
        let (_, fields) = own.rsplit_once(')')?;
        let times = fields.split_whitespace().skip(11).take(4);
        let own = times.filter_map(|word| word.parse::<u64>().ok()).sum();
        Some(Ticks {
            total: cpu.iter().take(8).sum(),
            steal: *cpu.get(7)?,
            work: cpu.iter().take(3).sum(),
            own,
        })
    }
}

/// The date and time now, UTC, as `2026-11-21T20:29:05Z` (RFC 3339).
pub fn date_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    date_of(since.as_secs())
}

/// Civil date from days since 1970 by eras of 400 years (Hinnant, *chrono-compatible low-level
/// date algorithms*).
fn date_of(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date_of(0), "1970-01-01T00:00:00Z");
        assert_eq!(date_of(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date_of(1_795_292_945), "2026-11-21T20:29:05Z");
    }

    #[test]
    fn lists_of_cores() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list("7"), [7]);
        assert_eq!(cpu_list(""), [0usize; 0]);
    }

    #[test]
    fn ticks_leave_soft_interrupts_out() {
        let stat = "cpu  10 1 5 100 2 3 40 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let own = "42 (a name (odd)) S 1 1 1 0 -1 0 0 0 0 0 4 3 2 1 20 0";
        let ticks = Ticks::parse(stat, own).expect("both lines are well formed");
        assert_eq!((ticks.total, ticks.steal, ticks.work, ticks.own), (168, 7, 16, 10));
    }

    #[test]
    fn cores_swap_in_odd_blocks() {
        let placement = Placement { first: 0, second: 1, siblings: false };
        assert_eq!(placement.cores(false), (0, 1));
        assert_eq!(placement.cores(true), (1, 0));
    }

    #[test]
    fn this_machine_can_be_watched() {
        let found = Watch::start().stop();
        assert!(found.steal.is_some() && found.foreign.is_some(), "{found:?}");
        assert!(found.clock_step_ms.abs() < 1_000.0, "{found:?}");
        assert!(Host::identify().expect("/proc is mounted").machine.cores >= 1);
    }
}
