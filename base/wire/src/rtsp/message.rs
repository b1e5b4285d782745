//! The items of an RTSP connection: requests, responses, and media packets that follow a dollar
//! sign (RFC 2326 sections 4 to 7 and 10.12).
//!
//! Server and player both call `next` on the bytes of a connection that are not yet used; it
//! returns the first item and its length, or `None` until the item is complete. A dollar sign
//! begins an interleaved packet with a length of 16 bits; anything else begins a message, whose
//! body ends by Content-Length alone. Items borrow from the input. Every limit is a constant here,
//! so a peer cannot make a connection hold more than a head, a body or a packet. After an error the
//! next item cannot be located, and the caller closes the connection.

use memchr::memchr;

/// The longest head, in bytes.
pub const HEAD_MAX: usize = 8 * 1024;
/// The longest body of a message, in bytes; session descriptions have a few thousand.
const BODY_MAX: usize = 64 * 1024;
/// The longest interleaved packet, in bytes: its length field has 16 bits.
pub const DATA_MAX: usize = 0xffff;
const FIELDS_MAX: usize = 64;

/// One item, borrowed from the stream.
#[derive(Debug)]
pub enum Item<'a> {
    /// A request.
    Request(Request<'a>),
    /// A response.
    Response(Response<'a>),
    /// A packet of RTP or RTCP.
    Data {
        /// The channel that `SETUP` gave it.
        channel: u8,
        /// The packet.
        packet: &'a [u8],
    },
}

/// A request.
#[derive(Debug)]
pub struct Request<'a> {
    /// Such as `PLAY`; case-sensitive.
    pub method: &'a str,
    /// An absolute URL, or `*`.
    pub target: &'a str,
    /// The version is 1.0. Other versions may have other rules.
    pub is_version_1: bool,
    fields: Vec<(&'a str, &'a str)>,
    /// The body.
    pub body: &'a [u8],
}

/// A response.
#[derive(Debug)]
pub struct Response<'a> {
    /// The status code.
    pub code: u16,
    /// The reason phrase.
    pub words: &'a str,
    fields: Vec<(&'a str, &'a str)>,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The value of the first field called `name`, whatever the case of its letters.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        field(&self.fields, name)
    }
}

impl<'a> Response<'a> {
    /// The value of the first field called `name`, whatever the case of its letters.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        field(&self.fields, name)
    }

    /// The values of all fields called `name`, in their order.
    pub fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'a str> + 's {
        let is_named = move |field: &&(&str, &str)| field.0.eq_ignore_ascii_case(name);
        self.fields.iter().filter(is_named).map(|(_, value)| *value)
    }
}

fn field<'a>(fields: &[(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

/// Why the rest of the stream cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The first line is neither a request line nor a status line.
    FirstLine,
    /// A header field is malformed, or there are too many.
    Field,
    /// Content-Length is not a number, or occurs twice.
    Length,
    /// The head is longer than [`HEAD_MAX`].
    LongHead,
    /// The body is longer than the limit.
    LongBody,
}

/// The first item of `bytes` and its length; `None` if it is incomplete.
///
/// # Errors
/// [`Bad`]: close the connection, because the next item cannot be found.
pub fn next(bytes: &[u8]) -> Result<Option<(Item<'_>, usize)>, Bad> {
    // Empty lines before a message are skipped, as in HTTP (RFC 2326 section 4.1).
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let rest = &bytes[blank..];
    match rest.first() {
        None => Ok(None),
        Some(b'$') => Ok(data(rest).map(|(item, len)| (item, blank + len))),
        Some(_) => Ok(message(rest)?.map(|(item, len)| (item, blank + len))),
    }
}

fn data(bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    let head = bytes.first_chunk::<4>()?;
    let len = 4 + usize::from(u16::from_be_bytes([head[2], head[3]]));
    let packet = bytes.get(4..len)?;
    Some((Item::Data { channel: head[1], packet }, len))
}

/// The four bytes before an interleaved packet of `len` bytes.
#[inline]
pub fn frame(channel: u8, len: usize) -> [u8; 4] {
    let [high, low] = u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    [b'$', channel, high, low]
}

fn message(bytes: &[u8]) -> Result<Option<(Item<'_>, usize)>, Bad> {
    let mut fields = Vec::new();
    let mut first = None;
    let mut at = 0;
    loop {
        let window = &bytes[at..bytes.len().min(HEAD_MAX)];
        let Some(end) = memchr(b'\n', window) else {
            return if bytes.len() >= HEAD_MAX { Err(Bad::LongHead) } else { Ok(None) };
        };
        let line = window[..end].strip_suffix(b"\r").unwrap_or(&window[..end]);
        at += end + 1;
        match first {
            None => first = Some(text(line).ok_or(Bad::FirstLine)?),
            Some(_) if line.is_empty() => break,
            Some(_) if fields.len() == FIELDS_MAX => return Err(Bad::Field),
            Some(_) => fields.push(read_field(line).ok_or(Bad::Field)?),
        }
    }
    let first = first.ok_or(Bad::FirstLine)?;
    let read = First::read(first).ok_or(Bad::FirstLine)?;
    let len = body_len(&fields)?;
    let Some(body) = bytes.get(at..at + len) else { return Ok(None) };
    let item = match read {
        First::Request(method, target, is_version_1) => {
            Item::Request(Request { method, target, is_version_1, fields, body })
        }
        First::Response(code, words) => Item::Response(Response { code, words, fields, body }),
    };
    Ok(Some((item, at + len)))
}

