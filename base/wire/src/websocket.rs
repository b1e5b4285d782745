//! WebSocket (RFC 6455): frames of a client to messages, messages to frames of a server, and the
//! handshake.
//!
//! A [`MessageReader`] takes one frame at a time, when all of it has arrived. It unmasks, joins
//! fragments and checks UTF-8; a frame that violates the RFC becomes the close code and the reason
//! that the peer gets. Frames of a server have no mask and need no state, so any session can make
//! one for another. Extensions are not negotiated.

mod fuzz;
mod handshake;

use std::str::FromStr;

pub use fuzz::fuzz;
pub use handshake::{BadHandshake, WebSocketOptions, accept_key};

/// The longest head of a frame, in bytes: two, a length of eight, a mask of four (section 5.2).
pub const HEAD_MAX: usize = 14;
/// The longest payload of a control frame, in bytes (section 5.5).
pub const CONTROL_MAX: usize = 125;

/// The handshake of a client that is no browser, with the key of section 1.3.
pub const EXAMPLE_REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

/// Close codes (section 7.4.1).
pub mod close_code {
    /// The conversation is over.
    pub const NORMAL: u16 = 1000;
    /// The server stops.
    pub const GOING_AWAY: u16 = 1001;
    /// A frame violates the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// A message of a type that the endpoint does not take.
    pub const UNSUPPORTED: u16 = 1003;
    /// The frame had no code; it is never sent.
    pub const NONE: u16 = 1005;
    /// A text is not UTF-8.
    pub const INVALID: u16 = 1007;
    /// The peer was too slow.
    pub const POLICY: u16 = 1008;
    /// A message is too long.
    pub const TOO_BIG: u16 = 1009;
    /// The server has failed.
    pub const INTERNAL: u16 = 1011;
}

/// The type of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageKind {
    /// UTF-8.
    #[default]
    Text,
    /// Any bytes.
    Binary,
}

impl FromStr for MessageKind {
    type Err = String;

    fn from_str(text: &str) -> Result<MessageKind, String> {
        match text {
            "text" => Ok(MessageKind::Text),
            "binary" => Ok(MessageKind::Binary),
            _ => Err(format!("expected text or binary, found `{text}`")),
        }
    }
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// The next fragment of a message.
    Continuation = 0,
    /// A text, or its first fragment.
    Text = 1,
    /// Bytes, or their first fragment.
    Binary = 2,
    /// The last frame of a direction.
    Close = 8,
    /// Asks for a pong with the same payload.
    Ping = 9,
    /// Answers a ping, or says that the peer is there.
    Pong = 10,
}

impl From<MessageKind> for Opcode {
    fn from(kind: MessageKind) -> Opcode {
        match kind {
            MessageKind::Text => Opcode::Text,
            MessageKind::Binary => Opcode::Binary,
        }
    }
}

/// A violation of the RFC: the code and the reason of the close frame that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame {
    /// The close code.
    pub code: u16,
    /// The expectation and the finding.
    pub why: &'static str,
}

const fn bad(code: u16, why: &'static str) -> BadFrame {
    BadFrame { code, why }
}

const fn protocol(why: &'static str) -> BadFrame {
    bad(close_code::PROTOCOL, why)
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The length of the head in bytes: where the payload begins.
    pub head: usize,
    /// The last fragment of its message.
    pub is_last: bool,
    /// The type.
    pub opcode: Opcode,
    /// The key that masks the payload; clients have one, servers do not.
    pub mask: Option<[u8; 4]>,
    /// The length of the payload in bytes.
    pub len: u64,
}

