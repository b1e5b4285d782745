//! Orders that were answered survive: kills of everything and of the committer, a full disk, one
//! that fails and one that is silent. `roundhouse check` is the judge: it sends unanswered orders
//! again under their numbers, and compares all receipts with the log.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Resource;
use stats::Rng;
use sys::process::{self, Pid};
use sys::signal::Signal;
use testkit::run;

use crate::arms::Arm;
use crate::harness::{BINARY, Folder, PATIENCE, Plan, Server, free_port, limit, ms, skip, soak};
use crate::injected::{STRACE, has_strace};
use crate::market::book;

const LEFT: u64 = 1_000_000;

fn plan<'a>(arm: &'a Arm, data: &Path, mode: &str) -> Plan<'a> {
    arm.stock(data).with(&["--durability", mode])
}

/// Places orders with receipts at these servers, in a process that judges the replies.
pub fn judge(places: &str, (clients, orders): (usize, usize), receipts: &Path) -> Child {
    let mut judge = Command::new(BINARY);
    judge
        .args(["check", &format!("stock://{places}"), "--patience", "60s", "--save"])
        .arg(receipts);
    judge.args(["--clients", &clients.to_string(), "--orders", &orders.to_string()]);
    judge.stdout(Stdio::null()).spawn().expect("the binary runs")
}

/// The log agrees with all receipts and with the book that is shown.
#[track_caller]
pub fn check_log(log: &str, receipts: &Path, shown: &str) {
    let roundhouse = |args: &[&str]| run(Command::new(BINARY).args(args)).success().out;
    roundhouse(&["check", receipts.to_str().expect("a temporary path is text"), "--log", log]);
    let replayed = roundhouse(&["log", "replay", log]);
    for (shown, replayed) in shown.lines().zip(replayed.lines()) {
        assert!(shown.starts_with(&format!("{replayed} ")), "{shown} after {replayed}");
    }
}

/// The log agrees with itself, with all receipts, and with the market after a restart.
#[track_caller]
fn check(arm: &Arm, data: &Path, mode: &str, receipts: &Path) {
    let server = plan(arm, data, mode).start();
    let shown = server.show();
    assert_eq!(server.stop().code, Some(0), "{:?}", arm.flags);
    let log = format!("{}.log", data.display());
    check_log(&log, receipts, &shown);
    run(Command::new(BINARY).args(["log", "verify", &log])).success();
}

/// Places orders with receipts while `disturb` runs.
#[track_caller]
fn check_under(
    arm: &Arm,
    mode: &str,
    (kills, orders): (usize, usize),
    mut disturb: impl FnMut(&mut Option<Server>, &dyn Fn(u16) -> Server, &mut Rng),
) {
    let (folder, data) = Folder::with("stock.txt", book(5, LEFT));
    let receipts = folder.path().join("receipts");
    let again = |port: u16| plan(arm, &data, mode).with(&["--port", &port.to_string()]).start();
    let mut server = Some(again(free_port()));
    let address = server.as_ref().expect("just started").address;
    let mut judge = judge(&address.to_string(), (arm.crowd(6), orders), &receipts);
    let mut rng = Rng::new(orders as u64);
    for _ in 0..kills {
        std::thread::sleep(ms(20 + rng.below(200) as u64));
        disturb(&mut server, &again, &mut rng);
    }
    assert!(judge.wait().expect("our child").success(), "{:?} {mode}", arm.flags);
    drop(server.take().map(Server::stop));
    check(arm, &data, mode, &receipts);
}

/// Every process of the server is killed, again and again.
#[track_caller]
fn check_kills(arm: &Arm, mode: &str) {
    let kills = soak(2, 100);
    check_under(arm, mode, (kills, 4000 * kills), |server, again, _| {
        let old = server.take().expect("it runs");
        let port = old.address.port();
        old.signal(Signal::KILL);
        old.ended(PATIENCE);
        *server = Some(again(port));
    });
}

pub fn killed_again_and_again(arm: &Arm) {
    check_kills(arm, "sync");
}

/// The log is in the kernel, which outlives the server.
pub fn killed_before_a_sync(arm: &Arm) {
    check_kills(arm, "os");
}

