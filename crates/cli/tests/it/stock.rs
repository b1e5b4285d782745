//! The stock market over real sockets: the golden sessions, and the course's clients.

use std::path::Path;

use stats::Rng;

use crate::arms::Arm;
use crate::harness::{Client, Folder, PATIENCE, Server, eventually, ms};
use crate::market::{Account, Request, book, parse};
use crate::transcript::{self, BLOCK};

/// The course's framing.
const FIXED: &[&str] = &["--framing", "fixed:8192"];

/// Replays a transcript cut into pieces of `piece` bytes.
#[track_caller]
fn check_golden(arm: &Arm, path: &Path, piece: usize) {
    let transcript = transcript::read(path);
    let flags: Vec<&str> = transcript.flags.iter().map(String::as_str).collect();
    let server = arm.book(&transcript.book).with(&flags).start();
    let mut client = server.client();
    for piece in transcript.sent.chunks(piece) {
        client.send(piece);
    }
    let wanted = transcript.expected.escape_ascii().to_string();
    let heard = client.exact(transcript.expected.len());
    let what = format!("{} in pieces of {piece}", path.display());
    assert_eq!(heard.escape_ascii().to_string(), wanted, "{what}");
    if !transcript.closed {
        assert!(client.is_silent_for(ms(20)), "{what}: more than was expected");
        client.finish();
    }
    assert_eq!(client.rest(), b"", "{what}");
}

pub fn golden_sessions(arm: &Arm) {
    let files = transcript::all();
    assert!(files.len() >= 6, "expected at least six transcripts, found {}", files.len());
    for path in &files {
        check_golden(arm, path, usize::MAX);
        check_golden(arm, path, 1);
    }
}

/// Writes a line, reads exactly one block, as `readnb` does.
#[track_caller]
fn ask_block(client: &mut Client, line: &str) -> String {
    client.send(format!("{line}\n"));
    let block = client.exact(BLOCK);
    let len = block.iter().position(|&byte| byte == 0).expect("a NUL ends the text");
    assert!(block[len..].iter().all(|&byte| byte == 0), "padding is NUL: {line}");
    String::from_utf8(block[..len].to_vec()).expect("replies are text")
}

/// One client of the course: it writes a line, reads a block, and closes in one of several ways.
pub fn course_clients(arm: &Arm) {
    let server = arm.book("1 7 1000\n5 3 3700\n").with(FIXED).start();
    let mut plain = server.client();
    assert_eq!(ask_block(&mut plain, "show"), "1 7 1000\n5 3 3700\n");
    assert_eq!(ask_block(&mut plain, "buy 1 2"), "[buy] success\n");
    assert_eq!(ask_block(&mut plain, "buy 1 6"), "Not enough left stocks\n");
    drop(plain);
    let mut polite = server.client();
    assert_eq!(ask_block(&mut polite, "sell 5 1"), "[sell] success\n");
    assert_eq!(ask_block(&mut polite, "exit"), "exit\n");
    assert_eq!(polite.rest(), b"", "the end comes by itself");
    drop(polite);
    for _ in 0..20 {
        // It leaves without reading, so the reply meets a reset.
        let mut hasty = server.client();
        hasty.send("exit\n");
        drop(hasty);
        let mut hasty = server.client();
        hasty.send("show\nshow\nshow\n");
        drop(hasty);
    }
    let mut next = server.client();
    assert_eq!(ask_block(&mut next, "show"), "1 5 1000\n5 4 3700\n");
    drop(next);
    server.settles();
    server.stop().says("0 workers replaced");
}

/// The course's crowd: each child sends ten requests, reads each block, and closes without `exit`.
/// The file equals the model exactly as soon as all have closed.
pub fn course_crowd(arm: &Arm) {
    let text = book(10, 1000);
    let (_folder, data) = Folder::with("stock.txt", &text);
    let server = arm.stock(&data).with(FIXED).start();
    let mut account = Account::default();
    std::thread::scope(|scope| {
        let children: Vec<_> = (0..10)
            .map(|seed| {
                let server = &server;
                scope.spawn(move || child(server, seed))
            })
            .collect();
        for child in children {
            account.add(&child.join().expect("a child that has asked ten times"));
        }
    });
    let initial = parse(&text).expect("our own book");
    // A server with one client at a time may also save between two clients.
    eventually("the file holds what the clients were told", PATIENCE, || {
        let saved = std::fs::read_to_string(&data).ok().and_then(|text| parse(&text));
        saved.is_some_and(|saved| account.fits(&initial, &saved))
    });
    let saved = std::fs::read_to_string(&data).expect("the file");
    account.check(&initial, &parse(&saved).expect("a whole file"));
    let mut last = server.client();
    assert_eq!(ask_block(&mut last, "show"), saved);
}

fn child(server: &Server, seed: u64) -> Account {
    let mut rng = Rng::new(seed);
    let mut account = Account::default();
    let mut client = server.client();
    for _ in 0..10 {
        let request = Request::roll(&mut rng, 10);
        let mut reply = ask_block(&mut client, request.line().trim_end());
        if request == Request::Show {
            // The account expects the empty line that ends it in line framing.
            reply.push('\n');
        }
        let mut heard = reply.into_bytes();
        account.settle(&mut [request].into(), &mut heard);
        assert!(heard.is_empty(), "seed {seed}: one reply to one request");
    }
    account
}

/// The server answers an endless line and closes. The answer is not lost although the client
/// continues to send, and the book is unchanged.
pub fn an_overlong_line(arm: &Arm) {
    let server = arm.book("1 10 100\n").start();
    for len in [8191, 8192, 20_000, 400_000] {
        let mut client = server.client();
        let _ = client.try_send(vec![b'7'; len]);
        let _ = client.try_send("\nbuy 1 1\n");
        let heard = String::from_utf8(client.rest()).expect("replies are text");
        assert_eq!(
            heard, "error: expected a line of at most 8191 bytes, found a longer one; closing\n",
            "{len} bytes"
        );
    }
    let mut client = server.client();
    client.send([&b"buy 1 1"[..], &[b' '; 8183], b"\n"].concat());
    assert_eq!(client.line(), "[buy] success", "8191 bytes with the newline are a line");
    assert_eq!(client.ask("sell 1 1"), "[sell] success");
    drop(client);
    assert_eq!(server.show(), "1 10 100\n");
}

/// Twenty thousand stocks in one reply, byte for byte, again and again.
pub fn a_big_book(arm: &Arm) {
    let text = book(20_000, 1_000_000);
    let server = arm.book(&text).start();
    let mut client = server.client();
    client.send("show\n".repeat(20) + "buy 20000 1\nshow\nexit\n");
    for round in 0..20 {
        let heard = client.exact(text.len() + 1);
        assert!(heard[..text.len()] == *text.as_bytes(), "show {round}");
        assert_eq!(heard[text.len()], b'\n', "show {round}");
    }
    assert_eq!(client.line(), "[buy] success");
    let changed = text.replace("\n20000 1000000 ", "\n20000 999999 ");
    assert!(client.block() == changed, "show after an order");
    assert_eq!(client.rest(), b"");
}
