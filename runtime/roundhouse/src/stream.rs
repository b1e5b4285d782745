//! The body of a reply that is made piece by piece: as chunks (RFC 9112 section 7.1), or up to the
//! end of the connection for a client of HTTP/1.0.
//!
//! The output is the back-pressure: a piece is asked for only while the output has room, so a
//! client that does not read costs one full output.

use core::time::Duration;
use std::io::Write;

use seam::{Cx, Instant, Out};
use wire::http::Version;

use crate::messages::ReplyBuffer;
use crate::routes::Source;

/// The pause after a piece without bytes whose source wants to be asked again at once.
const PAUSE: Duration = Duration::from_millis(10);
/// The length of a chunk in hexadecimal digits, filled in when it is known.
const SIZE: &[u8] = b"00000000\r\n";

/// The action after a piece of a streamed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next piece is there: ask for it as soon as the output has room.
    More,
    /// Ask for the next piece at this moment.
    At(Instant),
    /// The body has ended.
    End,
}

/// A streamed body on its way.
pub(crate) struct Stream<T> {
    source: Source<T>,
    /// When to ask for the next piece.
    wake: Instant,
    is_chunked: bool,
    /// The connection serves another request after the body.
    pub(crate) keep_alive: bool,
    /// A later request has come.
    pub(crate) holds_input: bool,
}

impl<T> Stream<T> {
    pub(crate) fn new(source: Source<T>, mode: (Version, bool), now: Instant) -> Stream<T> {
        let is_chunked = mode.0 == Version::Http11;
        let keep_alive = mode.1 && is_chunked;
        Stream { source, wake: now, is_chunked, keep_alive, holds_input: false }
    }

    /// The last fields of the head, and its end.
    pub(crate) fn framing(&self) -> Option<&'static str> {
        Some(match (self.is_chunked, self.keep_alive) {
            (true, true) => "Transfer-Encoding: chunked\r\n\r\n",
            (true, false) => "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
            (false, _) => "Connection: close\r\n\r\n",
        })
    }

    /// Appends pieces while there is room and one is due. Returns the moment of the next, or `None`
    /// at the end of the body.
    pub(crate) fn fill(&mut self, cx: &Cx<'_, T>, out: &mut Out) -> Option<Instant> {
        while self.wake <= cx.now {
            if out.is_full() {
                // `Event::Room` comes first.
                return Some(Instant::NEVER);
            }
            let bytes = out.bytes();
            let head = bytes.len();
            if self.is_chunked {
                bytes.extend_from_slice(SIZE);
            }
            let start = bytes.len();
            let flow = (self.source)(cx, &mut ReplyBuffer { out: bytes, wake: None });
            let len = bytes.len() - start;
            match len {
                0 => bytes.truncate(head),
                _ if self.is_chunked => {
                    let digits = &mut bytes[head..head + SIZE.len() - 2];
                    write!(&mut *digits, "{len:08x}").expect("a piece is shorter than 4 GiB");
                    bytes.extend_from_slice(b"\r\n");
                }
                _ => {}
            }
            self.wake = match flow {
                Flow::More if len == 0 => cx.now + PAUSE,
                Flow::More => cx.now,
                Flow::At(moment) => moment,
                Flow::End => {
                    self.end(out);
                    return None;
                }
            };
        }
        Some(self.wake)
    }

    pub(crate) fn end(&self, out: &mut Out) {
        if self.is_chunked {
            out.bytes().extend_from_slice(b"0\r\n\r\n");
        }
    }
}
