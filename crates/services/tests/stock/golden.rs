//! Replays the transcripts in `tests/golden`, under every lock and cut into pieces of several sizes.
//!
//! A transcript's lines: `# comment`, `! framing|order VALUE`, `= ID LEFT PRICE` for the book, `> ` a
//! request, `< ` a line of its reply (`<` alone is the empty line that ends a block), `! closed` where
//! the server ends the conversation. Requests may hold Rust escapes such as `\t` or `\x00`.

use crate::desk::Desk;
use services::stock::{Lock, Options};
use std::path::Path;
use wire::framing::Framing;

struct Transcript {
    options: Options,
    book: String,
    sent: Vec<u8>,
    expected: Vec<u8>,
    closed: bool,
}

fn read(path: &Path) -> Transcript {
    let text = std::fs::read_to_string(path).expect("a transcript");
    let mut transcript = Transcript {
        options: Options::default(),
        book: String::new(),
        sent: Vec::new(),
        expected: Vec::new(),
        closed: false,
    };
    let mut reply = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("!", "closed") => transcript.closed = true,
            ("!", choice) => choose(&mut transcript.options, choice),
            ("=", row) => transcript.book += &format!("{row}\n"),
            ("<", line) => reply.extend_from_slice(format!("{line}\n").as_bytes()),
            (">", request) => {
                end_reply(&mut reply, &mut transcript);
                transcript.sent.extend_from_slice(&unescaped(request));
                transcript.sent.push(b'\n');
            }
            _ => panic!("{}: no such line: {line}", path.display()),
        }
    }
    end_reply(&mut reply, &mut transcript);
    transcript
}

fn choose(options: &mut Options, choice: &str) {
    match choice.split_once(' ').expect("a name and a value") {
        ("framing", value) => options.framing = value.parse().expect("a framing"),
        ("order", value) => options.order = value.parse().expect("an order"),
        other => panic!("no such choice: {other:?}"),
    }
}

fn end_reply(reply: &mut Vec<u8>, transcript: &mut Transcript) {
    if let (Framing::Fixed(size), false) = (transcript.options.framing, reply.is_empty()) {
        reply.resize(size, 0);
    }
    transcript.expected.append(reply);
}

fn unescaped(request: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = request.chars();
    while let Some(char) = rest.next() {
        let byte = match (char, if char == '\\' { rest.next() } else { None }) {
            ('\\', Some('t')) => b'\t',
            ('\\', Some('r')) => b'\r',
            ('\\', Some('x')) => {
                let digits: String = rest.by_ref().take(2).collect();
                u8::from_str_radix(&digits, 16).expect("two hex digits")
            }
            ('\\', escape) => panic!("no such escape: {escape:?}"),
            (plain, _) => u8::try_from(plain).expect("ASCII"),
        };
        bytes.push(byte);
    }
    bytes
}

fn check(path: &Path) {
    let transcript = read(path);
    for lock in Lock::ALL {
        for piece in [1, 2, 3, 7, 4096] {
            let desk = Desk::new(&transcript.book, Options { lock, ..transcript.options });
            desk.stock.fits(&desk.market).expect("a transcript's book fits");
            let heard = desk.hear(transcript.sent.chunks(piece));
            let expected = String::from_utf8_lossy(&transcript.expected);
            let at = format!("{} under {lock}, in pieces of {piece}", path.display());
            assert_eq!(heard.text(), expected, "{at}");
            assert_eq!(heard.closed, transcript.closed, "{at}");
        }
    }
}

#[test]
fn every_transcript() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the transcripts") {
        check(&file.expect("a transcript").path());
        count += 1;
    }
    assert!(count >= 6, "expected at least six transcripts, found {count}");
}