impl FrameHead {
    /// The head at the front of `input`; `None` if it is incomplete.
    ///
    /// # Errors
    /// The head violates section 5.2 or 5.5.
    pub fn parse(input: &[u8]) -> Result<Option<FrameHead>, BadFrame> {
        let &[first, second, ..] = input else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(protocol("expected reserved bits of 0, no extension was agreed on"));
        }
        let opcode = match first & 0xf {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return Err(protocol("expected a known opcode, found a reserved one")),
        };
        let (is_last, short) = (first & 0x80 != 0, second & 0x7f);
        if opcode as u8 >= 8 && (!is_last || usize::from(short) > CONTROL_MAX) {
            return Err(protocol("expected a whole control frame of at most 125 bytes"));
        }
        let (len, least, rest) = match short {
            126 => match input[2..].split_first_chunk() {
                Some((len, rest)) => (u16::from_be_bytes(*len).into(), 126, rest),
                None => return Ok(None),
            },
            127 => match input[2..].split_first_chunk() {
                Some((len, rest)) => (u64::from_be_bytes(*len), 1 << 16, rest),
                None => return Ok(None),
            },
            len => (len.into(), 0, &input[2..]),
        };
        if len < least || len > i64::MAX as u64 {
            return Err(protocol("expected the shortest form of a length below 2^63"));
        }
        let mask = if second & 0x80 != 0 {
            let Some(mask) = rest.first_chunk() else { return Ok(None) };
            Some(*mask)
        } else {
            None
        };
        let head = input.len() - rest.len() + if mask.is_some() { 4 } else { 0 };
        Ok(Some(FrameHead { head, is_last, opcode, mask, len }))
    }
}

/// Appends the head of a whole, unmasked frame with a payload of `len` bytes.
pub fn put_head(opcode: Opcode, len: usize, out: &mut Vec<u8>) {
    out.push(0x80 | opcode as u8);
    match len {
        0..126 => out.push(len as u8),
        126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

/// Appends a whole, unmasked frame. The payload of a control frame has at most [`CONTROL_MAX`]
/// bytes.
pub fn put_frame(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    put_head(opcode, payload.len(), out);
    out.extend_from_slice(payload);
}

/// Appends bytes as one message: a text if that is wanted and they are UTF-8, else binary.
pub fn put_message(kind: MessageKind, payload: &[u8], out: &mut Vec<u8>) {
    let is_text = kind == MessageKind::Text && str::from_utf8(payload).is_ok();
    put_frame(if is_text { Opcode::Text } else { Opcode::Binary }, payload, out);
}

/// Appends a close frame; with [`close_code::NONE`] an empty one. A reason has at most 123 bytes.
pub fn put_close(code: u16, why: &str, out: &mut Vec<u8>) {
    if code == close_code::NONE {
        return put_frame(Opcode::Close, b"", out);
    }
    put_frame(Opcode::Close, &[&code.to_be_bytes()[..], why.as_bytes()].concat(), out);
}

/// Appends a frame as a client sends it: masked by `mask`, and perhaps a fragment.
pub fn put_masked(is_last: bool, opcode: Opcode, payload: &[u8], mask: [u8; 4], out: &mut Vec<u8>) {
    let start = out.len();
    put_head(opcode, payload.len(), out);
    out[start] &= if is_last { 0xff } else { 0x7f };
    out[start + 1] |= 0x80;
    out.extend_from_slice(&mask);
    let start = out.len();
    out.extend_from_slice(payload);
    apply(mask, &mut out[start..]);
}

/// The whole frames at the front of what a server has sent after its handshake.
pub fn frames(mut sent: &[u8]) -> impl Iterator<Item = (Opcode, &[u8])> {
    std::iter::from_fn(move || {
        let frame = FrameHead::parse(sent).ok().flatten()?;
        let payload = sent[frame.head..].get(..frame.len as usize)?;
        sent = &sent[frame.head + payload.len()..];
        Some((frame.opcode, payload))
    })
}

/// Masks or unmasks (section 5.3).
fn apply(mask: [u8; 4], payload: &mut [u8]) {
    let (words, rest) = payload.as_chunks_mut();
    let key = u32::from_ne_bytes(mask);
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ key).to_ne_bytes();
    }
    rest.iter_mut().zip(mask).for_each(|(byte, key)| *byte ^= key);
}

/// The content of a client's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A whole message.
    Message(Vec<u8>),
    /// The payload that a pong must carry.
    Ping(Vec<u8>),
    /// The last frame, with its code or [`close_code::NONE`].
    Close(u16),
    /// Nothing yet: a fragment, or a pong.
    Nothing,
}

/// Reads the frames of a client.
#[derive(Debug)]
pub struct MessageReader {
    /// The only type of messages, if others are refused.
    only: Option<MessageKind>,
    kind: MessageKind,
    message_max: usize,
    is_inside: bool,
    /// Its fragments so far.
    message: Vec<u8>,
    /// How much of them is UTF-8.
    checked: usize,
}

