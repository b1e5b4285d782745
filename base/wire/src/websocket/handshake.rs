//! The handshake of a server (RFC 6455 section 4.2), and which pages it lets in.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha1_smol::Sha1;

use super::MessageKind;
use crate::http::{Body, Head, Reply, Status, Version, host};

/// The end of the digested text, after the key of a client (section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// How a server speaks WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketOptions {
    /// The type of messages.
    pub messages: MessageKind,
    /// The origins whose pages may connect, `*` for all. Without any: pages of the address, or of
    /// `localhost`, that they connect to. Another program sends no origin and may always connect.
    pub origins: Vec<String>,
    /// The page that a GET without an upgrade gets (HTML); none if it is empty.
    pub page: String,
    /// The time limit of a handshake.
    pub patience: Duration,
}

impl Default for WebSocketOptions {
    /// Texts for pages of the same address, within ten seconds.
    fn default() -> WebSocketOptions {
        WebSocketOptions {
            messages: MessageKind::default(),
            origins: Vec::new(),
            page: String::new(),
            patience: Duration::from_secs(10),
        }
    }
}

impl From<MessageKind> for WebSocketOptions {
    fn from(messages: MessageKind) -> WebSocketOptions {
        WebSocketOptions { messages, ..WebSocketOptions::default() }
    }
}

/// A request that does not become a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHandshake {
    /// The status of the answer.
    pub status: Status,
    /// The expectation and the finding, for its body.
    pub why: &'static str,
}

impl WebSocketOptions {
    /// Answers a request: true if frames follow, else the connection must be closed.
    pub fn answer(&self, head: &Head<'_>, out: &mut Vec<u8>) -> bool {
        match self.accept(head) {
            Ok(accept) => {
                for text in [
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                     Connection: Upgrade\r\nSec-WebSocket-Accept: ",
                    &accept,
                    "\r\n\r\n",
                ] {
                    out.extend_from_slice(text.as_bytes());
                }
                true
            }
            Err(_) if self.serves_page(head) => {
                put(Status::OK, &[("Content-Type", "text/html; charset=utf-8")], &self.page, out);
                false
            }
            Err(bad) => {
                bad.put(out);
                false
            }
        }
    }

    fn serves_page(&self, head: &Head<'_>) -> bool {
        !self.page.is_empty() && head.method == "GET" && head.field("upgrade").is_none()
    }

    /// The value of `Sec-WebSocket-Accept`.
    ///
    /// # Errors
    /// The request is no handshake of version 13, or its page may not connect.
    pub fn accept(&self, head: &Head<'_>) -> Result<String, BadHandshake> {
        let bad = |why| Err(BadHandshake { status: Status::BAD_REQUEST, why });
        let upgrade = |why| Err(BadHandshake { status: Status::UPGRADE, why });
        if !lists(head, "upgrade", "websocket") {
            return upgrade("expected a WebSocket: Upgrade: websocket");
        }
        if head.method != "GET" || head.version != Version::Http11 || head.body != Body::Length(0) {
            return bad("expected a WebSocket by GET of HTTP/1.1 without a body");
        }
        if !lists(head, "connection", "upgrade") {
            return bad("expected Connection: Upgrade");
        }
        match only(head, "sec-websocket-version") {
            Some(b"13") => {}
            Some(_) => return upgrade("expected Sec-WebSocket-Version: 13, found another"),
            None => return bad("expected one Sec-WebSocket-Version: 13"),
        }
        let key = only(head, "sec-websocket-key").and_then(|key| str::from_utf8(key).ok());
        let is_key = |key: &&str| BASE64_STANDARD.decode(key).is_ok_and(|key| key.len() == 16);
        let Some(key) = key.filter(is_key) else {
            return bad("expected one Sec-WebSocket-Key of 16 bytes in base64");
        };
        if !self.lets_in(head) {
            let why = "expected a page of this address, or of an origin that the server was told \
                       of (--websocket-origin)";
            return Err(BadHandshake { status: Status::FORBIDDEN, why });
        }
        Ok(accept_key(key))
    }

    fn lets_in(&self, head: &Head<'_>) -> bool {
        let Some(origin) = head.field("origin") else { return true };
        if !self.origins.is_empty() {
            return self.origins.iter().any(|it| it == "*" || it.as_bytes() == origin);
        }
        // A name may lead here from anywhere (DNS rebinding), so only addresses count.
        let page = origin.windows(3).position(|it| it == b"://").map(|at| &origin[at + 3..]);
        let (page, own) = (page.and_then(host::address), head.field("host"));
        page.is_some() && page == own.and_then(host::address)
    }
}

impl BadHandshake {
    /// Appends the answer.
    pub fn put(&self, out: &mut Vec<u8>) {
        let plain = ("Content-Type", "text/plain; charset=utf-8");
        let upgrade = [
            plain,
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
        ];
        let fields = if self.status == Status::UPGRADE { &upgrade[..] } else { &upgrade[..1] };
        put(self.status, fields, &format!("{}\n", self.why), out);
    }
}

fn put(status: Status, fields: &[(&str, &str)], body: &str, out: &mut Vec<u8>) {
    let len = body.len() as u64;
    Reply { status, fields, len, keep_alive: false }.put(Version::Http11, out);
    out.extend_from_slice(body.as_bytes());
}

/// The value by which a server proves that it has read the key of the client.
pub fn accept_key(key: &str) -> String {
    let mut digest = Sha1::from(key);
    digest.update(GUID.as_bytes());
    BASE64_STANDARD.encode(digest.digest().bytes())
}

fn lists(head: &Head<'_>, name: &str, word: &str) -> bool {
    let values = head.fields().filter(|(found, _)| found.eq_ignore_ascii_case(name));
    let mut words = values.flat_map(|(_, value)| value.split(|byte| *byte == b','));
    words.any(|found| found.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// The value of a field that must come once.
fn only<'a>(head: &Head<'a>, name: &str) -> Option<&'a [u8]> {
    let mut values = head.fields().filter(|(found, _)| found.eq_ignore_ascii_case(name));
    let first = values.next()?;
    values.next().is_none().then_some(first.1)
}
