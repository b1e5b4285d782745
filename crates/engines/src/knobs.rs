//! What can be turned on any point of the space, and the defaults.

use std::time::Duration;

use sys::uring::Setup;

use crate::staff::Staff;
use crate::wait::uring::tactics::Tactics;

/// What can be turned on any point; the defaults serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs {
    /// `epoll` in edge-triggered mode (`EPOLLET`).
    pub edge: bool,
    /// How the rings of `io_uring` are made.
    pub ring: Setup,
    /// How they do their work.
    pub tactics: Tactics,
    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u32,
    /// Send what is small at once (`TCP_NODELAY`) instead of waiting until what was sent before is
    /// acknowledged (Nagle's algorithm, RFC 896).
    pub nodelay: bool,
    /// Sessions that each worker of an event engine has memory ready for before the first comes.
    pub prepared: usize,
    /// Connections at one time in the whole server; `None`: what the service says.
    pub sessions_max: Option<usize>,
    /// A connection on which nothing moves for this long is ended.
    pub idle: Duration,
    /// A peer that has been silent for this long is asked whether it is still there, and given up
    /// after twice the time; zero: never.
    pub keepalive: Duration,
    /// A peer that takes no output for this long is cut off.
    pub write_stall: Duration,
    /// What a peer must take of waiting output at least, in bytes a second, over five seconds or
    /// over the time of a stall where that is shorter; 0: any.
    pub write_rate: u64,
    /// What the kernel takes of output for a peer that has no room for it, in bytes beside what is
    /// on its way, until it has taken a MiB in all; 0: as much as a send buffer grows to. Thousands
    /// of slow readers would fill the kernel's memory for TCP otherwise, and whoever reads well
    /// pays for that.
    pub unsent_max: u32,
    /// How long a drain may take before it is forced.
    pub drain: Duration,
    /// Connections that may wait between an acceptor and its workers, in each buffer; `None`: 16.
    pub handoff: Option<usize>,
    /// How many workers there are, and for how long.
    pub staff: Staff,
    /// How many threads of a port run at one time; `None`: half of them.
    pub running: Option<usize>,
    /// Threads that work on offloaded jobs, for each worker of an event engine; 0: the worker does,
    /// and its sessions wait. `None`: as fits the container.
    pub helpers: Option<usize>,
}

impl Default for Knobs {
    fn default() -> Knobs {
        Knobs {
            edge: false,
            ring: Setup::default(),
            tactics: Tactics::default(),
            backlog: 4096,
            nodelay: true,
            prepared: 0,
            sessions_max: None,
            idle: Duration::from_secs(3600),
            keepalive: Duration::from_secs(60),
            write_stall: Duration::from_secs(30),
            write_rate: 256,
            unsent_max: 128 * 1024,
            drain: Duration::from_secs(10),
            handoff: None,
            staff: Staff::default(),
            running: None,
            helpers: None,
        }
    }
}
