//! Replies: from HTTP/1.1 to HEADERS and DATA.

use super::hpack::{put_integer, static_index};
use crate::http::Chunked;

/// The longest head of a reply, in bytes: our own services write it.
const HEAD_MAX: usize = 64 * 1024;

/// Statuses of the static table, from index 8.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyPiece<'a> {
    /// Nothing that leaves: framing, or a part of a head.
    Nothing,
    /// The block of a head. `is_last`: no body follows. A head of 1xx is not the last one.
    Head {
        /// The HPACK block.
        block: Vec<u8>,
        /// The reply ends with it.
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
    /// The head so far.
    head: Vec<u8>,
    /// The request was HEAD.
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
    /// body; with no room only what is no body. `None`: these bytes are no reply.
    pub fn next<'a>(&mut self, bytes: &'a [u8], room: usize) -> Option<(ReplyPiece<'a>, usize)> {
        match &mut self.state {
            State::Head => self.read_head(bytes),
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

    fn read_head<'a>(&mut self, bytes: &'a [u8]) -> Option<(ReplyPiece<'a>, usize)> {
        let before = self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(HEAD_MAX - before.min(HEAD_MAX))]);
        let from = before.saturating_sub(3);
        let Some(at) = memchr::memmem::find(&self.head[from..], b"\r\n\r\n") else {
            let used = self.head.len() - before;
            return (self.head.len() < HEAD_MAX).then_some((ReplyPiece::Nothing, used));
        };
        let len = from + at + 4;
        let head = std::mem::take(&mut self.head);
        let (block, state) = translate(&head[..len], self.is_head)?;
        self.state = state;
        let is_last = self.state == State::Over;
        Some((ReplyPiece::Head { block, is_last }, len - before))
    }
}

/// The block of a head, and what follows it.
fn translate(head: &[u8], is_head: bool) -> Option<(Vec<u8>, State)> {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    let status = lines.next()?.split(|&byte| byte == b' ').nth(1)?;
    let status: u16 = str::from_utf8(status).ok()?.parse().ok()?;
    let mut block = Vec::with_capacity(head.len());
    put_status(status, &mut block);
    let mut state = State::Rest;
    let mut name = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let value = line[colon + 1..].trim_ascii();
        name.clear();
        name.extend(line[..colon].iter().map(u8::to_ascii_lowercase));
        match &name[..] {
            b"connection" | b"keep-alive" | b"upgrade" | b"proxy-connection" => continue,
            b"transfer-encoding" => {
                state = State::Chunks(Chunked::new());
                continue;
            }
            b"content-length" => {
                state = State::Length(str::from_utf8(value).ok()?.parse().ok()?);
            }
            _ => {}
        }
        put_field(&name, value, &mut block);
    }
    if (100..200).contains(&status) {
        return Some((block, State::Head));
    }
    if is_head || matches!(status, 204 | 304) || state == State::Length(0) {
        state = State::Over;
    }
    Some((block, state))
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
    let first = if name == b"set-cookie" { 0x10 } else { 0 };
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
            let (piece, used) = reader.next(&bytes[from..seen], room).expect("a reply");
            from += used;
            match &piece {
                ReplyPiece::Nothing => {}
                ReplyPiece::Head { block, is_last } => {
                    for (name, value) in decoder.decode(block).expect("a block") {
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
            let (_, used) = reader.next(reply, 100).expect("a head");
            reader.next(&reply[used..], 100).expect("a body");
            assert_eq!(reader.end(), wanted);
        };
        check(b"HTTP/1.1 200 OK\r\n\r\nhello", true);
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", false);
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", true);
        let mut reader = ReplyReader::new(false);
        assert_eq!(reader.next(b"no reply\r\n\r\n", 100), None);
    }
}
