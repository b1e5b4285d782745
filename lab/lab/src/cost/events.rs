//! Process starts and ends in a tree, as reported by the kernel's process connector.
//!
//! A netlink socket of the connector family receives every fork, thread and exit on the machine
//! (`linux/cn_proc.h`, `linux/connector.h`); this module selects those of one tree by following
//! parents. Nothing reads the socket while the trial runs: a large buffer holds the events until
//! afterwards, because a reader that wakes at each fork would disturb a server that forks for each
//! client.

use meter::TreeCost;
use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
    sockopt,
};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

/// The size of the buffer: events of roughly ten thousand starts and ends.
const BUFFER: usize = 8 << 20;
/// `CN_IDX_PROC`, `CN_VAL_PROC` and the only multicast group.
const PROCESSES: u32 = 1;
/// `PROC_CN_MCAST_LISTEN`.
const LISTEN: u32 = 1;
/// `NLMSG_DONE`, the type of every message of the connector.
const DONE: u16 = 3;
/// Bytes of `struct nlmsghdr` and `struct cn_msg`.
const HEADERS: usize = 16 + 20;

const FORK: u32 = 0x0000_0001;
const EXIT: u32 = 0x8000_0000;

/// A socket that collects events.
pub(super) struct Events {
    socket: OwnedFd,
    tree: BTreeSet<u32>,
}

/// The counts of process events in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EventCounts {
    /// Processes that began.
    pub(super) forks: u64,
    /// Threads that began.
    pub(super) threads: u64,
    /// Processes that ended.
    pub(super) exits: u64,
    /// Processes that a signal ended.
    pub(super) kills: u64,
    /// The buffer was too small, so the other counts are lower bounds.
    pub(super) lost: bool,
}

impl Events {
    /// Begins to collect for the tree below `pid`; `None` if the kernel does not report events to
    /// us.
    pub(super) fn listen(pid: u32) -> Option<Events> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let family = AddressFamily::NETLINK;
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(CONNECTOR)).ok()?;
        // Only a privileged process may exceed the system's limit; others get the size that it
        // allows.
        if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, BUFFER).ok()?;
        }
        bind(&socket, &SocketAddrNetlink::new(0, PROCESSES)).ok()?;
        send(&socket, &subscription(), SendFlags::empty()).ok()?;
        let tree = TreeCost::read(pid).ok()?.pids().collect();
        Some(Events { socket, tree })
    }

    /// Reads the collected events.
    pub(super) fn stop(mut self) -> EventCounts {
        let mut counted = EventCounts::default();
        let mut buffer = [0_u8; 4096];
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => break,
                Ok((_, length)) => self.take(&buffer[..length.min(4096)], &mut counted),
                Err(Errno::NOBUFS) => counted.lost = true,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        counted
    }

    /// One datagram: headers and a `struct proc_event`.
    fn take(&mut self, datagram: &[u8], counted: &mut EventCounts) {
        let Some(event) = datagram.get(HEADERS..) else { return };
        let number = |at: usize| {
            let bytes = event.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        // `what`, `cpu` and a 64-bit time stamp precede the part that differs by event.
        let (Some(what), Some(a), Some(b)) = (number(0), number(16), number(20)) else { return };
        let (Some(c), Some(d)) = (number(24), number(28)) else { return };
        match what {
            // The fields are the parent's thread and process, then the child's thread and process.
            FORK if self.tree.contains(&b) && c == d => {
                self.tree.insert(d);
                counted.forks += 1;
            }
            FORK if self.tree.contains(&b) => counted.threads += 1,
            // The fields are thread, process, wait status.
            EXIT if a == b && self.tree.remove(&b) => {
                counted.exits += 1;
                counted.kills += u64::from(c & 0x7f != 0);
            }
            _ => {}
        }
    }
}

/// The message that subscribes to all events.
fn subscription() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADERS + 4);
    let total = HEADERS as u32 + 4;
    bytes.extend(total.to_ne_bytes());
    bytes.extend(DONE.to_ne_bytes());
    bytes.extend([0; 2 + 4 + 4]);
    bytes.extend(PROCESSES.to_ne_bytes());
    bytes.extend(PROCESSES.to_ne_bytes());
    bytes.extend([0; 4 + 4]);
    bytes.extend(4_u16.to_ne_bytes());
    bytes.extend([0; 2]);
    bytes.extend(LISTEN.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: u32, rest: [u32; 4]) -> Vec<u8> {
        let mut bytes = vec![0; HEADERS];
        bytes.extend(what.to_ne_bytes());
        bytes.extend([0; 12]);
        bytes.extend(rest.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn a_subscription_has_the_kernels_layout() {
        let bytes = subscription();
        assert_eq!(bytes.len(), 40);
        assert_eq!(bytes[0..4], 40_u32.to_ne_bytes());
        assert_eq!(bytes[32..34], 4_u16.to_ne_bytes());
    }

    #[test]
    fn events_are_followed_down_the_tree() {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None);
        let socket = socket.expect("any socket");
        let mut events = Events { socket, tree: BTreeSet::from([10]) };
        let mut counted = EventCounts::default();
        for (what, rest) in [
            (FORK, [10, 10, 11, 11]),
            (FORK, [11, 11, 12, 11]),
            (FORK, [99, 99, 98, 98]),
            (FORK, [12, 11, 13, 13]),
            (EXIT, [12, 11, 0, 0]),
            (EXIT, [13, 13, 9, 0]),
            (EXIT, [11, 11, 0x100, 0]),
            (EXIT, [98, 98, 9, 0]),
        ] {
            events.take(&event(what, rest), &mut counted);
        }
        events.take(&[0; 10], &mut counted);
        let want = EventCounts { forks: 2, threads: 1, exits: 2, kills: 1, lost: false };
        assert_eq!(counted, want);
    }
}
