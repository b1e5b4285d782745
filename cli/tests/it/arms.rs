//! The architectures that the suite tests.

use std::path::Path;

use crate::harness::{Folder, Plan};

/// One architecture: its command line, and its properties that tests need.
pub struct Arm {
    /// The axis flags, separated by blanks.
    pub flags: &'static str,
    /// `--workers`, if not the engine's default.
    pub workers: Option<usize>,
    /// The least number of connections that it serves at once.
    pub crowd: usize,
    /// Whether a worker waits for one connection at a time.
    pub is_blocking: bool,
}

/// As many connections as any test has.
const MANY: usize = 1000;

/// A loop without a small limit on connections.
const LOOP: Arm = Arm { flags: "", workers: None, crowd: MANY, is_blocking: false };

/// One client at a time.
pub const ITERATIVE: Arm = Arm { flags: "--engine iterative", crowd: 1, is_blocking: true, ..LOOP };

/// One loop, level-triggered.
pub const EPOLL: Arm = Arm { flags: "--engine epoll", ..LOOP };

/// One loop, edge-triggered.
pub const EPOLL_EDGE: Arm = Arm { flags: "--engine epoll --edge", ..LOOP };

/// One loop and helpers started beforehand.
pub const AMPED: Arm = Arm { flags: "--engine amped", ..LOOP };

/// One loop without helpers.
pub const EPOLL_ALONE: Arm = Arm { flags: "--engine epoll --helpers 0", ..LOOP };

/// Sixteen children, one client each.
pub const PREFORK: Arm = Arm { flags: "--engine prefork", crowd: 16, is_blocking: true, ..LOOP };

/// Two loops, and the smallest stack for each connection, so that every service has a margin.
pub const COROUTINE: Arm =
    Arm { flags: "--engine coroutine --stack 65536", workers: Some(2), ..LOOP };

/// Two runtimes with a listener each.
pub const TOKIO_LOCAL: Arm = Arm { flags: "--engine tokio-local", workers: Some(2), ..LOOP };

/// One runtime, whose two threads steal tasks.
pub const TOKIO_STEAL: Arm = Arm { flags: "--engine tokio-steal", workers: Some(2), ..LOOP };

/// Eight threads that lead in turn.
pub const LEADER: Arm = Arm { flags: "--engine leader", workers: Some(8), ..LOOP };

/// Stages with queues between them, for which at most four threads step sessions or more write.
pub const STAGED: Arm = Arm { flags: "--engine staged", workers: Some(4), ..LOOP };

/// A ring for each core.
pub const URING: Arm = Arm { flags: "--engine uring", ..LOOP };

/// Children with a ring each, on one listener.
pub const PROCESSES_URING: Arm =
    Arm { flags: "--container processes --wait uring", workers: Some(2), ..LOOP };

/// Four threads at one ring, of which two run.
pub const PORT: Arm = Arm { flags: "--engine port", workers: Some(4), ..LOOP };

/// Three threads at one ring, of which one runs.
pub const PORT_ONE: Arm = Arm { flags: "--engine port --running 1", workers: Some(3), ..LOOP };

/// Two loops with a listener each.
pub const THREADS_EPOLL: Arm =
    Arm { flags: "--container threads --accept reuseport --wait epoll", workers: Some(2), ..LOOP };

/// Children with a loop each, on one listener.
pub const PROCESSES_EPOLL: Arm =
    Arm { flags: "--container processes --wait epoll", workers: Some(2), ..LOOP };

/// Children with a loop and a listener each: connections in a dead child's backlog wait for its
/// successor.
pub const PROCESSES_REUSEPORT: Arm = Arm {
    flags: "--container processes --accept reuseport --wait epoll",
    workers: Some(2),
    ..LOOP
};

/// Four threads, one client each.
pub const THREADS_BLOCKING: Arm = Arm {
    flags: "--container threads --wait blocking",
    workers: Some(4),
    crowd: 4,
    is_blocking: true,
};

/// A process for each client.
pub const FORK: Arm = Arm { flags: "--engine fork", is_blocking: true, ..LOOP };

/// A thread for each client.
pub const THREAD: Arm = Arm { flags: "--engine thread", is_blocking: true, ..LOOP };

/// An acceptor, a bounded buffer, and eight threads with one client each.
pub const POOL: Arm = Arm { flags: "--engine pool", workers: Some(8), crowd: 8, is_blocking: true };

