//! The impossible points of the space, with reasons.

use crate::axes::{Accept, Container, Wait};

/// Why a point is impossible with any settings, and a possible alternative.
pub fn conflict(container: Container, accept: Accept, wait: Wait) -> Option<&'static str> {
    if cfg!(not(feature = "tokio")) && matches!(wait, Wait::TokioLocal | Wait::TokioSteal) {
        return Some("this program is built without tokio: add the feature `tokio`");
    }
    if cfg!(not(feature = "bypass")) && wait == Wait::Bypass {
        return Some("this program is built without TCP in user space: add the feature `bypass`");
    }
    if container.is_per_connection() {
        if wait != Wait::Blocking {
            return Some(
                "a worker with one connection has no events to choose from: say --wait blocking",
            );
        }
        if accept != Accept::Shared {
            return Some(
                "the supervisor accepts and starts the worker, so no other competes with it: say \
                 --accept shared",
            );
        }
        return None;
    }
    if wait == Wait::Parked && container != Container::Hybrid {
        return Some(
            "parked connections need a pool of threads in each process: say --container hybrid",
        );
    }
    if matches!(wait, Wait::Port | Wait::Leader | Wait::Staged | Wait::TokioSteal) {
        return pooled(container, accept, wait);
    }
    if wait == Wait::Bypass {
        return bypassed(container, accept);
    }
    match (accept, container, wait) {
        (_, Container::Helped, Wait::Blocking) => {
            Some("a worker that may block needs no helpers: say --wait epoll")
        }
        (Accept::Reuseport, Container::Helped, _)
        | (
            Accept::Lock | Accept::Exclusive | Accept::Handoff | Accept::Pass,
            Container::Solo | Container::Helped,
            _,
        ) => Some("one worker has no other to share with: say --accept shared"),
        (Accept::Lock, _, wait) if is_loop(wait) => {
            Some("a loop must not sleep for a lock while its connections wait: say --wait blocking")
        }
        (Accept::Exclusive, _, wait) if !matches!(wait, Wait::Epoll | Wait::Parked) => {
            Some("exclusive wake-ups are a flag of epoll_ctl(2): say --wait epoll")
        }
        (_, Container::Hybrid, wait) if is_loop(wait) => Some(
            "each thread of a hybrid has one connection, and no events to choose from: say \
                 --wait blocking",
        ),
        (accept, Container::Hybrid, _) if accept != Accept::Handoff => {
            Some("each process has a listener that hands over to its threads: say --accept handoff")
        }
        (Accept::Handoff, Container::Processes, _) => {
            Some("a descriptor in a buffer means nothing to another process: say --accept pass")
        }
        (Accept::Pass, Container::Threads, _) => {
            Some("threads share their descriptors: say --accept handoff")
        }
        _ => None,
    }
}

/// Why threads that share their connections cannot have this container or way to accept.
fn pooled(container: Container, accept: Accept, wait: Wait) -> Option<&'static str> {
    let advice = |port, leader, staged, tokio| match wait {
        Wait::Port => Some(port),
        Wait::Leader => Some(leader),
        Wait::Staged => Some(staged),
        _ => Some(tokio),
    };
    match (container, accept) {
        (Container::Threads, Accept::Shared) => None,
        (Container::Threads, _) => advice(
            "a port accepts for all its threads: say --accept shared",
            "the leader accepts for all threads: say --accept shared",
            "the first stage accepts for all: say --accept shared",
            "one thread accepts for the whole runtime: say --accept shared",
        ),
        _ => advice(
            "a port is served by the threads of one process: say --container threads",
            "the threads of one process take turns to lead: say --container threads",
            "the stages hand sessions over within one process: say --container threads",
            "the threads of one runtime are in one process: say --container threads",
        ),
    }
}

/// Why the queues of an interface cannot be served by this container or way to accept.
fn bypassed(container: Container, accept: Accept) -> Option<&'static str> {
    match (container, accept) {
        (Container::Threads, Accept::Reuseport) => None,
        (Container::Threads, _) => Some(
            "each queue of the interface has the connections of its worker: say --accept reuseport",
        ),
        _ => Some(
            "the threads of one process serve the queues of an interface: say --container threads",
        ),
    }
}

/// Whether one loop has many connections.
fn is_loop(wait: Wait) -> bool {
    use Wait::{Blocking, Leader, Parked, Port, Staged, TokioSteal};
    !matches!(wait, Blocking | Parked | Leader | Staged | Port | TokioSteal)
}
