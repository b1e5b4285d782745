//! Clients that read late or never: the server's memory is bounded, other clients are served, and
//! the server finally disconnects a client that never reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wire::websocket::Opcode;

use crate::arms::Arm;
use crate::harness::{Client, PATIENCE, Raise, Server, ms};
use crate::market::book;
use crate::web::idle_cpu;
use crate::websocket::{enter, frame};

/// More than a socket's buffers hold in a few replies: 20,000 stocks are some 400 kB of text.
const STOCKS: u32 = 20_000;
/// The allowed growth of the server's memory for one such client, in bytes: a few rendered books
/// and its buffers. 1000 replies would be 400 MB.
const GROWTH_MAX: u64 = 48 << 20;

/// A thousand replies wait for a client that reads none of them.
pub fn a_reader_that_never_reads(arm: &Arm) {
    let server = arm.book(book(STOCKS, 1_000_000)).with(&["--write-stall", "1s"]).start();
    assert_eq!(server.ask("buy 1 1"), "[buy] success");
    let family = server.family();
    let memory = family.memory();
    let mut deaf = server.client();
    deaf.narrow(4096);
    deaf.send("show\n".repeat(1000));
    if arm.crowd > 1 {
        let begin = Instant::now();
        for round in 0..20 {
            let mut other = server.client();
            assert_eq!(
                other.ask("buy 2 1"),
                "[buy] success",
                "client {round} next to the deaf one"
            );
            assert_eq!(other.ask("sell 2 1"), "[sell] success");
        }
        let taken = begin.elapsed();
        assert!(taken < Duration::from_secs(10), "others waited {taken:?}");
    } else {
        // New clients wait until the server disconnects the one that does not read.
        assert_eq!(server.ask("buy 2 1"), "[buy] success");
        assert_eq!(server.ask("sell 2 1"), "[sell] success");
    }
    let grown = family.memory().saturating_sub(memory);
    assert!(grown < GROWTH_MAX, "memory grew by {grown} bytes");
    server.settles();
    drop(deaf);
    server.stop().says("0 workers replaced");
}

/// A client that reads slowly and steadily gets every byte, even if it empties only a small part of
/// the kernel's buffers within the time of a stall.
pub fn a_slow_reader_gets_every_byte(arm: &Arm) {
    let text = book(STOCKS, 1_000_000);
    let server = arm.book(&text).with(&["--write-stall", "400ms"]).start();
    let mut slow = server.client();
    slow.narrow(64 * 1024);
    slow.send("show\n".repeat(8) + "sell 1 1\nexit\n");
    let begin = Instant::now();
    let mut heard = 0;
    for round in 0..8 {
        let mut block = Vec::new();
        while block.len() < text.len() + 1 {
            block.extend(slow.exact((text.len() + 1 - block.len()).min(64 * 1024)));
            std::thread::sleep(ms(40));
        }
        assert!(block[..text.len()] == *text.as_bytes(), "reply {round}, after {heard} bytes");
        heard += block.len();
    }
    assert_eq!(slow.line(), "[sell] success");
    assert_eq!(slow.rest(), b"");
    // A loop that sleeps through landings would take minutes.
    assert!(begin.elapsed() < PATIENCE, "it took {:?}", begin.elapsed());
}

/// Replies from memory wait for a client that has ended its output: the wait costs no CPU, plain
/// and in messages, and the client gets all of them when it reads.
pub fn a_half_closed_reader_waits_for_free(arm: &Arm) {
    let text = book(STOCKS, 1_000_000);
    let request = |is_framed| match is_framed {
        true => (frame(Opcode::Text, b"show")).repeat(20),
        false => b"show\n".repeat(20),
    };
    for is_framed in [false, true] {
        let more: &[&str] = if is_framed { &["--websocket"] } else { &[] };
        let server = arm.book(&text).with(more).start();
        let mut client = if is_framed { enter(&server) } else { server.client() };
        client.narrow(16 * 1024);
        client.send(request(is_framed));
        client.finish();
        let cpu = idle_cpu(&server);
        assert!(cpu < ms(100), "{cpu:?} of CPU, in messages: {is_framed}");
        let len = client.rest().len();
        // A message has ten bytes of head and no second newline.
        let (least, most) = (20 * text.len(), 20 * (text.len() + 12));
        assert!((least..=most).contains(&len), "{len} bytes, in messages: {is_framed}");
        drop(client);
        server.stop();
    }
}

