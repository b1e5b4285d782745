//! The requests to a web server, and the expected replies.
//!
//! `render` makes the bytes of every request once, before the run; during the run the script copies
//! them. The fields of the command line come first and replace those of a recorded request.
//! `Expectation` judges a whole reply, by status and length. A repetition is harmless only if every
//! method of the list is idempotent, and only then does the driver send unanswered requests again.

use crate::parse::Usage;
use std::fmt;

/// The names of the statuses of gRPC, from 0 (grpc.io, "Status codes and their use in gRPC").
const GRPC: &str = "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND \
    ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE \
    UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED";

/// The most requests of a list.
pub const REQUESTS_MAX: usize = u16::MAX as usize;

/// The requests and the expected replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// The method of requests that name none, such as `GET`.
    pub method: String,
    /// Host and port, for the field `Host`.
    pub authority: String,
    /// The origin before each path ([`Target::prefix`](crate::Target::prefix)).
    pub prefix: String,
    /// The requests: 1 to [`REQUESTS_MAX`].
    pub requests: Vec<WebRequest>,
    /// Each connection sends the requests in their order, again and again; else they are drawn by
    /// their weights.
    pub in_order: bool,
    /// Header fields of every request; they replace those of the same name, `Host` among them.
    pub headers: Vec<(String, String)>,
    /// The body of requests without one.
    pub body: Vec<u8>,
    /// The expected replies.
    pub wanted: Expectation,
    /// Whether a reply with a status is right even if its head is incomplete or its body shorter
    /// than announced, as it is to many clients; such replies end with their connection.
    pub takes_malformed: bool,
    /// The seed for drawing requests.
    pub seed: u64,
}

/// One request of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebRequest {
    /// The method; `None`: that of the list.
    pub method: Option<String>,
    /// The path with its query.
    pub path: String,
    /// How often it is drawn, compared with the others.
    pub weight: u32,
    /// Header separate fields.
    pub headers: Vec<(String, String)>,
    /// The body; `None`: that of the list.
    pub body: Option<Vec<u8>>,
    /// The status of its recorded reply; 0: unknown.
    pub recorded: u16,
}

/// The properties of a right reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// The status; `None`: any of 200 to 399.
    pub status: Option<u16>,
    /// The length of the body (bytes); `None`: as announced.
    pub length: Option<u64>,
}

impl From<(String, u32)> for WebRequest {
    fn from((path, weight): (String, u32)) -> Self {
        Self { path, weight, ..Self::default() }
    }
}

impl WebRequest {
    /// Checks all that would make it no request.
    pub(super) fn check(&self) -> Result<(), Usage> {
        if let Some(method) = self.method.as_ref().filter(|method| !is_name(method)) {
            return Err(Usage(format!("expected a method such as GET, found `{method}`")));
        }
        if !self.path.starts_with(['/', '*']) || self.path.bytes().any(|byte| byte <= b' ') {
            let path = &self.path;
            return Err(Usage(format!(
                "expected a path such as /index.html, without blanks, found `{path}`"
            )));
        }
        self.headers.iter().try_for_each(check_field)
    }
}

fn check_field((name, value): &(String, String)) -> Result<(), Usage> {
    if is_name(name) && !value.bytes().any(|byte| byte < b' ' && byte != b'\t') {
        return Ok(());
    }
    Err(Usage(format!("expected a header such as `Accept: text/html`, found `{name}: {value}`")))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token)
}

impl HttpOptions {
    /// `GET` of paths drawn by their weights, without further fields; every right reply will do.
    pub fn get(authority: &str, paths: Vec<(String, u32)>, seed: u64) -> Self {
        Self {
            method: "GET".to_owned(),
            authority: authority.to_owned(),
            prefix: String::new(),
            requests: paths.into_iter().map(WebRequest::from).collect(),
            in_order: false,
            headers: Vec::new(),
            body: Vec::new(),
            wanted: Expectation::default(),
            takes_malformed: false,
            seed,
        }
    }

