//! Stops, restarts and hand-overs next to clients that look for the end of input before each
//! request: every request that arrived before the server ended its output is answered, on
//! connections that wait in the queue too.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stats::Rng;
use sys::signal::Signal;

use crate::arms::{Arm, EPOLL, PREFORK, PROCESSES_REUSEPORT};
use crate::harness::{Folder, PATIENCE, Plan, Raise, Server, free_port, ms, soak};
use crate::market::{book, parse};
use crate::web;

/// A request, and the end of its reply.
#[derive(Clone, Copy)]
struct Exchange<'a> {
    request: &'a [u8],
    /// The most bytes before that end.
    head_max: usize,
    end: &'a [u8],
}

/// Of the market.
const SELL: Exchange<'_> =
    Exchange { request: b"sell 1 1\n", head_max: 0, end: b"[sell] success\n" };
/// Of the probe.
const ECHO: Exchange<'_> = Exchange { request: b"echo here\n", head_max: 0, end: b"= here\n" };

impl Exchange<'_> {
    /// Reads the reply: whether it says that it is the last one.
    fn hear(&self, stream: &mut TcpStream) -> io::Result<bool> {
        let (mut reply, mut piece) = (Vec::new(), [0; 1 << 16]);
        while !reply.ends_with(self.end) {
            // No byte of what follows the reply is taken: it says that the server drains.
            let most = self.end.len().saturating_sub(reply.len()).clamp(1, piece.len());
            let len = stream.read(&mut piece[..most])?;
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            reply.extend_from_slice(&piece[..len]);
            let fits = reply.len() <= self.head_max + self.end.len();
            assert!(fits, "{}", reply[..reply.len().min(400)].escape_ascii());
        }
        let head = String::from_utf8_lossy(&reply[..reply.len() - self.end.len()]);
        Ok(head.contains("\r\nConnection: close\r\n"))
    }
}

/// The answered and the lost requests of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    answered: u64,
    lost: u64,
}

/// Whether the server has ended its output.
fn is_ended(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).expect("a socket");
    !peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Asks on one connection until the server ends it, at most `most` times.
fn converse(
    address: SocketAddr,
    exchange: Exchange<'_>,
    rng: &mut Rng,
    (most, over): (u32, &AtomicBool),
) -> io::Result<Count> {
    let mut stream = TcpStream::connect_timeout(&address, ms(5000))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut count = Count::default();
    for _ in 0..most {
        if over.load(Ordering::Relaxed) || is_ended(&stream) {
            break;
        }
        stream.write_all(exchange.request)?;
        // The request arrived before the end of output if that is not here yet.
        let is_late = is_ended(&stream) && stream.peek(&mut [0]).is_ok_and(|len| len == 0);
        match exchange.hear(&mut stream) {
            Ok(is_last) => {
                count.answered += 1;
                if is_last {
                    break;
                }
            }
            Err(_) if is_late => break,
            Err(error) => {
                println!("lost after {} answers: {error}", count.answered);
                count.lost += 1;
                break;
            }
        }
        if rng.below(4) == 0 {
            std::thread::sleep(Duration::from_micros(rng.below(3000) as u64));
        }
    }
    Ok(count)
}

/// Conversations one after the other, until `over`.
fn ask(
    address: SocketAddr,
    exchange: Exchange<'_>,
    seed: u64,
    (most, over): (u32, &AtomicBool),
) -> Count {
    let (mut rng, mut all) = (Rng::new(seed), Count::default());
    while !over.load(Ordering::Relaxed) {
        match converse(address, exchange, &mut rng, (most, over)) {
            Ok(Count { answered, lost }) => {
                all.answered += answered;
                all.lost += lost;
            }
            // No server listens between two of them.
            Err(_) => std::thread::sleep(ms(1)),
        }
    }
    all
}

/// A market that can be started again on the same port.
struct Place<'a> {
    arm: &'a Arm,
    data: PathBuf,
    options: &'a [&'a str],
}

impl Place<'_> {
    #[track_caller]
    fn start(&self, port: u16) -> Server {
        let plan = self.arm.stock(&self.data).with(self.options);
        plan.with(&["--port", &port.to_string()]).start()
    }
}

/// Runs `change` next to clients of the server at `address`; returns what it returns, and the
/// number of answered requests. No request is lost.
#[track_caller]
fn beside<T>(
    arm: &Arm,
    address: SocketAddr,
    exchange: Exchange<'_>,
    change: impl FnOnce() -> T,
) -> (T, u64) {
    let over = AtomicBool::new(false);
    // A client of a server for one at a time lets the next one in.
    let most = if arm.crowd == 1 { 20 } else { u32::MAX };
    let mut all = Count::default();
    let changed = std::thread::scope(|scope| {
        let raise = Raise(&over);
        let clients: Vec<_> = (0..4)
            .map(|seed| {
                let over = &over;
                let most = if seed == 0 { 10 } else { most };
                scope.spawn(move || ask(address, exchange, seed, (most, over)))
            })
            .collect();
        let changed = change();
        drop(raise);
        for client in clients {
            let Count { answered, lost } = client.join().expect("a client that heard replies");
            all.answered += answered;
            all.lost += lost;
        }
        changed
    });
    assert!(all.answered > 0, "nothing was answered");
    assert_eq!(all.lost, 0, "lost requests of {} answered", all.answered);
    (changed, all.answered)
}

