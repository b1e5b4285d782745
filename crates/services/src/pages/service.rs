//! Requests to replies: fixed pages, the document, and the stream of its editions.
//!
//! Only GET and HEAD without a body are answered; other requests are refused, and the connection is
//! closed if the end of the request is uncertain. A session that listens to the stream wakes by its
//! own deadline, checks the bulletin's number, and appends a new edition only when the peer has
//! taken the previous one.

use super::Bulletin;
use seam::{Cx, Event, Instant, Limits, Out, Peer, Service, Step};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use wire::http::reply::Framing;
use wire::http::{Body, Head, Reply, Status, Target, Version, chunked, head, host};

/// The path of the document as it is now.
pub const STATE: &str = "/state.json";
/// The path of the document's editions as server-sent events.
pub const EVENTS: &str = "/events";

/// How long a peer may take to send a request, or be silent between two requests.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often a listener's session checks for a new edition. There is about one edition a second;
/// checking more often would only take time from the cores that are being measured.
const LOOK: Duration = Duration::from_millis(200);
/// After this long without an edition, a comment is sent, so that both ends notice a dead peer.
const BEAT: Duration = Duration::from_secs(10);
/// The delay before a browser reconnects, in milliseconds.
const RETRY_MS: u32 = 1_000;

/// A page that never changes.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its path, beginning with `/`.
    pub path: String,
    /// Its media type.
    pub kind: &'static str,
    /// Further fields of the reply, such as a content security policy.
    pub fields: Vec<(&'static str, String)>,
    /// Its bytes.
    pub body: Arc<[u8]>,
}

/// The service; its state is a [`Bulletin`].
#[derive(Debug)]
pub struct Pages {
    pages: Vec<Page>,
    limits: Limits,
    heads: head::Limits,
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// It may send requests.
    Asking {
        /// The deadline of the request.
        until: Instant,
        /// Part of a request has arrived.
        begun: bool,
    },
    /// It listens to the stream.
    Listening {
        /// The last edition sent to it; 0 for none.
        seen: u64,
        /// When the next keep-alive comment is due.
        beat: Instant,
        /// The stream is chunked.
        chunked: bool,
    },
}

/// The next step after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Ask,
    Close,
    Listen(Session),
}

impl Pages {
    /// A service with these pages.
    pub fn new(pages: Vec<Page>) -> Pages {
        let heads = head::Limits::default();
        let limits = Limits {
            input_max: 2 * heads.head_max,
            // The longest document fills the output; the next edition waits until it is sent.
            output_high: 256 * 1024,
            output_low: 64 * 1024,
            // A silent connection holds nothing but its place.
            sessions_max: 1024,
        };
        Pages { pages, limits, heads }
    }

    /// Answers requests until the input has no complete one or the output is full.
    fn serve(
        &self,
        cx: &Cx<'_, Bulletin>,
        session: &mut Session,
        input: &[u8],
        out: &mut Out,
    ) -> Step<Infallible> {
        let mut used = 0;
        while used < input.len() && !out.is_full() {
            let head = match head::next(&input[used..], &self.heads) {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(bad) => {
                    let head_only = input[used..].trim_ascii_start().starts_with(b"HEAD ");
                    refuse(bad.status(), (Version::Http11, head_only), bad, out);
                    return Step::close(input.len());
                }
            };
            used += head.len;
            cx.note(|note| *note = format!("{} {}", head.method, head.target));
            cx.answered(1);
            match self.answer(cx, &head, out) {
                After::Ask => *session = asking(cx.now),
                After::Close => return Step::close(input.len()),
                After::Listen(listening) => {
                    *session = listening;
                    // A listener sends no more requests on this connection.
                    return Step::read(input.len()).wake_at(cx.now + LOOK);
                }
            }
        }
        if let Session::Asking { until, begun } = session {
            *begun = used < input.len();
            return Step::read(used).wake_at(*until);
        }
        Step::read(used)
    }

    fn answer(&self, cx: &Cx<'_, Bulletin>, head: &Head<'_>, out: &mut Out) -> After {
        if head.field("Host").is_some_and(|host| host::address(host).is_none()) {
            return refused(
                Status::FORBIDDEN,
                head,
                "expected an address or localhost as Host",
                out,
            );
        }
        if head.body != Body::Length(0) {
            // The next request could only be found by reading the body.
            return refused(Status::CONTENT_TOO_LONG, head, "expected no body", out);
        }
        if !matches!(head.method, "GET" | "HEAD") {
            return self.other_method(head, out);
        }
        let target = match Target::read(head.target) {
            Ok(target) => target,
            Err(bad) => return refused(Status::BAD_REQUEST, head, bad, out),
        };
        match std::str::from_utf8(&target.path).unwrap_or_default() {
            STATE => state(cx, head, out),
            EVENTS => listen(cx, head, out),
            path => match self.pages.iter().find(|page| page.path == path) {
                Some(page) => give(page, head, out),
                None => {
                    text(Status::NOT_FOUND, head, &[], "there is no such page\n", out);
                    goes_on(head)
                }
            },
        }
    }

