//! The settings of any point of the space, and their defaults.

use std::time::Duration;

use sys::uring::Setup;

use crate::governor::Mode;
use crate::staff::Staff;
use crate::tactics::Tactics;

/// The settings of any point.
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs {
    /// `epoll` in edge-triggered mode (`EPOLLET`).
    pub edge: bool,
    /// How the `io_uring` rings are set up.
    pub ring: Setup,
    /// The rings' tactics.
    pub tactics: Tactics,
    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u32,
    /// Send small segments at once (`TCP_NODELAY`) instead of waiting for the acknowledgement of
    /// earlier ones (Nagle's algorithm, RFC 896).
    pub nodelay: bool,
    /// Sessions for which each worker of an event engine prepares memory at its start.
    pub prepared: usize,
    /// Connections at one time in the whole server; `None`: the service's limit.
    pub sessions_max: Option<usize>,
    /// A connection on which no bytes move for this long is closed.
    pub idle: Duration,
    /// A peer that takes longer than this for one request is cut off, unless the service bounds it.
    pub request_time: Duration,
    /// After this much silence the kernel probes the peer, and gives it up after twice the time;
    /// zero: never.
    pub keepalive: Duration,
    /// A peer that takes no output for this long is cut off.
    pub write_stall: Duration,
    /// The least output that a peer must take while some waits, in bytes a second, over the stall
    /// time; 0: any.
    pub write_rate: u64,
    /// Bytes of memory that all connections may hold; above it those of least use are closed. 0:
    /// any.
    pub memory_max: u64,
    /// Unsent bytes that the kernel holds for a peer (`TCP_NOTSENT_LOWAT`) until that peer has
    /// taken one MiB in all; 0: as much as a send buffer grows to. Without this bound thousands of
    /// slow readers would fill the kernel's memory for TCP, at the expense of all others.
    pub unsent_max: u32,
    /// The longest drain before it is forced.
    pub drain: Duration,
    /// Connections that may wait between an acceptor and its workers, in each buffer; `None`: 16.
    pub handoff: Option<usize>,
    /// The number of workers, and their lifetime.
    pub staff: Staff,
    /// The number of threads of a port that run at one time; `None`: half of them.
    pub running: Option<usize>,
    /// The mode of the governor, which refuses requests under overload.
    pub governor: Mode,
    /// The response time that the governor holds.
    pub objective: Duration,
    /// Threads for offloaded jobs, for each worker of an event engine; 0: the worker runs them
    /// itself, while its other sessions wait. `None`: the container's default.
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
            request_time: Duration::from_secs(60),
            keepalive: Duration::from_secs(60),
            write_stall: Duration::from_secs(60),
            write_rate: 256,
            memory_max: 0,
            unsent_max: 128 * 1024,
            drain: Duration::from_secs(10),
            handoff: None,
            staff: Staff::default(),
            running: None,
            governor: Mode::Off,
            objective: Duration::from_millis(100),
            helpers: None,
        }
    }
}
