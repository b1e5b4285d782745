//! WebSocket from the client's side (RFC 6455): the handshake, messages around what a script sends,
//! and the bytes in the messages that a server sends.
//!
//! Like TLS it is a layer that a script does not see. A line is a message; binary requests that are
//! sent together share one.

use std::io::{self, ErrorKind};
use wire::websocket::{FrameHead, MessageKind, Opcode, accept_key, close_code, put_masked};

/// The key of the handshake. It proves that the server speaks WebSocket, and is no secret; this is
/// the one of section 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// The longest answer to the handshake (bytes).
const ANSWER_MAX: usize = 16 << 10;

#[derive(Clone, Debug)]
pub(crate) struct WebSocket {
    kind: MessageKind,
    /// Frames, and before them the handshake, that were not sent.
    pub(crate) unsent: Vec<u8>,
    pub(crate) is_open: bool,
    /// The server has sent its last frame.
    pub(crate) is_over: bool,
    /// The answer to the handshake, then the head of a frame, that are not whole yet.
    head: Vec<u8>,
    /// The frame whose payload comes now, and how much of that is missing.
    frame: Option<(Opcode, u64)>,
    control: Vec<u8>,
    /// The mask of the last frame. It is to keep pages from choosing bytes on the wire, which no
    /// page does here, so a counter will do.
    mask: u32,
}

impl WebSocket {
    /// A connection to the host of that name, before its handshake.
    pub(crate) fn new(kind: MessageKind, authority: &str) -> Self {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        Self {
            kind,
            unsent: request.into_bytes(),
            is_open: false,
            is_over: false,
            head: Vec::new(),
            frame: None,
            control: Vec::new(),
            mask: 0,
        }
    }

    /// Puts messages around `bytes`.
    pub(crate) fn seal(&mut self, bytes: &[u8]) {
        match self.kind {
            _ if bytes.is_empty() => {}
            MessageKind::Binary => self.put(Opcode::Binary, bytes),
            MessageKind::Text => {
                bytes
                    .split_inclusive(|byte| *byte == b'\n')
                    .for_each(|it| self.put(Opcode::Text, it));
            }
        }
    }

    /// Says that no message follows.
    pub(crate) fn seal_end(&mut self) {
        self.put(Opcode::Close, &close_code::NORMAL.to_be_bytes());
    }

    fn put(&mut self, opcode: Opcode, payload: &[u8]) {
        self.mask = self.mask.wrapping_add(0x9e37_79b9);
        put_masked(true, opcode, payload, self.mask.to_ne_bytes(), &mut self.unsent);
    }

    /// Leaves of what was received the content of messages, at the front; returns its length.
    ///
    /// # Errors
    /// The server does not speak WebSocket, or sends a frame that violates the RFC.
    pub(crate) fn open(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut len = bytes.len();
        if !self.is_open {
            self.head.extend_from_slice(bytes);
            let Some(end) = self.head.windows(4).position(|it| it == b"\r\n\r\n") else {
                return if self.head.len() < ANSWER_MAX { Ok(0) } else { Err(self.refused()) };
            };
            let answer = String::from_utf8_lossy(&self.head[..end]);
            if !answer.starts_with("HTTP/1.1 101 ") || !answer.contains(&accept_key(KEY)) {
                return Err(self.refused());
            }
            // It was not whole before these bytes, so the rest is theirs.
            let rest = self.head.split_off(end + 4);
            (len, self.is_open) = (rest.len(), true);
            bytes[..len].copy_from_slice(&rest);
            self.head.clear();
        }
        let (mut from, mut to) = (0, 0);
        while from < len && !self.is_over {
            let Some((opcode, left)) = self.frame else {
                from += self.begin(&bytes[from..len])?;
                continue;
            };
            let count = (len - from).min(usize::try_from(left).unwrap_or(usize::MAX));
            if (opcode as u8) < Opcode::Close as u8 {
                bytes.copy_within(from..from + count, to);
                to += count;
            } else {
                self.control.extend_from_slice(&bytes[from..from + count]);
            }
            from += count;
            self.frame = Some((opcode, left - count as u64));
            self.end();
        }
        Ok(to)
    }

