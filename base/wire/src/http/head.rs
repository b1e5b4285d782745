//! Request heads: the grammar by httparse, the framing by RFC 9112 section 6.
//!
//! The web service calls [`next`] with all bytes that have arrived. A good head takes one pass:
//! httparse splits it, `strict_line` adds what httparse leaves out (CR LF at the end of every line,
//! the limits), and `meant` reads the fields that concern the connection. Only a head that fails
//! one of these is scanned again, to find out whether it is incomplete or which fault to report.
//! The invariant is one meaning per head: two lengths, a length together with chunks,
//! `content_length` with an underscore, or a second Host are refused, because a proxy in front
//! might read them in another way. The result borrows from the input and does not depend on how the
//! bytes were cut.

use core::mem::MaybeUninit;
use core::net::Ipv6Addr;

use super::Bad;
use super::chunked::is_token_byte;
use memchr::memchr_iter;

/// The most fields of a head; HAProxy and Envoy stop at about as many.
pub const FIELDS_MAX: usize = 100;

/// Limits on the length of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest head in bytes, its empty line included.
    pub head_max: usize,
    /// The longest request line in bytes, its CR LF included; at most `head_max`.
    pub line_max: usize,
}

impl Default for Limits {
    /// 16 KiB for a head and 8 KiB for a request line; RFC 9112 section 3 recommends 8000 octets.
    fn default() -> Limits {
        Limits { head_max: 16 * 1024, line_max: 8 * 1024 }
    }
}

/// The supported versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0: Host is optional, and connections close by default.
    Http10,
    /// HTTP/1.1, and later minor versions.
    Http11,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// After this many bytes; 0 without a body.
    Length(u64),
    /// After the last chunk and its trailer.
    Chunked,
}

/// A request head with exactly one meaning.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Its length in bytes: where the body begins.
    pub len: usize,
    /// The method, case-sensitive.
    pub method: &'a str,
    /// The request target as sent: visible ASCII.
    pub target: &'a str,
    /// The version.
    pub version: Version,
    /// How the body ends.
    pub body: Body,
    /// Whether the connection may carry another request after this one.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before sending the body.
    pub expects: bool,
    /// The value of the first field Content-Type (RFC 9110 section 8.3).
    pub kind: Option<&'a [u8]>,
    /// The lines of the fields, which are valid.
    lines: &'a [u8],
}

impl<'a> Head<'a> {
    /// The fields in their order: name and trimmed value.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let mut rest = self.lines;
        std::iter::from_fn(move || {
            let colon = memchr::memchr(b':', rest)?;
            let end = colon + memchr::memchr(b'\n', &rest[colon..])?;
            let (name, value) = (&rest[..colon], &rest[colon + 1..end]);
            rest = &rest[end + 1..];
            Some((str::from_utf8(name).unwrap_or_default(), value.trim_ascii()))
        })
    }

    /// The value of the first field of that name, whatever its case.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        let mut rest = self.lines;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            if let Some((found, [b':', value @ ..])) = line.split_at_checked(name.len())
                && (found == name.as_bytes() || found.eq_ignore_ascii_case(name.as_bytes()))
            {
                return Some(value.trim_ascii());
            }
            rest = &after[1..];
        }
        None
    }
}

/// Room for the fields of a head, which costs nothing until it is filled.
type Room<'a> = [MaybeUninit<httparse::Header<'a>>; FIELDS_MAX];

/// Parses the request head at the front of `bytes`; `None` if it is incomplete. One empty line
/// before it is skipped (RFC 9112 section 2.2). The result does not depend on how the bytes
/// arrived.
///
/// # Errors
/// [`Bad`]; nothing after it may be read.
pub fn next<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<Head<'a>>, Bad> {
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let text = &bytes[skipped..];
    let mut room: Room<'a> = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    if let Ok(httparse::Status::Complete(len)) = request.parse_with_uninit_headers(text, &mut room)
        && let (Some(method), Some(target), Some(minor)) =
            (request.method, request.path, request.version)
        && let Some(line) = strict_line(&text[..len], method, request.headers, limits)
    {
        let line = (method, target, minor, line);
        return finish(line, skipped, &text[..len], request.headers).map(Some);
    }
    // Most often it is not whole; else httparse is laxer, or there is a fault to name.
    let Some(end) = end(text, limits)? else { return Ok(None) };
    other_version(skipped, &text[..end]).map(Some)
}

