//! The value of each io_uring switch: a ring that is used in another way, or that lacks a flag,
//! against the default one.
//!
//! If a switch has no effect while another is on, it is compared with that one off: each row names
//! both sides.

use super::arm::Arm;
use super::duet::{Duet, Load};

/// The note for the reader.
pub const NOTE: &str = "CPU per request of a ring with something switched, divided by that of the \
    ring beside it: above 1 the switch costs, and what was switched away from is worth having. \
    Names with `no-` lack a flag, `sqarray` and `iowait` have what a flag leaves out, and \
    `bare-flags` has no flag at all; `recv-`, `send-`, `accept-` and `close-` do one thing in \
    another way; `8-buffers` has fewer buffers than connections, so that receives run out of them. \
    `uring / uring` is the noise. At 1 a connection the accept and the close are in it.";

const BUSY: Load = Load {
    connections: 64,
    depth: 1,
    per_connection: None,
    idle: 0,
    path: None,
    window_ms: 40,
    windows_max: None,
};
const DEEP: Load = Load { depth: 16, ..BUSY };
const CHURN: Load = Load { per_connection: Some(1), ..BUSY };

const STEADY: &[Load] = &[BUSY, DEEP];
const EACH: &[Load] = &[BUSY, DEEP, CHURN];
const COMING: &[Load] = &[CHURN];

/// The ring that the defaults make.
const URING: Arm = Arm::Ours("uring");

/// A ring with flags of the command line, which starts with a name for tables.
const fn ring(name: &'static str, flags: &'static str) -> Arm {
    Arm::Flagged(name, "uring", flags)
}

const NO_DEFER: Arm = ring("no-defer-taskrun", "--uring-flags=-defer-taskrun");
const RECV_OWN: Arm = ring("recv-own", "--uring-recv own");

/// The switched ring, the ring it is compared with, and the loads where it can make a difference.
const ROWS: &[(Arm, Arm, &[Load])] = &[
    (URING, URING, EACH),
    (Arm::Ours("epoll"), URING, EACH),
    (ring("bare-flags", "--uring-flags=-all"), URING, EACH),
    (NO_DEFER, URING, EACH),
    (ring("no-defer-single", "--uring-flags=-defer-taskrun,-single-issuer"), NO_DEFER, STEADY),
    (ring("no-defer-coop", "--uring-flags=-defer-taskrun,-coop-taskrun"), NO_DEFER, STEADY),
    (ring("no-submit-all", "--uring-flags=-submit-all"), URING, STEADY),
    (ring("no-clamp", "--uring-flags=-clamp"), URING, STEADY),
    (ring("no-cqsize", "--uring-flags=-cqsize"), URING, STEADY),
    (ring("sqarray", "--uring-flags=-no-sqarray"), URING, STEADY),
    (ring("no-registered-fd", "--uring-flags=-registered-fd"), URING, STEADY),
    (ring("iowait", "--uring-flags=-no-iowait"), URING, STEADY),
    (RECV_OWN, URING, EACH),
    (ring("recv-own-no-poll-first", "--uring-recv own --uring-flags=-poll-first"), RECV_OWN, EACH),
    (ring("recv-once", "--uring-recv once"), URING, EACH),
    (ring("8-buffers", "--uring-buffers 8"), URING, STEADY),
    (ring("send-call", "--uring-send call"), URING, EACH),
    (ring("accept-once", "--uring-accept once"), URING, COMING),
    (ring("accept-poll", "--uring-accept poll"), URING, COMING),
    (ring("close-call", "--uring-close call"), URING, COMING),
];

/// Every comparison.
pub fn duets() -> Vec<Duet> {
    let shown = None;
    let rows = ROWS.iter().flat_map(|(left, right, loads)| {
        loads.iter().map(|&load| Duet {
            left: *left,
            right: *right,
            load,
            wanted: shown,
            bytes: shown,
            p99: None,
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_compares_two_things_but_the_noise() {
        let duets = duets();
        let twins = duets.iter().filter(|duet| duet.left == duet.right).count();
        assert_eq!(twins, EACH.len());
        let mut names: Vec<String> =
            duets.iter().map(|duet| format!("{} {}", duet.name(), duet.load.words())).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "a name stands for one thing");
    }
}
