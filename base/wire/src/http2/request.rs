//! Heads that a peer sends (RFC 9113 section 8): of requests, from HPACK to HTTP/1.1, and of
//! replies.

use super::Code;
use super::hpack::Decoder;

/// The cost of a field beyond its bytes (section 6.5.2).
const FIELD_COST: usize = 32;
/// The longest buffer that is kept for the next head, in bytes.
const TEXT_MAX: usize = 4096;

/// Why a request is malformed: its stream ends with [`Code::Protocol`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum BadRequest {
    /// A pseudo field is unknown, missing, doubled, or comes late.
    #[display("expected :method, :scheme and :path once, before all other fields")]
    Pseudo,
    /// A path does not begin with a slash, so it could name another host (section 8.3.1).
    #[display("expected a path that begins with /, or * alone")]
    Path,
    /// A name has a capital letter or a byte that no name has.
    #[display("expected the name of a field in small letters")]
    Name,
    /// A value has a byte that would end a line.
    #[display("expected the value of a field, found a control character")]
    Value,
    /// A field concerns a connection of HTTP/1.1.
    #[display("expected no field of a connection, such as `connection` or `upgrade`")]
    Connection,
    /// The content length is no number, doubled, or another than that of the body.
    #[display("expected one content length, which is that of the body")]
    Length,
}

/// The head of a request in HTTP/1.1, with the facts that its stream needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// The head, with its empty line.
    pub text: Vec<u8>,
    /// The method is HEAD, so the reply has no body.
    pub is_head: bool,
    /// The length of the body, if the head says it.
    pub length: Option<u64>,
    /// The body follows in chunks: its length is unknown.
    pub is_chunked: bool,
}

/// The head of a reply, as far as a client that only checks it needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyHead {
    /// Its status.
    pub status: u16,
    /// The length of the body, if the head says it.
    pub length: Option<u64>,
    /// It says when to try again.
    pub retries: bool,
    /// The status of a call of gRPC, which a reply without a body has in its head.
    pub grpc: Option<u16>,
}

/// Reads the heads of a connection. It holds the table of HPACK, so each block must be read, also
/// those of streams that nobody answers.
#[derive(Default)]
pub struct HeadReader {
    decoder: Decoder,
    fields: Fields,
    /// A buffer for the next head.
    text: Vec<u8>,
}

fn number(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit).then_some(value)?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// The status of a call, if this is its field (grpc.io, "gRPC over HTTP2").
fn grpc(name: &[u8], value: &[u8]) -> Option<u16> {
    let status = number(value).filter(|_| name == b"grpc-status")?;
    u16::try_from(status).ok()
}

impl std::fmt::Debug for HeadReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HeadReader")
    }
}

impl HeadReader {
    /// Reads the head of a request. `has_body`: DATA follow. The inner error is about this request,
    /// `None` if the head is longer than `max` bytes.
    ///
    /// # Errors
    /// [`Code::Compression`]: the table is lost, and with it the connection.
    pub fn request(
        &mut self,
        block: &[u8],
        has_body: bool,
        max: usize,
    ) -> Result<Result<RequestHead, Option<BadRequest>>, Code> {
        let fields = &mut self.fields;
        fields.clear();
        let mut size = 0;
        self.decoder.decode(block, |name, value| {
            size += name.len() + value.len() + FIELD_COST;
            if size <= max {
                fields.add(name, value);
            }
        })?;
        if size > max {
            return Ok(Err(None));
        }
        let text = std::mem::take(&mut self.text);
        Ok(fields.finish(has_body, text).map_err(Some))
    }

    /// Gives back the text of a head that was read, for the next one.
    pub fn reuse(&mut self, mut text: Vec<u8>) {
        if text.capacity() <= TEXT_MAX {
            text.clear();
            self.text = text;
        }
    }