/// The same with a market, which has every answered order in the end, in its file too. Returns what
/// the last server and those that it followed by a hand-over said.
#[track_caller]
fn check(arm: &Arm, options: &[&str], change: impl FnOnce(Server, &Place<'_>) -> Server) -> String {
    let folder = Folder::new();
    let place = Place { arm, data: folder.file("stock.txt", book(2, 1000)), options };
    let server = place.start(free_port());
    let address = server.address;
    let (server, answered) = beside(arm, address, SELL, || change(server, &place));
    let left = parse(&server.show()).expect("a whole book")[&1];
    assert_eq!(left, 1000 + answered as i64);
    let said = server.stop().err;
    let saved = std::fs::read_to_string(&place.data).expect("the file");
    assert_eq!(parse(&saved).expect("a whole file")[&1], left);
    said
}

/// Servers that are stopped and started again, most of them by `SIGTERM`.
pub fn a_restart_loses_no_request(arm: &Arm) {
    check(arm, &[], |mut server, place| {
        let mut rng = Rng::new(7);
        for round in 0..soak(3, 100) {
            std::thread::sleep(ms(20 + rng.below(60) as u64));
            let port = server.port();
            server.signal(if round % 3 == 1 { Signal::INT } else { Signal::TERM });
            let begin = Instant::now();
            server.ended(PATIENCE).success();
            assert!(begin.elapsed() < ms(5000), "a stop took {:?}", begin.elapsed());
            server = place.start(port);
        }
        server
    });
}

/// Servers that hand over by `SIGUSR2`; their last connections are ended by a drain.
pub fn a_hand_over_loses_no_request(arm: &Arm) {
    let times = soak(2, 100);
    let said = check(arm, &["--upgradable", "--drain", "300ms"], |mut server, _| {
        let first = server.pid;
        for _ in 0..times {
            std::thread::sleep(ms(50));
            server.signal(Signal::USR2);
            assert_eq!(server.succeeded(), Some(0), "{}", server.err());
        }
        assert_ne!(server.pid, first);
        server
    });
    assert_eq!(said.matches("handing over to process").count(), times, "{said}");
    assert_eq!(said.matches("stopped after").count(), times + 1, "{said}");
}

/// With a listener for each worker the next server starts before the last one stops.
#[test]
fn overlapping_restarts_lose_no_request() {
    let arm = &PROCESSES_REUSEPORT;
    let mut server = arm.probe().start();
    let port = server.port().to_string();
    let (server, _) = beside(arm, server.address, ECHO, || {
        for _ in 0..soak(2, 20) {
            let next = arm.probe().with(&["--port", &port]).start();
            assert!(next.err().contains("another server listens on"), "{}", next.err());
            std::thread::sleep(ms(50));
            server.stop();
            server = next;
        }
        server
    });
    server.stop();
}

/// The memory that a server hands over, as an open file.
fn state(server: &Server) -> File {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", server.pid)).expect("the server runs");
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

/// A successor that cannot read the state changes nothing. Later ones lose no request, and every
/// answer of any of them has its line in the log.
#[test]
fn a_state_of_another_layout_is_refused_and_later_successors_lose_no_line() {
    // Each group of four bytes is its own number, so no piece can stand for another.
    let great: Vec<u8> = (0..1_u32 << 16).flat_map(u32::to_le_bytes).collect();
    let request = web::get("/great", "");
    let exchange = Exchange { request: request.as_bytes(), head_max: 500, end: &great };
    for arm in [&EPOLL, &PREFORK] {
        let (folder, root) = web::site();
        folder.file("site/great", &great);
        let log = folder.path().join("access.log").display().to_string();
        let flags = [root.as_str(), "--upgradable", "--access-log", &log];
        let mut server = Plan::new(arm, "http").with(&flags).start();
        let state = state(&server);
        let mut hash = [0; 8];
        state.read_exact_at(&mut hash, LAYOUT).expect("a header");
        let ((), answered) = beside(arm, server.address, exchange, || {
            state.write_all_at(&hash.map(|byte| !byte), LAYOUT).expect("our own child's memory");
            let before = server.pid;
            server.signal(Signal::USR2);
            server.says("cannot take the journal over");
            server.says("the successor did not become ready; this server continues");
            std::thread::sleep(ms(100));
            assert_eq!(server.pid, before);
            state.write_all_at(&hash, LAYOUT).expect("our own child's memory");
            for _ in 0..soak(2, 20) {
                server.signal(Signal::USR2);
                server.succeeded();
                std::thread::sleep(ms(100));
            }
            assert_ne!(server.pid, before);
        });
        let said = server.stop().err;
        assert!(said.contains("layout"), "what differs is said: {said}");
        let lines = std::fs::read_to_string(&log).expect("the log").lines().count();
        assert_eq!(lines as u64, answered, "{}", arm.flags);
    }
}
