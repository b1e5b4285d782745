//! Replies: from HTTP/1.1 to HEADERS and DATA.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::hpack::{SET_COOKIE, put_integer, static_index};
use crate::http::Chunked;

/// The longest head of a reply, in bytes: our own services write it.
const HEAD_MAX: usize = 64 * 1024;

const END: &[u8] = b"\r\n\r\n";

/// Statuses of the static table, from index 8.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyPiece<'a> {
    /// Nothing that leaves: framing, or a part of a head.
    Nothing,
    /// A head, whose HPACK block was appended. A head of 1xx is not the last one.
    Head {
        /// The reply ends with it: no body follows.
        is_last: bool,
    },
    /// Bytes of the body.
    Body {
        /// The bytes.
        bytes: &'a [u8],
        /// The reply ends with them.
        is_last: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    Chunks(Chunked),
    /// Until the end of the connection.
    Rest,
    Over,
}

/// Reads the reply to one request.
#[derive(Debug)]
pub struct ReplyReader {
    state: State,
    /// The head so far, if it comes in several pieces.
    head: Vec<u8>,
    is_head: bool,
}

impl ReplyReader {
    /// A reader of the reply to a request.
    pub fn new(is_head: bool) -> ReplyReader {
        ReplyReader { state: State::Head, head: Vec::new(), is_head }
    }

    /// Whether the whole reply was read.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// The service closes: true if that ends the reply, false if the reply is cut off.
    pub fn end(&mut self) -> bool {
        let is_whole = matches!(self.state, State::Rest | State::Over);
        self.state = State::Over;
        is_whole
    }

    /// Reads the front of `bytes`: the piece, and how many bytes it used. At most `room` bytes of a
    /// body; with no room only what is no body. The block of a head is appended to `block`. `None`:
    /// these bytes are no reply.
    pub fn next<'a>(
        &mut self,
        bytes: &'a [u8],
        room: usize,
        block: &mut Vec<u8>,
    ) -> Option<(ReplyPiece<'a>, usize)> {
        match &mut self.state {
            State::Head => self.read_head(bytes, block),
            State::Length(left) => {
                let len = room.min(bytes.len()).min(usize::try_from(*left).unwrap_or(usize::MAX));
                if len == 0 {
                    return Some((ReplyPiece::Nothing, 0));
                }
                *left -= len as u64;
                let is_last = *left == 0;
                if is_last {
                    self.state = State::Over;
                }
                Some((ReplyPiece::Body { bytes: &bytes[..len], is_last }, len))
            }
            State::Chunks(chunked) => {
                let mut then = *chunked;
                let piece = then.next(bytes).ok()?;
                if piece.data.len() > room {
                    // The front up to the room: the framing before the data and a part of them.
                    let before = piece.data.as_ptr() as usize - bytes.as_ptr() as usize;
                    if room == 0 {
                        return Some((ReplyPiece::Nothing, 0));
                    }
                    let piece = chunked.next(&bytes[..before + room]).ok()?;
                    return Some((
                        ReplyPiece::Body { bytes: piece.data, is_last: false },
                        piece.used,
                    ));
                }
                *chunked = then;
                if piece.end {
                    self.state = State::Over;
                }
                let body = ReplyPiece::Body { bytes: piece.data, is_last: piece.end };
                let is_empty = piece.data.is_empty() && !piece.end;
                Some((if is_empty { ReplyPiece::Nothing } else { body }, piece.used))
            }
            State::Rest => {
                let len = room.min(bytes.len());
                let body = ReplyPiece::Body { bytes: &bytes[..len], is_last: false };
                Some((if len == 0 { ReplyPiece::Nothing } else { body }, len))
            }
            State::Over => Some((ReplyPiece::Nothing, bytes.len())),
        }
    }

    fn read_head<'a>(
        &mut self,
        bytes: &'a [u8],
        block: &mut Vec<u8>,
    ) -> Option<(ReplyPiece<'a>, usize)> {
        let before = self.head.len();
        let fresh = &bytes[..bytes.len().min(HEAD_MAX - before)];
        let whole = match before {
            0 => head_len(fresh).map(|len| (&fresh[..len], len)),
            _ => {
                self.head.extend_from_slice(fresh);
                let from = before.saturating_sub(END.len() - 1);
                head_len(&self.head[from..])
                    .map(|len| (&self.head[..from + len], from + len - before))
            }
        };
        let Some((head, used)) = whole else {
            if before == 0 {
                self.head.extend_from_slice(fresh);
            }
            let is_short = self.head.len() < HEAD_MAX;
            return is_short.then_some((ReplyPiece::Nothing, fresh.len()));
        };
        self.state = translate(head, self.is_head, block)?;
        self.head.clear();
        Some((ReplyPiece::Head { is_last: self.state == State::Over }, used))
    }
}

/// The length of the head at the front of `bytes`, with its empty line.
fn head_len(bytes: &[u8]) -> Option<usize> {
    static FINDER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(END));
    FINDER.find(bytes).map(|at| at + END.len())
}

