//! Responses: the status line, the fields, and the length of the body.
//!
//! `Date` is not added here: RFC 9110 section 6.6.1 forbids it to a server without a clock, and
//! this crate has none. Callers that know the time pass it as a field ([`super::date`]).

use super::Version;
use crate::decimal;

/// A status code with its reason phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u16, pub &'static str);

impl Status {
    /// 200.
    pub const OK: Status = Status(200, "OK");
    /// 204.
    pub const NO_CONTENT: Status = Status(204, "No Content");
    /// 206.
    pub const PARTIAL: Status = Status(206, "Partial Content");
    /// 301; it needs the field Location.
    pub const MOVED: Status = Status(301, "Moved Permanently");
    /// 302; it needs the field Location, as do the next two.
    pub const FOUND: Status = Status(302, "Found");
    /// 307: as 302, but the client keeps the method.
    pub const TEMPORARY: Status = Status(307, "Temporary Redirect");
    /// 308: as 301, but the client keeps the method.
    pub const PERMANENT: Status = Status(308, "Permanent Redirect");
    /// 304: the client's copy is current; no body.
    pub const NOT_MODIFIED: Status = Status(304, "Not Modified");
    /// 400.
    pub const BAD_REQUEST: Status = Status(400, "Bad Request");
    /// 401; it needs the field WWW-Authenticate.
    pub const UNAUTHORIZED: Status = Status(401, "Unauthorized");
    /// 403.
    pub const FORBIDDEN: Status = Status(403, "Forbidden");
    /// 404.
    pub const NOT_FOUND: Status = Status(404, "Not Found");
    /// 405; it needs the field Allow.
    pub const METHOD: Status = Status(405, "Method Not Allowed");
    /// 408.
    pub const TIMEOUT: Status = Status(408, "Request Timeout");
    /// 411: the end of the body cannot be found.
    pub const LENGTH: Status = Status(411, "Length Required");
    /// 412: a condition of the request does not hold.
    pub const PRECONDITION: Status = Status(412, "Precondition Failed");
    /// 413.
    pub const CONTENT_TOO_LONG: Status = Status(413, "Content Too Large");
    /// 414.
    pub const TARGET_TOO_LONG: Status = Status(414, "URI Too Long");
    /// 416: no range is within the body.
    pub const RANGE: Status = Status(416, "Range Not Satisfiable");
    /// 417.
    pub const EXPECTATION: Status = Status(417, "Expectation Failed");
    /// 431.
    pub const HEAD_TOO_LONG: Status = Status(431, "Request Header Fields Too Large");
    /// 500.
    pub const INTERNAL: Status = Status(500, "Internal Server Error");
    /// 501.
    pub const NOT_IMPLEMENTED: Status = Status(501, "Not Implemented");
    /// 503.
    pub const UNAVAILABLE: Status = Status(503, "Service Unavailable");
    /// 505.
    pub const VERSION: Status = Status(505, "HTTP Version Not Supported");

    /// Whether a response with this status never has a body (RFC 9112 section 6.3).
    pub fn is_bodiless(self) -> bool {
        matches!(self.0, 100..200 | 204 | 304)
    }

    /// Appends the status line.
    #[inline]
    pub fn put(self, out: &mut Vec<u8>) {
        let Status(code, reason) = self;
        if self == Status::OK {
            return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        }
        out.extend_from_slice(b"HTTP/1.1 ");
        decimal::push(out, code.into());
        out.push(b' ');
        out.extend_from_slice(reason.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Tells a client to send the body that it holds back (RFC 9110 section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A response head.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// The status.
    pub status: Status,
    /// Name and value of each field except Content-Length, Transfer-Encoding and Connection.
    pub fields: &'a [(&'a str, &'a str)],
    /// The length of the body in bytes.
    pub len: u64,
    /// Whether the connection persists.
    pub keep_alive: bool,
}

impl Reply<'_> {
    /// Appends the head. `asked` is the request's version: HTTP/1.0 needs an explicit keep-alive.
    ///
    /// # Panics
    /// If a field contains a line break: fields come from this program, never from a peer.
    pub fn put(&self, asked: Version, out: &mut Vec<u8>) {
        self.status.put(out);
        for (name, value) in self.fields {
            debug_assert!(!name.contains(['\r', '\n', ':']), "names are this program's own");
            assert!(memchr::memchr2(b'\r', b'\n', value.as_bytes()).is_none());
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        self.end(asked, out);
    }

    /// Appends what follows the fields: the length, the wish for the connection, an empty line.
    #[inline]
    pub fn end(&self, asked: Version, out: &mut Vec<u8>) {
        if !self.status.is_bodiless() {
            out.extend_from_slice(b"Content-Length: ");
            decimal::push(out, self.len);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(match (self.keep_alive, asked) {
            (false, _) => b"Connection: close\r\n\r\n",
            (true, Version::Http10) => b"Connection: keep-alive\r\n\r\n",
            (true, Version::Http11) => b"\r\n",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        fn check(status: Status, len: u64, keep_alive: bool, asked: Version, want: &str) {
            let mut out = Vec::new();
            let fields = &[("X", "y")];
            Reply { status, fields, len, keep_alive }.put(asked, &mut out);
            assert_eq!(String::from_utf8(out).expect("ASCII"), want);
        }
        let (old, new) = (Version::Http10, Version::Http11);
        let ok = "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n";
        check(Status::OK, 5, true, new, &format!("{ok}\r\n"));
        check(Status::OK, 5, true, old, &format!("{ok}Connection: keep-alive\r\n\r\n"));
        check(Status::OK, 5, false, new, &format!("{ok}Connection: close\r\n\r\n"));
        let unchanged = "HTTP/1.1 304 Not Modified\r\nX: y\r\n\r\n";
        check(Status::NOT_MODIFIED, 9, true, new, unchanged);
    }
}
