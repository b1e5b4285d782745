//! HTTP/2 (RFC 9113) without a socket: frames, heads, and the way between them and HTTP/1.1.
//!
//! A server reads frames with [`next`]. It joins the payloads of HEADERS and CONTINUATION, and
//! [`HeadReader`] makes of them the head of a request in HTTP/1.1, so that a service which reads
//! HTTP/1.1 needs no other reader. The reply of such a service goes through a [`ReplyReader`],
//! which gives HEADERS blocks and pieces of the body.
//!
//! Heads are encoded without the dynamic table: a name of the static table or a literal, so an
//! encoder has no state that a peer could shrink.
//!
//! A malformed request ends its stream ([`BadRequest`]); a frame or a block that another reader
//! could take for something else ends the connection, with one of the [`Code`]s.

mod fuzz;
mod hpack;
mod reply;
mod request;

pub use fuzz::fuzz;
pub use reply::{ReplyPiece, ReplyReader, put_field, put_status};
pub use request::{BadRequest, HeadReader, ReplyHead, RequestHead};

/// The bytes that a client sends first (section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of the head of a frame, in bytes (section 4.1).
pub const FRAME_HEAD: usize = 9;
/// The longest payload of a frame that a peer must take, in bytes (section 4.2).
pub const FRAME_MAX: usize = 16_384;
/// The window of a stream or a connection at its start, in bytes (section 6.9.2).
pub const WINDOW: u32 = 65_535;
/// The widest window, in bytes (section 6.9.1).
pub const WINDOW_MAX: i64 = (1 << 31) - 1;

/// The kind of a frame (section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::TryFrom)]
#[try_from(repr)]
#[repr(u8)]
pub enum Kind {
    /// A piece of a body.
    Data,
    /// The begin of a head.
    Headers,
    /// A priority, which nobody follows.
    Priority,
    /// The end of a stream, with a [`Code`].
    Reset,
    /// Settings, or the word that they are applied.
    Settings,
    /// The promise of a server.
    PushPromise,
    /// A question that the peer echoes.
    Ping,
    /// The end of a connection, with its last stream and a [`Code`].
    GoAway,
    /// More room for a body.
    WindowUpdate,
    /// The rest of a head.
    Continuation,
}

/// The flags of frames; bit 0 is [`END_STREAM`](flag::END_STREAM) or [`ACK`](flag::ACK).
pub mod flag {
    /// The last frame of a direction of a stream.
    pub const END_STREAM: u8 = 0x1;
    /// The answer to SETTINGS or PING.
    pub const ACK: u8 = 0x1;
    /// The last frame of a head.
    pub const END_HEADERS: u8 = 0x4;
    /// The payload begins with the length of its padding.
    pub const PADDED: u8 = 0x8;
    /// The payload begins with a priority.
    pub const PRIORITY: u8 = 0x20;
}

/// Why a stream or a connection ends (section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// Nothing is wrong.
    None,
    /// The peer violated the protocol.
    Protocol,
    /// This side failed.
    Internal,
    /// The peer sent more than a window allows.
    FlowControl,
    /// Settings were not answered in time.
    SettingsTimeout,
    /// A frame came for a direction that has ended.
    StreamClosed,
    /// A frame has another length than its kind.
    FrameSize,
    /// The stream was not begun, so the request may be repeated.
    Refused,
    /// The stream is of no more use.
    Cancel,
    /// A head cannot be decoded.
    Compression,
    /// The connection for a CONNECT failed.
    Connect,
    /// The peer behaves as an attacker does.
    Calm,
}

/// The names of error codes (section 7).
const CODES: &str = "NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT \
    STREAM_CLOSED FRAME_SIZE_ERROR REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR \
    ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED";

/// The name of the error code at the front of `bytes`.
pub fn code_name(bytes: &[u8]) -> &'static str {
    let code = bytes.first_chunk().map_or(0, |four| u32::from_be_bytes(*four));
    CODES.split(' ').nth(code as usize).unwrap_or("of an unknown code")
}

/// A setting (section 6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Setting {
    /// The size of the table for heads, in bytes.
    HeaderTable = 1,
    /// Whether a server may promise.
    Push = 2,
    /// The number of streams at once.
    Streams = 3,
    /// The window of a stream at its start, in bytes.
    Window = 4,
    /// The longest payload of a frame, in bytes.
    FrameMax = 5,
    /// The longest head, in bytes as section 6.5.2 counts them.
    HeadMax = 6,
}

/// A whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its kind; `None` for one that this version does not know, which is ignored.
    pub kind: Option<Kind>,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 is the connection.
    pub stream: u32,
    /// Its payload.
    pub payload: &'a [u8],
}

