//! The bare loops reply with golden bytes, wherever the request is split, and outlive their
//! clients.
//!
//! A bound with wrong replies is no bound. The golden replies here are the service's own, so a
//! change of one of the two shows.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use xtask::bare::{LOOPS, OPTIONS, WEB, build};
use xtask::steps;

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

/// A running loop.
struct Server(steps::Server);

impl Server {
    /// Starts `name`, or returns `None` if this kernel lacks the facility.
    fn start(name: &str, form: &str) -> Option<Self> {
        Self::start_by(Command::new(folder().join(name)), name, form)
    }

    /// The same by a command that becomes the loop.
    fn start_by(mut command: Command, name: &str, form: &str) -> Option<Self> {
        let stock = folder().join(format!("{name}-{form}.txt"));
        std::fs::write(&stock, STOCK).unwrap();
        let mut server = steps::Server::start(command.args([form, "0"]).arg(&stock)).unwrap();
        // A loop whose ring is refused ends after its first line, so the test requests a reply.
        let served = TcpStream::connect(&server.address).is_ok_and(|mut probe| {
            let mut reply = [0; BOUGHT.len()];
            let line: &[u8] = if form == "work" { b"sell 1 0\n" } else { b"\n" };
            probe.write_all(line).is_ok() && probe.read(&mut reply).is_ok_and(|len| len > 0)
        });
        if !served {
            let mut why = String::new();
            let _ = server.child.kill();
            server.child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            assert!(why.contains("io_uring"), "{name} {form} did not serve: {why:?}");
            eprintln!("skipped: {name}: {why}");
            return None;
        }
        Some(Self(server))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.0.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends `requests` cut before each byte of `cuts`, then reads all replies to the end.
    fn ask(&self, requests: &str, cuts: &[usize]) -> String {
        let mut stream = self.connect();
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

/// Asks once on a connection that stays: whether a right reply came.
fn is_served(stream: &mut TcpStream) -> bool {
    let mut reply = [0; BOUGHT.len()];
    let asked = stream.write_all(b"sell 2 1\n").is_ok();
    // Short enough for `[buy] success` and `[sell] success`.
    let replied = asked && stream.read_exact(&mut reply).is_ok();
    replied && String::from_utf8_lossy(&reply).contains("] success")
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
        for name in LOOPS {
            let Some(server) = Server::start(name, form) else { continue };
            for _ in 0..300 {
                let mut stream = TcpStream::connect(&server.0.address).unwrap();
                stream.write_all(b"show\nsho").unwrap();
            }
            // The client never reads its replies; the loop closes the connection once they fill the
            // socket.
            let mut deaf = TcpStream::connect(&server.0.address).unwrap();
            deaf.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            let flood = b"show\n".repeat(2_000);
            let cut = (0..20_000).any(|_| deaf.write_all(&flood).is_err());
            assert!(cut, "{form}: a client that does not read is cut off");
            let mut endless = TcpStream::connect(&server.0.address).unwrap();
            endless.write_all(&[b'x'; 500]).unwrap();
            if *name == "iterative" {
                // The counting form waits for the newline, and everybody else with it.
                drop(endless);
            }
            assert!(!server.ask("show\n", &[]).is_empty(), "{form}: it still serves");
        }
    }
}

#[test]
fn a_silent_client_keeps_nobody_else_waiting() {
    // One process with blocking calls is the one that cannot.
    for name in LOOPS.iter().filter(|name| **name != "iterative") {
        for server in ["count", "work"].iter().filter_map(|form| Server::start(name, form)) {
            let silent: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
            assert!(is_served(&mut server.connect()), "{name}: {} are silent", silent.len());
        }
    }
}

#[test]
fn orders_of_many_clients_add_up() {
    for name in LOOPS {
        let Some(server) = Server::start(name, "work") else { continue };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let orders = "sell 1 2\nbuy 1 1\n".repeat(1_000);
                    assert_eq!(server.ask(&orders, &[500, 9_000]).lines().count(), 2_000, "{name}");
                });
            }
        });
        let show = server.ask("show\n", &[]);
        assert!(show.starts_with("1 8007 1000\n"), "{name}: {show}");
    }
}

#[test]
fn select_closes_who_has_no_bit_in_its_set_and_serves_the_others() {
    // The loop inherits most descriptors below FD_SETSIZE, so few of its own lie there.
    let mut full = Command::new("bash");
    let fill = "for i in {1..1008}; do exec {fd}</dev/null; done; exec \"$0\" \"$@\"";
    full.args(["-c", fill]).arg(folder().join("select"));
    let server = Server::start_by(full, "select", "work").expect("select is everywhere");
    let mut clients: Vec<TcpStream> = (0..16).map(|_| server.connect()).collect();
    let served: Vec<bool> = clients.iter_mut().map(is_served).collect();
    assert!(served[0] && !served[15], "the first has a bit and the last has none: {served:?}");
    clients.drain(..1);
    let freed = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        is_served(&mut server.connect())
    });
    assert!(freed, "a bit that has become free is used again");
}

#[test]
fn the_web_loop_answers_each_head_however_it_is_cut() {
    let mut command = Command::new(folder().join(WEB));
    let server = Server(steps::Server::start(command.args(["count", "0"])).unwrap());
    let request = "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
    let mut answers = Vec::new();
    for at in 0..=request.len() {
        let mut stream = server.connect();
        stream.write_all(&request.as_bytes()[..at]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        stream.write_all(&request.as_bytes()[at..]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert_eq!(heard.matches("\r\nContent-Length: 13\r\n\r\nHello, World!").count(), 3, "{at}");
        answers.push(heard);
    }
    assert!(answers.iter().all(|heard| *heard == answers[0]));
}

#[test]
fn a_switch_leaves_the_answer_as_it_is() {
    for switches in [&[][..], &["nagle", "quickack"], &["zerocopy"], &["blocking"]] {
        let mut command = Command::new(folder().join(OPTIONS));
        let command = command.args(["127.0.0.1", "0", "3"]).args(switches);
        let server = Server(steps::Server::start(command).unwrap());
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxxx";
        assert_eq!(server.ask("GET / HTTP/1.1\r\n\r\n", &[]), answer, "{switches:?}");
    }
}
