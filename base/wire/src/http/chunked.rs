//! Chunked bodies (RFC 9112 section 7.1), read piece by piece and written.
//!
//! A server passes the input to `Chunked::next` until a piece says `end`. Each piece names the
//! bytes that it used and lends the part that belongs to the body, so nothing is copied. The
//! grammar is strict: CR LF only, at most 16 hexadecimal digits, valid extensions, and trailer
//! fields that are well-formed but dropped, because a trailer must not become a header. A reader
//! that was laxer than the proxy in front of it would find another end of the body: that is request
//! smuggling. Limits on size lines, extensions and trailers bound the work that the limit on bodies
//! does not see.

use super::Bad;
use memchr::memchr;

/// The longest size line of a chunk in bytes, CR LF included: 16 digits and a short extension.
pub const SIZE_LINE_MAX: usize = 256;
/// The longest trailer section in bytes, its empty line included.
pub const TRAILER_MAX: usize = 4096;
/// The most bytes of chunk extensions in one body. No client needs them, and one-byte chunks with
/// long extensions would cost work that no limit on bodies counts.
pub const EXTENSIONS_MAX: usize = 4096;

/// The state of a reader of a chunked body. It holds no bytes: unused input is passed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunked {
    state: State,
    /// Bytes of extensions so far.
    extensions: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    Data(u64),
    /// The CR LF after the data.
    Seam,
    /// Trailer lines, with the bytes so far.
    Trailer(usize),
    End,
}

/// The front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Bytes of the body; may be empty while framing is read.
    pub data: &'a [u8],
    /// How many bytes of the input are used.
    pub used: usize,
    /// The body is complete; the next message follows.
    pub end: bool,
}

impl Chunked {
    /// A reader at the start of a body.
    #[allow(clippy::new_without_default, reason = "a body begins; it has no default")]
    pub fn new() -> Chunked {
        Chunked { state: State::Size, extensions: 0 }
    }

    /// Reads the next piece. A piece that uses nothing and is not the end needs more input.
    ///
    /// # Errors
    /// [`Bad::Framing`], or [`Bad::Newline`] where a line ends with LF alone; the connection must
    /// be closed.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Piece<'a>, Bad> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let none = Piece { data: &[], used: at, end: self.state == State::End };
            match self.state {
                State::Size => match line(rest, SIZE_LINE_MAX)? {
                    None => return Ok(none),
                    Some(text) => {
                        let (size, extension) = size(text)?;
                        self.extensions += extension;
                        if self.extensions > EXTENSIONS_MAX {
                            return Err(Bad::Framing);
                        }
                        self.state = if size == 0 { State::Trailer(0) } else { State::Data(size) };
                        at += text.len() + 2;
                    }
                },
                State::Data(left) => {
                    let len = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if len == 0 {
                        return Ok(none);
                    }
                    let left = left - len as u64;
                    self.state = if left == 0 { State::Seam } else { State::Data(left) };
                    return Ok(Piece { data: &rest[..len], used: at + len, end: false });
                }
                State::Seam => match rest {
                    [b'\r', b'\n', ..] => {
                        self.state = State::Size;
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
                        self.state =
                            if text.is_empty() { State::End } else { State::Trailer(seen) };
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

/// One line without its CR LF, or `None` if it is incomplete.
fn line(bytes: &[u8], len_max: usize) -> Result<Option<&[u8]>, Bad> {
    let seen = &bytes[..bytes.len().min(len_max)];
    let Some(end) = memchr(b'\n', seen) else {
        return if bytes.len() >= len_max { Err(Bad::Framing) } else { Ok(None) };
    };
    let text = seen[..end].strip_suffix(b"\r").ok_or(Bad::Newline)?;
    if memchr(b'\r', text).is_some() { Err(Bad::Newline) } else { Ok(Some(text)) }
}

/// `1*HEXDIG [ chunk-ext ]`: the size, and the length of the extensions in bytes. Extensions are
/// skipped if they follow the grammar, "bad" white space included (RFC 9110 section 5.6.3).
fn size(text: &[u8]) -> Result<(u64, usize), Bad> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let rest = &text[digits..];
    if !(1..=16).contains(&digits) || !is_extension(rest) {
        return Err(Bad::Framing);
    }
    let digits = std::str::from_utf8(&text[..digits]).map_err(|_| Bad::Framing)?;
    let size = u64::from_str_radix(digits, 16).map_err(|_| Bad::Framing)?;
    Ok((size, rest.len()))
}

/// `*( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] )`.
fn is_extension(mut text: &[u8]) -> bool {
    while let [b';', rest @ ..] = without_space(text) {
        let rest = without_space(rest);
        let name = rest.iter().take_while(|byte| is_token_byte(byte)).count();
        if name == 0 {
            return false;
        }
        text = &rest[name..];
        if let [b'=', value @ ..] = without_space(text) {
            let value = without_space(value);
            let len = match value {
                [b'"', quoted @ ..] => quoted_len(quoted).map(|len| len + 1),
                _ => Some(value.iter().take_while(|byte| is_token_byte(byte)).count()),
            };
            match len {
                None | Some(0) => return false,
                Some(len) => text = &value[len..],
            }
        }
    }
    text.is_empty()
}

/// `BWS = *( SP / HTAB )`.
fn without_space(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()..]
}

/// The length of a quoted string after its opening quote, the closing one included.
fn quoted_len(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {
                text.get(at + 1).filter(|byte| is_text_byte(byte))?;
                at += 2;
            }
            byte if is_text_byte(&byte) => at += 1,
            _ => return None,
        }
    }
}