    /// Reads the head of a reply; `None` if it is malformed, as trailers are in its place.
    ///
    /// # Errors
    /// As [`HeadReader::request`].
    pub fn reply(&mut self, block: &[u8]) -> Result<Option<ReplyHead>, Code> {
        let (mut head, mut is_right) = (ReplyHead::default(), true);
        self.decoder.decode(block, |name, value| match name {
            b":status" => {
                let status = number(value).filter(|it| (100..1000).contains(it));
                is_right &= head.status == 0 && status.is_some();
                head.status = status.unwrap_or(0) as u16;
            }
            b"content-length" => {
                let length = number(value);
                is_right &= length.is_some() && head.length.is_none_or(|it| length == Some(it));
                head.length = length;
            }
            _ => {
                is_right &= head.status > 0 && is_field(name, value).is_ok();
                head.retries |= name == b"retry-after";
                head.grpc = head.grpc.or(grpc(name, value));
            }
        })?;
        Ok(Some(head).filter(|head| is_right && head.status > 0))
    }

    /// Reads the trailers of a reply: the status of a call of gRPC, if they have one.
    ///
    /// # Errors
    /// As [`HeadReader::request`].
    pub fn grpc_status(&mut self, block: &[u8]) -> Result<Option<u16>, Code> {
        let mut status = None;
        self.decoder.decode(block, |name, value| status = status.or(grpc(name, value)))?;
        Ok(status)
    }

    /// Reads trailers, which are dropped: a trailer must not become a header.
    ///
    /// # Errors
    /// As [`HeadReader::request`].
    pub fn trailers(&mut self, block: &[u8]) -> Result<Result<(), BadRequest>, Code> {
        let mut checked = Ok(());
        self.decoder.decode(block, |name, value| {
            let pseudo = if name.starts_with(b":") { Err(BadRequest::Pseudo) } else { Ok(()) };
            checked = checked.and(pseudo).and(is_field(name, value));
        })?;
        Ok(checked)
    }
}

#[derive(Default)]
struct Fields {
    method: Vec<u8>,
    scheme: Vec<u8>,
    path: Vec<u8>,
    authority: Vec<u8>,
    /// Lines of HTTP/1.1.
    lines: Vec<u8>,
    /// Empty without one.
    host: Vec<u8>,
    has_host: bool,
    /// Cookies may come in several fields (section 8.2.3).
    cookies: Vec<u8>,
    length: Option<u64>,
    bad: Option<BadRequest>,
}

impl Fields {
    fn clear(&mut self) {
        let texts = [&mut self.method, &mut self.scheme, &mut self.path, &mut self.authority];
        for text in texts.into_iter().chain([&mut self.lines, &mut self.host, &mut self.cookies]) {
            text.clear();
            text.shrink_to(TEXT_MAX);
        }
        self.has_host = false;
        self.length = None;
        self.bad = None;
    }

