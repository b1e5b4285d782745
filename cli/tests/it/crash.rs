//! Kill -9 of workers, at any instant and repeatedly, and of the supervisor. No acknowledged order
//! is lost, no stock appears from nowhere, no lock stays held, no connection of another worker
//! ends, and no process keeps the port.

use std::collections::{HashSet, VecDeque};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stats::Rng;
use sys::process::{self, Pid};
use sys::signal::Signal;

use crate::arms::Arm;
use crate::harness::{
    Client, Folder, PATIENCE, Raise, Server, eventually, free_port, is_alive, is_stopped, ms, soak,
};
use crate::market::{Account, Request, book, parse};

/// Enough for `show` to share its rendering, and few enough for orders to contend.
const STOCKS: u32 = 100;
const LEFT: u64 = 1_000_000;
const TRADERS: usize = 4;

/// Trades until `over`, connecting again whenever the connection is lost. Returns the number of
/// lost connections too.
fn trade(server: &Server, seed: u64, over: &AtomicBool) -> (Account, usize) {
    let mut rng = Rng::new(seed);
    let (mut account, mut lost_count) = (Account::default(), 0);
    while !over.load(Ordering::Relaxed) {
        let mut client = Client::try_new(server.address).expect("the port is never closed");
        let mut pending = VecDeque::new();
        let lost = loop {
            if over.load(Ordering::Relaxed) && pending.is_empty() {
                break false;
            }
            if pending.len() < 8 && !over.load(Ordering::Relaxed) {
                let batch: Vec<Request> =
                    (0..=rng.below(8)).map(|_| Request::roll(&mut rng, STOCKS as usize)).collect();
                let lines: String = batch.iter().map(|request| request.line()).collect();
                pending.extend(batch);
                if client.try_send(lines).is_err() {
                    break true;
                }
            }
            if !matches!(client.try_receive(), Ok(true)) {
                break true;
            }
            client.settle(&mut account, &mut pending);
        };
        if lost {
            // Replies before the end still count.
            client.settle(&mut account, &mut pending);
            account.doubt(pending);
            lost_count += 1;
        }
    }
    (account, lost_count)
}

/// The workers that a storm has killed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kills {
    pub count: usize,
    /// The connections that they had when they died.
    connections: usize,
}

/// The sockets of a process, by the names that proc_pid_fd(5) gives them.
fn sockets(pid: Pid) -> HashSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return HashSet::new() };
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
}

/// The least number of kills in a storm.
const KILLS_MIN: usize = 3;

/// Kills a random worker every few milliseconds for a while; on a busy machine until a few have
/// died. Each is stopped first, and its sockets next to the supervisor's counted.
fn kill_workers(server: &Server, seed: u64) -> Kills {
    let mut rng = Rng::new(seed);
    let begin = Instant::now();
    let mut kills = Kills::default();
    let lasts = soak(ms(1200), Duration::from_secs(60));
    while begin.elapsed() < lasts || (kills.count < KILLS_MIN && begin.elapsed() < PATIENCE) {
        std::thread::sleep(ms(5 + rng.below(60) as u64));
        let workers = server.children();
        if workers.is_empty() {
            continue;
        }
        let victim = *rng.pick(&workers);
        if process::kill(victim, Signal::STOP).is_err() {
            continue;
        }
        eventually("it is stopped or gone", PATIENCE, || is_stopped(victim) || !is_alive(victim));
        let held = sockets(victim).difference(&sockets(server.pid)).count();
        if process::kill(victim, Signal::KILL).is_ok() {
            kills.count += 1;
            kills.connections += held;
        }
    }
    kills
}

/// The book. Requests it again if the last victim had accepted the connection and took the answer
/// with it.
#[track_caller]
fn show(server: &Server) -> String {
    for _ in 0..3 {
        let mut client = server.client();
        let mut text = Vec::new();
        if client.try_send("show\n").is_err() {
            continue;
        }
        while let Ok(true) = client.try_receive() {
            text.extend(client.take());
            if text.ends_with(b"\n\n") {
                text.pop();
                return String::from_utf8(text).expect("replies are text");
            }
        }
    }
    panic!("expected the book from workers that are not killed any more");
}