    /// Makes calls of gRPC of them, with the body as one message, uncompressed (grpc.io, "gRPC over
    /// HTTP2"). A type of the user's, such as application/grpc+proto, stays. A right reply has the
    /// status 0, if no other is expected.
    pub fn call_grpc(&mut self) {
        self.method = "POST".to_owned();
        let length = (self.body.len() as u32).to_be_bytes();
        self.body = [&[0], &length[..], &self.body].concat();
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
            if !self.headers.iter().any(|field| field.0.eq_ignore_ascii_case(name)) {
                self.headers.push((name.to_owned(), value.to_owned()));
            }
        }
        self.wanted.status = self.wanted.status.or(Some(0));
    }

    pub(crate) fn methods(&self) -> impl Iterator<Item = &str> {
        self.requests.iter().map(|request| request.method.as_deref().unwrap_or(&self.method))
    }

    pub(super) fn render(&self) -> Result<Vec<Vec<u8>>, Usage> {
        let count = self.requests.len();
        if !(1..=REQUESTS_MAX).contains(&count) {
            return Err(Usage(format!("expected 1 to {REQUESTS_MAX} requests, found {count}")));
        }
        self.headers.iter().try_for_each(check_field)?;
        self.requests.iter().zip(self.methods()).map(|it| self.render_one(it.0, it.1)).collect()
    }

    fn render_one(&self, request: &WebRequest, method: &str) -> Result<Vec<u8>, Usage> {
        let WebRequest { path, headers, body, .. } = request;
        WebRequest { method: Some(method.to_owned()), ..request.clone() }.check()?;
        let has = |list: &[(String, String)], name: &str| {
            list.iter().any(|field| field.0.eq_ignore_ascii_case(name))
        };
        let mut text = format!("{method} {}{} HTTP/1.1\r\n", self.prefix, encoded(path));
        if !has(&self.headers, "host") && !has(headers, "host") {
            text += &format!("Host: {}\r\n", self.authority);
        }
        let own = headers.iter().filter(|field| !has(&self.headers, &field.0));
        for (name, value) in self.headers.iter().chain(own) {
            text += &format!("{name}: {value}\r\n");
        }
        let body = body.as_ref().unwrap_or(&self.body);
        if !body.is_empty() || ["POST", "PUT", "PATCH"].contains(&method) {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut bytes = (text + "\r\n").into_bytes();
        bytes.extend_from_slice(body);
        Ok(bytes)
    }

    /// Whether a repetition of any is harmless (RFC 9110 section 9.2.2).
    pub(super) fn is_idempotent(&self) -> bool {
        self.methods().all(is_idempotent)
    }
}

/// Whether a repetition of such a request is harmless.
pub(super) fn is_idempotent(method: &str) -> bool {
    ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].contains(&method)
}

/// A status with its name, where it is one of gRPC; those of HTTP have three digits.
pub fn status_name(status: u16) -> String {
    match GRPC.split(' ').nth(status.into()) {
        Some(name) => format!("{status} {name}"),
        None => status.to_string(),
    }
}

/// The path with each byte that is not ASCII as `%HH` (RFC 3986 section 2.1).
fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte.is_ascii() {
            true => text.push(char::from(byte)),
            false => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl Expectation {
    pub(super) fn is_status(self, status: u16) -> bool {
        self.status.map_or((200..400).contains(&status), |wanted| wanted == status)
    }

    /// Judges a whole reply.
    pub(super) fn check(self, status: u16, length: u64) -> Result<(), String> {
        if !self.is_status(status) {
            let wanted = self.status.map_or("200 to 399".to_owned(), status_name);
            return Err(format!("expected status {wanted}, found {}", status_name(status)));
        }
        self.check_length(length)
    }

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
            Some(status) => write!(f, "status {} and ", status_name(status))?,
            None => f.write_str("a status of 200 to 399 and ")?,
        }
        match self.length {
            Some(length) => write!(f, "a body of {length} bytes"),
            None => f.write_str("as many bytes as they announce"),
        }
    }
}