    /// Takes the head of a frame, or a part of it; returns its length.
    fn begin(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let kept = self.head.len();
        // A head is short, and mostly whole.
        self.head.extend_from_slice(&bytes[..bytes.len().min(wire::websocket::HEAD_MAX)]);
        let fault = |why: &str| io::Error::new(ErrorKind::InvalidData, format!("WebSocket: {why}"));
        let Some(frame) = FrameHead::parse(&self.head).map_err(|bad| fault(bad.why))? else {
            return Ok(bytes.len());
        };
        if frame.mask.is_some() {
            return Err(fault("expected frames without a mask, as servers send them"));
        }
        self.head.clear();
        self.frame = Some((frame.opcode, frame.len));
        self.end();
        Ok(frame.head - kept)
    }

    /// Ends the frame, if nothing of it is missing.
    fn end(&mut self) {
        let Some((opcode, 0)) = self.frame else { return };
        self.frame = None;
        let payload = std::mem::take(&mut self.control);
        match opcode {
            Opcode::Ping => self.put(Opcode::Pong, &payload),
            Opcode::Close => self.is_over = true,
            _ => {}
        }
    }

    fn refused(&self) -> io::Error {
        let found = stats::words::visible(
            self.head.split(|it| *it == b'\r').next().unwrap_or_default(),
            60,
        );
        let why = format!(
            "expected a WebSocket, which `roundhouse serve --websocket` speaks, found `{found}`"
        );
        io::Error::new(ErrorKind::InvalidData, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::websocket::{EXAMPLE_REQUEST, WebSocketOptions, put_frame, put_message};

    /// The answer of our server to the handshake.
    fn answer() -> Vec<u8> {
        let mut out = Vec::new();
        let head = wire::http::next(EXAMPLE_REQUEST.as_bytes(), &Default::default());
        let head = head.expect("good").expect("whole");
        assert!(WebSocketOptions::default().answer(&head, &mut out));
        out
    }

    /// The text that a client reads if it receives `step` bytes at a time.
    fn read(sent: &[u8], step: usize) -> io::Result<(Vec<u8>, WebSocket)> {
        let mut client = WebSocket::new(MessageKind::Text, "a");
        client.unsent.clear();
        let mut content = Vec::new();
        for piece in sent.chunks(step) {
            let mut piece = piece.to_vec();
            let len = client.open(&mut piece)?;
            content.extend_from_slice(&piece[..len]);
        }
        Ok((content, client))
    }

    #[test]
    fn the_content_of_messages_is_read_however_it_arrives() {
        let long = vec![b'x'; 70_000];
        let mut sent = answer();
        put_message(MessageKind::Text, b"one\n", &mut sent);
        put_frame(Opcode::Ping, b"?", &mut sent);
        put_message(MessageKind::Binary, &[b'y'; 300], &mut sent);
        put_frame(Opcode::Text, b"", &mut sent);
        put_message(MessageKind::Binary, &long, &mut sent);
        put_frame(Opcode::Close, b"", &mut sent);
        put_message(MessageKind::Text, b"after", &mut sent);
        let want = [b"one\n", &[b'y'; 300][..], &long].concat();
        for step in [1, 2, 3, 7, 150, 4_096, sent.len()] {
            let (content, client) = read(&sent, step).expect("a sound server");
            assert!(content == want && client.is_over, "by {step}: {} bytes", content.len());
            // A pong with the payload of the ping.
            let [0x8a, 0x81, a, _, _, _, sealed] = client.unsent[..] else { panic!("no pong") };
            assert_eq!(sealed ^ a, b'?');
        }
    }

    #[test]
    fn a_server_of_another_protocol_is_told_apart() {
        let check = |sent: &[u8], want: &str| {
            let why = read(sent, 9).expect_err("refused").to_string();
            assert!(why.contains(want), "{why}");
        };
        check(b"HTTP/1.1 404 Not Found\r\n\r\n", "found `HTTP/1.1 404 Not Found`");
        check(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "expected a WebSocket");
        check(&[b'a'; 20_000], "found `aaa");
        let mut masked = answer();
        put_masked(true, Opcode::Text, b"a", [1; 4], &mut masked);
        check(&masked, "without a mask");
    }

    #[test]
    fn a_line_is_a_message() {
        let mut client = WebSocket::new(MessageKind::Text, "a");
        client.unsent.clear();
        client.seal(b"a\nb\n");
        assert_eq!(client.unsent.len(), 2 * (2 + 4 + 2));
        let mut client = WebSocket::new(MessageKind::Binary, "a");
        client.unsent.clear();
        client.seal(b"a\nb\n");
        assert_eq!(client.unsent.len(), 2 + 4 + 4);
    }
}