    fn other_method(&self, head: &Head<'_>, out: &mut Out) -> After {
        const KNOWN: &[&str] = &["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"];
        if !KNOWN.contains(&head.method) {
            return refused(Status::NOT_IMPLEMENTED, head, "expected GET or HEAD", out);
        }
        text(Status::METHOD, head, &[("Allow", "GET, HEAD")], "expected GET or HEAD\n", out);
        goes_on(head)
    }

    /// A listener's turn: a new edition, or a keep-alive comment.
    fn tell(
        &self,
        cx: &Cx<'_, Bulletin>,
        session: &mut Session,
        out: &mut Out,
    ) -> Step<Infallible> {
        if let Session::Listening { seen, beat, chunked } = session {
            if !out.is_full() && cx.state.editions() != *seen {
                if let Some(edition) = event(cx.state, *chunked, out) {
                    (*seen, *beat) = (edition, cx.now + BEAT);
                }
            } else if cx.now >= *beat && out.is_empty() {
                stream(b": still here\n\n", *chunked, out);
                *beat = cx.now + BEAT;
            }
        }
        Step::read(0).wake_at(cx.now + LOOK)
    }
}

fn asking(now: Instant) -> Session {
    Session::Asking { until: now + PATIENCE, begun: false }
}

fn goes_on(head: &Head<'_>) -> After {
    if head.keep_alive { After::Ask } else { After::Close }
}

/// Replies with a short text; without a body for HEAD.
fn text(status: Status, head: &Head<'_>, more: &[(&str, &str)], words: &str, out: &mut Out) {
    let mut fields = vec![("Content-Type", "text/plain; charset=utf-8"), NO_STORE, NO_SNIFF];
    fields.extend_from_slice(more);
    let framing = Framing::Length(words.len() as u64);
    let reply = Reply { status, fields: &fields, framing, keep_alive: head.keep_alive };
    reply.put(head.version, out.bytes());
    if head.method != "HEAD" {
        out.bytes().extend_from_slice(words.as_bytes());
    }
}

/// Nothing here may be cached, because another program may serve this address next time.
const NO_STORE: (&str, &str) = ("Cache-Control", "no-store");
const NO_SNIFF: (&str, &str) = ("X-Content-Type-Options", "nosniff");

/// Refuses a request whose head was understood, and closes.
fn refused(status: Status, head: &Head<'_>, why: impl ToString, out: &mut Out) -> After {
    refuse(status, (head.version, head.method == "HEAD"), why, out);
    After::Close
}

#[cold]
fn refuse(
    status: Status,
    (version, head_only): (Version, bool),
    why: impl ToString,
    out: &mut Out,
) {
    let words = format!("{}\n", why.to_string());
    let fields = &[("Content-Type", "text/plain; charset=utf-8"), NO_STORE];
    let framing = Framing::Length(words.len() as u64);
    Reply { status, fields, framing, keep_alive: false }.put(version, out.bytes());
    if !head_only {
        out.bytes().extend_from_slice(words.as_bytes());
    }
}

fn give(page: &Page, head: &Head<'_>, out: &mut Out) -> After {
    let mut fields = vec![("Content-Type", page.kind), NO_STORE, NO_SNIFF];
    fields.extend(page.fields.iter().map(|(name, value)| (*name, value.as_str())));
    let framing = Framing::Length(page.body.len() as u64);
    let reply = Reply { status: Status::OK, fields: &fields, framing, keep_alive: head.keep_alive };
    reply.put(head.version, out.bytes());
    if head.method != "HEAD" {
        out.shared(Arc::clone(&page.body), 0..page.body.len());
    }
    goes_on(head)
}

