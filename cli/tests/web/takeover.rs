//! Hand-overs under load: no request fails, every answer has its line in the log, and a successor
//! that cannot read the state changes nothing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sys::signal::Signal;

use crate::server::Server;
use crate::site::site;
use crate::traffic::{Tally, converse};
use testkit::{Folder, soak};

/// Clients of each server.
const CLIENTS: u64 = 3;
/// The time that a server serves before a hand-over and after it.
const SERVES: Duration = Duration::from_millis(100);

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
fn a_state_of_another_layout_is_refused_and_later_successors_lose_no_line() {
    let site = site();
    let times = soak(2, 20);
    for engine in ["epoll", "prefork"] {
        let room = Folder::new();
        let log = room.path().join("access.log");
        let path = log.to_str().expect("a temporary path is text");
        let mut server = Server::open(engine, &site, &["--upgradable", "--access-log", path]);
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
            for _ in 0..times {
                server.signal(Signal::USR2);
                server.succeeded();
                std::thread::sleep(SERVES);
            }
            assert_ne!(server.pid, before);
        });
        assert!(tally.whole > 0 && tally.lost == 0 && tally.refused == 0, "{engine}: {tally:?}");
        let said = server.close();
        assert!(said.contains("layout"), "{engine} says what differs: {said}");
        // Several binaries wrote it, and every answer has its line.
        let lines = std::fs::read_to_string(&log).expect("the log").lines().count();
        assert_eq!(lines as u64, tally.whole, "{engine}");
    }
}
