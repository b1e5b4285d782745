//! How the stock protocol marks the end of a reply.
//!
//! Requests are always lines. The programs that speak this protocol frame replies in different
//! ways, and a client with the wrong framing hangs or loses synchronisation, so each side is told
//! which to use:
//!
//! | name | a reply is |
//! |---|---|
//! | `line` | its lines; a [`Shape::Block`] has one empty line after them |
//! | `fixed:N` | exactly N bytes: the text, then NUL bytes, at least one of them |
//! | `eof` | its lines, then a line `EOF` |
//! | `length` | a line with the number of bytes that follow, then its lines |
//!
//! The course's clients read `fixed:8192` with `Rio_readnb(&rio, buf, MAXLINE)`. In `line` framing
//! a reply cannot say whether a second line follows, so the *request* decides the shape: listing
//! commands answer with a block, even if it is an error.

use memchr::{memchr, memmem};
use std::str::FromStr;

/// How replies are framed. `Display` and `FromStr` use the names in the module's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Framing {
    /// Lines; blocks end with an empty line.
    #[display("line")]
    Line,
    /// Blocks of this many bytes, 2 to [`FIXED_MAX`], padded with NUL.
    #[display("fixed:{_0}")]
    Fixed(usize),
    /// Lines, then a line `EOF`.
    #[display("eof")]
    Eof,
    /// A line with the length of the text in bytes, then the text.
    #[display("length")]
    Length,
}

/// The longest `fixed` block in bytes. The course uses 8192; more than 1 MiB is a mistake.
pub const FIXED_MAX: usize = 1 << 20;

/// Whether a reply is one line or a list of lines. The request decides, not the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Exactly one line.
    Line,
    /// Any number of lines, none of them empty.
    Block,
}

/// A reply was longer than its `fixed` block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display, derive_more::Error)]
#[display("a reply of {} bytes does not fit into the framing's {} bytes", self.text, self.text_max)]
pub struct Overfull {
    /// Length of the text in bytes.
    pub text: usize,
    /// The longest text that the framing can carry, in bytes.
    pub text_max: usize,
}

impl Framing {
    /// The longest text that one reply can carry, in bytes, newlines included.
    pub fn text_max(self) -> usize {
        match self {
            Framing::Line | Framing::Eof | Framing::Length => usize::MAX,
            Framing::Fixed(size) => size - 1,
        }
    }

    /// Frames the text that `out` holds from `start` on.
    ///
    /// The text is empty or ends with `\n`.
    ///
    /// # Errors
    /// [`Overfull`] if the text does not fit; `out` is then cut back to `start`.
    pub fn finish(self, start: usize, shape: Shape, out: &mut Vec<u8>) -> Result<(), Overfull> {
        debug_assert!(out.len() == start || out.ends_with(b"\n"), "a reply is whole lines");
        match self {
            Framing::Line if shape == Shape::Block => out.push(b'\n'),
            Framing::Line => {}
            Framing::Eof => out.extend_from_slice(b"EOF\n"),
            Framing::Length => {
                let head = format!("{}\n", out.len() - start);
                out.splice(start..start, head.into_bytes());
            }
            Framing::Fixed(size) => {
                let text = out.len() - start;
                if text >= size {
                    out.truncate(start);
                    return Err(Overfull { text, text_max: self.text_max() });
                }
                out.resize(start + size, 0);
            }
        }
        Ok(())
    }

    /// Appends one framed reply to `out`; see [`Framing::finish`].
    ///
    /// # Errors
    /// [`Overfull`] if the text does not fit; `out` is then as before.
    pub fn encode(self, text: &[u8], shape: Shape, out: &mut Vec<u8>) -> Result<(), Overfull> {
        let start = out.len();
        out.extend_from_slice(text);
        self.finish(start, shape, out)
    }
}

impl FromStr for Framing {
    type Err = String;

    fn from_str(name: &str) -> Result<Framing, String> {
        let size = name.strip_prefix("fixed:").and_then(|size| size.parse().ok());
        match (name, size) {
            ("line", _) => Ok(Framing::Line),
            ("eof", _) => Ok(Framing::Eof),
            ("length", _) => Ok(Framing::Length),
            (_, Some(size @ 2..=FIXED_MAX)) => Ok(Framing::Fixed(size)),
            _ => Err(format!(
                "expected a framing `line`, `eof`, `length` or `fixed:BYTES` with 2 to {FIXED_MAX} \
                 bytes, found `{name}`; the course's clients need `fixed:8192`"
            )),
        }
    }
}

/// One reply at the front of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The reply's lines, each with its newline; without padding, empty line, `EOF` line or length.
    pub text: &'a [u8],
    /// The length of the framed reply in bytes, which is where the next one starts.
    pub used: usize,
}

/// Finds replies in a growing buffer without reading any byte twice.
///
/// It holds no bytes: the caller keeps all unused bytes and calls again with the longer buffer when
/// more arrive. The caller limits the length of a reply.
#[derive(Debug, Clone)]
pub struct Decoder {
    framing: Framing,
    /// Bytes at the front that are known not to hold the end of the reply.
    scanned: usize,
}

impl Decoder {
    /// A decoder for a connection whose server uses `framing`.
    pub fn new(framing: Framing) -> Decoder {
        Decoder { framing, scanned: 0 }
    }

