//! Restarts and hand-overs under load: no request that was accepted fails, and a successor that
//! cannot read the state changes nothing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sys::signal::Signal;

use crate::server::Server;
use crate::site::site;
use crate::traffic::{Tally, converse};
use testkit::{Folder, PATIENCE, eventually, has_uring, soak};

/// Clients of each server.
const CLIENTS: u64 = 3;
/// The time that a server runs before it is replaced.
const SERVES: Duration = Duration::from_millis(100);

/// Every named engine that this machine has.
fn engines() -> Vec<&'static str> {
    let names = engines::PRESETS.iter().map(|preset| preset.name);
    names.filter(|name| *name != "uring" || has_uring()).collect()
}

/// Runs a check of every engine, a few at a time.
fn every(check: impl Fn(&'static str) + Sync) {
    let engines = engines();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let work = || {
            while let Some(name) = engines.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                check(name);
            }
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        assert!(workers.into_iter().all(|it| it.join().is_ok()), "an engine failed");
    });
}

/// Lets clients send requests to an address while `act` runs.
fn beside<R>(server: &mut Server, seed: u64, act: impl FnOnce(&mut Server) -> R) -> (Tally, R) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (address, over) = (server.address, &over);
                let seed = seed * 100 + client;
                scope.spawn(move || converse(address, seed, || over.load(Ordering::Relaxed)))
            })
            .collect();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(server)));
        over.store(true, Ordering::Relaxed);
        let tallies = clients.into_iter().map(|it| it.join().expect("right bytes alone"));
        let tally = tallies.fold(Tally::default(), Tally::and);
        match outcome {
            Ok(outcome) => (tally, outcome),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[test]
fn no_request_fails_in_a_hand_over() {
    let times = soak(2, 20);
    let site = site();
    every(|engine| {
        let room = Folder::new();
        let log = room.path().join("access.log");
        let path = log.to_str().expect("a temporary path is text");
        let mut server = Server::open(engine, &site, &["--upgradable", "--access-log", path]);
        let first = server.pid;
        let (tally, ()) = beside(&mut server, 7, |server| {
            for _ in 0..times {
                std::thread::sleep(SERVES);
                server.signal(Signal::USR2);
                server.succeeded();
            }
            std::thread::sleep(SERVES);
        });
        println!("{engine}: {times} hand-overs, {tally:?}");
        assert_ne!(server.pid, first);
        assert!(tally.whole > 0 && tally.lost() == 0 && tally.refused == 0, "{engine}: {tally:?}");
        let said = server.close();
        assert_eq!(said.matches("handing over to process").count(), times, "{engine}: {said}");
        // Several binaries wrote it, and every answer has its line.
        let lines = std::fs::read_to_string(&log).expect("the log").lines().count();
        assert_eq!(lines as u64, tally.whole, "{engine}");
    });
}

#[test]
fn no_accepted_request_fails_in_a_restart() {
    let times = soak(3, 50);
    let site = site();
    every(|engine| {
        let mut server = Server::open(engine, &site, &[]);
        let port = server.address.port().to_string();
        let (tally, ()) = beside(&mut server, 8, |server| {
            for _ in 0..times {
                std::thread::sleep(SERVES);
                server.restart(engine, &site, &["--port", &port]);
            }
            std::thread::sleep(SERVES);
        });
        println!("{engine}: {times} restarts, {tally:?}");
        assert!(tally.whole > 0, "{engine}: {tally:?}");
        assert_eq!(tally.cut, 0, "{engine}: {tally:?}");
        // Every accepted client is answered; the others never connected.
        assert_eq!((tally.unasked, tally.unheard), (0, 0), "{engine}: {tally:?}");
        server.close();
    });
}

#[test]
fn no_request_fails_when_lanes_switch() {
    let site = site();
    let flags = ["--governor", "on", "--deadline", "60s", "--lanes", "epoll,thread,event"];
    let mut server = Server::open("auto", &site, &flags);
    let pid = server.pid.to_string();
    let ctl = |word: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_roundhouse"));
        testkit::run(command.args(["ctl", &pid, word])).success().out
    };
    let (tally, ()) = beside(&mut server, 11, |_| {
        for engine in ["thread", "event"] {
            assert!(ctl("switch").contains("will serve"));
            let says = || ctl("why").contains(&format!("{engine} serves now: it was ordered"));
            eventually(engine, PATIENCE, says);
            assert!(ctl("status").contains(engine));
            std::thread::sleep(SERVES);
        }
    });
    println!("{tally:?}");
    assert!(tally.whole > 0 && tally.lost() == 0 && tally.refused == 0, "{tally:?}");
    server.close();
}

/// The memory that a server hands over, as an open file.
fn state(server: &Server) -> File {
    let folder = format!("/proc/{}/fd", server.pid);
    let entries = std::fs::read_dir(&folder).expect("the server runs");
    let is_state = |path: &PathBuf| {
        let link = std::fs::read_link(path).unwrap_or_default();
        link.to_string_lossy().contains("memfd:roundhouse-state")
    };
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let path = paths.find(is_state).expect("a server that can be upgraded has its state in a file");
    File::options().read(true).write(true).open(path).expect("we may do that to our own child")
}

/// The offset of the layout's hash, after the eight bytes that name the format.
const LAYOUT: u64 = 8;

#[test]
fn a_state_of_another_layout_is_refused_and_the_server_goes_on() {
    let site = site();
    for engine in ["epoll", "prefork"] {
        let mut server = Server::open(engine, &site, &["--upgradable"]);
        let state = state(&server);
        let mut hash = [0; 8];
        state.read_exact_at(&mut hash, LAYOUT).expect("a header");
        let other = hash.map(|byte| !byte);
        let (tally, ()) = beside(&mut server, 9, |server| {
            state.write_all_at(&other, LAYOUT).expect("our own child's memory");
            let before = server.pid;
            server.signal(Signal::USR2);
            server.says("cannot take the journal over");
            server.says("the successor did not become ready; this server continues");
            std::thread::sleep(SERVES);
            assert_eq!(server.pid, before);
            // A successor takes over if it knows the layout.
            state.write_all_at(&hash, LAYOUT).expect("our own child's memory");
            server.signal(Signal::USR2);
            server.succeeded();
            assert_ne!(server.pid, before);
        });
        assert!(tally.whole > 0 && tally.lost() == 0, "{engine}: {tally:?}");
        let said = server.close();
        assert!(said.contains("layout"), "{engine} says what differs: {said}");
    }
}

impl Server {
    /// Stops this server and starts another in its place.
    fn restart(&mut self, engine: &str, site: &Folder, args: &[&str]) {
        self.signal(Signal::TERM);
        let before = self.pid;
        eventually("the server has left", PATIENCE, || !self.is_running());
        let next = Server::open(engine, site, args);
        assert_ne!(next.pid, before);
        *self = next;
    }
}
