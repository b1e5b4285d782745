//! A key-value store that speaks a part of the Redis protocol (RESP): PING, GET, SET, DEL, INCR.
//!
//! `cargo run -r -p roundhouse-runtime --example kv -- --port 6379`, then
//! `redis-benchmark -t ping,set,get,incr -P 16`. All workers share the map, under every engine.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;

/// The longest value in bytes.
const VALUE_MAX: usize = 512;

share! {
    /// Up to 16,384 keys of 64 bytes, with values of 512.
    struct Store {
        map: Map<Bytes<64>, Bytes<VALUE_MAX>, 16384>,
    }
}

/// A command is an array of strings: `*2`, `$3`, `GET`, `$1`, `k`, each line ending with CR LF. A
/// client may also send a line of words.
struct Resp;

/// The longest command in words, its name included.
const WORDS_MAX: usize = 8;

/// The number in a line such as `$3` at the front of `input`, and the bytes after it.
fn number(input: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let rest = input.strip_prefix(&[mark])?;
    let digits = rest.iter().take(7).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at(digits);
    let number = digits.iter().fold(0, |sum, digit| 10 * sum + usize::from(digit - b'0'));
    Some((number, rest.strip_prefix(b"\r\n")?))
}

/// Puts the words of the command at the front of `input` into `words`; returns how many there are,
/// and the bytes after them.
fn split<'a>(input: &'a [u8], words: &mut [&'a [u8]; WORDS_MAX]) -> Option<(usize, &'a [u8])> {
    if !input.starts_with(b"*") {
        let end = input.windows(2).position(|two| two == b"\r\n")?;
        let list = input[..end].split(|byte| *byte == b' ');
        let count = words.iter_mut().zip(list).map(|(place, word)| *place = word).count();
        return Some((count, &input[end + 2..]));
    }
    let (count, mut rest) = number(input, b'*')?;
    for place in words.get_mut(..count)? {
        let (len, word) = number(rest, b'$')?;
        *place = word.get(..len)?;
        rest = word[len..].strip_prefix(b"\r\n")?;
    }
    Some((count, rest))
}

impl Frames for Resp {
    fn longest(&self) -> usize {
        4096
    }

    fn cut<'a>(&self, input: &'a [u8]) -> Cut<'a> {
        match split(input, &mut [b""; WORDS_MAX]) {
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
    let mut words: [&[u8]; WORDS_MAX] = [b""; WORDS_MAX];
    let count = split(message, &mut words).map_or(0, |(count, _)| count);
    let [name, args @ ..] = &words[..count] else { return reply.put("-ERR empty").sent() };
    let mut upper = [0; 4];
    if let Some(place) = upper.get_mut(..name.len()) {
        place.copy_from_slice(name);
    }
    upper.make_ascii_uppercase();
    let map = &cx.state.map;
    match (&upper, args) {
        (b"PING", []) => reply.put("+PONG").sent(),
        (b"GET\0", [key]) => map.with(*key, |value| match value {
            Some(value) => {
                reply.put("$").number(value.len() as u64).put("\r\n").put(&**value).sent()
            }
            None => reply.put("$-1").sent(),
        }),
        (b"SET\0", [key, value]) if value.len() <= VALUE_MAX => {
            let stored = Bytes::new(key).map(|key| map.write(key, |_, new| new.set(value)));
            match stored {
                Some(Ok(())) => reply.put("+OK").sent(),
                Some(Err(full)) => reply.put("-ERR ").show(full).sent(),
                None => reply.put("-ERR expected a key of up to 64 bytes").sent(),
            }
        }
        (b"SET\0", [_, _]) => reply.put("-ERR expected a value of up to 512 bytes").sent(),
        (b"DEL\0", keys) => {
            let removed = keys.iter().filter(|key| map.remove(**key)).count();
            reply.put(":").show(removed).sent()
        }
        (b"INCR", [key]) => {
            let mut sum = None;
            let add = |old: Option<&Bytes<VALUE_MAX>>| {
                let number = old.map_or(Ok("0"), |old| str::from_utf8(old)).ok();
                sum = number.and_then(|text| text.parse::<i64>().ok()?.checked_add(1));
                sum.map_or(old.copied(), |sum| Bytes::new(sum.to_string()))
            };
            match (Bytes::new(key).map(|key| map.update(key, add)), sum) {
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
