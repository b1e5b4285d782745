//! Rings of io_uring: what the server reports about them, how it copes with forbidden calls and
//! limits, and how several rings share one listener.

use std::process::Command;

use serde_json::Value;
use sys::process::{self, Pid};
use sys::seccomp::{self, Rule};
use sys::signal::Signal;
use sys::uring::Call;

use crate::arms::{Arm, PROCESSES_URING, PROCESSES_URING_ONCE, URING};
use crate::harness::{BINARY, Client, Server, ms, numbers, skip};

/// errno(3).
const EPERM: u16 = 1;
const EINVAL: u16 = 22;
const ENOSYS: u16 = 38;

/// Runs a test of rings under a filter, if the machine supports both.
fn filtered(test: impl FnOnce()) {
    URING.run(|_| {
        let mut nothing = Command::new("true");
        seccomp::confine(&mut nothing, &[Rule { call: Call::Setup, second: None, errno: EPERM }]);
        if nothing.status().is_ok() { test() } else { skip("filters of system calls") }
    });
}

// ---- reports

/// The report of a server about its rings after it has served, with these arguments and under this
/// filter.
#[track_caller]
fn told(args: &[&str], rules: &[Rule]) -> (Value, String) {
    let (server, ready) = URING.book("1 10 100\n").with(args).confined(rules).announce();
    assert_eq!(server.ask("buy 1 1"), "[buy] success", "{args:?}");
    (ready["rings"].clone(), server.stop().err)
}

/// The words of a list of the announcement.
fn words(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn what_is_in_force_is_told() {
    URING.run(|_| {
        let (rings, _) = told(&[], &[]);
        let ways = ["recv", "send", "accept", "close"].map(|way| rings[way].clone());
        assert_eq!(ways, ["ring", "ring", "multi", "ring"]);
        let all = rings["flags"].as_array().map_or(0, Vec::len);
        let lacking = rings["refused"].as_array().map_or(0, Vec::len);
        assert_eq!(all + lacking, sys::uring::FLAGS.len(), "{rings}");
        let (rings, _) = told(&["--uring-flags=-all,clamp", "--uring-recv", "own"], &[]);
        assert_eq!((words(&rings["flags"]), &rings["recv"]), (vec!["clamp"], &"own".into()));
    });
}

#[test]
fn workers_on_one_listener_poll_it_unless_told_otherwise() {
    URING.run(|_| {
        let shared = ["--accept", "shared", "--workers", "2"];
        assert_eq!(told(&shared, &[]).0["accept"], "poll");
        let alone = ["--accept", "shared", "--workers", "1"];
        assert_eq!(told(&alone, &[]).0["accept"], "multi");
        let line = [&shared[..], &["--uring-accept", "once"]].concat();
        assert_eq!(told(&line, &[]).0["accept"], "once");
    });
}

// ---- obstacles

/// A flag that the kernel refuses is left out and reported; the server still uses a ring.
#[test]
fn a_flag_that_is_refused_is_left_out() {
    filtered(|| {
        const REGISTER_RING_FDS: u32 = 20;
        let second = Some(REGISTER_RING_FDS);
        let rule = Rule { call: Call::Register, second, errno: EINVAL };
        let (rings, stderr) = told(&[], &[rule]);
        assert!(words(&rings["refused"]).contains(&"registered-fd"), "{rings}");
        assert!(!words(&rings["flags"]).contains(&"registered-fd"), "{rings}");
        assert!(stderr.contains("lacks registered-fd"), "{stderr}");
    });
}

/// A server under this filter ends at once, with the reason and the remedy.
#[track_caller]
fn check_refused(call: Call, errno: u16, words: &[&str]) {
    for arm in [&URING, &PROCESSES_URING] {
        let rule = Rule { call, second: None, errno };
        let ended = arm.book("1 10 100\n").confined(&[rule]).fail().exits(1);
        for word in words {
            assert!(ended.err.contains(word), "expected {word:?} in {:?}", ended.err);
        }
    }
}

#[test]
fn a_filter_that_refuses_rings_is_named() {
    filtered(|| {
        check_refused(Call::Setup, EPERM, &["seccomp", "refuses io_uring_setup", "profile"]);
        check_refused(Call::Register, EPERM, &["seccomp", "refuses io_uring_register"]);
        check_refused(Call::Enter, EPERM, &["seccomp", "refuses io_uring_enter", "epoll"]);
        let said = if std::path::Path::new("/proc/sys/kernel/io_uring_disabled").exists() {
            "refuses io_uring_setup"
        } else {
            "lacks io_uring"
        };
        check_refused(Call::Setup, ENOSYS, &[said]);
    });
}

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
    for arm in [&PROCESSES_URING, &PROCESSES_URING_ONCE] {
        arm.run(check_spread);
    }
}

/// A stopped worker in the queue has taken one wake-up: one new client waits until the next one
/// connects or the worker continues, and no other client waits.
#[test]
fn a_frozen_ring_delays_one_connection_at_most() {
    PROCESSES_URING_ONCE.run(|arm| {
        let server = arm.book("1 10 1000\n").start();
        drop(crowd(&server, 4));
        let frozen = server.children()[0];
        process::kill(frozen, Signal::STOP).expect("our grandchild runs");
        let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send("sell 1 1\n");
        }
        let waiting = clients.iter_mut().filter_map(|it| it.is_silent_for(ms(2000)).then_some(it));
        let mut waiting: Vec<&mut Client> = waiting.collect();
        assert!(waiting.len() <= 1, "{} of 20 wait for a frozen worker", waiting.len());
        process::kill(frozen, Signal::CONT).expect("our grandchild runs");
        for client in &mut waiting {
            assert_eq!(client.line(), "[sell] success");
        }
        server.stop();
    });
}
