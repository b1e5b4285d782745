//! The impossible points of the space, with reasons.

use crate::axes::{Accept, Container, Wait};

/// Why a point is impossible with any settings, and a possible alternative.
pub fn conflict(container: Container, accept: Accept, wait: Wait) -> Option<&'static str> {
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
    if wait == Wait::Port {
        if container != Container::Threads {
            return Some("a port is served by the threads of one process: say --container threads");
        }
        if accept != Accept::Shared {
            return Some("a port accepts for all its threads: say --accept shared");
        }
        return None;
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
        (Accept::Lock, _, Wait::Select | Wait::Poll | Wait::Epoll | Wait::Uring) => {
            Some("a loop must not sleep for a lock while its connections wait: say --wait blocking")
        }
        (Accept::Exclusive, _, Wait::Blocking | Wait::Select | Wait::Poll | Wait::Uring) => {
            Some("exclusive wake-ups are a flag of epoll_ctl(2): say --wait epoll")
        }
        (_, Container::Hybrid, Wait::Select | Wait::Poll | Wait::Epoll | Wait::Uring) => Some(
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
