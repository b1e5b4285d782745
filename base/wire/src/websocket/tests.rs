//! The essential cases of the Autobahn test suite, with its numbers, and handshakes.

use super::*;
use crate::http::{Limits, next};
use stats::Rng;

const MAX: usize = 1 << 17;
/// One bit of each byte of a length is used, so that a wrong order of bytes is found.
const BIG: usize = 65_536;

/// A frame of a client: FIN and reserved bits with the opcode, the payload.
fn raw(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    put_masked(true, Opcode::Text, payload, [1, 2, 3, 4], &mut frame);
    frame[0] = first;
    frame
}

/// The findings of a text reader in `frames` as words, with the close code of a violation.
fn heard(frames: &[Vec<u8>], max: usize) -> String {
    let (reader, input) = (MessageReader::new(MessageKind::Text, max), frames.concat());
    let (found, end) = fuzz::read(&mut Rng::new(0), reader, &input, input.len());
    let word = |incoming| match incoming {
        Incoming::Message(text) if text.len() >= 100 => text.len().to_string(),
        Incoming::Message(text) => String::from_utf8(text).expect("it was checked"),
        Incoming::Ping(payload) => format!("ping {}", payload.len()),
        Incoming::Close(code) => format!("close {code}"),
        Incoming::Nothing => unreachable!("it is left out"),
    };
    let broken = end.err().map(|bad| bad.code.to_string());
    found.into_iter().map(word).chain(broken).collect::<Vec<_>>().join(", ")
}

#[test]
fn frames_of_the_autobahn() {
    fn check(case: &str, frames: &[Vec<u8>], wanted: &str) {
        assert_eq!(heard(frames, MAX), wanted, "case {case}");
    }
    let (text, part, rest, last) = (0x81, 0x01, 0x00, 0x80);
    let (close, ping, pong) = (0x88, 0x89, 0x8a);
    check("1.1.1", &[raw(text, b"")], "");
    check("1.1.2", &[raw(text, &[b'*'; 125])], "125");
    check("1.1.4", &[raw(text, &[b'*'; 127])], "127");
    check("1.1.6", &[raw(text, &vec![b'*'; 65_535])], "65535");
    check("1.1.7", &[raw(text, &vec![b'*'; BIG])], "65536");
    check("1.2.2", &[raw(0x82, b"x")], "1003");
    check("2.1", &[raw(ping, b"")], "ping 0");
    check("2.4", &[raw(ping, &[0xfe; 125])], "ping 125");
    check("2.5", &[raw(ping, &[0xfe; 126])], "1002");
    check("2.8", &[raw(pong, b"x"), raw(ping, b"y")], "ping 1");
    for (case, first) in [("3.1", 0xc1), ("3.2", 0xa1), ("3.3", 0x91), ("3.5", 0xf2)] {
        check(case, &[raw(text, b"a"), raw(first, b"b"), raw(ping, b"")], "a, 1002");
    }
    for first in [0x83, 0x84, 0x87, 0x8b, 0x8f] {
        check("4", &[raw(first, b""), raw(ping, b"")], "1002");
    }
    check("5.1", &[raw(0x09, b"a"), raw(last, b"b")], "1002");
    check("5.3", &[raw(part, b"a"), raw(last, b"b")], "ab");
    check("5.6", &[raw(part, b"a"), raw(ping, b"p"), raw(last, b"b")], "ping 1, ab");
    check("5.9", &[raw(last, b"a"), raw(text, b"b")], "1002");
    check("5.12", &[raw(rest, b"a"), raw(text, b"b")], "1002");
    check("5.15", &[raw(part, b"a"), raw(last, b"b"), raw(rest, b"c")], "ab, 1002");
    check("5.18", &[raw(part, b"a"), raw(text, b"b")], "1002");
    check("6.1.2", &[raw(part, b""), raw(rest, b""), raw(last, b"")], "");
    let greek = "\u{3ba}\u{1f79}\u{3c3}".as_bytes();
    let bytes: Vec<_> = greek.iter().map(|byte| raw(rest, &[*byte])).collect();
    check(
        "6.2.4",
        &[vec![raw(part, b"")], bytes, vec![raw(last, b"")]].concat(),
        "\u{3ba}\u{1f79}\u{3c3}",
    );
    check("6.3.1", &[raw(text, b"\xce\xba\xed\xa0\x80edited")], "1007");
    check("6.4.1", &[raw(part, b"\xce\xba\xf4\x90"), raw(last, b"x")], "1007");
    check("6.6.2", &[raw(text, b"\xce")], "1007");
    check("6.6.3", &[raw(part, b"\xce"), raw(last, b"")], "1007");
    for wrong in [&b"\xf8\x88\x80\x80\x80"[..], b"\xc0\x80", b"\xff", b"\xed\xbf\xbf", b"\x80"] {
        check("6.12", &[raw(text, wrong)], "1007");
    }
    check("7.3.1", &[raw(close, b"")], "close 1005");
    check("7.3.2", &[raw(close, b"a")], "1002");
    check("7.3.4", &[raw(close, b"\x03\xe8bye")], "close 1000");
    check("7.3.6", &[raw(close, &[0x03; 126])], "1002");
    check("7.5.1", &[raw(close, b"\x03\xe8\xce\xba\xed\xa0\x80")], "1007");
    for code in [1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4999_u16] {
        check("7.7", &[raw(close, &code.to_be_bytes())], &format!("close {code}"));
    }
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535_u16] {
        check("7.9", &[raw(close, &code.to_be_bytes())], "1002");
    }
}

