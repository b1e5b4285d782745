//! One request and its reply, as the function of a service sees them.

use std::borrow::Cow;

use wire::http::{Head, Status, Target};

use super::Refusal;
use crate::messages::ReplyBuffer;

/// A request with its whole body.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    /// The method, such as `GET`. HEAD comes as GET: the server leaves the body of its answer out.
    pub method: &'a str,
    /// The path of the target: decoded, without `.` and `..`, starting with `/`; or `*`.
    pub path: &'a str,
    /// The text after the first `?` of the target, as it was sent.
    pub query: &'a str,
    /// The body, without chunks; empty without one.
    pub body: &'a [u8],
    pub(crate) head: &'a Head<'a>,
}

impl<'a> HttpRequest<'a> {
    /// The value of a header field, whatever the case of its name.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.head.field(name)
    }
}

/// Lends a request to `answer`.
pub(super) fn with_request<R>(
    head: &Head<'_>,
    body: &[u8],
    answer: impl FnOnce(HttpRequest<'_>) -> R,
) -> Result<R, Refusal> {
    let bad = |why: &str| Box::new((Status::BAD_REQUEST, why.to_owned().into()));
    let target = match (head.method, head.target) {
        // It asks about the server (RFC 9110 section 9.3.7).
        ("OPTIONS", "*") => Target { path: b"*".into(), host: None, query: "" },
        (_, target) => Target::read(target).map_err(|why| bad(&why.to_string()))?,
    };
    let path = match &target.path {
        // It is a part of the head, which is ASCII.
        Cow::Borrowed(path) if head.target.starts_with('/') => &head.target[..path.len()],
        path => str::from_utf8(path).map_err(|_| bad("expected a path in UTF-8"))?,
    };
    let method = if head.method == "HEAD" { "GET" } else { head.method };
    Ok(answer(HttpRequest { method, path, query: target.query, body, head }))
}

/// The answer to a request: 200 with an empty body until something else is said.
#[derive(Debug)]
pub struct HttpResponse {
    pub(crate) status: Status,
    /// The lines of the fields.
    pub(super) fields: Vec<u8>,
    /// The media type; empty without one.
    pub(super) kind: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub(super) fn of(status: Status) -> HttpResponse {
        // A small body does not grow.
        HttpResponse { status, fields: Vec::new(), kind: "", body: Vec::with_capacity(128) }
    }

    /// Takes back all that was said.
    pub(crate) fn clear(&mut self) {
        self.status = Status::OK;
        self.fields.clear();
        self.kind = "";
        self.body.clear();
    }

    /// The connection becomes a WebSocket (RFC 6455 section 4.2.2).
    pub(crate) fn switch(&mut self, accept: &str) {
        self.status = Status::SWITCHING;
        for text in
            ["Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ", accept, "\r\n"]
        {
            self.fields.extend_from_slice(text.as_bytes());
        }
    }

    /// Sets the status; one that is not from 200 to 599 becomes 500.
    pub fn status(&mut self, code: u16) -> &mut Self {
        let code = if (200..600).contains(&code) { code } else { 500 };
        self.status = Status::of(code);
        self
    }

    /// Adds a header field. Line breaks and NUL in the value become blanks (RFC 9110 section 5.5).
    ///
    /// # Panics
    /// If the name is no token, or one that the server writes itself: it is this program's own.
    pub fn field(&mut self, name: &'static str, value: impl AsRef<str>) -> &mut Self {
        let ours = ["Connection", "Content-Length", "Date", "Transfer-Encoding"];
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_ours = ours.iter().any(|ours| name.eq_ignore_ascii_case(ours));
        let fits = !name.is_empty() && name.bytes().all(is_letter) && !is_ours;
        assert!(fits, "expected a name that the server does not write itself, found `{name}`");
        let blank = |byte: u8| if b"\r\n\0".contains(&byte) { b' ' } else { byte };
        self.fields.extend_from_slice(name.as_bytes());
        self.fields.extend_from_slice(b": ");
        self.fields.extend(value.as_ref().bytes().map(blank));
        self.fields.extend_from_slice(b"\r\n");
        self
    }

    /// Appends text to the body.
    pub fn text(&mut self, text: impl AsRef<[u8]>) {
        self.content("text/plain; charset=utf-8").put(text);
    }

    /// Appends JSON to the body.
    pub fn json(&mut self, json: impl AsRef<[u8]>) {
        self.content("application/json").put(json);
    }

    /// Sets the media type, and returns the body for appending.
    ///
    /// # Panics
    /// If `kind` has a line break.
    pub fn content(&mut self, kind: &'static str) -> ReplyBuffer<'_> {
        debug_assert!(!kind.contains(['\r', '\n']), "expected a media type, found `{kind}`");
        self.kind = kind;
        ReplyBuffer { out: &mut self.body, wake: None }
    }
}
