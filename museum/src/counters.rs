//! The kernel's counters: refused connections, retransmitted segments.
//!
//! `/proc/net/netstat` and `/proc/net/snmp` are pairs of lines, names above numbers (proc_net(5),
//! the kernel's Documentation/networking/snmp_counter.rst). They cover the whole network namespace,
//! other programs included. A counter that this kernel lacks is absent.

use lab::machine::kernel_count;
use std::collections::BTreeMap;
use std::fs;

/// The counters: name, beginning of their pair of lines, the kernel's name.
const NAMES: [(&str, &str, &str); 5] = [
    // An accept queue was full.
    ("listen_overflows", "TcpExt:", "ListenOverflows"),
    // A SYN or the last segment of a handshake was dropped, for any reason.
    ("listen_drops", "TcpExt:", "ListenDrops"),
    // A SYN or SYN-ACK was sent again.
    ("syn_retransmits", "TcpExt:", "TCPSynRetrans"),
    // A retransmission timer expired.
    ("timeouts", "TcpExt:", "TCPTimeouts"),
    // Segments sent again, SYNs included.
    ("retransmits", "Tcp:", "RetransSegs"),
];

/// A reading, or the difference of two, by name.
pub type Counters = BTreeMap<String, u64>;

/// Reads the available counters.
pub fn read() -> Counters {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    parse(&(text("/proc/net/netstat") + &text("/proc/net/snmp")))
}

fn parse(text: &str) -> Counters {
    let found = |(name, prefix, kernel): (&str, &str, &str)| {
        Some((name.to_string(), kernel_count(text, prefix, kernel)?))
    };
    NAMES.into_iter().filter_map(found).collect()
}

/// The counts since an `earlier` reading.
pub fn since(earlier: &Counters) -> Counters {
    gained(read(), earlier)
}

fn gained(mut now: Counters, earlier: &Counters) -> Counters {
    now.iter_mut().for_each(|(name, it)| {
        *it = it.saturating_sub(earlier.get(name).copied().unwrap_or(0));
    });
    now
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name_and_compared() {
        let text = |n: u64| {
            format!(
                "TcpExt: ListenOverflows ListenDrops TCPSynRetrans\nTcpExt: {n} {} 7\n\
                 IpExt: ListenDrops\nIpExt: 99\nIp: RetransSegs\nIp: 1\n\
                 Tcp: RtoMin RetransSegs\nTcp: 200 40\n",
                2 * n
            )
        };
        let found = gained(parse(&text(13)), &parse(&text(3)));
        let wanted = [
            ("listen_drops", 20),
            ("listen_overflows", 10),
            ("retransmits", 0),
            ("syn_retransmits", 0),
        ];
        // A counter that is not there is not zero.
        assert_eq!(found, wanted.map(|(name, it)| (name.to_string(), it)).into());
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
        assert!(read().contains_key("retransmits"), "/proc/net/snmp has RetransSegs");
    }
}
