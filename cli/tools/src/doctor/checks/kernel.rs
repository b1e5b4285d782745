//! Limits of the kernel and of this process, and the features of io_uring and AF_XDP.

use super::{Check, Part, number, read};
use sys::uring::{Setup, Uring};

/// Descriptors that a race with idle connections needs.
const FILES: u64 = 20_000;
/// A listen queue that does not drop a burst of clients.
const BACKLOG: u64 = 1_024;

pub(super) fn checks() -> Vec<Check> {
    let mut limits = Part::new("limits");
    files(&mut limits);
    network(&mut limits);
    let mut ring = Part::new("io_uring");
    uring(&mut ring);
    let mut frames = Part::new("AF_XDP");
    match sys::xdp::lack() {
        None => frames.good("sockets", "can be made, with programs: --engine bypass can run"),
        Some(why) => frames.note(
            "sockets",
            why.to_string(),
            "the engine bypass needs CAP_NET_ADMIN, CAP_BPF, CAP_NET_RAW and CONFIG_XDP_SOCKETS; \
             the others can run",
        ),
    }
    [limits.checks, ring.checks, frames.checks].concat()
}

fn files(part: &mut Part) {
    let text = read("/proc/self/limits").unwrap_or_default();
    let (soft, hard) = open_files(&text).unwrap_or((0, 0));
    let found = format!("{soft}, could be {hard}");
    let advice = match (soft, hard) {
        (soft, _) if soft >= FILES => String::new(),
        (_, hard) if hard >= FILES => {
            format!("for more than {soft} connections: `ulimit -n {FILES}`")
        }
        _ => format!("for more than {hard} connections raise the hard limit (LimitNOFILE)"),
    };
    part.judge("open files", !advice.is_empty(), found, &advice);
    match number("/proc/sys/kernel/threads-max") {
        Some(most) => part.good("threads", format!("{most} on the machine")),
        None => part.note("threads", "unknown", ""),
    }
}

/// Soft and hard limit of open files.
fn open_files(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find(|line| line.starts_with("Max open files"))?;
    let mut words = line.split_whitespace().skip(3);
    let mut next = || words.next()?.parse().ok();
    Some((next()?, next()?))
}

fn network(part: &mut Part) {
    let at_least = |part: &mut Part, what: &'static str, path: &str| match number(path) {
        Some(found) if found >= BACKLOG => part.good(what, found.to_string()),
        Some(found) => {
            let name = path.trim_start_matches("/proc/sys/").replace('/', ".");
            let advice = format!("bursts of clients are sent home: `sysctl -w {name}=4096`");
            part.note(what, found.to_string(), advice);
        }
        None => part.note(what, "unknown", ""),
    };
    at_least(part, "accept queue", "/proc/sys/net/core/somaxconn");
    at_least(part, "SYN queue", "/proc/sys/net/ipv4/tcp_max_syn_backlog");
    let range = read("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let ends: Vec<u64> = range.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match ends[..] {
        [low, high] => {
            let ports = high.saturating_sub(low) + 1;
            part.good("ports", format!("{ports} for clients of one address"));
        }
        _ => part.note("ports", "unknown", ""),
    }
    match std::net::TcpListener::bind(("127.0.0.1", 0)) {
        Ok(_) => part.good("loopback", "can be listened on"),
        Err(why) => {
            part.bad("loopback", why.to_string(), "races run over 127.0.0.1: `ip link set lo up`")
        }
    }
}

fn uring(part: &mut Part) {
    match Uring::new(&Setup::default()) {
        Ok(_) => part.good("ring", "can be made"),
        Err(why) => {
            let advice = "engines on io_uring cannot run here; the others can";
            part.note("ring", why.to_string(), advice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_column() {
        let text = "Limit   Soft Limit  Hard Limit  Units\nMax open files  1024  524288  files\n";
        assert_eq!(open_files(text), Some((1024, 524_288)));
        assert_eq!(open_files("nothing"), None);
    }
}