impl MessageReader {
    /// A reader of messages of this type, or of both types, of up to `message_max` bytes.
    pub fn new(only: impl Into<Option<MessageKind>>, message_max: usize) -> MessageReader {
        let (message, kind) = (Vec::new(), MessageKind::Text);
        let only = only.into();
        MessageReader { only, kind, message_max, is_inside: false, message, checked: 0 }
    }

    /// The type of the last message.
    pub fn kind(&self) -> MessageKind {
        self.kind
    }

    /// Bytes of memory that fragments take.
    pub fn held(&self) -> usize {
        self.message.len()
    }

    /// Takes the frame at the front of `input`, and returns what it brings and its length. `None`
    /// if it is incomplete; a frame is never longer than [`HEAD_MAX`] and the longest message.
    ///
    /// # Errors
    /// The frame violates the RFC; nothing after it may be read.
    pub fn next(&mut self, input: &[u8]) -> Result<Option<(Incoming, usize)>, BadFrame> {
        let Some(frame) = FrameHead::parse(input)? else { return Ok(None) };
        let Some(mask) = frame.mask else {
            return Err(protocol("expected a masked frame, as clients send them"));
        };
        let starts = matches!(frame.opcode, Opcode::Text | Opcode::Binary);
        if starts && self.is_inside {
            return Err(protocol("expected the rest of a message, found another message"));
        }
        if starts {
            self.kind = match frame.opcode {
                Opcode::Text => MessageKind::Text,
                _ => MessageKind::Binary,
            };
            if self.only.is_some_and(|only| only != self.kind) {
                return Err(match self.kind {
                    MessageKind::Binary => {
                        bad(close_code::UNSUPPORTED, "expected text, found binary")
                    }
                    MessageKind::Text => {
                        bad(close_code::UNSUPPORTED, "expected binary, found text")
                    }
                });
            }
        }
        if frame.opcode == Opcode::Continuation && !self.is_inside {
            return Err(protocol("expected a message, found the rest of one"));
        }
        let is_control = frame.opcode as u8 >= 8;
        let room = self.message_max - self.message.len();
        if !is_control && frame.len > room as u64 {
            return Err(bad(close_code::TOO_BIG, "expected a shorter message"));
        }
        let Some(masked) = input[frame.head..].get(..frame.len as usize) else { return Ok(None) };
        let used = frame.head + masked.len();
        if is_control {
            let mut payload = masked.to_vec();
            apply(mask, &mut payload);
            let incoming = match frame.opcode {
                Opcode::Ping => Incoming::Ping(payload),
                Opcode::Close => Incoming::Close(reason(&payload)?),
                _ => Incoming::Nothing,
            };
            return Ok(Some((incoming, used)));
        }
        let start = self.message.len();
        self.message.extend_from_slice(masked);
        apply(mask, &mut self.message[start..]);
        if self.kind == MessageKind::Text {
            self.check(frame.is_last)?;
        }
        self.is_inside = !frame.is_last;
        if self.is_inside {
            return Ok(Some((Incoming::Nothing, used)));
        }
        self.checked = 0;
        Ok(Some((Incoming::Message(std::mem::take(&mut self.message)), used)))
    }

    /// Checks the fragments that are new; a character may continue in the next one.
    fn check(&mut self, is_last: bool) -> Result<(), BadFrame> {
        match str::from_utf8(&self.message[self.checked..]) {
            Ok(fresh) => self.checked += fresh.len(),
            Err(cut) if cut.error_len().is_none() && !is_last => self.checked += cut.valid_up_to(),
            Err(_) => return Err(bad(close_code::INVALID, "expected a text of UTF-8")),
        }
        Ok(())
    }
}

/// The code of a close frame (section 7.4).
fn reason(payload: &[u8]) -> Result<u16, BadFrame> {
    let Some((code, why)) = payload.split_first_chunk() else {
        let is_empty = payload.is_empty();
        let wrong = protocol("expected a close code of two bytes, found one");
        return if is_empty { Ok(close_code::NONE) } else { Err(wrong) };
    };
    let code = u16::from_be_bytes(*code);
    // IANA has registered 1012 to 1014 since.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(protocol("expected a close code that may be sent"));
    }
    match str::from_utf8(why) {
        Ok(_) => Ok(code),
        Err(_) => Err(bad(close_code::INVALID, "expected a reason of UTF-8")),
    }
}

#[cfg(test)]
mod tests;
