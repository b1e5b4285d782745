//! The named points of the space: the architectures of the textbooks, and modern ones.
//!
//! A preset is data: a container, an accept source and a way to wait, with a default number of
//! workers. `Shape::preset` looks a name up; no loop depends on the name. `roundhouse engines`,
//! races and the documentation list this table, and `code` names the file that shows what is
//! special about the point. A new preset is a row here.

use crate::axes::{Accept, Container, Wait};

/// The default number of workers of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerCount {
    /// The same number on every machine.
    Fixed(usize),
    /// One for each core that the process may use.
    Cores,
    /// Two for each core; one for each core runs.
    TwiceCores,
    /// One for each connection.
    Connections,
}

/// A point with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The value of `--engine`.
    pub name: &'static str,
    /// The container of the workers.
    pub container: Container,
    /// The way of accepting connections.
    pub accept: Accept,
    /// The worker's way of waiting.
    pub wait: Wait,
    /// Workers by default.
    pub count: WorkerCount,
    /// Its requirements, or its limits.
    pub needs: &'static str,
    /// The file that shows how it works, below `runtime/engines/src`.
    pub code: &'static str,
    /// The architecture it models, and the source.
    pub from: &'static str,
}

impl Preset {
    /// The point.
    pub fn point(&self) -> (Container, Accept, Wait) {
        (self.container, self.accept, self.wait)
    }

    /// Whether it runs only where a network interface and rights are given, so that a run over all
    /// engines leaves it out.
    pub fn needs_interface(&self) -> bool {
        self.wait == Wait::Bypass
    }

    /// The family of the architecture, in the plural; a single one has none.
    pub fn family(&self) -> &'static str {
        match self.wait {
            Wait::Select | Wait::Poll | Wait::Epoll | Wait::Uring | Wait::Bypass => "event loops",
            Wait::TokioLocal | Wait::TokioSteal => "tasks",
            Wait::Coroutine => "coroutines",
            _ if self.container.is_processes() => "processes",
            _ if self.container.is_single() => "",
            _ => "threads",
        }
    }
}

const fn preset(
    name: &'static str,
    (container, accept, wait): (Container, Accept, Wait),
    count: WorkerCount,
    needs: &'static str,
    code: &'static str,
    from: &'static str,
) -> Preset {
    Preset { name, container, accept, wait, count, needs, code, from }
}

