//! The next line of a byte stream.
//!
//! A line ends with `\n`; one `\r` before it is tolerated and not part of the text. The limit
//! counts the terminator. A line is refused exactly when its first `line_max` bytes hold no `\n`,
//! however they arrived.

use memchr::memchr;

/// The front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<'a> {
    /// A whole line.
    Line {
        /// The line without its terminator.
        text: &'a [u8],
        /// Length in bytes with the terminator: where the next line starts.
        used: usize,
    },
    /// No whole line yet; more bytes may complete it.
    More,
    /// The line is longer than the limit; more bytes cannot change that.
    TooLong,
}

/// Looks for one line at the front of `bytes`; `line_max` is its greatest length, terminator
/// included.
#[inline]
pub fn next(bytes: &[u8], line_max: usize) -> Next<'_> {
    let seen = &bytes[..bytes.len().min(line_max)];
    match memchr(b'\n', seen) {
        Some(end) => Next::Line { text: without_return(&seen[..end]), used: end + 1 },
        None if bytes.len() >= line_max => Next::TooLong,
        None => Next::More,
    }
}

/// Whether a line is the first of an HTTP request, or its host: a page in a browser of this machine
/// may post lines of a protocol to a port that is not its own, after these.
pub fn is_http(line: &[u8]) -> bool {
    let is_host = line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"host:"));
    let last = line.rsplit(|byte| matches!(byte, b' ' | b'\t' | b'\r')).find(|it| !it.is_empty());
    let version = last.and_then(|word| word.strip_prefix(b"HTTP/"));
    is_host || version.is_some_and(|version| version.first().is_some_and(u8::is_ascii_digit))
}

fn without_return(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::Next::{Line, More, TooLong};
    use super::{Next, next};

    fn check(bytes: &[u8], line_max: usize, expected: Next<'_>) {
        assert_eq!(next(bytes, line_max), expected, "{:?}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn lines() {
        check(b"", 10, More);
        check(b"show", 10, More);
        check(b"show\n", 10, Line { text: b"show", used: 5 });
        check(b"show\r\n", 10, Line { text: b"show", used: 6 });
        check(b"show\r\r\n", 10, Line { text: b"show\r", used: 7 });
        check(b"\n", 10, Line { text: b"", used: 1 });
        check(b"\r\n", 10, Line { text: b"", used: 2 });
        check(b"a\nb\n", 10, Line { text: b"a", used: 2 });
        check(b"a\rb\n", 10, Line { text: b"a\rb", used: 4 });
        check(b"\0\xff\n", 10, Line { text: b"\0\xff", used: 3 });
    }

    #[test]
    fn a_request_of_a_browser_is_known() {
        let lines = ["POST / HTTP/1.1", "GET /?buy HTTP/1.0\r", "hOST: a", "X HTTP/2"];
        assert!(lines.iter().all(|line| super::is_http(line.as_bytes())));
        let lines = ["", "show", "echo HTTP/", "HTTP/1.1 is a version", "ghost: a"];
        assert!(!lines.iter().any(|line| super::is_http(line.as_bytes())));
    }

    #[test]
    fn the_limit_counts_the_terminator() {
        check(b"123456789\n", 10, Line { text: b"123456789", used: 10 });
        check(b"123456789", 10, More);
        check(b"1234567890", 10, TooLong);
        check(b"1234567890\n", 10, TooLong);
    }
}