/// Workers and the committer are killed, one at a time.
pub fn committer_and_workers_killed(arm: &Arm) {
    let kills = soak(8, 200);
    check_under(arm, "sync", (kills, 2000 * kills), |server, _, rng| {
        let children: Vec<Pid> = server.as_ref().expect("it runs").children();
        if !children.is_empty() {
            let _ = process::kill(*rng.pick(&children), Signal::KILL);
        }
    });
}

/// A log that cannot grow stops: orders are refused with a word, `show` goes on, and a restart has
/// every order that was answered.
pub fn a_full_log(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", book(1, LEFT));
    let shell = ["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""];
    let server = plan(arm, &data, "sync").behind(&shell).start();
    for pid in [vec![server.pid], server.children()].concat() {
        limit(pid, Resource::Fsize, Some(2048), None);
    }
    check_stopped(arm, &data, server, "cannot write");
}

/// A failed sync stops the log, and is not tried again.
pub fn a_disk_that_fails(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", book(1, LEFT));
    let Some(server) = traced(plan(arm, &data, "sync"), "error=EIO:when=9+1000") else { return };
    check_stopped(arm, &data, server, "cannot sync");
}

/// The server behind strace(1), with a fault in fdatasync(2).
fn traced(plan: Plan<'_>, fault: &str) -> Option<Server> {
    if !has_strace() {
        skip("strace");
        return None;
    }
    let fault = format!("inject=fdatasync:{fault}");
    let trace = ["-o", "/dev/null", "-e", "trace=fdatasync", "-e", &fault];
    Some(plan.behind(&[&STRACE[..], &trace].concat()).start())
}

#[track_caller]
fn check_stopped(arm: &Arm, data: &Path, server: Server, reason: &str) {
    let mut answered = 0;
    let refused = loop {
        let Some(reply) = server.client().try_ask("sell 1 1") else { continue };
        if reply != "[sell] success" {
            break reply;
        }
        answered += 1;
        assert!(answered < 10_000, "the log goes on");
    };
    assert!(refused.contains("the log has stopped"), "{refused}");
    assert!(server.ask("sell 1 1").contains("the log has stopped, so orders are refused"));
    assert!(server.show().starts_with("1 100"), "`show` goes on");
    server.stop().says(reason).says("orders are refused");
    let server = plan(arm, data, "sync").start();
    let left = server.show().split(' ').nth(1).and_then(|left| left.parse().ok());
    let found = left.unwrap_or(0) - LEFT;
    assert!((answered..=answered + 1).contains(&found), "answered {answered}, found {found}");
}

/// A silent disk delays nobody for ever: waiting orders get an answer, later ones are refused, and
/// `show` goes on.
pub fn a_disk_that_is_silent(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", book(1, LEFT));
    let fault = "delay_enter=12000000:when=6+1000";
    let Some(server) = traced(plan(arm, &data, "sync"), fault) else { return };
    let begin = Instant::now();
    let late = loop {
        let reply = server.client().ask("sell 1 1");
        if reply != "[sell] success" {
            break reply;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the disk is never silent");
    };
    assert!(late.contains("the disk has not answered"), "{late}");
    assert!(server.show().starts_with("1 100"), "`show` goes on");
    assert!(server.ask("sell 1 1").contains("try again later"));
    crate::harness::eventually("orders are taken again", PATIENCE, || {
        server.ask("sell 1 1") == "[sell] success"
    });
}

/// The ready line names the durability; the flags are refused where they cannot hold.
pub fn durability_is_told(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", book(5, LEFT));
    for mode in ["none", "os", "sync"] {
        let (server, ready) = plan(arm, &data, mode).announce();
        assert_eq!(ready["durability"], mode);
        assert_eq!(server.ask("sell 1 1"), "[sell] success");
        assert!(server.ask("buy 9 1").starts_with("error: expected the ID of a stock,"));
        assert_eq!(server.stop().code, Some(0));
    }
    Plan::new(arm, "stock").with(&["--durability", "sync"]).fail().exits(2).says("--data");
    plan(arm, &data, "none").fail().exits(2).says("has a log");
    fs::write(&data, "1 1 1\n7 7 7\n").expect("our own file");
    let server = plan(arm, &data, "sync").start();
    let shown = server.show();
    assert!(shown.contains(&format!("1 {} 1\n7 7 7", LEFT + 3)), "not the log's: {shown}");
    server.stop().says("1 new stocks, and lacks 4");
}