/// Appends the block of a head; returns what follows it.
fn translate(head: &[u8], is_head: bool, block: &mut Vec<u8>) -> Option<State> {
    let mut from = 0;
    let mut lines = memchr::memchr_iter(b'\n', head).map(|at| {
        let line = &head[from..at];
        from = at + 1;
        line.trim_ascii_end()
    });
    let status = lines.next()?.split(|&byte| byte == b' ').nth(1)?;
    let status: u16 = str::from_utf8(status).ok()?.parse().ok()?;
    put_status(status, block);
    let mut state = State::Rest;
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_at(memchr::memchr(b':', line)?);
        let value = value[1..].trim_ascii();
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if ["connection", "keep-alive", "upgrade", "proxy-connection"].into_iter().any(is) {
            continue;
        }
        if is("transfer-encoding") {
            state = State::Chunks(Chunked::new());
            continue;
        }
        if is("content-length") {
            state = State::Length(str::from_utf8(value).ok()?.parse().ok()?);
        }
        let index = static_index(name);
        let literal = if index == 0 { name.to_ascii_lowercase() } else { Vec::new() };
        put_literal(index, &literal, value, block);
    }
    if (100..200).contains(&status) {
        return Some(State::Head);
    }
    if is_head || matches!(status, 204 | 304) || state == State::Length(0) {
        state = State::Over;
    }
    Some(state)
}

/// Appends `:status`.
pub fn put_status(status: u16, out: &mut Vec<u8>) {
    match STATUSES.iter().position(|&it| it == status) {
        Some(at) => out.push(0x80 | (8 + at) as u8),
        None => put_literal(8, b"", status.to_string().as_bytes(), out),
    }
}

/// Appends a field without an entry in the table of the peer. A cookie is marked as never to be
/// indexed (RFC 7541 section 7.1.3).
pub fn put_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    put_literal(static_index(name), name, value, out);
}

fn put_literal(index: usize, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let first = if index == SET_COOKIE { 0x10 } else { 0 };
    put_integer(index, 4, first, out);
    if index == 0 {
        put_string(name, out);
    }
    put_string(value, out);
}

fn put_string(text: &[u8], out: &mut Vec<u8>) {
    put_integer(text.len(), 7, 0, out);
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply as text, read with `room` bytes at a time of pieces of `cut` bytes.
    fn read(reply: &str, is_head: bool, (cut, room): (usize, usize)) -> String {
        let mut reader = ReplyReader::new(is_head);
        let mut decoder = loona_hpack::Decoder::new();
        let (mut seen, mut from, mut text) = (0, 0, String::new());
        let bytes = reply.as_bytes();
        loop {
            let mut block = Vec::new();
            let next = reader.next(&bytes[from..seen], room, &mut block);
            let (piece, used) = next.expect("a reply");
            from += used;
            match &piece {
                ReplyPiece::Nothing => {}
                ReplyPiece::Head { is_last } => {
                    for (name, value) in decoder.decode(&block).expect("a block") {
                        let [name, value] = [name, value].map(|it| String::from_utf8(it).unwrap());
                        text += &format!("{name}={value},");
                    }
                    text += if *is_last { "." } else { "|" };
                }
                ReplyPiece::Body { bytes, is_last } => {
                    text += str::from_utf8(bytes).unwrap();
                    text += if *is_last { "." } else { "" };
                }
            }
            if reader.is_over() || (used == 0 && seen == bytes.len()) {
                return text;
            }
            if used == 0 {
                seen = (seen + cut).min(bytes.len());
            }
        }
    }

    #[test]
    fn a_reply_is_read_however_it_is_cut() {
        let check = |reply: &str, is_head: bool, wanted: &str| {
            for cut in [1, 2, 7, 1000] {
                for room in [1, 3, 1000] {
                    assert_eq!(read(reply, is_head, (cut, room)), wanted, "{cut}, {room}");
                }
            }
        };
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        check(length, false, ":status=200,content-length=5,|hello.");
        check(&length[..length.len() - 5], true, ":status=200,content-length=5,.");
        let chunked = "HTTP/1.1 418 Tea\r\nTransfer-Encoding: chunked\r\nX-Y: z\r\n\r\n\
            2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        check(chunked, false, ":status=418,x-y=z,|hello.");
        check("HTTP/1.1 304 Not\r\nEtag: \"a\"\r\n\r\n", false, ":status=304,etag=\"a\",.");
        let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{length}");
        check(&interim, false, ":status=100,|:status=200,content-length=5,|hello.");
        check("HTTP/1.1 200 OK\r\n\r\nhello", false, ":status=200,|hello");
    }

    #[test]
    fn the_end_of_the_service_ends_only_a_reply_without_a_length() {
        let check = |reply: &[u8], wanted: bool| {
            let mut reader = ReplyReader::new(false);
            let block = &mut Vec::new();
            let (_, used) = reader.next(reply, 100, block).expect("a head");
            reader.next(&reply[used..], 100, block).expect("a body");
            assert_eq!(reader.end(), wanted);
        };
        check(b"HTTP/1.1 200 OK\r\n\r\nhello", true);
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", false);
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", true);
        let mut reader = ReplyReader::new(false);
        assert_eq!(reader.next(b"no reply\r\n\r\n", 100, &mut Vec::new()), None);
    }
}