    fn add(&mut self, name: &[u8], value: &[u8]) {
        if self.bad.is_none() {
            self.bad = self.take(name, value).err();
        }
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadRequest> {
        if let Some(pseudo) = name.strip_prefix(b":") {
            let place = match pseudo {
                b"method" => &mut self.method,
                b"scheme" => &mut self.scheme,
                b"path" => &mut self.path,
                b"authority" => &mut self.authority,
                _ => return Err(BadRequest::Pseudo),
            };
            let is_late = !self.lines.is_empty() || !self.cookies.is_empty() || self.has_host;
            if is_late || !place.is_empty() || value.is_empty() {
                return Err(BadRequest::Pseudo);
            }
            // A blank would end a word of the request line.
            if !value.iter().all(u8::is_ascii_graphic) {
                return Err(BadRequest::Value);
            }
            place.extend_from_slice(value);
            return Ok(());
        }
        is_field(name, value)?;
        match name {
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => return Err(BadRequest::Connection),
            b"te" if value != b"trailers" => return Err(BadRequest::Connection),
            b"content-length" => {
                let digits = str::from_utf8(value).ok().filter(|text| {
                    self.length.is_none() && text.bytes().all(|byte| byte.is_ascii_digit())
                });
                let length = digits.and_then(|text| text.parse().ok());
                self.length = Some(length.ok_or(BadRequest::Length)?);
                return Ok(());
            }
            b"host" => {
                if std::mem::replace(&mut self.has_host, true) {
                    return Err(BadRequest::Pseudo);
                }
                self.host.extend_from_slice(value);
                return Ok(());
            }
            b"cookie" => {
                if !self.cookies.is_empty() {
                    self.cookies.extend_from_slice(b"; ");
                }
                self.cookies.extend_from_slice(value);
                return Ok(());
            }
            _ => {}
        }
        put_line(name, value, &mut self.lines);
        Ok(())
    }

    fn finish(&self, has_body: bool, mut text: Vec<u8>) -> Result<RequestHead, BadRequest> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        let is_connect = self.method == b"CONNECT";
        let has_target = !self.path.is_empty() && !self.scheme.is_empty();
        if self.method.is_empty() || is_connect == has_target {
            return Err(BadRequest::Pseudo);
        }
        if !(is_connect || self.path.starts_with(b"/") || self.path == b"*") {
            return Err(BadRequest::Path);
        }
        // The authority takes the place of Host (section 8.3.1); another Host would be a doubt.
        let (host, authority) = (&self.host, &self.authority);
        if !authority.is_empty() && !host.is_empty() && host != authority {
            return Err(BadRequest::Pseudo);
        }
        let host = if authority.is_empty() { host } else { authority };
        if !has_body && self.length.is_some_and(|length| length > 0) {
            return Err(BadRequest::Length);
        }
        text.reserve(64 + self.lines.len() + self.path.len() + host.len() + self.cookies.len());
        let target = if is_connect { host } else { &self.path };
        for word in [&self.method[..], b" ", target, b" HTTP/1.1\r\n"] {
            text.extend_from_slice(word);
        }
        put_line(b"host", host, &mut text);
        text.extend_from_slice(&self.lines);
        if !self.cookies.is_empty() {
            put_line(b"cookie", &self.cookies, &mut text);
        }
        let is_chunked = has_body && self.length.is_none();
        match self.length {
            Some(length) => put_line(b"content-length", length.to_string().as_bytes(), &mut text),
            None if is_chunked => put_line(b"transfer-encoding", b"chunked", &mut text),
            None => {}
        }
        text.extend_from_slice(b"\r\n");
        Ok(RequestHead { text, is_head: self.method == b"HEAD", length: self.length, is_chunked })
    }
}

fn put_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for piece in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(piece);
    }
}