#[track_caller]
fn check_kills(arm: &Arm, lock: &str, seed: u64) {
    println!("seed {seed}");
    let text = book(STOCKS, LEFT);
    let (_folder, data) = Folder::with("stock.txt", &text);
    let server = arm.stock(&data).with(&["--lock", lock, "--save-every", "50ms"]).start();
    let over = AtomicBool::new(false);
    let (mut account, mut lost) = (Account::default(), 0);
    let kills = std::thread::scope(|scope| {
        let raise = Raise(&over);
        let traders: Vec<_> = (0..TRADERS as u64)
            .map(|trader| {
                let (server, over) = (&server, &over);
                scope.spawn(move || trade(server, seed * 100 + trader, over))
            })
            .collect();
        let kills = kill_workers(&server, seed);
        drop(raise);
        for trader in traders {
            let (its, its_lost) = trader.join().expect("a trader that has settled its account");
            account.add(&its);
            lost += its_lost;
        }
        kills
    });
    assert!(kills.count >= KILLS_MIN, "{kills:?} are no storm");
    // A connection that is passed on belongs to no worker for a moment.
    let is_bounded = lost <= kills.connections || arm.flags.contains("pass");
    assert!(is_bounded, "{lost} connections were lost by {kills:?}");
    assert!(!account.is_empty(), "nothing was traded");
    // No lock is stuck, and the output of `show` agrees with the traders' accounts.
    let initial = parse(&text).expect("our own book");
    let shown = show(&server);
    account.check(&initial, &parse(&shown).expect("a whole book"));
    eventually("all workers are back", Duration::from_secs(5), || {
        server.children().len() == server.posts
    });
    server.stop().says("was killed by");
    assert_eq!(std::fs::read_to_string(&data).expect("the file"), shown);
}

pub fn workers_killed_under_load(arm: &Arm) {
    check_kills(arm, "snapshot", 1);
}

pub fn workers_killed_under_a_global_lock(arm: &Arm) {
    check_kills(arm, "global", 2);
}

/// One worker is killed in a quiet server: the supervisor replaces it within a second, and the
/// other workers continue.
pub fn a_killed_worker_is_replaced(arm: &Arm) {
    let server = arm.book(book(3, 100)).start();
    // A worker that lived for a second did not fail at its start, so it is replaced at once.
    std::thread::sleep(ms(1100));
    let before = server.children();
    assert_eq!(before.len(), server.posts);
    let victim = before[0];
    process::kill(victim, Signal::KILL).expect("our grandchild runs");
    let taken = eventually("as many workers as before", PATIENCE, || {
        let now = server.children();
        now.len() == before.len() && !now.contains(&victim)
    });
    assert!(taken < Duration::from_secs(1), "replaced after {taken:?}");
    let kept = server.children().iter().filter(|pid| before.contains(pid)).count();
    assert_eq!(kept, before.len() - 1);
    for _ in 0..20 {
        assert_eq!(server.ask("buy 1 1"), "[buy] success");
    }
    server.stop().says("1 workers replaced");
}

/// The last clients are cut off with their worker: acknowledged orders are saved nevertheless.
pub fn saved_after_a_worker_died_with_its_clients(arm: &Arm) {
    let (_folder, data) = Folder::with("stock.txt", "1 100 10\n");
    let server = arm.stock(&data).start();
    let mut client = server.client();
    assert_eq!(client.ask("buy 1 1"), "[buy] success");
    for pid in server.children() {
        process::kill(pid, Signal::KILL).expect("our grandchild runs");
    }
    eventually("the order is in the file", PATIENCE, || {
        std::fs::read_to_string(&data).is_ok_and(|text| text == "1 99 10\n")
    });
    assert!(client.try_receive().is_ok_and(|more| !more) || client.try_send("show\n").is_err());
}

/// If each client has its own process, the end of a process ends one conversation.
pub fn a_killed_child_takes_one_client_along(arm: &Arm) {
    let server = arm.book(book(STOCKS, LEFT)).start();
    let mut clients: Vec<Client> = (0..arm.crowd(6)).map(|_| server.client()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("buy {} 1", at + 1)), "[buy] success");
    }
    // The test does not know which child serves which client. It kills children until a client is
    // cut off; no child may cut off two.
    let (mut lost, mut living) = (0, clients.len());
    for victim in server.children() {
        process::kill(victim, Signal::KILL).expect("our grandchild runs");
        eventually("the child is gone", PATIENCE, || !is_alive(victim));
        clients.retain_mut(|client| client.try_ask("sell 100 1").is_some());
        lost += living - clients.len();
        assert!(living - clients.len() <= 1, "{} clients of one child", living - clients.len());
        living = clients.len();
        if lost >= 2 {
            break;
        }
    }
    assert_eq!(lost, 2, "a client was lost with its child");
    let rows = parse(&show(&server)).expect("a whole book");
    assert!((1..=6).all(|id| rows[&id] == LEFT as i64 - 1), "acknowledged orders are kept");
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("buy 7 1"), "[buy] success"));
    drop(clients);
    assert_eq!(server.ask("sell 7 1"), "[sell] success");
    server.stop();
}