/// One loop over bit sets.
pub const SELECT: Arm = Arm { flags: "--engine select", ..LOOP };

/// One loop over an array.
pub const POLL: Arm = Arm { flags: "--engine poll", ..LOOP };

/// Children of which one at a time accepts.
pub const PREFORK_LOCK: Arm =
    Arm { flags: "--engine prefork --accept lock", workers: Some(8), crowd: 8, is_blocking: true };

/// Children that are passed one client at a time.
pub const PREFORK_PASS: Arm =
    Arm { flags: "--engine prefork --accept pass", workers: Some(8), crowd: 8, is_blocking: true };

/// Children with a loop each, of which the kernel wakes one.
pub const PROCESSES_EXCLUSIVE: Arm = Arm {
    flags: "--container processes --accept exclusive --wait epoll",
    workers: Some(2),
    ..LOOP
};

/// Children with a loop each, which are passed their clients.
pub const PROCESSES_PASS: Arm =
    Arm { flags: "--container processes --accept pass --wait epoll", workers: Some(2), ..LOOP };

/// Children with a ring each, which are passed their clients.
pub const PROCESSES_PASS_URING: Arm =
    Arm { flags: "--container processes --accept pass --wait uring", workers: Some(2), ..LOOP };

/// Loops that are handed their clients.
pub const THREADS_HANDOFF: Arm =
    Arm { flags: "--container threads --accept handoff --wait poll", workers: Some(2), ..LOOP };

/// Two processes of four threads, one client each.
pub const WORKER: Arm =
    Arm { flags: "--engine worker --policy static", workers: Some(8), crowd: 8, is_blocking: true };

/// Two processes of four threads, which park idle connections.
pub const EVENT: Arm = Arm { flags: "--engine event --policy static", workers: Some(8), ..LOOP };

/// Two processes of four threads: one at the start, the other on demand, by Apache's rule.
pub const WORKER_SPARE: Arm = Arm {
    flags: "--engine worker --policy apache --start 1 --spare-min 1 --spare-max 5",
    ..WORKER
};

/// Children that are forked on demand, by our rule.
pub const PREFORK_SPARE: Arm = Arm {
    flags: "--engine prefork --policy damped --start 2 --spare-min 1 --spare-max 3",
    workers: Some(12),
    ..WORKER
};

impl Arm {
    /// Whether this word is among its flags.
    fn has(&self, word: &str) -> bool {
        self.flags.split(' ').any(|flag| flag == word)
    }

    /// Whether it needs `io_uring(7)`.
    pub fn is_uring(&self) -> bool {
        self.has("uring") || self.has("port")
    }

    /// Runs the test if the machine supports the arm.
    pub fn run(&self, test: impl FnOnce(&Arm)) {
        if !self.is_uring() || testkit::has_uring() {
            test(self);
        }
    }

    /// Whether workers are threads of several processes.
    pub fn is_hybrid(&self) -> bool {
        ["worker", "event"].iter().any(|name| self.has(name))
    }

    /// Whether a worker holds all its sessions in one loop that knows each.
    pub fn is_loop(&self) -> bool {
        let apart = ["coroutine", "leader", "staged", "tokio-steal"];
        !self.is_blocking && !self.is_hybrid() && !apart.iter().any(|word| self.has(word))
    }

    /// Whether its workers stand on an async runtime.
    pub fn is_runtime(&self) -> bool {
        self.has("tokio-local") || self.has("tokio-steal")
    }

    /// Whether its workers share their sessions.
    pub fn is_port(&self) -> bool {
        self.has("port")
    }

    /// A server of the probe.
    pub fn probe(&self) -> Plan<'_> {
        Plan::new(self, "probe")
    }

    /// A server of the stock market, with the book in this file.
    pub fn stock(&self, data: &Path) -> Plan<'_> {
        Plan::new(self, "stock").data(data)
    }

    /// A server of the stock market, with a separate book.
    pub fn book(&self, text: impl AsRef<[u8]>) -> Plan<'_> {
        let (folder, data) = Folder::with("stock.txt", text);
        self.stock(&data).keeping(folder)
    }

    /// Whether sessions get edge-triggered events.
    pub fn is_edge(&self) -> bool {
        ["--edge", "coroutine", "tokio-local", "tokio-steal"].iter().any(|word| self.has(word))
    }

    /// The number of clients that it serves at once, at most `wished`.
    pub fn crowd(&self, wished: usize) -> usize {
        self.crowd.min(wished)
    }
}
