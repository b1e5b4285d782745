//! Rings of io_uring: how the server copes with a limit, and how several rings share one listener.

use std::process::Command;

use sys::process::Pid;

use crate::arms::{Arm, PROCESSES_URING, URING};
use crate::harness::{BINARY, Client, Server, numbers, skip};

/// No memory may be locked: the message names the limit. Root must drop the privilege that exempts
/// it from the limit, and some kernels do not count rings at all.
#[test]
fn a_limit_of_locked_memory_is_named() {
    URING.run(|_| {
        let script = "ulimit -l 0; if [ \"$(id -u)\" != 0 ]; then exec \"$0\" \"$@\"; fi; \
                      exec setpriv --bounding-set -all --inh-caps -all \"$0\" \"$@\"";
        let args = ["-c", script, BINARY, "serve", "probe", "--engine", "uring", "--port", "0"];
        let deadline = ["-s", "TERM", "15", "sh"];
        let output = Command::new("timeout").args(deadline).args(args).output();
        let output = output.expect("timeout(1) of coreutils");
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.stdout.is_empty() || stderr.contains("setpriv") {
            skip("a limit of locked memory");
            return;
        }
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        for word in ["limit of locked memory", "0 KiB", "ulimit -l", "epoll"] {
            assert!(stderr.contains(word), "expected {word:?} in {stderr:?}");
        }
    });
}

// ---- one listener, several rings

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
