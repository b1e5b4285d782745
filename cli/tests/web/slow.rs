//! Clients that are slow on purpose, hundreds or thousands of them (slowhttptest): they cost a
//! bounded amount of memory, and other clients are served next to them.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::server::{Server, connect};
use crate::site::site;
use testkit::{Folder, has, has_uring, run, soak};

/// The most of the server's own memory that a slow connection may hold, in bytes: the sum in
/// `docs/web.md`, which is 32 KiB of input, one receive, the output and a piece.
const EACH_MAX: u64 = (32 + 64 + 128 + 64) << 10;
/// The allowed growth of the server itself: page tables and the allocator's reserve.
const HOUSE_MAX: u64 = 16 << 20;

/// A mode of slowhttptest, and what it asks for.
type Mode = (&'static str, &'static [&'static str], &'static str);
const MODES: &[Mode] = &[
    ("headers", &["-H"], "/plaintext"),
    ("body", &["-B", "-s", "100000"], "/"),
    ("range", &["-R", "-a", "5", "-b", "3000"], "/great"),
    ("read", &["-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "32", "-k", "3"], "/great"),
    // The same with a page that the kernel does not cache.
    ("page", &["-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "32"], "/dynamic?rows=3000"),
];

/// Sends requests on one connection until `over`; each is answered.
fn behaves(server: &Server, over: &AtomicBool) {
    let mut stream = connect(server.address).expect("a door that is open");
    while !over.load(Ordering::Relaxed) {
        stream.write_all(b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n").expect("it listens");
        let mut heard = Vec::new();
        while !heard.ends_with(b"Hello, World!") {
            let mut scratch = [0; 1024];
            let len = stream.read(&mut scratch).expect("the fast client is served");
            assert!(len > 0, "the fast client is not sent away");
            heard.extend_from_slice(&scratch[..len]);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn attack(server: &Server, (mode, flags, path): Mode, connections: u32, lasts: u32) -> String {
    // slowhttptest shares cores with the measured client, and must not delay it.
    let mut command = Command::new("nice");
    command.args(["-n", "19", "slowhttptest"]);
    let (count, lasts) = (connections.to_string(), lasts.to_string());
    command.args(["-c", &count, "-r", &count, "-l", &lasts, "-i", "1", "-p", "20"]);
    // Otherwise it spends its time on drawing.
    command.args(["-v", "1"]).args(flags).args(["-u", &server.url(path)]);
    let said = run(&mut command);
    let text = said.out;
    assert!(text.contains("Exit status"), "{} {mode}: {text}{}", server.name, said.err);
    assert!(!text.contains("available:   NO"), "{} {mode}: {text}", server.name);
    text
}

/// All modes against one engine, one after the other or together.
fn check(engine: &str, site: &Folder, connections: u32, lasts: u32) {
    let server = Server::open(engine, site, &["--max-connections", "20000"]);
    let before = server.memory();
    let (over, groups) = (AtomicBool::new(false), soak(MODES.len(), 1));
    for group in MODES.chunks(groups) {
        let memory = std::thread::scope(|scope| {
            let attacks: Vec<_> = group
                .iter()
                .map(|mode| {
                    let server = &server;
                    scope.spawn(move || attack(server, *mode, connections, lasts))
                })
                .collect();
            over.store(false, Ordering::Relaxed);
            let client = scope.spawn(|| behaves(&server, &over));
            let mut memory = 0;
            while attacks.iter().any(|it| !it.is_finished()) {
                memory = memory.max(server.memory());
                std::thread::sleep(Duration::from_millis(100));
            }
            over.store(true, Ordering::Relaxed);
            let attacked = attacks.into_iter().map(|it| it.join()).all(|it| it.is_ok());
            assert!(attacked, "{engine}: not served alongside the slow");
            client.join().expect("the fast client is served");
            memory
        });
        let names: Vec<&str> = group.iter().map(|(name, ..)| *name).collect();
        let slow = u64::from(connections) * group.len() as u64;
        let grown = memory.saturating_sub(before);
        println!(
            "{engine}, {slow} connections slow in {}: {} bytes of memory each",
            names.join(", "),
            grown / slow
        );
        assert!(grown <= HOUSE_MAX + slow * EACH_MAX, "{engine}: {grown} bytes for {slow}");
    }
    server.close();
}

#[test]
fn who_behaves_is_served_beside_slow_clients() {
    if !has("slowhttptest") {
        return;
    }
    let site = site();
    let (connections, lasts) = soak((100, 6), (5000, 15));
    let engines = ["epoll", "reactor", "uring"];
    let engines = engines.into_iter().filter(|engine| *engine != "uring" || has_uring());
    if connections > 1000 {
        // One engine alone keeps a machine busy.
        engines.for_each(|engine| check(engine, &site, connections, lasts));
        return;
    }
    std::thread::scope(|scope| {
        let site = &site;
        let begun: Vec<_> =
            engines.map(|it| scope.spawn(move || check(it, site, connections, lasts))).collect();
        assert!(begun.into_iter().all(|it| it.join().is_ok()), "an engine failed");
    });
}