    /// The reply at the front of `bytes`, or `None` when more bytes are needed.
    ///
    /// `shape` is that of the oldest unanswered request; it matters in `line` framing only. After a
    /// reply, call again with the bytes after `used`.
    pub fn next<'a>(&mut self, bytes: &'a [u8], shape: Shape) -> Option<Reply<'a>> {
        let found = match (self.framing, shape) {
            (Framing::Fixed(size), _) => return fixed(bytes, size),
            (Framing::Line, Shape::Line) => self.line(bytes),
            (Framing::Line, Shape::Block) => self.ended_by(bytes, b"\n\n"),
            (Framing::Eof, _) => self.ended_by(bytes, b"\nEOF\n"),
            (Framing::Length, _) => self.counted(bytes),
        };
        if found.is_some() {
            self.scanned = 0;
        }
        found
    }

    fn line<'a>(&mut self, bytes: &'a [u8]) -> Option<Reply<'a>> {
        match memchr(b'\n', &bytes[self.scanned..]) {
            Some(end) => {
                let used = self.scanned + end + 1;
                Some(Reply { text: &bytes[..used], used })
            }
            None => {
                self.scanned = bytes.len();
                None
            }
        }
    }

    /// Reads the length, then waits for as many bytes. A line that holds no length is a reply by
    /// itself, so that the reader sees what the server sent.
    fn counted<'a>(&mut self, bytes: &'a [u8]) -> Option<Reply<'a>> {
        let head = self.line(bytes)?;
        let length = str::from_utf8(head.text).ok().and_then(|text| text.trim().parse().ok());
        let Some(end) = length.and_then(|length| head.used.checked_add(length)) else {
            return Some(head);
        };
        // The next call looks for the end of the head again, where this one found it.
        self.scanned = head.used - 1;
        Some(Reply { text: bytes.get(head.used..end)?, used: end })
    }

    /// Finds the last line of the reply, `mark` without its leading newline; the text precedes it.
    fn ended_by<'a>(&mut self, bytes: &'a [u8], mark: &[u8]) -> Option<Reply<'a>> {
        let last = &mark[1..];
        if bytes.starts_with(last) {
            return Some(Reply { text: &[], used: last.len() });
        }
        match memmem::find(&bytes[self.scanned..], mark) {
            Some(at) => {
                let end = self.scanned + at + 1;
                Some(Reply { text: &bytes[..end], used: end + last.len() })
            }
            None => {
                // The mark may have begun in the last few bytes.
                self.scanned = bytes.len().saturating_sub(last.len());
                None
            }
        }
    }
}

/// The text up to the first NUL, as clients read it; the padding is not checked.
fn fixed(bytes: &[u8], size: usize) -> Option<Reply<'_>> {
    let block = bytes.get(..size)?;
    let text = memchr(0, block).unwrap_or(size);
    Some(Reply { text: &block[..text], used: size })
}

#[cfg(test)]
mod tests {
    use super::{Decoder, Framing, Shape};

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let framed = |framing: Framing, text: &str, shape| {
            let mut out = b"before".to_vec();
            framing.encode(text.as_bytes(), shape, &mut out).map(|()| out.split_off(6))
        };
        assert_eq!(framed(Framing::Line, "a\n", Shape::Line).unwrap(), b"a\n");
        assert_eq!(framed(Framing::Line, "a\n", Shape::Block).unwrap(), b"a\n\n");
        assert_eq!(framed(Framing::Line, "", Shape::Block).unwrap(), b"\n");
        assert_eq!(framed(Framing::Eof, "a\n", Shape::Line).unwrap(), b"a\nEOF\n");
        assert_eq!(framed(Framing::Length, "a\nb\n", Shape::Line).unwrap(), b"4\na\nb\n");
        assert_eq!(framed(Framing::Fixed(4), "a\n", Shape::Block).unwrap(), b"a\n\0\0");
        assert_eq!(framed(Framing::Fixed(4), "ab\n", Shape::Line).unwrap(), b"ab\n\0");
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_nothing() {
        let mut out = b"kept".to_vec();
        let refused = Framing::Fixed(4).encode(b"abc\n", Shape::Line, &mut out).unwrap_err();
        assert_eq!((refused.text, refused.text_max), (4, 3));
        assert_eq!(out, b"kept");
    }

    #[test]
    fn a_sloppy_server_without_nul_is_read_to_the_end_of_its_block() {
        let reply = Decoder::new(Framing::Fixed(4)).next(b"abcdef", Shape::Line).unwrap();
        assert_eq!((reply.text, reply.used), (&b"abcd"[..], 4));
    }

    #[test]
    fn a_line_that_holds_no_length_is_a_reply() {
        for (bytes, text, used) in [
            (&b"[buy] success\n3\n"[..], &b"[buy] success\n"[..], 14),
            (b"18446744073709551615\nab", b"18446744073709551615\n", 21),
            (b" 2\r\nab", b"ab", 6),
            (b"0\n", b"", 2),
        ] {
            let reply = Decoder::new(Framing::Length).next(bytes, Shape::Line).unwrap();
            assert_eq!((reply.text, reply.used), (text, used));
        }
    }

    #[test]
    fn names() {
        for name in ["line", "eof", "length", "fixed:8192", "fixed:2"] {
            assert_eq!(name.parse::<Framing>().unwrap().to_string(), name);
        }
        for bad in
            ["", "lines", "fixed", "fixed:", "fixed:1", "fixed:-1", "fixed:99999999999999999"]
        {
            let message = bad.parse::<Framing>().unwrap_err();
            assert!(message.contains(&format!("found `{bad}`")), "{message}");
        }
    }
}