/// The named points.
pub const PRESETS: &[Preset] = &[
    preset(
        "iterative",
        (Container::Solo, Accept::Shared, Wait::Blocking),
        WorkerCount::Fixed(1),
        "nothing; other clients wait while one is served",
        "wait/blocking.rs",
        "one process, one client at a time (Stevens, UNP section 1.5)",
    ),
    preset(
        "fork",
        (Container::ProcessPerConnection, Accept::Shared, Wait::Blocking),
        WorkerCount::Connections,
        "state in shared memory; at most 2046 connections",
        "supervise/receive.rs",
        "a process for each client (UNP sections 4.8 and 30.5)",
    ),
    preset(
        "thread",
        (Container::ThreadPerConnection, Accept::Shared, Wait::Blocking),
        WorkerCount::Connections,
        "a stack for each client; at most 2046 connections",
        "supervise/receive.rs",
        "a thread for each client (UNP section 30.10, CS:APP section 12.3)",
    ),
    preset(
        "pool",
        (Container::Threads, Accept::Handoff, Wait::Blocking),
        WorkerCount::Fixed(16),
        "a worker for each client served at once",
        "accept/handoff.rs",
        "an acceptor, a bounded buffer, workers (CS:APP section 12.5.5)",
    ),
    preset(
        "prefork",
        (Container::Processes, Accept::Shared, Wait::Blocking),
        WorkerCount::Fixed(16),
        "state in shared memory; workers as for pool",
        "container/processes.rs",
        "children forked beforehand, each accepting (UNP section 30.6, Apache prefork)",
    ),
    preset(
        "worker",
        (Container::Hybrid, Accept::Handoff, Wait::Blocking),
        WorkerCount::Fixed(400),
        "state in shared memory; as many processes as the load needs",
        "container/hybrid.rs",
        "processes of threads with spare ones (Apache worker)",
    ),
    preset(
        "event",
        (Container::Hybrid, Accept::Handoff, Wait::Parked),
        WorkerCount::Fixed(400),
        "state in shared memory; as many processes as the load needs",
        "wait/parked.rs",
        "the same, with idle connections parked in an epoll (Apache event)",
    ),
    preset(
        "select",
        (Container::Solo, Accept::Shared, Wait::Select),
        WorkerCount::Fixed(1),
        "descriptors below 1024",
        "wait/select.rs",
        "one event loop over three bit sets (select(2), CS:APP section 12.2)",
    ),
    preset(
        "poll",
        (Container::Solo, Accept::Shared, Wait::Poll),
        WorkerCount::Fixed(1),
        "nothing; each wait costs time for every open connection",
        "wait/poll.rs",
        "one event loop over an array (poll(2), UNP section 6.11)",
    ),
    preset(
        "epoll",
        (Container::Solo, Accept::Shared, Wait::Epoll),
        WorkerCount::Fixed(1),
        "nothing",
        "wait/epoll.rs",
        "one event loop over what the kernel finds ready (epoll(7))",
    ),
    preset(
        "amped",
        (Container::Helped, Accept::Shared, Wait::Epoll),
        WorkerCount::Fixed(1),
        "nothing; --helpers: the slow steps that may run at once",
        "helpers.rs",
        "one event loop, and helpers for what would block it (AMPED: Flash, USENIX 1999)",
    ),
    preset(
        "reactor",
        (Container::Threads, Accept::Reuseport, Wait::Epoll),
        WorkerCount::Cores,
        "nothing; with one core it equals epoll",
        "wait/epoll.rs",
        "an event loop and a listener for each core (Schmidt's Reactor, SO_REUSEPORT)",
    ),
    preset(
        "coroutine",
        (Container::Threads, Accept::Reuseport, Wait::Coroutine),
        WorkerCount::Cores,
        "a stack for each client; --stack",
        "wait/coroutine.rs",
        "blocking code on a stack for each client, switched where it would wait (virtual \
         threads, may)",
    ),
    preset(
        "tokio-local",
        (Container::Threads, Accept::Reuseport, Wait::TokioLocal),
        WorkerCount::Cores,
        "nothing; deadlines are kept to the millisecond",
        "wait/tokio_local.rs",
        "a task for each client, a runtime and a listener for each core (tokio)",
    ),
    preset(
        "tokio-steal",
        (Container::Threads, Accept::Shared, Wait::TokioSteal),
        WorkerCount::Cores,
        "nothing; deadlines are kept to the millisecond",
        "wait/tokio_steal.rs",
        "a task for each client, one runtime whose threads steal tasks (tokio)",
    ),
    preset(
        "uring",
        (Container::Threads, Accept::Reuseport, Wait::Uring),
        WorkerCount::Cores,
        "io_uring: Linux 6.1, and permission to use it",
        "wait/uring.rs",
        "a completion ring and a listener for each core (io_uring(7))",
    ),
    preset(
        "leader",
        (Container::Threads, Accept::Shared, Wait::Leader),
        WorkerCount::Fixed(16),
        "nothing; a thread for each step that may block at once",
        "wait/leader.rs",
        "threads that lead in turn: one waits, hands the lead over, serves (Leader/Followers, \
         ACE)",
    ),
    preset(
        "staged",
        (Container::Threads, Accept::Shared, Wait::Staged),
        WorkerCount::Fixed(16),
        "nothing; two threads more than --workers",
        "wait/staged.rs",
        "stages with bounded queues between them: read, step, write (SEDA, SOSP 2001)",
    ),
    preset(
        "port",
        (Container::Threads, Accept::Shared, Wait::Port),
        WorkerCount::TwiceCores,
        "io_uring: Linux 6.1, and permission to use it",
        "wait/port.rs",
        "one completion queue, N threads, R running (Windows' I/O completion ports)",
    ),
    preset(
        "bypass",
        (Container::Threads, Accept::Reuseport, Wait::Bypass),
        WorkerCount::Fixed(1),
        "--interface, CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW; IPv4; a worker for each queue",
        "wait/bypass.rs",
        "frames of a network interface, and TCP in user space (AF_XDP, smoltcp)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    #[test]
    fn every_name_leads_back_to_its_point_and_the_point_can_be() {
        for preset in PRESETS {
            let shape = Shape::preset(preset.name, 2).expect("a preset's own name");
            assert_eq!(shape.name(), Some(preset.name));
            assert_eq!(shape.check(), Ok(()), "{}", preset.name);
        }
    }
}
