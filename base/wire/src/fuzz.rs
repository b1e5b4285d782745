//! Feeds seeded bytes to every decoder and checks the results against simple oracles.

use crate::conf;
use crate::framing::{Decoder, Framing, Shape};
use crate::http;
use crate::line::{self, Next};
use crate::proxy;
#[cfg(feature = "media")]
use crate::rtsp;
use crate::text;
use stats::Rng;

/// Runs `events` rounds from `seed`.
///
/// # Panics
/// When a decoder breaks one of its promises; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    for event in 0..events {
        let at = || format!("wire::fuzz seed {seed}, event {event}");
        match rng.below(7) {
            0 => lines(&mut rng, &at()),
            1 => replies(&mut rng, &at()),
            2 => http::fuzz(&mut rng, &at()),
            3 => conf::fuzz(&mut rng, &at()),
            #[cfg(feature = "media")]
            4 => rtsp::fuzz(&mut rng, &at()),
            5 => proxy::fuzz(&mut rng, &at()),
            _ => texts(&mut rng, &at()),
        }
    }
}

/// Random bytes with far more terminators and markers than pure chance gives.
fn bytes(rng: &mut Rng, len_max: usize) -> Vec<u8> {
    const OFTEN: &[&[u8]] =
        &[b"\n", b"\r\n", b"\r", b"EOF\n", b"\0", b"buy 1 2\n", b"\xc0\xaf", b"\xff\xfe", b"7 "];
    let len = rng.below(len_max + 1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        if rng.once_in(2) {
            bytes.extend_from_slice(rng.pick::<&[u8]>(OFTEN));
        } else {
            bytes.push(rng.roll() as u8);
        }
    }
    bytes
}

/// The lines do not depend on how many bytes were visible, and together they are the input.
fn lines(rng: &mut Rng, at: &str) {
    let input = bytes(rng, 200);
    let line_max = 1 + rng.below(40);
    let (mut from, mut seen) = (0, 0);
    loop {
        match line::next(&input[from..seen], line_max) {
            Next::Line { text, used } => {
                let whole = &input[from..from + used];
                assert!(used <= line_max && whole.starts_with(text), "{at}");
                assert!(whole.ends_with(b"\n") && !text.contains(&b'\n'), "{at}");
                assert!(used - text.len() <= 2, "{at}");
                from += used;
            }
            Next::TooLong => {
                let front = &input[from..from + line_max];
                assert!(!front.contains(&b'\n'), "{at}: refused a line that ends in time");
                break;
            }
            Next::More if seen == input.len() => {
                assert!(!input[from..].contains(&b'\n'), "{at}: a line was overlooked");
                break;
            }
            Next::More => seen = (seen + 1 + rng.below(20)).min(input.len()),
        }
    }
}

/// Encoded replies come back whole at any growth; random bytes never make the decoder overrun.
fn replies(rng: &mut Rng, at: &str) {
    let framing = *rng.pick(&[Framing::Line, Framing::Eof, Framing::Length, Framing::Fixed(128)]);
    let sent: Vec<_> = (0..rng.below(6)).map(|_| reply(rng)).collect();
    let mut wire = Vec::new();
    for (text, shape) in &sent {
        framing.encode(text, *shape, &mut wire).expect("replies of at most 76 bytes fit");
    }
    let mut decoder = Decoder::new(framing);
    let (mut from, mut seen) = (0, 0);
    for (text, shape) in &sent {
        let used = loop {
            if let Some(reply) = decoder.next(&wire[from..seen], *shape) {
                assert_eq!(reply.text, text, "{at}: {framing}");
                break reply.used;
            }
            assert!(seen < wire.len(), "{at}: {framing} reply never ends");
            seen = (seen + 1 + rng.below(90)).min(wire.len());
        };
        from += used;
    }
    assert_eq!(from, wire.len(), "{at}: {framing} left bytes over");

    let noise = bytes(rng, 200);
    let shape = *rng.pick(&[Shape::Line, Shape::Block]);
    if let Some(reply) = Decoder::new(framing).next(&noise, shape) {
        let ends = noise[..reply.used].split_inclusive(|byte| *byte == b'\n').next();
        let front = if framing == Framing::Length { ends.map_or(0, <[u8]>::len) } else { 0 };
        let is_there = [0, front].iter().any(|at| noise[*at..].starts_with(reply.text));
        assert!(reply.used <= noise.len() && is_there, "{at}: {framing}");
    }
}

fn reply(rng: &mut Rng) -> (Vec<u8>, Shape) {
    let line = |rng: &mut Rng| {
        let mut line = rng.pick::<&str>(&["", "EOF", "\u{d55c}"]).as_bytes().to_vec();
        line.extend((0..1 + rng.below(10)).map(|_| b'a' + rng.below(26) as u8));
        line.extend_from_slice(rng.pick::<&[u8]>(&[b"\n", b" EOF\n"]));
        line
    };
    if rng.once_in(2) {
        (line(rng), Shape::Line)
    } else {
        ((0..rng.below(5)).flat_map(|_| line(rng)).collect(), Shape::Block)
    }
}

/// UTF-8 passes untouched; for other input, an error's offset lies inside it.
fn texts(rng: &mut Rng, at: &str) {
    let noise = bytes(rng, 120);
    match text::decode(&noise) {
        Ok(decoded) => {
            let plain = std::str::from_utf8(&noise);
            if decoded.encoding == text::Encoding::Utf8 && !decoded.marked {
                assert_eq!(plain, Ok(decoded.text.as_ref()), "{at}");
            }
        }
        Err(bad) => assert!(bad.offset <= noise.len(), "{at}: {bad}"),
    }
}
