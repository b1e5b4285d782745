//! Random heads, targets and chunked bodies: nothing panics, no meaning depends on where the input
//! was cut, and no byte beyond the end is used. An independent reader judges the meaning itself
//! (tests/h11.rs).
//!
//! The oracle is the parser on the whole input: a prefix gives either nothing yet or the same
//! result. Bodies are written chunk by chunk and must come back under any cuts.

use super::{Bad, Body, Chunked, Limits, Target, next};
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

/// The parts of a list between bars.
fn parts(list: &[u8]) -> Vec<&[u8]> {
    list.split(|byte| *byte == b'|').collect()
}

/// Random valid and broken heads.
fn head_bytes(rng: &mut Rng) -> Vec<u8> {
    const PIECES: &[u8] = b"\
        GET / HTTP/1.1\r\n|POST /a?b HTTP/1.0\r\n|Host: a\r\n|Host:\r\n|Content-Length: 3\r\n|\
        Content-Length:  03 \r\n|content_length: 3\r\n|Connection: x, keep-alive\r\n|\
        OPTIONS * HTTP/1.1\r\n|GET  / HTTP/1.1\r\n|GET / HTTP/1.2\r\n|GET /a b HTTP/1.1\r\n|\
        X y: z\r\n|: z\r\n|Host: a b\r\n|Host: [::1]:80\r\n|Host: a:80\r\n|Host: a%20b\r\n|\
        Host: a%2\r\n|Host: [:::]\r\n|Transfer-Encoding: chunked, gzip\r\n|Transfer-Encoding:\r\n|\
        Content-Length: 3, 3\r\n|Transfer-Encoding: chunked\r\n|transfer-encoding:\tchunked\r\n|\
        Connection: close\r\n|Expect: 100-continue\r\n| folded\r\n|\r\n|\n|\r|\0|X:y\r\n|\xff";
    let (pieces, mut bytes) = (parts(PIECES), Vec::new());
    if !rng.once_in(4) {
        bytes.extend_from_slice(pieces[rng.below(2)]);
    }
    if !rng.once_in(4) {
        bytes.extend_from_slice(pieces[2]);
    }
    for _ in 0..rng.below(6) {
        bytes.extend_from_slice(rng.pick::<&[u8]>(&pieces));
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

/// A body is read back whole under any cuts.
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
    assert_eq!(read(&wire, 1 + rng.below(9)), (sent, Ok((end, true))), "{at}");
}

/// Random valid and broken chunked bodies.
fn chunk_bytes(rng: &mut Rng) -> Vec<u8> {
    const PIECES: &[u8] = b"\
        1\r\na\r\n|2\r\n\r\n\r\n|0000000000000003\r\nabc\r\n|1;a\r\na\r\n|\
        1;a=b;c=\"d\\\"\\\\;\t\"\r\na\r\n|1 ;a\r\na\r\n|1; a = b\r\na\r\n|1;a=\"b\r\n|\
        00000000000000001\r\na\r\n|ffffffffffffffff\r\n|+1\r\na\r\n|0x1\r\na\r\n|1\na\n|\
        1;\r\na\r\n|a|\r\n|\r|\n|\xff";
    const ENDS: &[u8] = b"\
        0\r\n\r\n|0;a=b\r\n\r\n|000\r\nX: y\r\nZ:\r\n\r\n|0\r\nX : y\r\n\r\n|0\r\n folded\r\n\r\n|\
        0\r\nX: \0\r\n\r\n|0\r\nX: y\n\r\n|0\n\n|";
    let (pieces, ends, mut bytes) = (parts(PIECES), parts(ENDS), Vec::new());
    for _ in 0..rng.below(4) {
        // Most pieces are valid, or hardly any body would be.
        let kinds = if rng.once_in(4) { pieces.len() } else { 5 };
        bytes.extend_from_slice(pieces[rng.below(kinds)]);
    }
    let kinds = if rng.once_in(3) { ends.len() } else { 3 };
    bytes.extend_from_slice(ends[rng.below(kinds)]);
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
    let pieces = 1 + rng.below(9);
    assert_eq!(
        read(&bytes, bytes.len()),
        read(&bytes, pieces),
        "{at}: {:?}",
        bytes.escape_ascii().to_string()
    );
}

/// The data of a body that arrives in pieces of `step` bytes, and where it ends, if it does.
pub(super) fn read(bytes: &[u8], step: usize) -> (Vec<u8>, Result<(usize, bool), Bad>) {
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