/// The document as it is now.
fn state(cx: &Cx<'_, Bulletin>, head: &Head<'_>, out: &mut Out) -> After {
    let mut document = Vec::new();
    if cx.state.read(&mut document).is_none() {
        text(Status::UNAVAILABLE, head, &[("Retry-After", "1")], "nothing yet\n", out);
        return goes_on(head);
    }
    let fields = &[("Content-Type", "application/json"), NO_STORE, NO_SNIFF];
    let framing = Framing::Length(document.len() as u64);
    Reply { status: Status::OK, fields, framing, keep_alive: head.keep_alive }
        .put(head.version, out.bytes());
    if head.method != "HEAD" {
        out.bytes().extend_from_slice(&document);
    }
    goes_on(head)
}

/// Starts a stream. A client that names its last edition does not get that edition again.
fn listen(cx: &Cx<'_, Bulletin>, head: &Head<'_>, out: &mut Out) -> After {
    let fields = &[("Content-Type", "text/event-stream"), NO_STORE, NO_SNIFF];
    let chunked = head.version == Version::Http11;
    let framing = if chunked { Framing::Chunked } else { Framing::UntilClose };
    Reply { status: Status::OK, fields, framing, keep_alive: false }.put(head.version, out.bytes());
    if head.method == "HEAD" {
        return After::Close;
    }
    stream(format!("retry: {RETRY_MS}\n\n").as_bytes(), chunked, out);
    let mut seen = head.field("last-event-id").map_or(0, |id| seen(id, cx.state));
    if cx.state.editions() != seen {
        seen = event(cx.state, chunked, out).unwrap_or(0);
    }
    After::Listen(Session::Listening { seen, beat: cx.now + BEAT, chunked })
}

/// The edition in `TOKEN-NUMBER`; 0 if it belongs to another bulletin or is malformed.
fn seen(id: &[u8], bulletin: &Bulletin) -> u64 {
    let parsed = std::str::from_utf8(id).ok().and_then(|id| id.split_once('-'));
    let Some((token, edition)) = parsed else { return 0 };
    let same = u64::from_str_radix(token, 16) == Ok(bulletin.token());
    if same { edition.parse().unwrap_or(0) } else { 0 }
}

/// Appends the latest edition as one event and returns its number.
fn event(bulletin: &Bulletin, chunked: bool, out: &mut Out) -> Option<u64> {
    let mut document = Vec::new();
    let edition = bulletin.read(&mut document)?;
    let mut event = format!("id: {:x}-{edition}\n", bulletin.token()).into_bytes();
    for line in document.split(|byte| matches!(byte, b'\n' | b'\r')) {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    stream(&event, chunked, out);
    Some(edition)
}

fn stream(bytes: &[u8], chunked: bool, out: &mut Out) {
    if chunked { chunked::put(bytes, out.bytes()) } else { out.bytes().extend_from_slice(bytes) }
}

impl Service for Pages {
    type State = Bulletin;
    type Session = Session;
    type Job = Infallible;
    type Outcome = Infallible;

    fn limits(&self) -> Limits {
        self.limits
    }

    fn patience(&self) -> Option<Duration> {
        Some(PATIENCE)
    }

    fn open(&self, cx: &Cx<'_, Bulletin>, _peer: Peer, _out: &mut Out) -> Session {
        asking(cx.now)
    }

    fn step(
        &self,
        cx: &Cx<'_, Bulletin>,
        session: &mut Session,
        event: Event<'_, Infallible>,
        out: &mut Out,
    ) -> Step<Infallible> {
        match (event, *session) {
            (Event::Outcome(never), _) => match never {},
            (Event::Bytes(input), Session::Asking { .. }) => self.serve(cx, session, input, out),
            (Event::Bytes(input), Session::Listening { .. }) => {
                Step { used: input.len(), ..self.tell(cx, session, out) }
            }
            (Event::Room | Event::Deadline, Session::Listening { .. }) => {
                self.tell(cx, session, out)
            }
            (Event::Room, Session::Asking { until, .. }) => Step::read(0).wake_at(until),
            (Event::Deadline, Session::Asking { until, begun }) => {
                if cx.now < until {
                    return Step::read(0).wake_at(until);
                }
                if begun {
                    refuse(
                        Status::TIMEOUT,
                        (Version::Http11, false),
                        "expected the rest in time",
                        out,
                    );
                }
                Step::close(0)
            }
            (Event::Drain, Session::Listening { chunked, .. }) => {
                // The last edition tells the outcome; then the stream ends as its framing requires.
                self.tell(cx, session, out);
                if chunked {
                    chunked::end(out.bytes());
                }
                Step::close(0)
            }
            (Event::Eof | Event::Drain, _) => Step::close(0),
        }
    }

    fn work(&self, _bulletin: &Bulletin, job: Infallible) -> Infallible {
        match job {}
    }
}
