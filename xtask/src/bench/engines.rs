//! Every engine against its own bare loop, and the engines against each other and a peer.

use super::arm::Arm;
use super::at_least;
use super::duet::{Duet, Load};
use stats::Goal;

/// The note for the reader.
pub const NOTE: &str = "The bare loops do the least that answers the right bytes; `work` is the \
    market, `count` one fixed reply to each line. On one core `reactor` is one epoll loop in a \
    thread. Blocking servers depend on how the kernel's scheduler batches their wake-ups, which \
    differs from pair to pair.";

/// Connections that ask at the same time.
const CONNECTIONS: u32 = 64;
/// The number of clients of an iterative server: further ones would wait for the first to leave.
const ONE: u32 = 1;

/// Engine, its bare loop, connections.
const TWINS: &[(&str, &str, u32)] = &[
    ("iterative", "iterative", ONE),
    ("fork", "fork", CONNECTIONS),
    ("thread", "thread", CONNECTIONS),
    ("pool", "pool", CONNECTIONS),
    ("prefork", "prefork", CONNECTIONS),
    ("select", "select", CONNECTIONS),
    ("poll", "poll", CONNECTIONS),
    ("epoll", "epoll", CONNECTIONS),
    ("reactor", "epoll", CONNECTIONS),
    ("uring", "uring", CONNECTIONS),
];

/// The goal for a bare loop's CPU divided by ours at depth 1, where nearly all of it is the
/// kernel's.
const DEPTH_1: Option<Goal> = at_least(0.90);

/// Every comparison.
pub fn duets() -> Vec<Duet> {
    let mut duets = Vec::new();
    let mut add = |left, right, connections, depths: [Option<Goal>; 2]| {
        for (depth, wanted) in [1, 16].into_iter().zip(depths) {
            let load = Load { connections, depth, ..Load::default() };
            duets.push(Duet { left, right, load, wanted, bytes: None, p99: None });
        }
    };
    let shown = [None; 2];
    add(Arm::Ours("epoll"), Arm::Ours("epoll"), CONNECTIONS, shown);
    for &(engine, bare, connections) in TWINS {
        // The event loops are held to more, and also where batching shows.
        let wanted = match engine {
            "epoll" | "uring" => [at_least(0.95), at_least(0.90)],
            _ => [DEPTH_1, None],
        };
        add(Arm::Bare(bare, "work"), Arm::Ours(engine), connections, wanted);
    }
    // These do more work than a loop: a port hands each event to one of several threads, and amped
    // has its helpers.
    for (engine, bare) in [("port", "uring"), ("amped", "epoll")] {
        add(Arm::Bare(bare, "work"), Arm::Ours(engine), CONNECTIONS, shown);
    }
    for name in ["epoll", "uring"] {
        let wanted = [at_least(0.95), at_least(0.85)];
        add(Arm::Bare(name, "count"), Arm::Ours(name), CONNECTIONS, wanted);
    }
    add(Arm::Ours("epoll"), Arm::Ours("uring"), CONNECTIONS, shown);
    let edge = Arm::Flagged("epoll-edge", "epoll", "--edge");
    add(Arm::Ours("epoll"), edge, CONNECTIONS, shown);
    // A peer is compared where batching shows: at depth 1 the kernel is nearly everything.
    for name in ["epoll", "uring"] {
        let load = Load { depth: 16, ..Load::default() };
        let wanted = at_least(2.0);
        let right = Arm::Ours(name);
        duets.push(Duet { left: Arm::Redis, right, load, wanted, bytes: None, p99: None });
    }
    duets
}
