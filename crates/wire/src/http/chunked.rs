//! Chunked bodies (RFC 9112 section 7.1), read piece by piece and written.

use super::Bad;
use memchr::memchr;

/// Bytes of a chunk's size line, CR LF included: 16 digits and a little extension.
pub const SIZE_LINE_MAX: usize = 256;
/// Bytes of the trailer section, its empty line included.
pub const TRAILER_MAX: usize = 4096;

/// Where a reader of a chunked body stands. It holds no bytes: what is not used is offered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunked(State);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    Data(u64),
    /// The CR LF after the data.
    Seam,
    /// Trailer lines; so many bytes of them were seen.
    Trailer(usize),
    End,
}

/// What the front of the bytes holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Bytes of the body; may be empty while the framing is read.
    pub data: &'a [u8],
    /// How many bytes of the input are dealt with.
    pub used: usize,
    /// The body is over; what follows is the next message.
    pub end: bool,
}

impl Chunked {
    /// A reader at the beginning of a body.
    #[allow(clippy::new_without_default, reason = "a body begins; it has no default")]
    pub fn new() -> Chunked {
        Chunked(State::Size)
    }

    /// Reads on. A piece that uses nothing and is not the end needs more bytes.
    ///
    /// # Errors
    /// [`Bad::Framing`], or [`Bad::Newline`] where a line ends with LF alone; the connection must
    /// be closed.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Piece<'a>, Bad> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let none = Piece { data: &[], used: at, end: self.0 == State::End };
            match self.0 {
                State::Size => match line(rest, SIZE_LINE_MAX)? {
                    None => return Ok(none),
                    Some(text) => {
                        let size = size(text)?;
                        self.0 = if size == 0 { State::Trailer(0) } else { State::Data(size) };
                        at += text.len() + 2;
                    }
                },
                State::Data(left) => {
                    let len = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if len == 0 {
                        return Ok(none);
                    }
                    let left = left - len as u64;
                    self.0 = if left == 0 { State::Seam } else { State::Data(left) };
                    return Ok(Piece { data: &rest[..len], used: at + len, end: false });
                }
                State::Seam => match rest {
                    [b'\r', b'\n', ..] => {
                        self.0 = State::Size;
                        at += 2;
                    }
                    [] | [b'\r'] => return Ok(none),
                    _ => return Err(Bad::Framing),
                },
                State::Trailer(seen) => match line(rest, TRAILER_MAX - seen)? {
                    None => return Ok(none),
                    Some(text) => {
                        let seen = seen + text.len() + 2;
                        at += text.len() + 2;
                        self.0 = if text.is_empty() { State::End } else { State::Trailer(seen) };
                        if seen >= TRAILER_MAX {
                            return Err(Bad::Framing);
                        }
                        is_field(text)?;
                    }
                },
                State::End => return Ok(none),
            }
        }
    }
}

/// One line without its CR LF, or `None` if it is not whole yet.
fn line(bytes: &[u8], len_max: usize) -> Result<Option<&[u8]>, Bad> {
    let seen = &bytes[..bytes.len().min(len_max)];
    let Some(end) = memchr(b'\n', seen) else {
        return if bytes.len() >= len_max { Err(Bad::Framing) } else { Ok(None) };
    };
    let text = seen[..end].strip_suffix(b"\r").ok_or(Bad::Newline)?;
    if memchr(b'\r', text).is_some() { Err(Bad::Newline) } else { Ok(Some(text)) }
}

/// `1*HEXDIG [ chunk-ext ]`. Extensions are skipped, as their reader must; white space before the
/// semicolon is not allowed to hide anything.
fn size(text: &[u8]) -> Result<u64, Bad> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let rest = &text[digits..];
    let clean = rest.iter().all(|byte| *byte == b'\t' || (b' '..=b'~').contains(byte));
    if !(1..=16).contains(&digits) || !clean || !matches!(rest, [] | [b';', ..]) {
        return Err(Bad::Framing);
    }
    let digits = std::str::from_utf8(&text[..digits]).map_err(|_| Bad::Framing)?;
    u64::from_str_radix(digits, 16).map_err(|_| Bad::Framing)
}

/// A trailer field must look like one; its value is nobody's business here.
fn is_field(text: &[u8]) -> Result<(), Bad> {
    let Some(colon) = memchr(b':', text) else {
        return if text.is_empty() { Ok(()) } else { Err(Bad::Framing) };
    };
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if colon > 0 && text[..colon].iter().all(token) { Ok(()) } else { Err(Bad::Framing) }
}

/// Appends `data` as one chunk; nothing for no data, which would end the body.
pub fn put(data: &[u8], out: &mut Vec<u8>) {
    if data.is_empty() {
        return;
    }
    out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked body.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body and what is left behind it, the input arriving in pieces of `step` bytes.
    fn read(input: &[u8], step: usize) -> Result<Option<(Vec<u8>, usize)>, Bad> {
        let (mut reader, mut body) = (Chunked::new(), Vec::new());
        let (mut from, mut seen) = (0, 0);
        loop {
            let piece = reader.next(&input[from..seen])?;
            body.extend_from_slice(piece.data);
            from += piece.used;
            if piece.end {
                return Ok(Some((body, from)));
            }
            if piece.used == 0 && piece.data.is_empty() {
                if seen == input.len() {
                    return Ok(None);
                }
                seen = (seen + step).min(input.len());
            }
        }
    }

    #[test]
    fn bodies_come_back_whatever_the_cuts() {
        fn check(input: &str, want: &str) {
            let len = input.len();
            let whole = format!("{input}GET ");
            for step in [1, 2, 3, 7, whole.len()] {
                let found = read(whole.as_bytes(), step);
                assert_eq!(found, Ok(Some((want.into(), len))), "{input:?} by {step}");
            }
        }
        check("0\r\n\r\n", "");
        check("5\r\nhello\r\n0\r\n\r\n", "hello");
        check("A;x=\"y\"\r\n0123456789\r\n001\r\n!\r\n0\r\nX: y\r\n\r\n", "0123456789!");
        let mut out = Vec::new();
        put(b"data: 1\n\n", &mut out);
        put(b"", &mut out);
        end(&mut out);
        check(std::str::from_utf8(&out).expect("ASCII"), "data: 1\n\n");
    }

    #[test]
    fn ambiguous_chunks_are_refused() {
        fn check(input: &str, want: Bad) {
            assert_eq!(read(input.as_bytes(), 1), Err(want), "{input:?}");
            assert_eq!(read(input.as_bytes(), input.len()), Err(want), "{input:?}");
        }
        check("5\nhello\r\n", Bad::Newline);
        check("5;a\nb\r\nhello\r\n", Bad::Newline);
        check("5;a\rb\r\nhello\r\n", Bad::Newline);
        check("5\r\nhelloX\r\n", Bad::Framing);
        check("5\r\nhello\n0\r\n\r\n", Bad::Framing);
        check("\r\n", Bad::Framing);
        check("-5\r\n", Bad::Framing);
        check("0x5\r\n", Bad::Framing);
        check("5 \r\nhello\r\n", Bad::Framing);
        check("10000000000000000\r\n", Bad::Framing);
        check("5;\0\r\n", Bad::Framing);
        check("0\r\nno field\r\n\r\n", Bad::Framing);
        check("0\r\nX : y\r\n\r\n", Bad::Framing);
        check(&format!("5;{}", "a".repeat(SIZE_LINE_MAX)), Bad::Framing);
        check(&format!("0\r\n{}", "X: y\r\n".repeat(1000)), Bad::Framing);
    }
}
