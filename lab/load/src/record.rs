//! Records the traffic of a web server: a relay in front of it, which writes down each request as a
//! browser does (HTTP Archive 1.2), for `--har` and for `tune`.
//!
//! The relay changes no byte. It stops reading a connection's requests where they end to be
//! HTTP/1.1, such as behind an upgrade, and goes on relaying.

use crate::script::REQUESTS_MAX;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use wire::http::{Body, Chunked, Limits, head};

/// Bodies above this length (bytes), and those that are not UTF-8, are not kept with their
/// requests.
const BODY_MAX: usize = 64 << 10;
const RECEIVE: usize = 64 << 10;

/// The requests that a relay has seen.
#[derive(Debug)]
pub struct Recording {
    /// `http://HOST:PORT`, the beginning of each URL.
    origin: String,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    entries: Vec<Value>,
    /// Requests that were relayed and not kept.
    left_out: u64,
}

impl Recording {
    /// An empty one, of a server at `place` (`HOST:PORT`).
    pub fn of(place: &str) -> Self {
        Self { origin: format!("http://{place}"), seen: Mutex::default() }
    }

    /// The archive so far, the number of its requests, and the number of those that are too great,
    /// too many or not text.
    pub fn archive(&self) -> (Value, usize, u64) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let creator = json!({ "name": "roundhouse", "version": env!("CARGO_PKG_VERSION") });
        let log = json!({ "version": "1.2", "creator": creator, "entries": seen.entries });
        (json!({ "log": log }), seen.entries.len(), seen.left_out)
    }

    fn keep(&self, entry: Option<Value>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match entry {
            Some(entry) if seen.entries.len() < REQUESTS_MAX => seen.entries.push(entry),
            _ => seen.left_out += 1,
        }
    }
}

/// Relays connections of `listener` to `server`, each by two threads, for ever.
///
/// # Errors
/// Those of accept(2).
pub fn relay(
    listener: &TcpListener,
    server: SocketAddr,
    record: &Arc<Recording>,
) -> io::Result<()> {
    loop {
        let (client, _) = listener.accept()?;
        let record = Arc::clone(record);
        std::thread::spawn(move || {
            // The end of its connection tells the client that the server is gone.
            let _ = pair(&client, server, &record);
            let _ = client.shutdown(Shutdown::Both);
        });
    }
}

/// Relays one connection, until both sides have ended.
fn pair(client: &TcpStream, server: SocketAddr, record: &Recording) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    let mut requests = Requests::default();
    std::thread::scope(|scope| {
        scope.spawn(|| copy(&server, client, |_| {}));
        copy(client, &server, |bytes| requests.feed(bytes, record));
    });
    Ok(())
}