/// The length of the request line, if every line of a head that httparse has read ends with CR LF,
/// and the limits hold.
fn strict_line(
    head: &[u8],
    method: &str,
    fields: &[httparse::Header<'_>],
    limits: &Limits,
) -> Option<usize> {
    let place = |part: &str| part.as_ptr().addr() - head.as_ptr().addr();
    let is_strict = |field: &httparse::Header<'_>| head[..place(field.name)].ends_with(b"\r\n");
    let line = fields.first().map_or(head.len() - 2, |first| place(first.name));
    let holds = line <= limits.line_max && head.len() <= limits.head_max && place(method) == 0;
    (holds && head.ends_with(b"\r\n\r\n") && fields.iter().all(is_strict)).then_some(line)
}

/// Method, target without blanks and controls, minor version, and the length of the line.
type Line<'a> = (&'a str, &'a str, u8, usize);

/// The meaning of a head of good syntax.
fn finish<'a>(
    (method, target, minor, line): Line<'a>,
    skipped: usize,
    head: &'a [u8],
    fields: &[httparse::Header<'a>],
) -> Result<Head<'a>, Bad> {
    // httparse has refused blanks and controls.
    if !target.is_ascii() {
        return Err(Bad::Syntax);
    }
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let Meaning { body, keep_alive, expects, kind } = meant(version, fields)?;
    let (len, lines) = (skipped + head.len(), &head[line..head.len() - 2]);
    Ok(Head { len, method, target, version, body, keep_alive, expects, kind, lines })
}

/// The fault of a request line that is too long: its method, or else its target (RFC 9112 section
/// 3).
fn too_long(line: &[u8], limits: &Limits) -> Bad {
    let is_token = line[..limits.line_max.min(line.len()) / 2].iter().all(|byte| *byte != b' ');
    if is_token { Bad::Syntax } else { Bad::LineTooLong }
}

/// The end of the head, after its empty line. Every line must end with CR LF.
fn end(bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Bad> {
    let seen = &bytes[..bytes.len().min(limits.head_max)];
    let mut start = 0;
    for at in memchr_iter(b'\n', seen) {
        let line = &seen[start..at];
        let Some(line) = line.strip_suffix(b"\r") else { return Err(Bad::Newline) };
        if memchr::memchr(b'\r', line).is_some() {
            return Err(Bad::Newline);
        }
        if start == 0 && at + 1 > limits.line_max {
            return Err(too_long(line, limits));
        }
        if line.is_empty() {
            // An empty request line does not end a head.
            return if start == 0 { Err(Bad::Syntax) } else { Ok(Some(at + 1)) };
        }
        start = at + 1;
    }
    if start == 0 && seen.len() >= limits.line_max {
        return Err(too_long(seen, limits));
    }
    if bytes.len() >= limits.head_max {
        return Err(Bad::HeadTooLong);
    }
    Ok(None)
}

/// A whole head that httparse does not read: only one whose request line has a version that it does
/// not know can be good. A later minor version means what 1.1 means (RFC 9110 section 2.5).
#[cold]
fn other_version(skipped: usize, head: &[u8]) -> Result<Head<'_>, Bad> {
    let end = memchr::memchr(b'\r', head).ok_or(Bad::Syntax)?;
    let line = std::str::from_utf8(&head[..end]).map_err(|_| Bad::Syntax)?;
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Bad::Syntax);
    };
    let is_method = !method.is_empty() && method.as_bytes().iter().all(is_token_byte);
    let [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] = version.as_bytes() else {
        return Err(Bad::Syntax);
    };
    let is_target = !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_method || !is_target || !major.is_ascii_digit() || !minor.is_ascii_digit() {
        return Err(Bad::Syntax);
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    match httparse::parse_headers(&head[end + 2..], &mut fields) {
        _ if *major != b'1' => Err(Bad::Version),
        Err(httparse::Error::TooManyHeaders) => Err(Bad::HeadTooLong),
        Ok(httparse::Status::Complete((len, found)))
            if end + 2 + len == head.len() && *minor > b'1' =>
        {
            finish((method, target, 1, end + 2), skipped, head, found)
        }
        _ => Err(Bad::Syntax),
    }
}

