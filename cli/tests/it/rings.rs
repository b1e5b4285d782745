//! Rings of io_uring that share one listener.

use sys::process::Pid;

use crate::arms::{Arm, PROCESSES_URING};
use crate::harness::{Client, Server, numbers};

/// `count` connections, each of which has been served once.
#[track_caller]
fn crowd(server: &Server, count: usize) -> Vec<Client> {
    let client = |_| {
        let mut client = server.client();
        assert_eq!(client.ask("sell 1 1"), "[sell] success");
        client
    };
    (0..count).map(client).collect()
}

/// How many descriptors each worker has.
fn descriptors(workers: &[Pid]) -> Vec<usize> {
    workers.iter().map(|pid| numbers(*pid).len()).collect()
}

#[track_caller]
fn check_spread(arm: &Arm) {
    let server = arm.book("1 10 100\n").start();
    let workers = server.children();
    let before = descriptors(&workers);
    let mut clients = Vec::new();
    // Each connection goes to the faster ring; no ring loses four hundred times in a row.
    for _ in 0..8 {
        clients.extend(crowd(&server, 50));
        let after = descriptors(&workers);
        if before.iter().zip(&after).all(|(before, after)| before < after) {
            return;
        }
    }
    panic!("expected connections at each worker, found {before:?} -> {:?}", descriptors(&workers));
}

#[test]
fn rings_on_one_listener_share_its_connections() {
    PROCESSES_URING.run(check_spread);
}
