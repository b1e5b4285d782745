//! Kill -9 of a worker every 100 ms under load: only the requests in progress in that worker are
//! lost.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stats::Rng;
use sys::process::{self, Pid};
use sys::signal::Signal;

use crate::server::Server;
use crate::site::site;
use crate::traffic::{Tally, converse};
use testkit::{Folder, PATIENCE, eventually, has_uring, soak};

/// Clients of each server.
const CLIENTS: u64 = 3;
/// The time between two kills.
const EVERY: Duration = Duration::from_millis(100);
/// The least number of kills, also on a slow machine.
const KILLS_MIN: u64 = 5;

/// Name, engine, and flags of servers whose workers are processes.
type Case = (&'static str, &'static [&'static str]);
const CASES: &[Case] = &[
    ("prefork", &["--workers", "6"]),
    ("fork", &[]),
    ("worker", &["--policy", "static", "--workers", "8", "--threads", "4"]),
    ("event", &["--policy", "static", "--workers", "8", "--threads", "4"]),
    ("epoll", &["--container", "processes", "--workers", "3"]),
    ("uring", &["--container", "processes", "--accept", "shared", "--workers", "3"]),
];

/// A count of kills.
#[derive(Clone, Copy, Debug, Default)]
struct Kills {
    count: u64,
    /// Connections that the victims had when they died.
    connections: u64,
}

/// The sockets of a process, by the names that proc_pid_fd(5) gives them.
fn sockets(pid: Pid) -> HashSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return HashSet::new() };
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
}

/// Whether a process is stopped, or gone.
fn stands(pid: Pid) -> bool {
    let Ok(line) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    line.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['T', 'Z', 'X']))
}

/// Repeatedly stops a random worker, counts its sockets beside those of a server at rest, which are
/// the listeners, and kills it.
fn kill(server: &Server, at_rest: &HashSet<PathBuf>, seed: u64, lasts: Duration) -> Kills {
    let mut rng = Rng::new(seed);
    let (begin, mut kills) = (Instant::now(), Kills::default());
    while begin.elapsed() < lasts || kills.count < KILLS_MIN {
        std::thread::sleep(EVERY);
        let workers = server.children();
        if workers.is_empty() {
            continue;
        }
        let victim = *rng.pick(&workers);
        if process::kill(victim, Signal::STOP).is_err() {
            continue;
        }
        eventually("the worker is stopped", PATIENCE, || stands(victim));
        let connections = sockets(victim).difference(at_rest).count() as u64;
        if process::kill(victim, Signal::KILL).is_ok() {
            kills.count += 1;
            kills.connections += connections;
        }
    }
    kills
}

fn check((engine, flags): Case, site: &Folder, seed: u64) {
    let lasts = soak(Duration::from_millis(2500), Duration::from_secs(30));
    let server = Server::open(engine, site, flags);
    let (before, at_rest) = (server.children().len(), sockets(server.pid));
    let over = AtomicBool::new(false);
    let (kills, tally) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (address, over) = (server.address, &over);
                let seed = seed * 100 + client;
                scope.spawn(move || converse(address, seed, || over.load(Ordering::Relaxed)))
            })
            .collect();
        let kills = kill(&server, &at_rest, seed, lasts);
        over.store(true, Ordering::Relaxed);
        let tallies = clients.into_iter().map(|it| it.join().expect("right bytes alone"));
        (kills, tallies.fold(Tally::default(), Tally::and))
    });
    println!("{engine} {flags:?}, seed {seed}: {kills:?}, {tally:?}");
    assert!(tally.whole > 0, "{engine}: nothing was served");
    let (lost, held) = (tally.lost(), kills.connections);
    assert!(lost <= held, "{engine}: {lost} connections were lost, the victims had {held}");
    assert_eq!(tally.refused, 0, "{engine}: the port was never closed");
    eventually("as many workers as before", PATIENCE, || server.children().len() >= before);
    let mut rounds = 0_u32;
    let after = converse(server.address, seed, || {
        rounds += 1;
        rounds > 20
    });
    assert_eq!((after.lost(), after.refused), (0, 0), "{engine}: {after:?} after the storm");
    let said = server.close();
    assert!(said.contains("was killed by"), "{engine}: {said}");
}

#[test]
fn killed_workers_lose_what_was_under_way_in_them() {
    let site = site();
    let has_uring = has_uring();
    let cases = CASES.iter().filter(|(engine, _)| has_uring || *engine != "uring");
    if soak(false, true) {
        // All cases at once would leave the killing thread no CPU time.
        cases.zip(1..).for_each(|(case, seed)| check(*case, &site, seed));
        return;
    }
    std::thread::scope(|scope| {
        let site = &site;
        let begun: Vec<_> = cases
            .zip(1..)
            .map(|(case, seed)| (case.0, scope.spawn(move || check(*case, site, seed))))
            .collect();
        for (engine, ended) in begun {
            assert!(ended.join().is_ok(), "{engine} failed");
        }
    });
}