/// Passes bytes on until the end of `from`, and shows them to `see`.
fn copy(mut from: &TcpStream, mut to: &TcpStream, mut see: impl FnMut(&[u8])) {
    let mut buffer = vec![0; RECEIVE];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        see(&buffer[..len]);
        if to.write_all(&buffer[..len]).is_err() {
            let _ = from.shutdown(Shutdown::Read);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Reads the requests of one connection.
#[derive(Debug, Default)]
struct Requests {
    held: Vec<u8>,
    /// The request whose body is read.
    open: Option<Open>,
    /// The bytes are not HTTP/1.1 any more.
    is_lost: bool,
}

#[derive(Debug)]
struct Open {
    request: Value,
    body: Vec<u8>,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    Length(u64),
    Chunks(Chunked),
}

impl Requests {
    fn feed(&mut self, bytes: &[u8], record: &Recording) {
        if self.is_lost {
            return;
        }
        self.held.extend_from_slice(bytes);
        while let Some(used) = self.step(record) {
            self.held.drain(..used);
        }
        if self.is_lost {
            self.held = Vec::new();
        }
    }

    /// Reads a head or a piece of a body; returns how many bytes it used, or nothing if it needs
    /// more.
    fn step(&mut self, record: &Recording) -> Option<usize> {
        let Some(open) = &mut self.open else {
            return self.head(&record.origin);
        };
        let (piece, used, is_end) = match &mut open.rest {
            Rest::Length(left) => {
                let len = self.held.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= len as u64;
                (&self.held[..len], len, *left == 0)
            }
            Rest::Chunks(chunks) => match chunks.next(&self.held) {
                Ok(piece) => (piece.data, piece.used, piece.end),
                Err(_) => {
                    self.is_lost = true;
                    return None;
                }
            },
        };
        // One byte above the bound tells that there is no room.
        let room = (BODY_MAX + 1).saturating_sub(open.body.len());
        open.body.extend_from_slice(&piece[..piece.len().min(room)]);
        if is_end {
            record.keep(self.open.take().and_then(entry));
        }
        (is_end || used > 0).then_some(used)
    }

    fn head(&mut self, origin: &str) -> Option<usize> {
        let found = match head::next(&self.held, &Limits::default()) {
            Ok(found) => found?,
            Err(_) => {
                self.is_lost = true;
                return None;
            }
        };
        let field = |(name, value): (&str, &[u8])| {
            let value = String::from_utf8_lossy(value);
            json!({ "name": name, "value": value })
        };
        let is_path = found.target.starts_with('/');
        let origin = if is_path { origin } else { "" };
        let url = format!("{origin}{}", found.target);
        let request = json!({
            "method": found.method, "url": url, "httpVersion": "HTTP/1.1", "cookies": [],
            "headers": found.fields().map(field).collect::<Vec<_>>(), "queryString": [],
            "headersSize": found.len, "bodySize": -1,
        });
        let rest = match found.body {
            Body::Length(len) => Rest::Length(len),
            Body::Chunked => Rest::Chunks(Chunked::new()),
        };
        self.open = Some(Open { request, body: Vec::new(), rest });
        Some(found.len)
    }
}

/// A request as an entry of an archive; nothing if its body is no text or too long.
fn entry(open: Open) -> Option<Value> {
    let mut request = open.request;
    if !open.body.is_empty() {
        let text = (open.body.len() <= BODY_MAX).then(|| String::from_utf8(open.body).ok())??;
        request["bodySize"] = text.len().into();
        request["postData"] = json!({ "mimeType": "", "text": text });
    }
    // Replies are not read: status 0 and times of -1 stand for what is not known.
    let response = json!({
        "status": 0, "statusText": "", "httpVersion": "", "cookies": [], "headers": [],
        "content": { "size": 0, "mimeType": "" }, "redirectURL": "", "headersSize": -1,
        "bodySize": -1,
    });
    let now = humantime::format_rfc3339_millis(SystemTime::now());
    Some(json!({
        "startedDateTime": now.to_string(), "time": -1, "request": request,
        "response": response, "cache": {}, "timings": { "send": -1, "wait": -1, "receive": -1 },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{WebRequest, har};

    /// The requests that are read back after these bytes came in pieces of `len`.
    fn read_back(bytes: &[u8], len: usize) -> (Vec<String>, u64) {
        let record = Recording::of("127.0.0.1:8");
        let mut requests = Requests::default();
        bytes.chunks(len).for_each(|piece| requests.feed(piece, &record));
        let (archive, _, left_out) = record.archive();
        let target = "http://127.0.0.1:8".parse().expect("a target");
        let (found, _) = har(archive.to_string().as_bytes(), &target, false).expect("requests");
        let shown = |it: &WebRequest| {
            let body = String::from_utf8_lossy(it.body.as_deref().unwrap_or_default()).into_owned();
            format!("{} {} {body}", it.method.as_deref().unwrap_or("-"), it.path)
        };
        (found.iter().map(shown).collect(), left_out)
    }

    #[test]
    fn requests_are_read_back_however_they_were_cut() {
        let mut bytes = b"GET /a?b=1 HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n\
            POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nx=y\
            PUT /d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n\
            PUT /raw HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n\xff\xfe"
            .to_vec();
        bytes.extend_from_slice(b"PUT /e HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n");
        bytes.extend(vec![b'a'; 70_000]);
        bytes.extend_from_slice(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n\x81\x05frame");
        for len in [1, 7, 100_000] {
            let want = ["GET /a?b=1 ", "POST /c x=y", "PUT /d ab", "GET /f "].map(String::from);
            assert_eq!(read_back(&bytes, len), (want.to_vec(), 2), "in pieces of {len}");
        }
    }
}
