//! The kernel's counters: refused connections, retransmitted segments.
//!
//! `/proc/net/netstat` and `/proc/net/snmp` are pairs of lines, names above numbers (proc_net(5),
//! the kernel's Documentation/networking/snmp_counter.rst). They cover the whole network namespace,
//! other programs included. A counter that this kernel lacks is absent.

use serde::{Deserialize, Serialize};
use std::fs;

/// A reading, or the difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// `TcpExtListenOverflows`: an accept queue was full.
    pub listen_overflows: Option<u64>,
    /// `TcpExtListenDrops`: a SYN or the last segment of a handshake was dropped, for any reason.
    pub listen_drops: Option<u64>,
    /// `TcpExtTCPSynRetrans`: a SYN or SYN-ACK was sent again.
    pub syn_retransmits: Option<u64>,
    /// `TcpExtTCPTimeouts`: a retransmission timer expired.
    pub timeouts: Option<u64>,
    /// `TcpRetransSegs`: segments sent again, SYNs included.
    pub retransmits: Option<u64>,
}

impl Counters {
    /// Reads the available counters.
    pub fn read() -> Counters {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Counters::parse(&text("/proc/net/netstat"), &text("/proc/net/snmp"))
    }

    fn parse(netstat: &str, snmp: &str) -> Counters {
        let more = |name: &str| named(netstat, "TcpExt:", name);
        Counters {
            listen_overflows: more("ListenOverflows"),
            listen_drops: more("ListenDrops"),
            syn_retransmits: more("TCPSynRetrans"),
            timeouts: more("TCPTimeouts"),
            retransmits: named(snmp, "Tcp:", "RetransSegs"),
        }
    }

    /// The counts since an `earlier` reading.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let gained = |now: Option<u64>, then: Option<u64>| {
            now.zip(then).map(|(now, then)| now.saturating_sub(then))
        };
        Counters {
            listen_overflows: gained(self.listen_overflows, earlier.listen_overflows),
            listen_drops: gained(self.listen_drops, earlier.listen_drops),
            syn_retransmits: gained(self.syn_retransmits, earlier.syn_retransmits),
            timeouts: gained(self.timeouts, earlier.timeouts),
            retransmits: gained(self.retransmits, earlier.retransmits),
        }
    }
}

/// The number of sockets of this machine that are connecting or connected to that port: rows of
/// `/proc/net/tcp` with that remote port, in SYN_SENT or ESTABLISHED (proc_net(5)).
pub fn knocking(port: u16) -> Option<usize> {
    Some(knocks(&fs::read_to_string("/proc/net/tcp").ok()?, port))
}

fn knocks(table: &str, port: u16) -> usize {
    let (other, states) = (format!(":{port:04X}"), ["01", "02"]);
    let rows = table.lines().skip(1).filter(|line| {
        let mut words = line.split_whitespace().skip(2);
        let (remote, state) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        remote.ends_with(&other) && states.contains(&state)
    });
    rows.count()
}

/// The number of SYN waits of one second before the wait doubles. Kernels before 6.5 lack this
/// setting and double at once: 0.
pub fn syn_linear_timeouts() -> u32 {
    setting("/proc/sys/net/ipv4/tcp_syn_linear_timeouts").unwrap_or(0)
}

/// The longest accept queue that the kernel grants, whatever the server requests.
pub fn queue_limit() -> Option<u32> {
    setting("/proc/sys/net/core/somaxconn")
}

fn setting(path: &str) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number under `name` in the pair of lines that begin with `prefix`.
fn named(text: &str, prefix: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(prefix));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|word| word == name)?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name_and_compared() {
        let netstat = |n: u64| {
            format!(
                "TcpExt: ListenOverflows ListenDrops TCPSynRetrans\nTcpExt: {n} {} 7\n\
                 IpExt: ListenDrops\nIpExt: 99\n",
                2 * n
            )
        };
        let snmp = "Ip: RetransSegs\nIp: 1\nTcp: RtoMin RetransSegs\nTcp: 200 40\n";
        let (then, now) = (Counters::parse(&netstat(3), snmp), Counters::parse(&netstat(13), snmp));
        let found = now.since(&then);
        assert_eq!((found.listen_overflows, found.listen_drops), (Some(10), Some(20)));
        assert_eq!((found.syn_retransmits, found.retransmits), (Some(0), Some(0)));
        assert_eq!(found.timeouts, None, "a counter that is not there is not zero");
    }

    #[test]
    fn clients_that_knock_are_counted_by_where_they_want_to_go() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
            0: 0100007F:1770 00000000:0000 0A 00000000:00000000\n\
            1: 0100007F:A001 0100007F:1770 02 00000001:00000000\n\
            2: 0100007F:A002 0100007F:1770 01 00000000:00000000\n\
            3: 0100007F:1770 0100007F:A002 01 00000000:00000000\n\
            4: 0100007F:A003 0100007F:1771 02 00000001:00000000\n";
        assert_eq!((knocks(table, 6_000), knocks(table, 6_001), knocks("", 6_000)), (2, 1, 0));
        assert!(knocking(1).is_some(), "/proc/net/tcp is there");
    }

    #[test]
    fn this_kernel_counts() {
        assert!(Counters::read().retransmits.is_some(), "/proc/net/snmp has RetransSegs");
    }
}
