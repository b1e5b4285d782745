//! Connections that come and go: what a connection costs when it carries one request or ten.
//!
//! The client closes after its last reply and connects anew, 64 at a time. CPU is per request, so
//! at one request a connection it is the whole life of a connection: accept, one receive, one
//! send, the end.

use super::Wanted;
use super::arm::Arm;
use super::duet::{Duet, Load};

/// What the reader has to know.
pub const NOTE: &str = "CPU per request, with the accept and the close of its connection in it: at \
    1 a connection that is the whole life of a connection, at 10 a tenth of it. The client closes. \
    Threads and processes that end leave their time in steps of 10 ms, so `thread` and `fork` are \
    measured over a whole pair at once; in a quick run the steps are a large part of it.";

/// What is wanted of the bare loop's CPU divided by ours.
const KEPT: Wanted = Wanted::AtLeast(0.90);

/// Every comparison.
pub fn duets() -> Vec<Duet> {
    let rows = [
        (Arm::Bare("epoll", "work"), Arm::Ours("reactor"), KEPT),
        (Arm::Bare("uring", "work"), Arm::Ours("uring"), KEPT),
        (Arm::Bare("epoll", "work"), Arm::Ours("epoll"), Wanted::Shown),
        (Arm::Bare("poll", "work"), Arm::Ours("poll"), Wanted::Shown),
        (Arm::Bare("select", "work"), Arm::Ours("select"), Wanted::Shown),
        (Arm::Bare("prefork", "work"), Arm::Ours("prefork"), Wanted::Shown),
        (Arm::Bare("pool", "work"), Arm::Ours("pool"), Wanted::Shown),
        (Arm::Bare("thread", "work"), Arm::Ours("thread"), Wanted::Shown),
        (Arm::Bare("fork", "work"), Arm::Ours("fork"), Wanted::Shown),
        (Arm::Ours("epoll"), Arm::Ours("uring"), Wanted::Shown),
    ];
    let mut duets = Vec::new();
    for (left, right, wanted) in rows {
        for per_connection in [1, 10] {
            let load = Load { per_connection: Some(per_connection), ..Load::default() };
            duets.push(Duet { left, right, load, wanted, bytes: Wanted::Shown, p99: None });
        }
    }
    duets
}
