//! Rare answers of the kernel, injected by strace(1): interrupted calls, calls that would block
//! although data is there, connections that are gone when they are accepted, exhausted descriptors
//! and processes. Every conversation stays right to the byte.
//!
//! The tracer slows down each watched call many times, so conversations are short. The server stays
//! our child.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use sim::laws::probe::{Menu, requests};
use sys::signal::Signal;

use crate::arms::{Arm, EPOLL};
use crate::harness::{Client, Ended, Folder, PATIENCE, Plan, Server, skip, soak};
use crate::market::book;
use crate::probe;

/// Calls that move bytes.
const MOVES: &str = "recvfrom,sendto,sendmsg,recvmsg";
/// Calls that wait. strace skips a name that the machine lacks (`?`, strace(1)).
const WAITS: &str = "?epoll_wait,epoll_pwait,?epoll_pwait2,ppoll,pselect6";

/// All requests that there are.
const MENU: Menu = Menu { lines_max: 300, wait_ms_max: 20, files: true, endings: true };

/// The command line of strace(1): `-D` keeps the server our child, and `inject` fakes the results
/// of its calls.
pub(crate) const STRACE: [&str; 4] = ["strace", "-D", "-f", "-qq"];

/// Whether the machine permits tracing our children.
pub(crate) fn has_strace() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let mut command = Command::new(STRACE[0]);
        command.args(&STRACE[1..]).args(["-o", "/dev/null", "-e", "inject=getppid:error=EINTR"]);
        command.arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// A fault in some calls: each thread's `first` of them fails, and each `step`-th thereafter.
struct Lie<'a> {
    calls: &'a str,
    error: &'a str,
    first: u32,
    step: u32,
}

/// A server with injected faults, and the folder of the tracer's log `calls`.
struct Deceived {
    server: Server,
    folder: Folder,
}

/// Starts the server with these faults; `None` if the machine forbids that.
#[track_caller]
fn deceive(plan: Plan<'_>, lies: &[Lie<'_>]) -> Option<Deceived> {
    if !has_strace() {
        skip("strace");
        return None;
    }
    let folder = Folder::new();
    let log = folder.path().join("calls");
    let calls: Vec<&str> = lies.iter().map(|lie| lie.calls).collect();
    let trace = format!("trace={}", calls.join(","));
    let lie = |Lie { calls, error, first, step }: &Lie<'_>| {
        format!("inject={calls}:error={error}:when={first}+{step}")
    };
    let lies: Vec<String> = lies.iter().map(lie).collect();
    let mut before = STRACE.to_vec();
    before.extend(["-o", log.to_str().expect("a temporary path is text"), "-e", &trace]);
    before.extend(lies.iter().flat_map(|lie| ["-e", lie.as_str()]));
    Some(Deceived { server: plan.behind(&before).start(), folder })
}

impl Deceived {
    /// Stops the server, which must have met a fault and must not have lost a worker.
    #[track_caller]
    fn stop(self) -> Ended {
        self.server.signal(Signal::TERM);
        let ended = self.server.ended(PATIENCE).success().says("0 workers replaced");
        let text = self.folder.text("calls");
        assert!(text.contains("INJECTED"), "nothing was injected into {text:.2000}");
        ended
    }
}