#[test]
fn frames_that_no_client_may_send() {
    fn check(frame: &[u8], wanted: &str) {
        assert_eq!(heard(&[frame.to_vec()], 200), wanted, "{}", frame.escape_ascii());
    }
    // Bare; a length in too long a form, or above 2^63; then too long, which the head says.
    check(b"\x81\x01a", "1002");
    check(b"\x81\xfe\x00\x7d", "1002");
    check(b"\x81\xff\0\0\0\0\0\0\xff\xff", "1002");
    check(b"\x81\xff\x80\0\0\0\0\0\0\0", "1002");
    check(b"\x81\xfe\x00\xc9\0\0\0\0", "1009");
    check(b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", "1009");
    let parts = [raw(0x01, &[b'a'; 150]), raw(0x00, &[b'a'; 51])];
    assert_eq!(heard(&parts, 200), "1009", "fragments count together");
    let binary = MessageReader::new(MessageKind::Binary, 9).next(&raw(0x81, b"a"));
    assert_eq!(binary.map_err(|bad| bad.code), Err(close_code::UNSUPPORTED));
}

#[test]
fn frames_of_a_server_are_bare() {
    let check = |payload: &[u8], wanted: FrameHead| {
        let mut out = Vec::new();
        put_message(MessageKind::Text, payload, &mut out);
        assert_eq!(FrameHead::parse(&out), Ok(Some(wanted)));
        assert_eq!(&out[wanted.head..], payload);
    };
    let (is_last, mask, opcode) = (true, None, Opcode::Text);
    for (len, head) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (BIG, 10)] {
        check(&vec![b'a'; len], FrameHead { head, is_last, opcode, mask, len: len as u64 });
    }
    check(b"\xff", FrameHead { head: 2, is_last, opcode: Opcode::Binary, mask, len: 1 });
    let mut out = Vec::new();
    put_close(close_code::GOING_AWAY, "bye", &mut out);
    put_close(close_code::NONE, "", &mut out);
    assert_eq!(out, b"\x88\x05\x03\xe9bye\x88\0");
}

/// The status of the answer to a handshake with these fields, and its accepted key.
fn answered(options: &WebSocketOptions, first: &str, fields: &str) -> String {
    let text = format!("{first}\r\nHost: 127.0.0.1:7000\r\n{fields}\r\n");
    let head = next(text.as_bytes(), &Limits::default()).expect("a good head").expect("whole");
    let mut out = Vec::new();
    let accepted = options.answer(&head, &mut out);
    let out = String::from_utf8(out).expect("ASCII");
    assert_eq!(accepted, out.starts_with("HTTP/1.1 101 "), "{out}");
    assert_eq!(out.contains("\r\nSec-WebSocket-Version: 13\r"), out.contains(" 426 "), "{out}");
    out[9..12].to_owned()
}

#[test]
fn handshakes() {
    // The example of section 1.3.
    assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let good = "Upgrade: h2c, WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Extensions: permessage-deflate\r\n";
    let (get, usual) = ("GET /any HTTP/1.1", WebSocketOptions::default());
    let check = |first: &str, from: &str, to: &str, wanted: &str| {
        let fields = good.replace(from, to);
        assert_eq!(answered(&usual, first, &fields), wanted, "{first}, {to}");
    };
    check(get, "", "", "101");
    check("GET / HTTP/1.0", "x", "x", "400");
    check("POST / HTTP/1.1", "x", "x", "400");
    check(get, "Upgrade: h2c, WebSocket", "Upgrade: h2c", "426");
    check(get, "keep-alive, Upgrade", "keep-alive", "400");
    check(get, "Version: 13", "Version: 8", "426");
    check(get, "Sec-WebSocket-Version: 13\r\n", "", "400");
    check(get, "b25jZQ==", "b25j", "400");
    check(get, "Sec-WebSocket-Key", "X-Key", "400");
    check(get, "chat\r\n", "chat\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "400");
    check(get, "chat\r\n", "chat\r\nContent-Length: 1\r\n", "400");
    let origins = |list: &[&str]| WebSocketOptions {
        origins: list.iter().map(|it| (*it).to_owned()).collect(),
        page: "<p>".to_owned(),
        ..WebSocketOptions::default()
    };
    for (list, origin, wanted) in [
        (&[][..], "http://127.0.0.1:8080", "101"),
        (&[], "http://localhost", "101"),
        (&[], "https://evil.example", "403"),
        (&[], "null", "403"),
        (&["https://a.org", "null"], "https://a.org", "101"),
        (&["https://a.org", "null"], "null", "101"),
        (&["https://a.org"], "http://127.0.0.1:7000", "403"),
        (&["*"], "https://b.org", "101"),
    ] {
        let fields = format!("{good}Origin: {origin}\r\n");
        assert_eq!(answered(&origins(list), get, &fields), wanted, "{list:?}, {origin}");
    }
    assert_eq!(answered(&origins(&[]), get, ""), "200", "the page");
    assert_eq!(answered(&usual, get, ""), "426");
}
