//! The stock market over real sockets: the golden sessions, overlong lines and long replies.

use std::path::Path;

use sim::Golden;

use crate::arms::Arm;
use crate::harness::ms;
use crate::market::book;
use crate::transcript::{self, Transcript};

/// Replays a transcript cut into pieces of `piece` bytes.
#[track_caller]
fn check_golden(arm: &Arm, path: &Path, piece: usize) {
    let Transcript { settings, book, talk } = transcript::read(path);
    let first = |value: &str| value.split(' ').next().unwrap_or_default().to_owned();
    let flags = settings.iter().flat_map(|(name, value)| [format!("--{name}"), first(value)]);
    let flags: Vec<String> = flags.collect();
    let golden = Golden::parse(&talk).unwrap_or_else(|bad| panic!("{}: {bad}", path.display()));
    let server =
        arm.book(&book).with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).start();
    let mut client = server.client();
    for piece in golden.sent().chunks(piece) {
        client.send(piece);
    }
    let wanted = golden.expected();
    let heard = client.exact(wanted.len());
    let what = format!("{} in pieces of {piece}", path.display());
    assert_eq!(heard.escape_ascii().to_string(), wanted.escape_ascii().to_string(), "{what}");
    if !talk.lines().any(|line| line == "= closed") {
        assert!(client.is_silent_for(ms(20)), "{what}: more than was expected");
        client.finish();
    }
    assert_eq!(client.rest(), b"", "{what}");
}

/// Every second one byte by byte. The simulator plays each in all kinds of pieces.
pub fn golden_sessions(arm: &Arm) {
    for (at, path) in transcript::all().iter().enumerate() {
        check_golden(arm, path, if at % 2 == 0 { usize::MAX } else { 1 });
    }
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