/// The line, if it is text without control characters.
fn text(line: &[u8]) -> Option<&str> {
    let clean = line.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control());
    std::str::from_utf8(line).ok().filter(|_| clean)
}

enum First<'a> {
    Request(&'a str, &'a str, bool),
    Response(u16, &'a str),
}

impl<'a> First<'a> {
    fn read(line: &'a str) -> Option<First<'a>> {
        if let Some(rest) = line.strip_prefix("RTSP/1.0 ") {
            let (code, words) = rest.split_once(' ').unwrap_or((rest, ""));
            let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
            return is_code.then(|| First::Response(code.parse().unwrap_or(0), words));
        }
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        let is_method = !method.is_empty()
            && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        let is_version = version
            .strip_prefix("RTSP/")
            .and_then(|digits| digits.split_once('.'))
            .is_some_and(|(major, minor)| is_number(major) && is_number(minor));
        let is_request = is_method && !target.is_empty() && is_version && words.next().is_none();
        is_request.then_some(First::Request(method, target, version == "RTSP/1.0"))
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A field: a token, a colon, a value.
fn read_field(line: &[u8]) -> Option<(&str, &str)> {
    let (name, value) = text(line)?.split_once(':')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_name)).then(|| (name, value.trim_ascii()))
}

fn body_len(fields: &[(&str, &str)]) -> Result<usize, Bad> {
    let mut lengths = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let Some((_, value)) = lengths.next() else { return Ok(0) };
    if lengths.next().is_some() || value.is_empty() {
        return Err(Bad::Length);
    }
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Bad::Length);
    }
    match value.parse() {
        Ok(len) if len <= BODY_MAX => Ok(len),
        _ => Err(Bad::LongBody),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(bytes: &[u8]) -> (Vec<String>, usize, Option<Bad>) {
        let (mut told, mut at) = (Vec::new(), 0);
        loop {
            match next(&bytes[at..]) {
                Ok(None) => return (told, at, None),
                Err(bad) => return (told, at, Some(bad)),
                Ok(Some((item, len))) => {
                    told.push(match item {
                        Item::Request(request) => format!(
                            "{} {} {:?} {}",
                            request.method,
                            request.target,
                            request.field("cseq"),
                            request.body.len()
                        ),
                        Item::Response(response) => {
                            format!("{} {}", response.code, response.body.len())
                        }
                        Item::Data { channel, packet } => format!("${channel} {}", packet.len()),
                    });
                    at += len;
                }
            }
        }
    }

    const TALK: &[u8] = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n$\x01\0\x03abc\r\n\
        RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Length: 2\r\n\r\nhi\
        SET_PARAMETER rtsp://h/a RTSP/1.0\ncseq :3\nCSEQ:\t4\nContent-length: 5\n\nvalue";

    #[test]
    fn items_are_found_one_after_the_other() {
        let talk: Vec<u8> = String::from_utf8_lossy(TALK).replace("cseq :3\n", "").into_bytes();
        let whole = items(&talk);
        let want =
            ["OPTIONS * Some(\"1\") 0", "$1 3", "200 2", "SET_PARAMETER rtsp://h/a Some(\"4\") 5"];
        assert_eq!(whole.0, want);
        assert_eq!(whole.1, talk.len());
    }

    #[test]
    fn what_is_no_message_ends_the_stream() {
        let check = |bytes: &[u8], bad| assert_eq!(items(bytes).2, Some(bad), "{bytes:?}");
        check(TALK, Bad::Field);
        check(b"GET / HTTP/1.1\r\n\r\n", Bad::FirstLine);
        check(b"PLAY  rtsp://h RTSP/1.0\r\n\r\n", Bad::FirstLine);
        check(b"play rtsp://h RTSP/1.0\r\n\r\n", Bad::FirstLine);
        check(b"PLAY rtsp://\0 RTSP/1.0\r\n\r\n", Bad::FirstLine);
        check(b"RTSP/1.0 20 OK\r\n\r\n", Bad::FirstLine);
        check(b"PLAY x RTSP/1.0\r\nno colon\r\n\r\n", Bad::Field);
        check(b"PLAY x RTSP/1.0\r\nA: b\r\n folded\r\n\r\n", Bad::Field);
        check(b"PLAY x RTSP/1.0\r\nContent-Length: -1\r\n\r\n", Bad::Length);
        let twice = b"PLAY x RTSP/1.0\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n";
        check(twice, Bad::Length);
        check(b"PLAY x RTSP/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n", Bad::LongBody);
        check(&[b'A'; HEAD_MAX], Bad::LongHead);
        let many = format!("PLAY x RTSP/1.0\r\n{}\r\n", "A: b\r\n".repeat(65));
        check(many.as_bytes(), Bad::Field);
    }

    #[test]
    fn another_version_is_a_request_that_says_so() {
        let Ok(Some((Item::Request(request), _))) = next(b"PLAY x RTSP/2.0\r\n\r\n") else {
            panic!("expected a request");
        };
        assert!(!request.is_version_1);
    }
}
