//! The bare loops answer golden bytes, however the request is cut, and outlive their clients.
//!
//! A bound that answers wrong bytes is no bound. The golden replies here are the service's own:
//! whoever changes one of the two sees it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use xtask::bare::{LOOPS, build};

const STOCK: &str = "1 7 1000\n5 3 3700\n3 10 1200\n4 8 5000\n2 6 20000\n";
const REQUESTS: &str = "show\nbuy 5 3\nsell 2 2\nshow\nbuy 1 8\nbuy 1 6\nshow\n";
const REPLIES: &str = "1 7 1000\n5 3 3700\n3 10 1200\n4 8 5000\n2 6 20000\n\n\
    [buy] success\n[sell] success\n\
    1 7 1000\n5 0 3700\n3 10 1200\n4 8 5000\n2 8 20000\n\n\
    Not enough left stocks\n[buy] success\n\
    1 1 1000\n5 0 3700\n3 10 1200\n4 8 5000\n2 8 20000\n\n";
const BOUGHT: &str = "[buy] success\n";

fn folder() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let into = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bare");
        build(&into).expect("a C compiler");
        into
    })
}

/// A running loop; killed when dropped.
struct Server {
    child: Child,
    addr: String,
}

impl Server {
    /// Starts `name`, or nothing where this kernel has no such facility.
    fn start(name: &str, form: &str) -> Option<Self> {
        let stock = folder().join(format!("{name}-{form}.txt"));
        std::fs::write(&stock, STOCK).unwrap();
        let mut child = Command::new(folder().join(name))
            .args([form, "0"])
            .arg(&stock)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A ring that is refused ends the loop after its first line, so ask it for an answer.
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let addr = ready.split('"').nth(3).unwrap_or_default().to_owned();
        let served = TcpStream::connect(&addr).is_ok_and(|mut probe| {
            let mut reply = [0; BOUGHT.len()];
            let line: &[u8] = if form == "work" { b"sell 1 0\n" } else { b"\n" };
            probe.write_all(line).is_ok() && probe.read(&mut reply).is_ok_and(|len| len > 0)
        });
        if !served {
            let mut why = String::new();
            let _ = child.kill();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            child.wait().unwrap();
            assert!(why.contains("io_uring"), "{name} {form} did not serve: {ready:?} {why:?}");
            eprintln!("skipped: {name}: {why}");
            return None;
        }
        Some(Self { child, addr })
    }

    /// Sends `requests` cut before each byte of `cuts`, then reads all replies to the end.
    fn ask(&self, requests: &str, cuts: &[usize]) -> String {
        let mut stream = TcpStream::connect(&self.addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut sent = 0;
        for &cut in cuts.iter().chain([&requests.len()]) {
            stream.write_all(&requests.as_bytes()[sent..cut]).unwrap();
            sent = cut;
            if !cuts.is_empty() {
                // Long enough for the loop to take this piece by itself, mostly.
                std::thread::sleep(Duration::from_micros(300));
            }
        }
        stream.shutdown(Shutdown::Write).unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        replies
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn check(name: &str, cuts: &[usize]) {
    if let Some(server) = Server::start(name, "work") {
        assert_eq!(server.ask(REQUESTS, cuts), REPLIES, "{name} work, cut before {cuts:?}");
    }
    if let Some(server) = Server::start(name, "count") {
        let replies = BOUGHT.repeat(REQUESTS.lines().count());
        assert_eq!(server.ask(REQUESTS, cuts), replies, "{name} count, cut before {cuts:?}");
    }
}

#[test]
fn a_pipelined_session_gets_golden_replies() {
    LOOPS.iter().for_each(|name| check(name, &[]));
}

#[test]
fn a_session_cut_before_every_byte_gets_the_same_replies() {
    let cuts: Vec<usize> = (1..REQUESTS.len()).collect();
    LOOPS.iter().for_each(|name| check(name, &cuts));
}

#[test]
fn what_is_not_understood_is_answered_and_changes_nothing() {
    for server in LOOPS.iter().filter_map(|name| Server::start(name, "work")) {
        let replies = server.ask("buy 9 1\nbuy 1\nbuy 1 x\nsell 1 0\n\nshows\nshow\n", &[]);
        let (errors, show) = replies.split_at(replies.len() - STOCK.len() - 1);
        assert_eq!(errors.lines().count(), 6, "{errors}");
        assert_eq!(show, format!("{STOCK}\n"));
    }
}

#[test]
fn a_loop_outlives_clients_that_vanish_flood_or_never_end_a_line() {
    for form in ["count", "work"] {
        for server in LOOPS.iter().filter_map(|name| Server::start(name, form)) {
            for _ in 0..300 {
                let mut stream = TcpStream::connect(&server.addr).unwrap();
                stream.write_all(b"show\nsho").unwrap();
            }
            // It never reads its replies; the loop cuts it off once they fill the socket.
            let mut deaf = TcpStream::connect(&server.addr).unwrap();
            deaf.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            let flood = b"show\n".repeat(2_000);
            let cut = (0..20_000).any(|_| deaf.write_all(&flood).is_err());
            assert!(cut, "{form}: a client that does not read is cut off");
            let mut endless = TcpStream::connect(&server.addr).unwrap();
            endless.write_all(&[b'x'; 500]).unwrap();
            assert!(!server.ask("show\n", &[]).is_empty(), "{form}: it still serves");
        }
    }
}
