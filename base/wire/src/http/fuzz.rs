//! Random heads, targets and chunked bodies: nothing panics, no meaning depends on where the input
//! was cut, and no byte beyond the end is used. An independent reader judges the meaning itself
//! (tests/h11.rs).
//!
//! The oracle is the parser on the whole input: a prefix gives either nothing yet or the same
//! result. Bodies are written chunk by chunk and must come back under any cuts.

use super::{Body, Chunked, Limits, Target, next};
use stats::Rng;

/// One round; `at` names it in messages.
///
/// # Panics
/// When a promise is broken.
pub(crate) fn fuzz(rng: &mut Rng, at: &str) {
    match rng.below(4) {
        0 => heads(rng, at),
        1 => bodies(rng, at),
        2 => chunks(rng, at),
        _ => targets(rng, at),
    }
}

/// Random valid and broken heads.
fn head_bytes(rng: &mut Rng) -> Vec<u8> {
    const PIECES: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\n",
        b"POST /a?b HTTP/1.0\r\n",
        b"Host: a\r\n",
        b"Host:\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length:  03 \r\n",
        b"content_length: 3\r\n",
        b"Connection: x, keep-alive\r\n",
        b"OPTIONS * HTTP/1.1\r\n",
        b"GET  / HTTP/1.1\r\n",
        b"GET / HTTP/1.2\r\n",
        b"GET /a b HTTP/1.1\r\n",
        b"X y: z\r\n",
        b": z\r\n",
        b"Host: a b\r\n",
        b"Host: [::1]:80\r\n",
        b"Host: a:80\r\n",
        b"Host: a%20b\r\n",
        b"Host: a%2\r\n",
        b"Host: [:::]\r\n",
        b"Transfer-Encoding: chunked, gzip\r\n",
        b"Transfer-Encoding:\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"transfer-encoding:\tchunked\r\n",
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
        b" folded\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b"X:y\r\n",
        b"\xff",
    ];
    let mut bytes = Vec::new();
    if !rng.once_in(4) {
        bytes.extend_from_slice(PIECES[rng.below(2)]);
    }
    if !rng.once_in(4) {
        bytes.extend_from_slice(PIECES[2]);
    }
    for _ in 0..rng.below(6) {
        bytes.extend_from_slice(rng.pick::<&[u8]>(PIECES));
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// A head found in a prefix is found in the whole at the same place; two framings are never
/// accepted.
fn heads(rng: &mut Rng, at: &str) {
    let mut bytes = head_bytes(rng);
    if rng.once_in(3) {
        let place = rng.below(bytes.len());
        bytes[place] = *rng.pick(b"\r\n\t \0:,;/%@\x7f\x80aZ09");
    }
    let limits = Limits::default();
    let seen = |len: usize| match next(&bytes[..len], &limits) {
        Ok(None) => None,
        Ok(Some(head)) => Some(Ok((head.len, head.body, head.keep_alive))),
        Err(bad) => Some(Err(bad)),
    };
    let whole = seen(bytes.len());
    for len in 0..bytes.len() {
        match seen(len) {
            None => {}
            early => assert_eq!(early, whole, "{at}: after {len} of {:?}", bytes.escape_ascii()),
        }
    }
    if let Some(Ok((used, body, _))) = whole {
        let head = bytes[..used].to_ascii_lowercase();
        assert!(head.ends_with(b"\r\n\r\n"), "{at}");
        let has = |name: &[u8]| head.windows(name.len()).any(|it| it == name);
        if body == Body::Chunked {
            assert!(!has(b"content-length"), "{at}: {:?}", head.escape_ascii());
        }
        let count = |name: &[u8]| head.windows(name.len()).filter(|it| *it == name).count();
        assert!(count(b"content-length") <= 1 && count(b"\nhost:") <= 1, "{at}");
    }
}

/// A body is read back whole under any cuts; noise is refused or ends within its length.
fn bodies(rng: &mut Rng, at: &str) {
    let mut wire = Vec::new();
    let mut sent = Vec::new();
    for _ in 0..rng.below(5) {
        let data: Vec<u8> = (0..1 + rng.below(40)).map(|_| rng.roll() as u8).collect();
        wire.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        wire.extend_from_slice(&data);
        wire.extend_from_slice(b"\r\n");
        sent.extend_from_slice(&data);
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    let end = wire.len();
    wire.extend_from_slice(b"GET");
    let (mut reader, mut got) = (Chunked::new(), Vec::new());
    let (mut from, mut to) = (0, 0);
    loop {
        let piece = reader.next(&wire[from..to]).unwrap_or_else(|bad| panic!("{at}: {bad}"));
        got.extend_from_slice(piece.data);
        from += piece.used;
        if piece.end {
            break;
        }
        to = (to + 1 + rng.below(9)).min(wire.len());
    }
    assert_eq!((got, from), (sent, end), "{at}");

    let mut noise = wire;
    let place = rng.below(noise.len());
    noise[place] = *rng.pick(b"\r\n;0fg \0");
    let (mut reader, mut from) = (Chunked::new(), 0);
    while let Ok(piece) = reader.next(&noise[from..]) {
        from += piece.used;
        if piece.end || piece.used == 0 {
            break;
        }
    }
    assert!(from <= noise.len(), "{at}");
}

/// Random valid and broken chunked bodies.
fn chunk_bytes(rng: &mut Rng) -> Vec<u8> {
    const PIECES: &[&[u8]] = &[
        b"1\r\na\r\n",
        b"2\r\n\r\n\r\n",
        b"0000000000000003\r\nabc\r\n",
        b"1;a\r\na\r\n",
        b"1;a=b;c=\"d\\\"\\\\;\t\"\r\na\r\n",
        b"1 ;a\r\na\r\n",
        b"1; a = b\r\na\r\n",
        b"1;a=\"b\r\n",
        b"00000000000000001\r\na\r\n",
        b"ffffffffffffffff\r\n",
        b"+1\r\na\r\n",
        b"0x1\r\na\r\n",
        b"1\na\n",
        b"1;\r\na\r\n",
        b"a",
        b"\r\n",
        b"\r",
        b"\n",
        b"\xff",
    ];
    const ENDS: &[&[u8]] = &[
        b"0\r\n\r\n",
        b"0;a=b\r\n\r\n",
        b"000\r\nX: y\r\nZ:\r\n\r\n",
        b"0\r\nX : y\r\n\r\n",
        b"0\r\n folded\r\n\r\n",
        b"0\r\nX: \0\r\n\r\n",
        b"0\r\nX: y\n\r\n",
        b"0\n\n",
        b"",
    ];
    let mut bytes = Vec::new();
    for _ in 0..rng.below(4) {
        // Most pieces are valid, or hardly any body would be.
        let kinds = if rng.once_in(4) { PIECES.len() } else { 5 };
        bytes.extend_from_slice(PIECES[rng.below(kinds)]);
    }
    let kinds = if rng.once_in(3) { ENDS.len() } else { 3 };
    bytes.extend_from_slice(ENDS[rng.below(kinds)]);
    if rng.once_in(3) && !bytes.is_empty() {
        let place = rng.below(bytes.len());
        bytes[place] = *rng.pick(b"\r\n\t ;=\"\\0fg:\0\x7f\x80");
    }
    bytes.extend_from_slice(b"GET");
    bytes
}

/// A body that ends, or a fault, is found at the same place however the body arrives.
fn chunks(rng: &mut Rng, at: &str) {
    let bytes = chunk_bytes(rng);
    let read = |step: usize| {
        let (mut reader, mut data, mut from, mut seen) = (Chunked::new(), Vec::new(), 0, 0);
        loop {
            let piece = match reader.next(&bytes[from..seen]) {
                Ok(piece) => piece,
                Err(bad) => return (data, Err(bad)),
            };
            data.extend_from_slice(piece.data);
            from += piece.used;
            if piece.end || (piece.used == 0 && seen == bytes.len()) {
                return (data, Ok((from, piece.end)));
            }
            seen = (seen + step).min(bytes.len());
        }
    };
    let pieces = 1 + rng.below(9);
    assert_eq!(read(bytes.len()), read(pieces), "{at}: {:?}", bytes.escape_ascii().to_string());
}

/// Every accepted path is normalized.
fn targets(rng: &mut Rng, at: &str) {
    const PIECES: &[&str] = &["/", "a", "..", ".", "%2e", "%2F", "%", "?", "%00", "#", "%EC", "b"];
    let pieces: Vec<&str> = (0..rng.below(9)).map(|_| *rng.pick(PIECES)).collect();
    let target = format!("/{}", pieces.concat());
    if let Ok(found) = Target::read(&target) {
        let path = found.path.as_ref();
        assert!(path.starts_with(b"/") && !path.contains(&0), "{at}: {target}");
        let is_name = |it: &[u8]| it != b".." && it != b".";
        assert!(path.split(|byte| *byte == b'/').all(is_name), "{at}: {target} -> {path:?}");
    }
}

#[cfg(test)]
mod tests {
    use stats::Rng;

    #[test]
    fn a_few_seeds() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            for event in 0..50 {
                super::fuzz(&mut rng, &format!("wire::http::fuzz seed {seed}, event {event}"));
            }
        }
    }
}
