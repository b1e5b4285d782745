//! Kill -9 of a worker every 100 ms under load: what is lost are requests that were under way in
//! that worker, and nothing else.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sys::process::{self, Pid};
use sys::signal::Signal;
use wire::dice::Dice;

use crate::house::{House, eventually, has_uring};
use crate::room::{Room, soak};
use crate::traffic::{Tally, converse};

/// Clients of each server.
const CLIENTS: u64 = 3;
/// A worker dies so often.
const EVERY: Duration = Duration::from_millis(100);
/// Fewer kills are no storm, however slow the machine is.
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

/// What the killer did.
#[derive(Clone, Copy, Debug, Default)]
struct Kills {
    count: u64,
    /// Connections that the victims had when they died.
    connections: u64,
}

/// The connections that a process holds: its sockets (proc_pid_fd(5)) that are established or half
/// closed and have the server's port (proc_net_tcp(5)).
fn connections(pid: Pid, port: u16) -> u64 {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let own: HashSet<String> = links
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let is_ours = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, _, _, inode, ..] = fields[..] else { return false };
        local.ends_with(&format!(":{port:04X}")) && state != "0A" && own.contains(inode)
    };
    table.lines().filter(is_ours).count() as u64
}

/// Whether a process stands still, or is gone.
fn stands(pid: Pid) -> bool {
    let Ok(line) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    line.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['T', 'Z', 'X']))
}

/// Stops a random worker, counts what it has, and kills it; again and again.
fn kill(house: &House, seed: u64, lasts: Duration) -> Kills {
    let mut dice = Dice::new(seed);
    let (begin, mut kills) = (Instant::now(), Kills::default());
    while begin.elapsed() < lasts || kills.count < KILLS_MIN {
        std::thread::sleep(EVERY);
        let workers = house.children();
        if workers.is_empty() {
            continue;
        }
        let victim = *dice.pick(&workers);
        if process::kill(victim, Signal::STOP).is_err() {
            continue;
        }
        eventually("a stopped worker stands still", || stands(victim));
        let connections = connections(victim, house.address.port());
        if process::kill(victim, Signal::KILL).is_ok() {
            kills.count += 1;
            kills.connections += connections;
        }
    }
    kills
}

fn check((engine, flags): Case, site: &Room, seed: u64) {
    let lasts = soak(Duration::from_millis(2500), Duration::from_secs(30));
    let house = House::open(engine, site, flags);
    let before = house.children().len();
    let over = AtomicBool::new(false);
    let (kills, tally) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (address, over) = (house.address, &over);
                let seed = seed * 100 + client;
                scope.spawn(move || converse(address, seed, || over.load(Ordering::Relaxed)))
            })
            .collect();
        let kills = kill(&house, seed, lasts);
        over.store(true, Ordering::Relaxed);
        let tallies = clients.into_iter().map(|it| it.join().expect("right bytes alone"));
        (kills, tallies.fold(Tally::default(), Tally::and))
    });
    println!("{engine} {flags:?}, seed {seed}: {kills:?}, {tally:?}");
    assert!(tally.whole > 0, "{engine}: nothing was served");
    let (lost, held) = (tally.lost(), kills.connections);
    assert!(lost <= held, "{engine}: {lost} connections were lost, the victims had {held}");
    assert_eq!(tally.refused, 0, "{engine}: the port was never closed");
    eventually("as many workers as before", || house.children().len() >= before);
    let mut rounds = 0_u32;
    let after = converse(house.address, seed, || {
        rounds += 1;
        rounds > 20
    });
    assert_eq!((after.lost(), after.refused), (0, 0), "{engine}: {after:?} after the storm");
    let said = house.close();
    assert!(said.contains("was killed by"), "{engine}: {said}");
}

#[test]
fn killed_workers_lose_what_was_under_way_in_them() {
    let site = Room::site();
    std::thread::scope(|scope| {
        let site = &site;
        let has_uring = has_uring();
        let cases = CASES.iter().filter(|(engine, _)| has_uring || *engine != "uring");
        let begun: Vec<_> = cases
            .zip(1..)
            .map(|(case, seed)| (case.0, scope.spawn(move || check(*case, site, seed))))
            .collect();
        for (engine, ended) in begun {
            assert!(ended.join().is_ok(), "{engine} failed");
        }
    });
}