/// All at once, so that the victims include each worker that holds a lock or waits for one.
pub fn all_workers_killed_at_once(arm: &Arm) {
    let server = arm.book(book(STOCKS, LEFT)).start();
    for round in 0..soak(3, 50) {
        let workers = server.children();
        for &pid in &workers {
            process::kill(pid, Signal::KILL).expect("our grandchild runs");
        }
        let lives = |pid: &&Pid| is_alive(**pid);
        eventually("all are gone", PATIENCE, || workers.iter().find(lives).is_none());
        // Clients that connect before the new workers start wait for them.
        assert_eq!(server.ask("buy 1 1"), "[buy] success", "round {round}");
    }
    let rows = parse(&show(&server)).expect("a whole book");
    assert_eq!(rows[&1], LEFT as i64 - soak(3, 50));
    server.stop();
}

/// The child that accepts for the others: while it is stopped a new client waits.
#[track_caller]
fn acceptor(server: &Server) -> Pid {
    for &pid in server.children().iter().rev() {
        process::kill(pid, Signal::STOP).expect("our grandchild runs");
        eventually("the child stands still", PATIENCE, || is_stopped(pid));
        // Some may be on their way already, and wait for a stopped worker.
        let waits = (0..server.posts).all(|_| {
            let mut client = server.client();
            client.send("sell 1 1\n");
            client.is_silent_for(ms(300))
        });
        if waits {
            return pid;
        }
        process::kill(pid, Signal::CONT).expect("our grandchild runs");
    }
    panic!("expected a child that accepts");
}

/// The acceptor is killed while clients are in the backlog: they wait for the next acceptor, and
/// accepted clients notice nothing.
pub fn the_acceptor_killed(arm: &Arm) {
    let server = arm.book(book(3, LEFT)).start();
    let mut inside: Vec<Client> = (0..arm.crowd(4)).map(|_| server.client()).collect();
    for client in &mut inside {
        assert_eq!(client.ask("sell 1 1"), "[sell] success");
    }
    for _ in 0..soak(1, 20) {
        let acceptor = acceptor(&server);
        let mut outside: Vec<Client> = (0..4).map(|_| server.client()).collect();
        outside.iter_mut().for_each(|client| client.send("buy 2 1\n"));
        process::kill(acceptor, Signal::KILL).expect("our grandchild runs");
        // One may have been on its way, accepted and not yet passed.
        let served = outside.iter_mut().filter_map(|client| client.try_ask("buy 3 1"));
        let served = served.inspect(|line| assert_eq!(line, "[buy] success")).count();
        assert!(served >= 3, "{served} of 4 were served");
        for client in &mut inside {
            assert_eq!(client.ask("sell 1 1"), "[sell] success");
        }
    }
    server.stop();
}

/// Workers ignore the signals that a terminal sends to the whole group.
pub fn workers_ignore_interrupts(arm: &Arm) {
    let server = arm.book("1 100 10\n").start();
    let workers = server.children();
    for &pid in &workers {
        process::kill(pid, Signal::INT).expect("our grandchild runs");
        process::kill(pid, Signal::TERM).expect("our grandchild runs");
    }
    std::thread::sleep(ms(100));
    assert_eq!(server.children(), workers);
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
}

/// The supervisor is killed: no process survives, the port is free, and the file is intact.
pub fn supervisor_killed(arm: &Arm) {
    let text = book(10, 100);
    let (_folder, data) = Folder::with("stock.txt", &text);
    let port = free_port().to_string();
    let server = arm.stock(&data).with(&["--port", &port]).start();
    let mut client = server.client();
    assert_eq!(client.ask("buy 1 1"), "[buy] success");
    let (family, address) = (server.family(), server.address);
    server.signal(Signal::KILL);
    let alive = |pids: &[Pid]| pids.iter().filter(|pid| is_alive(**pid)).count();
    eventually("all of its processes end", PATIENCE, || alive(&family.0) == 0);
    let ended = server.ended(PATIENCE);
    assert_eq!(ended.code, None);
    assert!(parse(&std::fs::read_to_string(&data).expect("the file")).is_some());
    // The kernel may take a moment to clear up after a killed ring, which held the listener.
    eventually("the port is free", Duration::from_secs(5), || TcpListener::bind(address).is_ok());
    let next = arm.stock(&data).with(&["--port", &port]).start();
    assert_eq!(next.ask("buy 2 1"), "[buy] success");
}

/// One worker is frozen, as by a debugger or a failing disk: the others take the new connections.
pub fn a_frozen_worker_delays_nobody_else(arm: &Arm) {
    let server = arm.book(book(3, 100)).start();
    let frozen = server.children()[0];
    process::kill(frozen, Signal::STOP).expect("our grandchild runs");
    // Until then it may still accept a connection.
    eventually("the worker stands still", PATIENCE, || is_stopped(frozen));
    let begin = Instant::now();
    for _ in 0..20 {
        assert_eq!(server.ask("buy 1 1"), "[buy] success");
    }
    let taken = begin.elapsed();
    assert!(taken < Duration::from_secs(5), "twenty orders took {taken:?}");
    process::kill(frozen, Signal::CONT).expect("our grandchild runs");
    server.stop();
}
