//! The kernel's counters of pressure and of TCP faults, for the whole machine.
//!
//! `/proc/net/snmp` and `/proc/net/netstat` are pairs of lines, names above numbers (proc_net(5));
//! `/proc/pressure/*` is pressure stall information (the kernel's
//! Documentation/accounting/psi.rst). A counter that this kernel lacks is absent, not zero.

use super::Conditions;
use std::fs;
use std::time::Duration;

/// A reading of all counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    retransmitted: Option<u64>,
    syn_retransmitted: Option<u64>,
    loss_probes: Option<u64>,
    listen_overflows: Option<u64>,
    backlog_drops: Option<u64>,
    cpu_us: Option<u64>,
    memory_us: Option<u64>,
    io_us: Option<u64>,
}

impl Counters {
    /// Reads the available counters.
    pub fn read() -> Counters {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (snmp, netstat) = (text("/proc/net/snmp"), text("/proc/net/netstat"));
        let pressure = |what: &str| stalled_us(&text(&format!("/proc/pressure/{what}")));
        Counters {
            retransmitted: named(&snmp, "Tcp:", "RetransSegs"),
            syn_retransmitted: named(&netstat, "TcpExt:", "TCPSynRetrans"),
            loss_probes: named(&netstat, "TcpExt:", "TCPLossProbes"),
            listen_overflows: named(&netstat, "TcpExt:", "ListenOverflows"),
            backlog_drops: backlog_drops(&text("/proc/net/softnet_stat")),
            cpu_us: pressure("cpu"),
            memory_us: pressure("memory"),
            io_us: pressure("io"),
        }
    }

    /// The counts since an `earlier` reading, `elapsed` ago; the other conditions stay empty.
    pub fn since(&self, earlier: &Counters, elapsed: Duration) -> Conditions {
        let gained = |now: Option<u64>, then: Option<u64>| {
            now.zip(then).map(|(now, then)| now.saturating_sub(then))
        };
        let share = |now: Option<u64>, then: Option<u64>| {
            let whole = elapsed.as_micros().max(1) as f64;
            gained(now, then).map(|us| (us as f64 / whole).min(1.0))
        };
        let syn_retransmits = gained(self.syn_retransmitted, earlier.syn_retransmitted);
        let probes = gained(self.loss_probes, earlier.loss_probes).unwrap_or(0);
        let retransmits = gained(self.retransmitted, earlier.retransmitted)
            .map(|all| all.saturating_sub(syn_retransmits.unwrap_or(0) + probes));
        Conditions {
            retransmits,
            syn_retransmits,
            listen_overflows: gained(self.listen_overflows, earlier.listen_overflows),
            backlog_drops: gained(self.backlog_drops, earlier.backlog_drops),
            cpu_pressure: share(self.cpu_us, earlier.cpu_us),
            memory_pressure: share(self.memory_us, earlier.memory_us),
            io_pressure: share(self.io_us, earlier.io_us),
            ..Conditions::default()
        }
    }
}

/// The number under `name` in the pair of lines that begin with `prefix`; `None` if this kernel
/// does not count it.
pub fn named(text: &str, prefix: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(prefix));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|word| word == name)?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

/// Microseconds in which some task was stalled.
fn stalled_us(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// Second column of every processor's line, hexadecimal.
fn backlog_drops(text: &str) -> Option<u64> {
    let column = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    let drops: Option<Vec<u64>> = text.lines().map(column).collect();
    drops.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "Tcp: RtoMin RetransSegs InErrs\nTcp: 200 17 0\nUdp: RetransSegs\nUdp: 5\n";
        assert_eq!(named(text, "Tcp:", "RetransSegs"), Some(17));
        assert_eq!(named(text, "Tcp:", "Nothing"), None);
        assert_eq!(named("", "Tcp:", "RetransSegs"), None);
        assert_eq!(stalled_us("some avg10=0.00 total=123\nfull total=7\n"), Some(123));
        assert_eq!(stalled_us(""), None);
        assert_eq!(backlog_drops("0a 01 0\n0b ff 0\n"), Some(256));
        assert_eq!(backlog_drops(""), None);
    }

    #[test]
    fn syns_and_loss_probes_are_no_disturbance() {
        let earlier = Counters { cpu_us: Some(0), ..Counters::default() };
        let counters = |n: u64| Counters {
            retransmitted: Some(10 * n),
            syn_retransmitted: Some(6 * n),
            loss_probes: Some(3 * n),
            cpu_us: Some(500_000),
            ..earlier
        };
        let found = counters(2).since(&counters(1), Duration::from_secs(1));
        assert_eq!((found.retransmits, found.syn_retransmits), (Some(1), Some(6)));
        assert_eq!((found.cpu_pressure, found.listen_overflows), (Some(0.0), None));
        let share = counters(1).since(&earlier, Duration::from_secs(1)).cpu_pressure;
        assert_eq!(share, Some(0.5));
    }
}