/// Random conversations with a server with injected faults, in sequence and a few at a time.
#[track_caller]
fn check(arm: &Arm, lies: &[Lie<'_>]) {
    let Some(deceived) = deceive(arm.probe(), lies) else { return };
    let lanes = arm.crowd(2) as u64;
    std::thread::scope(|scope| {
        for lane in 0..lanes {
            let server = &deceived.server;
            scope.spawn(move || {
                for seed in (0..soak(8, 200)).filter(|seed| seed % lanes == lane) {
                    let script = requests(seed, 15, MENU);
                    let what = format!("{:?}, seed {seed}", arm.flags);
                    probe::check(server, script.chunks(40), &what);
                }
            });
        }
    });
    deceived.stop();
}

/// Every interruptible call is interrupted repeatedly (`EINTR`, signal(7)).
pub fn interrupted_calls(arm: &Arm) {
    let lie = |calls| Lie { calls, error: "EINTR", first: 2, step: 2 };
    check(arm, &[lie(MOVES), lie(WAITS), lie("accept4"), lie("?io_uring_enter")]);
}

/// Calls find no data although there is some, as after a wake-up for another waiter.
pub fn calls_that_would_block(arm: &Arm) {
    let lie = |calls| Lie { calls, error: "EAGAIN", first: 2, step: 3 };
    if arm.is_edge() {
        // An edge is reported once, so the server believes the false answer, which the kernel never
        // gives. The listener has no edges.
        check(arm, &[lie("accept4")]);
    } else {
        check(arm, &[lie(MOVES), lie("accept4"), lie("?io_uring_enter")]);
    }
}

/// The kernel has no room for completions before some are taken (`EBUSY`, io_uring_enter(2)).
pub fn a_ring_that_is_busy(arm: &Arm) {
    check(arm, &[Lie { calls: "io_uring_enter", error: "EBUSY", first: 2, step: 2 }]);
}

/// The kernel has no memory for a wait of the supervisor (`ENOMEM`, ppoll(2)), or of a worker that
/// waits by the same call: it waits again, and orders are saved.
pub fn a_wait_without_memory(arm: &Arm) {
    let lie = Lie { calls: "ppoll", error: "ENOMEM", first: 2, step: 40 };
    let (_folder, data) = Folder::with("stock.txt", book(1, 100));
    let Some(deceived) = deceive(arm.stock(&data), &[lie]) else { return };
    for _ in 0..3 {
        assert_eq!(deceived.server.ask("sell 1 1"), "[sell] success");
    }
    deceived.stop();
    assert_eq!(std::fs::read_to_string(&data).expect("the file"), book(1, 103));
}

/// A mask of signals that cannot be set (`EINVAL`, sigprocmask(2)), at any call of the start: the
/// server refuses to start, or it is stopped by `SIGTERM` as usual and saves.
#[test]
fn a_mask_that_is_refused_costs_no_order() {
    for first in 1..=8 {
        if !has_strace() {
            return skip("strace");
        }
        let (folder, data) = Folder::with("stock.txt", book(1, 100));
        let lie = format!("inject=rt_sigprocmask:error=EINVAL:when={first}");
        let log = folder.path().join("calls").display().to_string();
        let trace = ["-o", &log, "-e", "trace=rt_sigprocmask", "-e", &lie];
        let (mut server, address) =
            EPOLL.stock(&data).behind(&[&STRACE[..], &trace].concat()).launch();
        if server.next_line(PATIENCE).is_none() {
            server.end(PATIENCE).exits(1);
            continue;
        }
        assert_eq!(Client::new(address).ask("sell 1 1"), "[sell] success");
        server.signal(Signal::TERM);
        server.end(PATIENCE).success();
        let saved = std::fs::read_to_string(&data).expect("the file");
        assert_eq!(saved, book(1, 101), "call {first}");
    }
}

/// A client is gone when it is accepted (`ECONNABORTED`), the network reports an error (accept(2)
/// names them), descriptors run out, or memory does.
pub fn accepts_that_fail(arm: &Arm) {
    let all = ["ECONNABORTED", "EMFILE", "EPROTO", "ENOBUFS", "ENFILE", "EHOSTUNREACH"];
    for error in &all[..soak(2, all.len())] {
        check(arm, &[Lie { calls: "accept4", error, first: 1, step: 2 }]);
    }
}

/// No process or thread is left for every other client: the server closes those, serves the rest.
pub fn no_worker_for_a_visitor(arm: &Arm) {
    let plan = arm.book(book(3, 100));
    let lie = Lie { calls: "clone,?clone3", error: "EAGAIN", first: 2, step: 2 };
    let Some(deceived) = deceive(plan, &[lie]) else { return };
    let answers: Vec<Option<String>> =
        (0..8).map(|_| deceived.server.client().try_ask("sell 1 1")).collect();
    let served = answers.iter().flatten().inspect(|line| assert_eq!(*line, "[sell] success"));
    let served = served.count();
    assert!((1..8).contains(&served), "{served} of 8 were served");
    deceived.stop().says("no worker can be started").says(&format!("{} refused", 8 - served));
}

/// A loop can hire one helper and no other: that one does all jobs, and nobody hangs.
pub fn a_helper_that_cannot_start(arm: &Arm) {
    let plan = Plan::new(arm, "http").with(&["--demo"]).workers(1);
    let lie = Lie { calls: "clone,?clone3", error: "EAGAIN", first: 2, step: 1 };
    let Some(deceived) = deceive(plan, &[lie]) else { return };
    for _ in 0..2 {
        let mut clients: Vec<Client> = (0..6).map(|_| deceived.server.client()).collect();
        for client in &mut clients {
            client.send("GET /sleep?ms=20 HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.line(), "HTTP/1.1 200 OK\r");
        }
    }
    deceived.stop();
}