/// RFC 9110 section 5.6.2.
pub fn is_token_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// The bytes of field values and quoted strings: HTAB, SP, VCHAR, obs-text.
fn is_text_byte(byte: &u8) -> bool {
    matches!(*byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// A trailer field must be well-formed; its content is discarded, so a trailer can never become a
/// header.
fn is_field(text: &[u8]) -> Result<(), Bad> {
    let Some(colon) = memchr(b':', text) else {
        return if text.is_empty() { Ok(()) } else { Err(Bad::Framing) };
    };
    let good = colon > 0
        && text[..colon].iter().all(is_token_byte)
        && text[colon + 1..].iter().all(is_text_byte);
    if good { Ok(()) } else { Err(Bad::Framing) }
}

#[cfg(test)]
mod tests {
    use super::super::fuzz::read;
    use super::*;

    #[test]
    fn bodies_come_back_whatever_the_cuts() {
        fn check(input: &str, want: &str) {
            let len = input.len();
            let whole = format!("{input}GET ");
            for step in [1, 2, 3, 7, whole.len()] {
                let found = read(whole.as_bytes(), step);
                assert_eq!(found, (want.into(), Ok((len, true))), "{input:?} by {step}");
            }
        }
        check("0\r\n\r\n", "");
        check("9\r\ndata: 1\n\n\r\n0\r\n\r\n", "data: 1\n\n");
        check("5\r\nhello\r\n0\r\n\r\n", "hello");
        check("1;a;b=c;d=\"\\\";\"\r\n!\r\n0;e\r\n\r\n", "!");
        check("1 ; a\t= b ;c\r\n!\r\n0 ;e\r\n\r\n", "!");
        check("A;x=\"y\"\r\n0123456789\r\n001\r\n!\r\n0\r\nX: y\r\n\r\n", "0123456789!");
    }

    #[test]
    fn ambiguous_chunks_are_refused() {
        fn check(input: &str, want: Bad) {
            assert_eq!(read(input.as_bytes(), 1).1, Err(want), "{input:?}");
            assert_eq!(read(input.as_bytes(), input.len()).1, Err(want), "{input:?}");
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
        check("5;\r\n", Bad::Framing);
        check("5; \r\n", Bad::Framing);
        check("5;a \r\n", Bad::Framing);
        check("5;a b\r\n", Bad::Framing);
        check("5;a=\r\n", Bad::Framing);
        check("5;a=\"b\r\n", Bad::Framing);
        check("5;a=\"b\"c\r\n", Bad::Framing);
        check("0\r\nX: \0\r\n\r\n", Bad::Framing);
        check(&format!("1;{}\r\na\r\n", "x".repeat(250)).repeat(17), Bad::Framing);
        check("0\r\nno field\r\n\r\n", Bad::Framing);
        check("0\r\nX : y\r\n\r\n", Bad::Framing);
        check(&format!("5;{}", "a".repeat(SIZE_LINE_MAX)), Bad::Framing);
        check(&format!("0\r\n{}", "X: y\r\n".repeat(1000)), Bad::Framing);
    }
}
