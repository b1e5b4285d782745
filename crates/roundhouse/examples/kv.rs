//! A key-value store that speaks a part of the Redis protocol (RESP): PING, GET, SET, DEL, INCR.
//!
//! `cargo run -r -p roundhouse --example kv -- --port 6379`, then
//! `redis-benchmark -t ping,set,get,incr -P 16`. All workers share the map, under every engine.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

share! {
    /// Up to 16,384 keys of 64 bytes, with values of 512.
    struct Store {
        map: Map<Bytes<64>, Bytes<512>, 16384>,
    }
}

/// A command is an array of strings: `*2`, `$3`, `GET`, `$1`, `k`, each line ending with CR LF. A
/// client may also send a line of words.
struct Resp;

/// The next line of `input`, without its end, and the bytes after it.
fn line(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = input.windows(2).position(|two| two == b"\r\n")?;
    Some((&input[..end], &input[end + 2..]))
}

/// The number in a line such as `$3`, and the bytes after it.
fn number(input: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let (text, rest) = line(input)?;
    let digits = str::from_utf8(text.strip_prefix(&[mark])?).ok()?;
    Some((digits.parse().ok()?, rest))
}

/// The words of a command, and the bytes after it.
fn words(input: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    if !input.starts_with(b"*") {
        let (text, rest) = line(input)?;
        return Some((text.split(|byte| *byte == b' ').collect(), rest));
    }
    let (count, mut rest) = number(input, b'*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (len, word) = number(rest, b'$')?;
        words.push(word.get(..len)?);
        rest = word.get(len..)?.strip_prefix(b"\r\n")?;
    }
    Some((words, rest))
}

impl Frames for Resp {
    fn longest(&self) -> usize {
        4096
    }

    fn cut<'a>(&self, input: &'a [u8]) -> Cut<'a> {
        match words(input) {
            Some((_, rest)) => {
                let len = input.len() - rest.len();
                Cut::Message(&input[..len], len)
            }
            None if input.len() < self.longest() => Cut::More,
            None => Cut::Bad("-ERR expected a shorter command\r\n"),
        }
    }

    fn finish(&self, out: &mut Vec<u8>, _start: usize) -> bool {
        out.extend_from_slice(b"\r\n");
        true
    }
}

fn answer(cx: &Cx<'_, Store>, message: &[u8], reply: &mut ReplyBuffer<'_>) -> After {
    let (words, _) = words(message).unwrap_or_default();
    let Some((name, args)) = words.split_first() else { return reply.put("-ERR empty").sent() };
    let map = &cx.state.map;
    match (name.to_ascii_uppercase().as_slice(), args) {
        (b"PING", []) => reply.put("+PONG").sent(),
        (b"GET", [key]) => map.with(cx.worker, *key, |value| match value {
            Some(value) => reply.put("$").show(value.len()).put("\r\n").put(&**value).sent(),
            None => reply.put("$-1").sent(),
        }),
        (b"SET", [key, value]) => {
            let stored = Bytes::new(key).zip(Bytes::new(value));
            match stored.map(|(key, value)| map.insert(cx.worker, key, value)) {
                Some(Ok(())) => reply.put("+OK").sent(),
                Some(Err(full)) => reply.put("-ERR ").show(full).sent(),
                None => reply.put("-ERR expected a key of 64 bytes and a value of 512").sent(),
            }
        }
        (b"DEL", keys) => {
            let removed = keys.iter().filter(|key| map.remove(cx.worker, **key)).count();
            reply.put(":").show(removed).sent()
        }
        (b"INCR", [key]) => {
            let mut sum = None;
            let add = |old: Option<&Bytes<512>>| {
                let number = old.map_or(Ok("0"), |old| str::from_utf8(old)).ok();
                sum = number.and_then(|text| text.parse::<i64>().ok()?.checked_add(1));
                sum.map_or(old.copied(), |sum| Bytes::new(sum.to_string()))
            };
            match (Bytes::new(key).map(|key| map.update(cx.worker, key, add)), sum) {
                (Some(Ok(())), Some(sum)) => reply.put(":").show(sum).sent(),
                _ => reply.put("-ERR expected a number with room for one more").sent(),
            }
        }
        _ => reply.put("-ERR expected PING, GET, SET, DEL or INCR").sent(),
    }
}

fn main() -> ExitCode {
    roundhouse::main(Resp.reply_with(answer))
}