/// Whether a field can be a line of HTTP/1.1 (section 8.2.1).
fn is_field(name: &[u8], value: &[u8]) -> Result<(), BadRequest> {
    let is_small = |byte: &u8| !byte.is_ascii_uppercase() && crate::http::is_token_byte(byte);
    if name.is_empty() || !name.iter().all(is_small) {
        return Err(BadRequest::Name);
    }
    let is_wrong = |byte: &u8| matches!(byte, 0..=8 | 10..=31 | 127);
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if value.iter().any(is_wrong) || is_blank(value.first()) || is_blank(value.last()) {
        return Err(BadRequest::Value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short fields as they are, also those that our encoder would not write.
    fn block(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0);
            for text in [name, value] {
                crate::http2::hpack::put_integer(text.len(), 7, 0, &mut block);
                block.extend_from_slice(text.as_bytes());
            }
        }
        block
    }

    const GET: &[(&str, &str)] = &[(":method", "GET"), (":scheme", "https"), (":path", "/a?b")];

    fn read(more: &[(&str, &str)], has_body: bool) -> Result<RequestHead, Option<BadRequest>> {
        let all = [GET, more].concat();
        HeadReader::default().request(&block(&all), has_body, 1000).expect("a whole block")
    }

    #[test]
    fn a_head_becomes_one_of_http_1() {
        let more = [
            (":authority", "example.org"),
            ("accept", "*/*"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ];
        let head = read(&more, true).unwrap();
        let wanted = "GET /a?b HTTP/1.1\r\nhost: example.org\r\naccept: */*\r\n\
            cookie: a=1; b=2\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&head.text), wanted);
        assert!(head.is_chunked && !head.is_head);
        let head = read(&[("content-length", "7"), ("host", "h")], true).unwrap();
        let wanted = "GET /a?b HTTP/1.1\r\nhost: h\r\ncontent-length: 7\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&head.text), wanted);
        assert_eq!((head.length, head.is_chunked), (Some(7), false));
    }

    #[test]
    fn a_malformed_head_is_refused() {
        let check = |more: &[(&str, &str)], has_body: bool, wanted: BadRequest| {
            assert_eq!(read(more, has_body), Err(Some(wanted)), "{more:?}");
        };
        check(&[(":path", "/b")], false, BadRequest::Pseudo);
        check(&[(":status", "200")], false, BadRequest::Pseudo);
        check(&[("accept", "*/*"), (":authority", "a")], false, BadRequest::Pseudo);
        check(&[(":authority", "a"), ("host", "b")], false, BadRequest::Pseudo);
        check(&[("host", "a"), ("host", "a")], false, BadRequest::Pseudo);
        check(&[(":authority", "a b")], false, BadRequest::Value);
        check(&[("Accept", "*/*")], false, BadRequest::Name);
        check(&[("a b", "c")], false, BadRequest::Name);
        check(&[("", "c")], false, BadRequest::Name);
        check(&[("a", "b\r\nc: d")], false, BadRequest::Value);
        check(&[("a", " b")], false, BadRequest::Value);
        check(&[("connection", "close")], false, BadRequest::Connection);
        check(&[("transfer-encoding", "chunked")], true, BadRequest::Connection);
        check(&[("te", "gzip")], false, BadRequest::Connection);
        check(&[("content-length", "+1")], true, BadRequest::Length);
        check(&[("content-length", "1"), ("content-length", "1")], true, BadRequest::Length);
        check(&[("content-length", "1")], false, BadRequest::Length);
        for path in ["http://evil/", "a", "*/", "//"] {
            let all = [(":method", "GET"), (":scheme", "http"), (":path", path)];
            let head = HeadReader::default().request(&block(&all), false, 1000).unwrap();
            assert_eq!(head.is_ok(), path == "//", "{path}: {head:?}");
        }
        let connect = block(&[(":method", "CONNECT"), (":authority", "a:1")]);
        let head = HeadReader::default().request(&connect, true, 1000).unwrap().unwrap();
        assert!(head.text.starts_with(b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n"));
    }

    #[test]
    fn the_head_of_a_reply_has_one_status_and_one_length() {
        let check = |fields: &[(&str, &str)], wanted: Option<(u16, Option<u64>, bool)>| {
            let head = HeadReader::default().reply(&block(fields)).expect("a whole block");
            let found = head.map(|it| (it.status, it.length, it.retries));
            assert_eq!(found, wanted, "{fields:?}");
        };
        let ok = (":status", "200");
        check(&[ok, ("date", "now"), ("content-length", "7")], Some((200, Some(7), false)));
        check(&[(":status", "503"), ("retry-after", "1")], Some((503, None, true)));
        check(&[ok, ok], None);
        check(&[("date", "now"), ok], None);
        check(&[ok, ("content-length", "7"), ("content-length", "8")], None);
        check(&[ok, ("content-length", "+7")], None);
        check(&[ok, ("Date", "now")], None);
        check(&[(":status", "20")], None);
        check(&[("sum", "1")], None);
        assert_eq!(HeadReader::default().reply(b"\x80"), Err(Code::Compression));
    }

    #[test]
    fn a_long_head_is_refused_and_a_broken_block_ends_the_connection() {
        let long = "x".repeat(1000);
        assert_eq!(read(&[("a", &long)], false), Err(None));
        let mut reader = HeadReader::default();
        assert_eq!(reader.request(b"\xff\xff\xff\xff", false, 1000), Err(Code::Compression));
        assert_eq!(reader.request(b"\x80", false, 1000), Err(Code::Compression));
        let trailers = HeadReader::default().trailers(&block(&[(":path", "/")]));
        assert_eq!(trailers, Ok(Err(BadRequest::Pseudo)));
        assert_eq!(HeadReader::default().trailers(&block(&[("sum", "1")])), Ok(Ok(())));
    }
}