/// The part of a [`Head`] that its fields decide.
struct Meaning<'a> {
    body: Body,
    keep_alive: bool,
    expects: bool,
    kind: Option<&'a [u8]>,
}

/// Reads the fields that concern the connection.
fn meant<'a>(version: Version, fields: &[httparse::Header<'a>]) -> Result<Meaning<'a>, Bad> {
    let mut length: Option<u64> = None;
    let mut codings = Codings::default();
    let (mut close, mut keep) = (false, false);
    let (mut hosts, mut expects, mut kind) = (0, false, None);
    for httparse::Header { name, value } in fields {
        // Nearly all clients write them so, and a comparison of the bytes costs a tenth.
        let is = |wanted: &str| *name == wanted || name.eq_ignore_ascii_case(wanted);
        if is("Content-Length") {
            if length.is_some() {
                return Err(Bad::Framing);
            }
            length = Some(digits(value).ok_or(Bad::Framing)?);
        } else if is("Transfer-Encoding") {
            codings.add(value)?;
        } else if is("Host") {
            hosts += 1;
            if !is_host(value) {
                return Err(Bad::Host);
            }
        } else if is("Connection") {
            for word in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                close |= word.eq_ignore_ascii_case(b"close");
                keep |= word.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if is("Expect") {
            // A server must ignore it from HTTP/1.0 (RFC 9110 section 10.1.1).
            if version == Version::Http11 && !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(Bad::Expectation);
            }
            expects = true;
        } else if is("Content-Type") {
            kind = kind.or(Some(*value));
        } else if is("content_length") || is("transfer_encoding") {
            // A gateway that maps `-` to `_`, as CGI does, would see another framing.
            return Err(Bad::Framing);
        }
    }
    if hosts > 1 || (hosts == 0 && version == Version::Http11) {
        return Err(Bad::Host);
    }
    let chunked = codings.are_chunked()?;
    if chunked && (length.is_some() || version == Version::Http10) {
        return Err(Bad::Framing);
    }
    let body = if chunked { Body::Chunked } else { Body::Length(length.unwrap_or(0)) };
    // An expectation without a body, or from HTTP/1.0, is ignored (RFC 9110 section 10.1.1).
    expects &= version == Version::Http11 && body != Body::Length(0);
    let keep_alive = !close && (keep || version == Version::Http11);
    Ok(Meaning { body, keep_alive, expects, kind })
}

/// The list of a request's transfer codings. Several fields of the name are one list (RFC 9110
/// section 5.3), and its empty elements do not count (section 5.6.1.2).
#[derive(Default)]
struct Codings {
    /// Whether the request has the field.
    present: bool,
    chunked: bool,
    others: bool,
}

impl Codings {
    /// Adds the codings of a field. None may follow `chunked`, because the end of the body could
    /// then not be found (RFC 9112 section 6.3).
    fn add(&mut self, value: &[u8]) -> Result<(), Bad> {
        self.present = true;
        for coding in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            match coding {
                b"" => {}
                _ if self.chunked => return Err(Bad::Framing),
                _ if coding.eq_ignore_ascii_case(b"chunked") => self.chunked = true,
                _ => self.others = true,
            }
        }
        Ok(())
    }

    /// Whether the body is in chunks. A list without `chunked` at its end does not say where the
    /// body ends; this server knows no coding before it.
    fn are_chunked(&self) -> Result<bool, Bad> {
        match (self.present, self.chunked, self.others) {
            (false, ..) => Ok(false),
            (true, false, _) => Err(Bad::Framing),
            (true, true, true) => Err(Bad::Coding),
            (true, true, false) => Ok(true),
        }
    }
}

