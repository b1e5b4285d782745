//! The cost of idle connections: memory for each, and CPU of the busy ones beside them.
//!
//! Both arms of a row are the same server; the right one has the idle connections. Each of them
//! sent one request before it fell silent, so each session holds the memory that it keeps.

use super::arm::Arm;
use super::duet::{Duet, Load};
use super::{at_least, at_most};

/// The note for the reader.
pub const NOTE: &str = "Left without, right with the idle connections; 64 busy ones on both. A \
    ratio of 1 means that the idle ones cost the busy ones nothing. Memory is what the server's \
    own pages grew by (Pss) for each idle connection; the kernel's sockets are not in it. `select` \
    cannot have a descriptor above 1023, so it is shown with 900.";

/// As many idle connections as a busy host has.
const MANY: u32 = 10_000;
/// The largest number that select can hold beside the busy ones.
const FEW: u32 = 900;
/// Enough where each costs a thread.
const THREADS: u32 = 1_000;

/// Every comparison.
pub fn duets() -> Vec<Duet> {
    let same = at_least(0.95);
    let small = at_most(2048.0);
    let none = None;
    let row = |arm, idle, depth, wanted, bytes| {
        let load = Load { idle, depth, ..Load::default() };
        Duet { left: arm, right: arm, load, wanted, bytes, p99: None }
    };
    vec![
        row(Arm::Ours("epoll"), MANY, 1, same, small),
        row(Arm::Ours("epoll"), MANY, 16, same, small),
        row(Arm::Ours("uring"), MANY, 1, same, small),
        row(Arm::Ours("uring"), MANY, 16, same, small),
        row(Arm::Ours("reactor"), MANY, 1, none, none),
        row(Arm::Bare("epoll", "work"), MANY, 1, none, none),
        row(Arm::Bare("uring", "work"), MANY, 1, none, none),
        row(Arm::Ours("poll"), MANY, 1, none, none),
        row(Arm::Bare("poll", "work"), MANY, 1, none, none),
        row(Arm::Ours("select"), FEW, 1, none, none),
        row(Arm::Bare("select", "work"), FEW, 1, none, none),
        row(Arm::Ours("thread"), THREADS, 1, none, none),
    ]
}
