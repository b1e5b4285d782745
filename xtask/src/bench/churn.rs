//! Connection churn: the cost of a connection that carries one request or ten.
//!
//! The client closes after its last reply and connects again, 64 at a time. CPU is per request, so
//! at one request a connection it covers the whole life of a connection: accept, one receive, one
//! send, the end.

use super::arm::Arm;
use super::at_least;
use super::duet::{Duet, Load};
use stats::Goal;

/// The note for the reader.
pub const NOTE: &str = "CPU per request, with the accept and the close of its connection in it: at \
    1 a connection that is the whole life of a connection, at 10 a tenth of it. The client closes. \
    Threads and processes that end leave their time in steps of 10 ms, so `thread` and `fork` are \
    measured over a whole pair at once; in a quick run the steps are a large part of it.";

/// The goal for the bare loop's CPU divided by ours.
const KEPT: Option<Goal> = at_least(0.90);

/// Every comparison.
pub fn duets() -> Vec<Duet> {
    let rows = [
        (Arm::Bare("epoll", "work"), Arm::Ours("reactor"), KEPT),
        (Arm::Bare("uring", "work"), Arm::Ours("uring"), KEPT),
        (Arm::Bare("epoll", "work"), Arm::Ours("epoll"), None),
        (Arm::Bare("poll", "work"), Arm::Ours("poll"), None),
        (Arm::Bare("select", "work"), Arm::Ours("select"), None),
        (Arm::Bare("prefork", "work"), Arm::Ours("prefork"), None),
        (Arm::Bare("pool", "work"), Arm::Ours("pool"), None),
        (Arm::Bare("thread", "work"), Arm::Ours("thread"), None),
        (Arm::Bare("fork", "work"), Arm::Ours("fork"), None),
        (Arm::Ours("epoll"), Arm::Ours("uring"), None),
    ];
    let mut duets = Vec::new();
    for (left, right, wanted) in rows {
        for per_connection in [1, 10] {
            let load = Load { per_connection: Some(per_connection), ..Load::default() };
            duets.push(Duet { left, right, load, wanted, bytes: None, p99: None });
        }
    }
    duets
}
