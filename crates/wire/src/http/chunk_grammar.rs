//! A second reader of chunked bodies, rule by rule from the ABNF of RFC 9112 section 7.1, for
//! tests.
//!
//! Each rule is a function that takes a prefix of its input or does not match. They share nothing
//! with [`super::chunked`].

/// The grammar's verdict on some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// They may be the start of a body.
    Unfinished,
    /// They cannot become a body.
    Bad,
    /// They start with a body.
    Body {
        /// The content of the chunks.
        data: Vec<u8>,
        /// The total length, trailer and last empty line included.
        len: usize,
    },
}

/// `chunked-body = *chunk last-chunk trailer-section CRLF`. A line is judged when it is complete.
pub(crate) fn read(bytes: &[u8]) -> Verdict {
    let (mut data, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = line(&bytes[at..]) else { return Verdict::Unfinished };
        let Some(size) = line.strip_suffix(b"\r\n").and_then(size_line) else {
            return Verdict::Bad;
        };
        at += line.len();
        if size == 0 {
            return trailer(bytes, at, data);
        }
        let left = (bytes.len() - at) as u64;
        if left < size {
            return Verdict::Unfinished;
        }
        let size = size as usize;
        data.extend_from_slice(&bytes[at..at + size]);
        at += size;
        match &bytes[at..] {
            [] | [b'\r'] => return Verdict::Unfinished,
            [b'\r', b'\n', ..] => at += 2,
            _ => return Verdict::Bad,
        }
    }
}

/// `trailer-section = *( field-line CRLF )`, and the CRLF after it.
fn trailer(bytes: &[u8], mut at: usize, data: Vec<u8>) -> Verdict {
    loop {
        let Some(line) = line(&bytes[at..]) else { return Verdict::Unfinished };
        at += line.len();
        match line.strip_suffix(b"\r\n") {
            Some([]) => return Verdict::Body { data, len: at },
            Some(text) if is_field(text) => {}
            _ => return Verdict::Bad,
        }
    }
}

/// Everything up to the first LF, that included.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    (0..bytes.len()).find(|at| bytes[*at] == b'\n').map(|at| &bytes[..=at])
}

/// `chunk-size [ chunk-ext ]`, `chunk-size = 1*HEXDIG`; sizes of at most 16 digits.
fn size_line(text: &[u8]) -> Option<u64> {
    let hex = |byte: &u8| char::from(*byte).to_digit(16);
    let digits: Vec<u32> = text.iter().map_while(hex).collect();
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut rest = &text[digits.len()..];
    while !rest.is_empty() {
        rest = extension(rest)?;
    }
    Some(digits.iter().fold(0, |sum, digit| sum << 4 | u64::from(*digit)))
}

/// `BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ]`; returns the rest.
fn extension(text: &[u8]) -> Option<&[u8]> {
    let text = token(skip(skip(text).strip_prefix(b";")?))?;
    let Some(value) = skip(text).strip_prefix(b"=") else { return Some(text) };
    let value = skip(value);
    token(value).or_else(|| quoted(value))
}

/// `BWS = OWS = *( SP / HTAB )`.
fn skip(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()..]
}

/// `token = 1*tchar` (RFC 9110 section 5.6.2); returns the rest.
fn token(text: &[u8]) -> Option<&[u8]> {
    let tchar = |byte: &u8| match char::from(*byte) {
        '!' | '#' | '$' | '%' | '&' | '\'' | '*' | '+' | '-' | '.' => true,
        '^' | '_' | '`' | '|' | '~' => true,
        letter => letter.is_ascii_alphanumeric(),
    };
    let len = text.iter().take_while(|byte| tchar(byte)).count();
    (len > 0).then(|| &text[len..])
}

/// `quoted-string = DQUOTE *( qdtext / quoted-pair ) DQUOTE` (section 5.6.4); returns the rest.
fn quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        rest = match rest {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'\t' | b' '..=b'~' | 0x80..=0xff, rest @ ..] => rest,
            [b'\t' | b' ' | b'!' | b'#'..=b'[' | b']'..=b'~' | 0x80..=0xff, rest @ ..] => rest,
            _ => return None,
        }
    }
}

/// `field-line = field-name ":" OWS field-value OWS` (RFC 9112 section 5).
fn is_field(text: &[u8]) -> bool {
    let Some([b':', value @ ..]) = token(text) else { return false };
    value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..=0xff))
}
