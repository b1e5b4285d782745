//! Conversations of clients, whole and broken, cut anywhere.

use stats::Rng;

use super::{BadFrame, Incoming, MessageKind, MessageReader, Opcode, close_code, put_masked};

const MAX: usize = 300;

/// Everything that a reader finds in `input` if it sees the bytes in pieces of up to `most`.
pub(super) fn read(
    rng: &mut Rng,
    mut reader: MessageReader,
    input: &[u8],
    most: usize,
) -> (Vec<Incoming>, Result<usize, BadFrame>) {
    let (mut found, mut from, mut seen) = (Vec::new(), 0, 0);
    loop {
        match reader.next(&input[from..seen]) {
            Ok(Some((incoming, used))) => {
                assert!(used > 0 && used <= seen - from);
                from += used;
                found.extend(Some(incoming).filter(|it| *it != Incoming::Nothing));
            }
            Ok(None) if seen == input.len() => return (found, Ok(from)),
            Ok(None) => seen = (seen + 1 + rng.below(most)).min(input.len()),
            Err(bad) => return (found, Err(bad)),
        }
    }
}

/// Appends a message in fragments with control frames between them.
fn say(rng: &mut Rng, kind: MessageKind, sent: &mut Vec<u8>, wanted: &mut Vec<Incoming>) {
    let text = ["a", "\u{e9}", "\u{4e16}", "\u{1f600}", "0123456789"];
    let message: String = (0..rng.below(30)).map(|_| *rng.pick(&text)).collect();
    let message = message.into_bytes();
    let (mut from, mut opcode) = (0, kind.into());
    loop {
        let to = from + rng.below(message.len() - from + 1);
        let to = if rng.once_in(3) { message.len() } else { to };
        let (mask, is_last) = (rng.roll().to_le_bytes()[..4].try_into(), to == message.len());
        let mask = mask.expect("four bytes");
        put_masked(is_last, opcode, &message[from..to], mask, sent);
        if is_last {
            return wanted.push(Incoming::Message(message));
        }
        if rng.once_in(3) {
            let payload = vec![b'p'; rng.below(126)];
            put_masked(true, *rng.pick(&[Opcode::Ping, Opcode::Pong]), &payload, mask, sent);
            if sent[sent.len() - payload.len() - 6] & 0xf == Opcode::Ping as u8 {
                wanted.push(Incoming::Ping(payload));
            }
        }
        (from, opcode) = (to, Opcode::Continuation);
    }
}

/// Reads about `events` messages from `seed`: they come back whole however they are fragmented and
/// cut, and a broken bit is refused alike under every cut, by one of the four codes.
///
/// # Panics
/// When that is not so; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    for event in 0..events.div_ceil(3) {
        converse(&mut rng, &format!("wire::websocket::fuzz seed {seed}, event {event}"));
    }
}

fn converse(rng: &mut Rng, at: &str) {
    let kind = *rng.pick(&[MessageKind::Text, MessageKind::Binary]);
    let (mut sent, mut wanted) = (Vec::new(), Vec::new());
    for _ in 0..rng.below(5) {
        say(rng, kind, &mut sent, &mut wanted);
    }
    let most = 1 + rng.below(40);
    let reader = || MessageReader::new(kind, MAX);
    let found = read(rng, reader(), &sent, most);
    assert_eq!(found, (wanted, Ok(sent.len())), "{at}: {sent:?}");
    if sent.is_empty() {
        return;
    }
    let place = rng.below(sent.len());
    sent[place] ^= 1 << rng.below(8);
    let (one, other) = (read(rng, reader(), &sent, 1), read(rng, reader(), &sent, sent.len()));
    assert_eq!(one, other, "{at}: {sent:?}");
    if let Err(bad) = one.1 {
        let codes = [
            close_code::PROTOCOL,
            close_code::UNSUPPORTED,
            close_code::INVALID,
            close_code::TOO_BIG,
        ];
        assert!(codes.contains(&bad.code), "{at}: {bad:?}");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_few_seeds() {
        (0..20).for_each(|seed| super::fuzz(seed, 300));
    }
}
