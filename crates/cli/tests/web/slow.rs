//! Clients that are slow on purpose, hundreds or thousands of them (slowhttptest): they cost a
//! bounded amount of memory, and other clients are served beside them.
//!
//! The tests print the waits of those clients, with and without the slow ones, and do not assert
//! them. Each wait is measured twice: as the client sees it, and up to the arrival of the answer at
//! its socket. The difference is the client's own delay, because thousands of slow clients keep
//! its core busy.

use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use sys::stamp;

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

/// The waits of a well-behaved client.
#[derive(Default)]
struct Waits {
    /// Times until it had read the answer.
    seen: Vec<Duration>,
    /// Times until the answer had arrived, regardless of when it was read.
    served: Vec<Duration>,
}

impl Waits {
    /// The 99th percentiles, in words.
    fn words(&mut self) -> String {
        let mut p99 = |of: fn(&mut Waits) -> &mut Vec<Duration>| {
            let all = of(self);
            all.sort();
            all[(all.len() - 1) * 99 / 100]
        };
        let (served, seen) = (p99(|it| &mut it.served), p99(|it| &mut it.seen));
        format!("{served:?} ({seen:?} as seen)")
    }
}

/// Sends requests on one connection, until `over` or for this long.
fn latencies(server: &Server, lasts: Duration, over: Option<&AtomicBool>) -> Waits {
    let mut stream = connect(server.address).expect("a door that is open");
    stamp::ask_for_stamps(&stream).expect("an option of every socket");
    let (begin, mut found) = (Instant::now(), Waits::default());
    let ends = |it: &AtomicBool| it.load(Ordering::Relaxed);
    while over.map_or(begin.elapsed() < lasts, |over| !ends(over)) {
        let (sent, sent_at) = (Instant::now(), SystemTime::now());
        stream.write_all(b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n").expect("it listens");
        let (mut heard, mut came) = (Vec::new(), None);
        while !heard.ends_with(b"Hello, World!") {
            let mut scratch = [0; 1024];
            let (len, at) =
                stamp::recv_stamped(&stream, &mut scratch).expect("the fast client is served");
            assert!(len > 0, "the fast client is not sent away");
            heard.extend_from_slice(&scratch[..len]);
            came = at.map(|ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns));
        }
        let seen = sent.elapsed();
        found.seen.push(seen);
        let served = came.and_then(|at| at.duration_since(sent_at).ok());
        found.served.push(served.map_or(seen, |served| served.min(seen)));
        std::thread::sleep(Duration::from_millis(2));
    }
    found
}

/// One mode against one server.
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
    let alone = soak(Duration::from_secs(1), Duration::from_secs(5));
    let alone = latencies(&server, alone, None).words();
    let before = server.memory();
    let (over, groups) = (AtomicBool::new(false), soak(MODES.len(), 1));
    for group in MODES.chunks(groups) {
        let (mut beside, memory) = std::thread::scope(|scope| {
            let attacks: Vec<_> = group
                .iter()
                .map(|mode| {
                    let server = &server;
                    scope.spawn(move || attack(server, *mode, connections, lasts))
                })
                .collect();
            over.store(false, Ordering::Relaxed);
            let client = scope.spawn(|| latencies(&server, Duration::ZERO, Some(&over)));
            let mut memory = 0;
            while attacks.iter().any(|it| !it.is_finished()) {
                memory = memory.max(server.memory());
                std::thread::sleep(Duration::from_millis(100));
            }
            over.store(true, Ordering::Relaxed);
            let attacked = attacks.into_iter().map(|it| it.join()).all(|it| it.is_ok());
            assert!(attacked, "{engine}: not served beside the slow");
            (client.join().expect("the fast client is served"), memory)
        });
        let names: Vec<&str> = group.iter().map(|(name, ..)| *name).collect();
        let slow = u64::from(connections) * group.len() as u64;
        let grown = memory.saturating_sub(before);
        println!(
            "{engine}, {slow} connections slow in {}: p99 {alone} alone, {} beside them; {} bytes \
             of memory each",
            names.join(", "),
            beside.words(),
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
