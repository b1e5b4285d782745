//! Responses: the status line, the fields, and the length of the body.
//!
//! `Date` is not added here: RFC 9110 section 6.6.1 forbids it to a server without a clock, and
//! this crate has none. Callers that know the time pass it as a field ([`super::date`]).

use super::Version;
use crate::decimal;

/// A status code with its reason phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u16, pub &'static str);

/// Names the statuses that services use (RFC 9110 section 15).
macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal $($note:literal)?)+) => {
        impl Status {
            $(
                #[doc = concat!(stringify!($code), $(": ", $note,)? ".")]
                pub const $name: Status = Status($code, $reason);
            )+

            /// The status of this code; without words if it is none of these.
            pub fn of(code: u16) -> Status {
                match code {
                    $($code => Status::$name,)+
                    _ => Status(code, ""),
                }
            }
        }
    };
}

statuses! {
    SWITCHING 101 "Switching Protocols"
    OK 200 "OK"
    CREATED 201 "Created"
    ACCEPTED 202 "Accepted"
    NO_CONTENT 204 "No Content"
    PARTIAL 206 "Partial Content"
    MOVED 301 "Moved Permanently" "it needs the field Location"
    FOUND 302 "Found" "it needs the field Location"
    SEE_OTHER 303 "See Other" "it needs the field Location"
    NOT_MODIFIED 304 "Not Modified" "the client's copy is current; no body"
    TEMPORARY 307 "Temporary Redirect" "as 302, but the client keeps the method"
    PERMANENT 308 "Permanent Redirect" "as 301, but the client keeps the method"
    BAD_REQUEST 400 "Bad Request"
    UNAUTHORIZED 401 "Unauthorized" "it needs the field WWW-Authenticate"
    FORBIDDEN 403 "Forbidden"
    NOT_FOUND 404 "Not Found"
    METHOD 405 "Method Not Allowed" "it needs the field Allow"
    TIMEOUT 408 "Request Timeout"
    CONFLICT 409 "Conflict"
    GONE 410 "Gone"
    LENGTH 411 "Length Required" "the end of the body cannot be found"
    PRECONDITION 412 "Precondition Failed" "a condition of the request does not hold"
    CONTENT_TOO_LONG 413 "Content Too Large"
    TARGET_TOO_LONG 414 "URI Too Long"
    MEDIA_TYPE 415 "Unsupported Media Type"
    RANGE 416 "Range Not Satisfiable" "no range is within the body"
    EXPECTATION 417 "Expectation Failed"
    UNPROCESSABLE 422 "Unprocessable Content"
    UPGRADE 426 "Upgrade Required"
    TOO_MANY 429 "Too Many Requests"
    HEAD_TOO_LONG 431 "Request Header Fields Too Large"
    INTERNAL 500 "Internal Server Error"
    NOT_IMPLEMENTED 501 "Not Implemented"
    UNAVAILABLE 503 "Service Unavailable"
    VERSION 505 "HTTP Version Not Supported"
}

impl Status {
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