/// Reads the frame at the front of `bytes`, and its length with the head; `None` if it is not
/// complete.
///
/// # Errors
/// [`Code::FrameSize`] for a payload longer than [`FRAME_MAX`].
pub fn next(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Code> {
    let Some((&[a, b, c, kind, flags, d, e, f, g], rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([0, a, b, c]) as usize;
    if len > FRAME_MAX {
        return Err(Code::FrameSize);
    }
    let Some(payload) = rest.get(..len) else { return Ok(None) };
    let stream = u32::from_be_bytes([d, e, f, g]) & 0x7fff_ffff;
    Ok(Some((Frame { kind: Kind::try_from(kind).ok(), flags, stream, payload }, FRAME_HEAD + len)))
}

impl<'a> Frame<'a> {
    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload of DATA or HEADERS without its padding and its priority, and the stream on which
    /// this one depends by that priority.
    ///
    /// # Errors
    /// [`Code::FrameSize`] if the priority is cut, [`Code::Protocol`] for more padding than
    /// payload.
    pub fn content(&self) -> Result<(&'a [u8], Option<u32>), Code> {
        let mut rest = self.payload;
        let mut padding = 0;
        if self.has(flag::PADDED) {
            let (&length, behind) = rest.split_first().ok_or(Code::FrameSize)?;
            (padding, rest) = (usize::from(length), behind);
        }
        let mut parent = None;
        if self.kind == Some(Kind::Headers) && self.has(flag::PRIORITY) {
            let (priority, behind) = rest.split_at_checked(5).ok_or(Code::FrameSize)?;
            parent = number(priority);
            rest = behind;
        }
        let len = rest.len().checked_sub(padding).ok_or(Code::Protocol)?;
        Ok((&rest[..len], parent))
    }

    /// The number of 31 bits at the front of the payload: an increment, a last stream, a parent.
    pub fn number(&self) -> Option<u32> {
        number(self.payload)
    }

    /// The settings of the payload, also those that this version does not know.
    pub fn settings(&self) -> impl Iterator<Item = (u16, u32)> {
        self.payload.chunks_exact(6).map(|it| {
            (u16::from_be_bytes([it[0], it[1]]), u32::from_be_bytes([it[2], it[3], it[4], it[5]]))
        })
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_be_bytes(*four) & 0x7fff_ffff)
}

/// Appends the head of a frame whose payload of `len` bytes follows.
pub fn put_frame_head(kind: Kind, flags: u8, stream: u32, len: usize, out: &mut Vec<u8>) {
    debug_assert!(len <= FRAME_MAX, "a peer need not take a frame of {len} bytes");
    out.extend_from_slice(&(len as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind as u8, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Appends a frame.
pub fn put_frame(kind: Kind, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    put_frame_head(kind, flags, stream, payload.len(), out);
    out.extend_from_slice(payload);
}

/// Appends RST_STREAM.
pub fn put_reset(stream: u32, code: Code, out: &mut Vec<u8>) {
    put_frame(Kind::Reset, 0, stream, &(code as u32).to_be_bytes(), out);
}

/// Appends GOAWAY; `last` is the last stream that was or will be answered.
pub fn put_go_away(last: u32, code: Code, why: &str, out: &mut Vec<u8>) {
    let payload = [&last.to_be_bytes()[..], &(code as u32).to_be_bytes(), why.as_bytes()].concat();
    put_frame(Kind::GoAway, 0, 0, &payload, out);
}

/// Appends WINDOW_UPDATE.
pub fn put_window_update(stream: u32, more: u32, out: &mut Vec<u8>) {
    put_frame(Kind::WindowUpdate, 0, stream, &more.to_be_bytes(), out);
}

/// Appends SETTINGS.
pub fn put_settings(settings: &[(Setting, u32)], out: &mut Vec<u8>) {
    put_frame_head(Kind::Settings, 0, 0, settings.len() * 6, out);
    for (setting, value) in settings {
        out.extend_from_slice(&(*setting as u16).to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends a head as HEADERS, and CONTINUATION where it is longer than a frame.
pub fn put_head(stream: u32, is_last: bool, block: &[u8], out: &mut Vec<u8>) {
    let mut pieces = block.chunks(FRAME_MAX).peekable();
    let mut kind = Kind::Headers;
    let mut flags = if is_last { flag::END_STREAM } else { 0 };
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            flags |= flag::END_HEADERS;
        }
        put_frame(kind, flags, stream, piece, out);
        (kind, flags) = (Kind::Continuation, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_when_it_is_whole() {
        let mut bytes = Vec::new();
        put_frame(Kind::Ping, flag::ACK, 0, b"12345678", &mut bytes);
        let (frame, len) = next(&bytes).unwrap().unwrap();
        assert_eq!((frame.kind, frame.payload, len), (Some(Kind::Ping), &b"12345678"[..], 17));
        bytes[3] = 0x20;
        assert_eq!(next(&bytes).unwrap().unwrap().0.kind, None);
        bytes[..3].copy_from_slice(&[0, 0x40, 1]);
        assert_eq!(next(&bytes), Err(Code::FrameSize));
    }

    #[test]
    fn padding_and_priority_are_taken_off() {
        let check = |kind, flags, payload: &[u8], wanted: Result<(&[u8], Option<u32>), Code>| {
            let frame = Frame { kind: Some(kind), flags, stream: 1, payload };
            assert_eq!(frame.content(), wanted, "{payload:?}");
        };
        check(Kind::Data, 0, b"\x01ab", Ok((b"\x01ab", None)));
        check(Kind::Data, flag::PADDED, b"\x01ab", Ok((b"a", None)));
        check(Kind::Data, flag::PADDED, b"\x02ab", Ok((b"", None)));
        check(Kind::Data, flag::PADDED, b"\x03ab", Err(Code::Protocol));
        check(Kind::Data, flag::PADDED, b"", Err(Code::FrameSize));
        let both = flag::PADDED | flag::PRIORITY;
        check(Kind::Headers, both, b"\x01\x80\0\0\x05\x10hp", Ok((b"h", Some(5))));
        check(Kind::Headers, flag::PRIORITY, b"\0\0\0", Err(Code::FrameSize));
    }

    #[test]
    fn a_long_head_continues() {
        let mut bytes = Vec::new();
        put_head(7, true, &[b'x'; FRAME_MAX + 1], &mut bytes);
        let (first, len) = next(&bytes).unwrap().unwrap();
        assert_eq!((first.kind, first.flags), (Some(Kind::Headers), flag::END_STREAM));
        let (second, _) = next(&bytes[len..]).unwrap().unwrap();
        assert_eq!((second.kind, second.flags), (Some(Kind::Continuation), flag::END_HEADERS));
        assert_eq!((first.payload.len(), second.payload.len()), (FRAME_MAX, 1));
    }
}
