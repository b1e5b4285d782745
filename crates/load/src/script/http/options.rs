//! The requests to a web server, and the expected replies.

use crate::parse::Usage;
use std::fmt;

/// The requests and the expected replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// The method, such as `GET`.
    pub method: String,
    /// Host and port, for the field `Host`.
    pub authority: String,
    /// Paths, with their weights; at least one.
    pub paths: Vec<(String, u32)>,
    /// Further header fields; a field `Host` replaces ours.
    pub headers: Vec<(String, String)>,
    /// The body of each request.
    pub body: Vec<u8>,
    /// The expected replies.
    pub wanted: Expectation,
    /// The seed for drawing paths.
    pub seed: u64,
}

/// The properties of a right reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// The status; `None`: any of 200 to 399.
    pub status: Option<u16>,
    /// The length of the body (bytes); `None`: as announced.
    pub length: Option<u64>,
}

impl HttpOptions {
    /// A request for each path.
    pub(super) fn render(&self) -> Result<Vec<Vec<u8>>, Usage> {
        let token = |text: &str| !text.is_empty() && text.bytes().all(is_token);
        if !token(&self.method) {
            return Err(Usage(format!("expected a method such as GET, found `{}`", self.method)));
        }
        let mut fields = String::new();
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            fields += &format!("Host: {}\r\n", self.authority);
        }
        for (name, value) in &self.headers {
            if !token(name) || value.bytes().any(|byte| byte < b' ' && byte != b'\t') {
                return Err(Usage(format!(
                    "expected a header such as `Accept: text/html`, found `{name}: {value}`"
                )));
            }
            fields += &format!("{name}: {value}\r\n");
        }
        if !self.body.is_empty() || ["POST", "PUT", "PATCH"].contains(&self.method.as_str()) {
            fields += &format!("Content-Length: {}\r\n", self.body.len());
        }
        let request = |(path, _): &(String, u32)| {
            if !path.starts_with(['/', '*']) || path.bytes().any(|byte| byte <= b' ') {
                return Err(Usage(format!(
                    "expected a path such as /index.html, without blanks, found `{path}`"
                )));
            }
            let mut bytes = format!("{} {path} HTTP/1.1\r\n{fields}\r\n", self.method).into_bytes();
            bytes.extend_from_slice(&self.body);
            Ok(bytes)
        };
        self.paths.iter().map(request).collect()
    }

    /// Whether a repetition is harmless (RFC 9110 section 9.2.2).
    pub(super) fn is_idempotent(&self) -> bool {
        ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].contains(&self.method.as_str())
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl Expectation {
    /// Judges a whole reply.
    pub(super) fn check(self, status: u16, length: u64) -> Result<(), String> {
        let right = self.status.map_or((200..400).contains(&status), |wanted| wanted == status);
        if !right {
            let wanted = self.status.map_or("200 to 399".to_owned(), |status| status.to_string());
            return Err(format!("expected status {wanted}, found {status}"));
        }
        self.check_length(length)
    }

    /// Judges the length alone.
    pub(super) fn check_length(self, length: u64) -> Result<(), String> {
        match self.length {
            Some(wanted) if wanted != length => {
                Err(format!("expected a body of {wanted} bytes, found {length}"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "status {status} and ")?,
            None => f.write_str("a status of 200 to 399 and ")?,
        }
        match self.length {
            Some(length) => write!(f, "a body of {length} bytes"),
            None => f.write_str("as many bytes as they announce"),
        }
    }
}
