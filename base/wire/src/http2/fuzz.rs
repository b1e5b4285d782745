//! Frames, blocks and replies, whole and broken, cut anywhere.

use stats::Rng;

use super::{
    HeadReader, Kind, ReplyPiece, ReplyReader, flag, next, put_field, put_frame, put_head,
    put_status,
};
use crate::http;

/// Reads about `events` inputs from `seed`.
///
/// # Panics
/// When a reader breaks one of its promises; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    for event in 0..events {
        let at = format!("http2::fuzz seed {seed}, event {event}");
        match rng.below(3) {
            0 => frames(&mut rng, &at),
            1 => requests(&mut rng, &at),
            _ => replies(&mut rng, &at),
        }
    }
}

/// Frames come back whole under every cut; broken ones never make the reader overrun.
fn frames(rng: &mut Rng, at: &str) {
    let mut bytes = Vec::new();
    let sent: Vec<(u32, Vec<u8>)> =
        (0..rng.below(5)).map(|_| (1 + rng.below(9) as u32, vec![b'x'; rng.below(300)])).collect();
    for (stream, payload) in &sent {
        put_frame(Kind::Data, 0, *stream, payload, &mut bytes);
    }
    let is_broken = rng.once_in(3) && !bytes.is_empty();
    if is_broken {
        let place = rng.below(bytes.len());
        bytes[place] ^= 1 << rng.below(8);
    }
    let (mut from, mut seen, mut read) = (0, 0, Vec::new());
    while let Ok(found) = next(&bytes[from..seen]) {
        match found {
            Some((frame, used)) => {
                assert!(used <= seen - from, "{at}");
                // The content of a broken frame is refused or lies within its payload.
                assert!(frame.content().is_ok_and(|it| it.0.len() <= used) || is_broken, "{at}");
                read.push((frame.stream, frame.payload.to_vec()));
                from += used;
            }
            None if seen == bytes.len() => break,
            None => seen = (seen + 1 + rng.below(20)).min(bytes.len()),
        }
    }
    assert!(is_broken || read == sent, "{at}");
}

/// A block that is read becomes one head of HTTP/1.1, which the strict reader takes as a whole or
/// refuses.
fn requests(rng: &mut Rng, at: &str) {
    const NAMES: &[&str] =
        &["accept", "cookie", "host", "content-length", "te", "a b", "X", "upgrade", ":path", ""];
    const VALUES: &[&str] = &["a", "1", "12", "trailers", "a\r\nb: c", " a", "", "h:1", "\u{e9}"];
    let mut block = Vec::new();
    for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", "/a")] {
        if !rng.once_in(20) {
            put_field(name.as_bytes(), value.as_bytes(), &mut block);
        }
    }
    for _ in 0..rng.below(5) {
        let (name, value) = (rng.pick::<&str>(NAMES), rng.pick::<&str>(VALUES));
        put_field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    if rng.once_in(3) {
        let place = rng.below(block.len().max(1));
        block.splice(place.min(block.len()).., [rng.roll() as u8, rng.roll() as u8]);
    }
    let has_body = rng.once_in(2);
    let Ok(Ok(head)) = HeadReader::default().request(&block, has_body, 4096) else { return };
    if let Ok(Some(read)) = http::next(&head.text, &http::Limits::default()) {
        assert_eq!(read.len, head.text.len(), "{at}: {}", head.text.escape_ascii());
        let is_chunked = read.body == http::Body::Chunked;
        assert_eq!(is_chunked, head.is_chunked, "{at}: {}", head.text.escape_ascii());
    }
}

/// A reply has the same head and body however it is cut.
fn replies(rng: &mut Rng, at: &str) {
    let body = vec![b'b'; rng.below(400)];
    let status = *rng.pick(&[200, 206, 404, 599]);
    let is_chunked = rng.once_in(2);
    let mut reply = format!("HTTP/1.1 {status} X\r\nA: {}\r\n", rng.below(99)).into_bytes();
    let mut wanted = Vec::new();
    put_status(status, &mut wanted);
    if is_chunked {
        reply.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        for chunk in body.chunks(1 + rng.below(100)) {
            reply.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            reply.extend_from_slice(chunk);
            reply.extend_from_slice(b"\r\n");
        }
        reply.extend_from_slice(b"0\r\n\r\n");
    } else {
        reply.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    }
    if !is_chunked {
        reply.extend_from_slice(&body);
    }
    let mut reader = ReplyReader::new(false);
    let (mut from, mut seen, mut read, mut framed) = (0, 0, Vec::new(), Vec::new());
    while !reader.is_over() {
        let (room, mut block) = (rng.below(60), Vec::new());
        let Some((piece, used)) = reader.next(&reply[from..seen], room, &mut block) else {
            panic!("{at}: a reply was refused")
        };
        from += used;
        match piece {
            ReplyPiece::Head { is_last } => {
                assert!(block.starts_with(&wanted), "{at}");
                put_head(1, is_last, &block, &mut framed);
            }
            ReplyPiece::Body { bytes, .. } => {
                assert!(bytes.len() <= room, "{at}");
                read.extend_from_slice(bytes);
            }
            ReplyPiece::Nothing => {}
        }
        if used == 0 {
            seen = (seen + 1 + rng.below(50)).min(reply.len());
        }
    }
    assert!(read == body && from == reply.len(), "{at}");
    let (frame, _) = next(&framed).ok().flatten().expect("one short head");
    assert!(frame.has(flag::END_HEADERS), "{at}");
}