/// A Content-Length: digits only, no sign, no list, no overflow.
fn digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The bytes of a host's name (RFC 3986 section 3.2.2) but `%`, which begins an escape.
const NAME: [bool; 256] = {
    let (mut is_name, mut byte) = ([false; 256], 0);
    while byte < 256 {
        is_name[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut others: &[u8] = b"-._~!$&'()*+,;=";
    while let [byte, rest @ ..] = others {
        (is_name[*byte as usize], others) = (true, rest);
    }
    is_name
};

/// `uri-host [ ":" port ]` (RFC 3986 section 3.2), or nothing, which RFC 9112 section 3.2 allows.
pub fn is_host(value: &[u8]) -> bool {
    let rest = match value {
        [b'[', rest @ ..] => {
            let Some(end) = memchr::memchr(b']', rest) else { return false };
            let literal = std::str::from_utf8(&rest[..end]).ok();
            if literal.and_then(|text| text.parse::<Ipv6Addr>().ok()).is_none() {
                return false;
            }
            &rest[end + 1..]
        }
        _ => {
            let mut rest = value;
            loop {
                let end = rest.iter().position(|byte| !NAME[usize::from(*byte)]);
                rest = &rest[end.unwrap_or(rest.len())..];
                match rest {
                    [b'%', one, two, ..] if [one, two].iter().all(|it| it.is_ascii_hexdigit()) => {
                        rest = &rest[3..];
                    }
                    _ => break rest,
                }
            }
        }
    };
    matches!(rest, [] | [b':', ..]) && rest.iter().skip(1).all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<Option<(String, usize)>, Bad> {
        let head = next(text.as_bytes(), &Limits::default())?;
        Ok(head.map(|head| {
            let Head { len, method, target, version, body, keep_alive, expects, .. } = head;
            (format!("{method} {target} {version:?} {body:?} {keep_alive} {expects}"), len)
        }))
    }

    #[test]
    fn heads_have_one_meaning() {
        fn check(text: &str, want: &str) {
            let whole = format!("{text}GET /next");
            let (words, used) = found(&whole).expect("good").expect("whole");
            assert_eq!((words.as_str(), used), (want, text.len()), "{text:?}");
        }
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / Http11 Length(0) true false");
        check("\r\nGET / HTTP/1.1\r\nhost:a:80\r\n\r\n", "GET / Http11 Length(0) true false");
        let literal = "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n";
        check(literal, "GET / Http11 Length(0) true false");
        let later = "GET /x HTTP/1.2\r\nHost: a%20b\r\n\r\n";
        check(later, "GET /x Http11 Length(0) true false");
        let many = format!("GET / HTTP/1.9\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(50));
        check(&many, "GET / Http11 Length(0) true false");
        let old = "GET / HTTP/1.0\r\nExpect: a miracle\r\nHost: a:\r\n\r\n";
        check(old, "GET / Http10 Length(0) false false");
        check("GET /x?y HTTP/1.0\r\n\r\n", "GET /x?y Http10 Length(0) false false");
        check(
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "GET / Http10 Length(0) true false",
        );
        check(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: x, Close\r\n\r\n",
            "POST / Http11 Length(5) false false",
        );
        check(
            "PUT * HTTP/1.1\r\nHost:\r\nTransfer-Encoding: CHUNKED\r\nExpect: 100-Continue\r\n\r\n",
            "PUT * Http11 Chunked true true",
        );
        check(
            "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
            "GET / Http11 Length(0) true false",
        );
    }

    #[track_caller]
    fn check(text: &str, want: Bad) {
        assert_eq!(found(text), Err(want), "{text:?}");
    }

    fn host(fields: &str) -> String {
        format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
    }

    #[test]
    fn what_is_ambiguous_is_refused() {
        let get = |fields: &str| format!("GET / HTTP/1.1\r\n{fields}\r\n");
        check("GET / HTTP/1.1\nHost: a\r\n\r\n", Bad::Newline);
        check("GET / HTTP/1.1\r\nHost: a\n", Bad::Newline);
        check("GET / HTTP/1.1\r\nHost: a\rb\r\n", Bad::Newline);
        check("\r\n\r\nGET", Bad::Syntax);
        check("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Bad::Syntax);
        check("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("GET /\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Bad::Version);
        check("GET / HTTP/0.9\r\nHost: a\r\n\r\n", Bad::Version);
        check("GET /sp ace HTTP/1.1\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("G ET / HTTP/1.1\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("G@T / HTTP/1.2\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("GET / HTTP/1.2\r\nHost: a\r\nX : y\r\n\r\n", Bad::Syntax);
        check("GET / HTTP/1.10\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("GET / http/1.1\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", Bad::Syntax);
        check("GET / FTP/1.1\r\nHost: a\r\n\r\n", Bad::Syntax);
        check(&get(""), Bad::Host);
        check(&host("Host: a\r\n"), Bad::Host);
        check(&get("Host: a, b\r\n"), Bad::Host);
        check(&get("Host: a b\r\n"), Bad::Host);
        check(&get("Host: a/b\r\n"), Bad::Host);
        check(&get("Host: a@b\r\n"), Bad::Host);
        check(&get("Host: a:b\r\n"), Bad::Host);
        check(&get("Host: a:1:2\r\n"), Bad::Host);
        check(&get("Host: [::1\r\n"), Bad::Host);
        check(&get("Host: [::1]2\r\n"), Bad::Host);
        check(&get("Host: [::::::]\r\n"), Bad::Host);
        check(&get("Host: [1.2.3.4]\r\n"), Bad::Host);
        check(&get("Host: a%zz\r\n"), Bad::Host);
        check(&get("Host: a%4\r\n"), Bad::Host);
        check(&host("Content-Length : 5\r\n"), Bad::Syntax);
        check(&host(": y\r\n"), Bad::Syntax);
        check(&host("X : y\r\n"), Bad::Syntax);
        check(&host(" folded\r\n"), Bad::Syntax);
        check(&host("X: y\r\n folded\r\n"), Bad::Syntax);
        check(&host("X: \0\r\n"), Bad::Syntax);
        check(&host("no colon\r\n"), Bad::Syntax);
        check(&host("Content-Length: 1\r\nContent-Length: 1\r\n"), Bad::Framing);
        check(&host("Content-Length: 1, 1\r\n"), Bad::Framing);
        check(&host("Content-Length: +1\r\n"), Bad::Framing);
        check(&host("Content-Length:\r\n"), Bad::Framing);
        check(&host("Content-Length: 0x5\r\n"), Bad::Framing);
        check(&host("Content-Length: 5 5\r\n"), Bad::Framing);
        check(&host("Content-Length: 99999999999999999999\r\n"), Bad::Framing);
        check(&host("content_length: 1\r\n"), Bad::Framing);
        check(&host("Expect: 200-ok\r\n"), Bad::Expectation);
        check(&format!("GET /{}", "a".repeat(8 * 1024)), Bad::LineTooLong);
        check(&host(&format!("X: {}\r\n", "a".repeat(16 * 1024))), Bad::HeadTooLong);
        check(&host(&"X: y\r\n".repeat(FIELDS_MAX)), Bad::HeadTooLong);
    }

    #[test]
    fn transfer_codings_are_one_list_that_ends_in_chunked() {
        check(&host("Transfer-Encoding: xchunked\r\n"), Bad::Framing);
        check(&host("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), Bad::Framing);
        check(&host("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), Bad::Framing);
        check(&host("Transfer-Encoding: gzip, chunked\r\n"), Bad::Coding);
        check(&host("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), Bad::Coding);
        check(&host("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n"), Bad::Framing);
        check(&host("Transfer-Encoding: , ,\r\n"), Bad::Framing);
        check(&host("Transfer-Encoding: \x0bchunked\r\n"), Bad::Syntax);
        check(&host("Transfer-Encoding: identity\r\n"), Bad::Framing);
        check(&host("Transfer-Encoding: chunked, gzip\r\n"), Bad::Framing);
        check(&host("Transfer-Encoding: chunked, chunked\r\n"), Bad::Framing);
        check(&host("Transfer-Encoding:\r\n"), Bad::Framing);
        check("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Bad::Framing);
        check(&host("Transfer_Encoding: chunked\r\n"), Bad::Framing);
    }

    #[test]
    fn fields_are_found_whatever_their_case() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\nLast-Event-ID:  7-3 \r\n\r\n";
        let Ok(Some(head)) = next(text, &Limits::default()) else {
            panic!("a good head");
        };
        assert_eq!(head.field("last-event-id"), Some(&b"7-3"[..]));
        assert_eq!(head.field("cookie"), None);
        assert_eq!(head.fields().count(), 2);
    }
}