/// The server disconnects a client that reads steadily but below the minimum rate, before the
/// client has everything.
pub fn who_takes_too_little_is_cut_off(arm: &Arm) {
    let text = book(STOCKS, 1_000_000);
    let server = arm.book(&text).with(&["--write-stall", "1s", "--write-rate", "1000000"]).start();
    let mut slow = server.client();
    slow.narrow(16 * 1024);
    slow.send("show\n".repeat(100));
    let begin = Instant::now();
    let mut heard = 0;
    while let Ok(true) = slow.try_receive() {
        heard += slow.take().len();
        std::thread::sleep(ms(50));
        assert!(begin.elapsed() < PATIENCE, "it was let read for {:?}", begin.elapsed());
    }
    assert!(heard < 100 * text.len(), "it got all of its {heard} bytes");
    server.settles();
    server.stop();
}

/// Clients that send orders endlessly at full speed do not starve others.
pub fn the_greedy_do_not_starve_the_rest(arm: &Arm) {
    let server = arm.book(book(3, 1_000_000)).start();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Raise(&over);
        for _ in 0..2 {
            let mut greedy = server.client();
            let mut sender = greedy.twin();
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    sender.send("sell 1 1\n".repeat(4000));
                }
                sender.finish();
            });
            scope.spawn(move || {
                while greedy.try_receive().expect("replies") {
                    greedy.take();
                }
            });
        }
        std::thread::sleep(ms(50));
        for round in 0..20 {
            let begin = Instant::now();
            assert_eq!(server.ask("buy 2 1"), "[buy] success");
            let waited = begin.elapsed();
            assert!(waited < Duration::from_secs(3), "client {round} waited {waited:?}");
        }
    });
    server.stop();
}

/// A client that repeats `ask` for twice as long as `limit`, which none of them may take. The next
/// one tries it if the machine paused this one so long that the server was right to close it.
#[track_caller]
fn stays(server: &Server, limit: Duration, ask: fn(&mut Client) -> Option<String>) -> Client {
    let stays = |_| {
        let (mut client, begin) = (server.client(), Instant::now());
        while begin.elapsed() < limit * 2 {
            let pause = Instant::now();
            let Some(line) = ask(&mut client) else {
                assert!(pause.elapsed() > limit * 3 / 4, "closed after {:?}", pause.elapsed());
                return None;
            };
            assert!(line.ends_with("] success"), "{line}");
        }
        Some(client)
    };
    (0..20).find_map(stays).expect("a machine that lets a client talk")
}

/// `--idle` and `--request-time`.
const LIMIT: Duration = Duration::from_millis(500);

/// A client that sends nothing for long is closed; one that keeps sending stays.
pub fn the_idle_are_sent_home(arm: &Arm) {
    let server = arm.book(book(3, 100)).with(&["--idle", "500ms"]).start();
    let mut talker = stays(&server, LIMIT, |client| {
        std::thread::sleep(LIMIT / 4);
        client.try_ask("sell 1 1")
    });
    let begin = Instant::now();
    assert_eq!(talker.rest(), b"", "the end comes by itself");
    let waited = begin.elapsed();
    assert!(waited < Duration::from_secs(5), "sent home after {waited:?}");
    // More of them than one turn closes.
    let mut silent: Vec<Client> = (0..arm.crowd(40)).map(|_| server.client()).collect();
    let begin = Instant::now();
    silent.iter_mut().for_each(|it| assert_eq!(it.rest(), b""));
    let waited = begin.elapsed();
    assert!((ms(400)..Duration::from_secs(5)).contains(&waited), "sent home after {waited:?}");
}

/// A client that never completes its request is disconnected although its bytes trickle; one that
/// sends each request in two pieces stays.
pub fn a_request_that_never_ends(arm: &Arm) {
    let server = arm.book(book(3, 100)).with(&["--request-time", "500ms"]).start();
    let mut slow = stays(&server, LIMIT, |client| {
        let _ = client.try_send("sel");
        std::thread::sleep(LIMIT / 4);
        client.try_ask("l 1 1")
    });
    let begin = Instant::now();
    slow.send("bu");
    std::thread::sleep(LIMIT / 2);
    // The server closes it sooner if the machine paused it here.
    let _ = slow.try_send("y 1");
    assert_eq!(slow.rest(), b"");
    let waited = begin.elapsed();
    assert!((ms(400)..Duration::from_secs(5)).contains(&waited), "cut off after {waited:?}");
}
