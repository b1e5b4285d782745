//! Responses: the status line, the fields, and a framing that every reader agrees on.
//!
//! There is no `Date`: RFC 9110 section 6.6.1 forbids it to a server without a clock, and what is
//! below the seam has none.

use super::Version;
use std::io::Write;

/// A status code with its reason phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u16, pub &'static str);

impl Status {
    /// 200.
    pub const OK: Status = Status(200, "OK");
    /// 304: what the client has is good; no body.
    pub const NOT_MODIFIED: Status = Status(304, "Not Modified");
    /// 400.
    pub const BAD_REQUEST: Status = Status(400, "Bad Request");
    /// 404.
    pub const NOT_FOUND: Status = Status(404, "Not Found");
    /// 405; it needs the field Allow.
    pub const METHOD: Status = Status(405, "Method Not Allowed");
    /// 408.
    pub const TIMEOUT: Status = Status(408, "Request Timeout");
    /// 413.
    pub const CONTENT_TOO_LONG: Status = Status(413, "Content Too Large");
    /// 414.
    pub const TARGET_TOO_LONG: Status = Status(414, "URI Too Long");
    /// 417.
    pub const EXPECTATION: Status = Status(417, "Expectation Failed");
    /// 431.
    pub const HEAD_TOO_LONG: Status = Status(431, "Request Header Fields Too Large");
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
}

/// How the end of a response's body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// By chunks; the peer speaks HTTP/1.1.
    Chunked,
    /// When the connection closes; all that HTTP/1.0 has for bodies of unknown length.
    UntilClose,
}

/// A response head in the making.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// The status.
    pub status: Status,
    /// Name and value of each field but Content-Length, Transfer-Encoding and Connection.
    pub fields: &'a [(&'a str, &'a str)],
    /// How the body ends.
    pub framing: Framing,
    /// Whether the connection carries another request.
    pub keep_alive: bool,
}

impl Reply<'_> {
    /// Whether the connection really goes on: a body that ends with it cannot be followed.
    pub fn keeps_alive(&self) -> bool {
        self.keep_alive && self.framing != Framing::UntilClose
    }

    /// Appends the head. `asked` is the request's version: HTTP/1.0 is told about keep-alive.
    ///
    /// # Panics
    /// If a field holds a line break: fields come from this program, never from a peer.
    pub fn put(&self, asked: Version, out: &mut Vec<u8>) {
        let Status(code, reason) = self.status;
        let mut line = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("a Vec takes every byte");
            out.extend_from_slice(b"\r\n");
        };
        line(format_args!("HTTP/1.1 {code} {reason}"));
        for (name, value) in self.fields {
            assert!(!name.contains(['\r', '\n', ':']) && !value.contains(['\r', '\n']));
            line(format_args!("{name}: {value}"));
        }
        match self.framing {
            Framing::Length(_) if self.status.is_bodiless() => {}
            Framing::Length(len) => line(format_args!("Content-Length: {len}")),
            Framing::Chunked => line(format_args!("Transfer-Encoding: chunked")),
            Framing::UntilClose => {}
        }
        match (self.keeps_alive(), asked) {
            (false, _) => line(format_args!("Connection: close")),
            (true, Version::Http10) => line(format_args!("Connection: keep-alive")),
            (true, Version::Http11) => {}
        }
        line(format_args!(""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        fn check(status: Status, framing: Framing, keep_alive: bool, asked: Version, want: &str) {
            let mut out = Vec::new();
            let fields = &[("X", "y")];
            Reply { status, fields, framing, keep_alive }.put(asked, &mut out);
            assert_eq!(String::from_utf8(out).expect("ASCII"), want);
        }
        let (old, new) = (Version::Http10, Version::Http11);
        let ok = "HTTP/1.1 200 OK\r\nX: y\r\n";
        check(Status::OK, Framing::Length(5), true, new, &format!("{ok}Content-Length: 5\r\n\r\n"));
        check(
            Status::OK,
            Framing::Length(5),
            true,
            old,
            &format!("{ok}Content-Length: 5\r\nConnection: keep-alive\r\n\r\n"),
        );
        check(
            Status::OK,
            Framing::Chunked,
            false,
            new,
            &format!("{ok}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"),
        );
        check(
            Status::OK,
            Framing::UntilClose,
            true,
            old,
            &format!("{ok}Connection: close\r\n\r\n"),
        );
        let unchanged = "HTTP/1.1 304 Not Modified\r\nX: y\r\n\r\n";
        check(Status::NOT_MODIFIED, Framing::Length(9), true, new, unchanged);
    }
}
