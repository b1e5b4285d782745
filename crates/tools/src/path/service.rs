//! The editor's web service: the page, and searches on the grids that it sends.
//!
//! ```text
//!   GET  /         the page
//!   POST /search   a grid and a question in JSON -> answers with all steps of the searches
//! ```
//!
//! Helper threads search (`Then::Offload`), so a long search delays no other connection. A request
//! whose body is longer than that of the largest grid is refused before it is read.

use std::sync::Arc;
use std::time::Duration;

use seam::{Cx, Event, Instant, Limits, Out, Peer, Service, Step};
use wire::http::reply::{CONTINUE, Framing};
use wire::http::{Body, Head, Reply, Status, Version, head, host};

use super::page::{self, Query};

/// The media type of answers and questions.
const JSON: &str = "application/json";
/// How long a client may take to send a request, or be idle between two requests.
const PATIENCE: Duration = Duration::from_secs(15);
/// The largest grid, as rows of characters, and the JSON around it.
const BODY_MAX: usize = page::SIDE_MAX * (page::SIDE_MAX + 4) + 4096;

/// The service; it has no state but its page.
pub struct Editor {
    page: Arc<[u8]>,
    heads: head::Limits,
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    until: Instant,
    /// Part of a request has arrived.
    begun: bool,
    /// The client was sent `100 Continue`.
    is_invited: bool,
    /// Version and keep-alive of the request whose search is running.
    pending: (Version, bool),
}

/// The body of a question.
#[derive(Debug)]
pub struct Job(Vec<u8>);

/// The status and body of its answer.
#[derive(Debug)]
pub struct Answer(Status, Vec<u8>);

/// The result of parsing the input.
enum Next {
    /// The head or the body is not complete.
    Wait,
    /// A request of this many bytes was answered; the flag says whether the connection is kept.
    Done(usize, bool),
    /// A request of this many bytes asks for a search.
    Search(usize, Vec<u8>, (Version, bool)),
    /// The request was refused, and nothing after it can be read.
    Refused,
}

impl Editor {
    /// A service with this page.
    pub fn new(page: Vec<u8>) -> Editor {
        Editor { page: page.into(), heads: head::Limits::default() }
    }

    fn serve(&self, now: Instant, session: &mut Session, input: &[u8], out: &mut Out) -> Step<Job> {
        let mut used = 0;
        while used < input.len() && !out.is_full() {
            match self.next(session, &input[used..], out) {
                Next::Wait => break,
                Next::Done(len, true) => used += len,
                Next::Done(..) | Next::Refused => return Step::close(input.len()),
                Next::Search(len, body, asked) => {
                    (session.pending, session.begun) = (asked, false);
                    return Step::offload(used + len, Job(body));
                }
            }
            (session.until, session.is_invited) = (now + PATIENCE, false);
        }
        session.begun = used < input.len();
        Step::read(used).wake_at(session.until)
    }

    fn next(&self, session: &mut Session, input: &[u8], out: &mut Out) -> Next {
        let head = match head::next(input, &self.heads) {
            Ok(Some(head)) => head,
            Ok(None) => return Next::Wait,
            Err(bad) => {
                text(bad.status(), (Version::Http11, false), &bad.to_string(), out);
                return Next::Refused;
            }
        };
        let asked = (head.version, head.keep_alive);
        if head.field("Host").is_some_and(|host| host::address(host).is_none()) {
            let words = "expected an address or localhost as Host";
            text(Status::FORBIDDEN, (head.version, false), words, out);
            return Next::Refused;
        }
        let length = match head.body {
            Body::Length(length) if length <= BODY_MAX as u64 => length as usize,
            _ => {
                let words = format!("expected Content-Length of at most {BODY_MAX} bytes");
                text(Status::CONTENT_TOO_LONG, (head.version, false), &words, out);
                return Next::Refused;
            }
        };
        let whole = head.len + length;
        let Some(body) = input.get(head.len..whole) else {
            if head.expects && !session.is_invited {
                out.bytes().extend_from_slice(CONTINUE);
                session.is_invited = true;
            }
            return Next::Wait;
        };
        if (head.method, head.target) == ("POST", "/search") {
            return Next::Search(whole, body.to_vec(), asked);
        }
        self.answer(&head, out);
        Next::Done(whole, head.keep_alive)
    }

    fn answer(&self, head: &Head<'_>, out: &mut Out) {
        let asked = (head.version, head.keep_alive);
        match (head.method, head.target.split('?').next().unwrap_or_default()) {
            (method @ ("GET" | "HEAD"), "/") => {
                let fields = &[
                    ("Content-Type", "text/html; charset=utf-8"),
                    ("Content-Security-Policy", page::POLICY),
                    ("Referrer-Policy", "no-referrer"),
                ];
                put(Status::OK, asked, fields, self.page.len(), out);
                if method == "GET" {
                    out.shared(Arc::clone(&self.page), 0..self.page.len());
                }
            }
            ("HEAD", "/search") => put(Status::METHOD, asked, &[], 0, out),
            ("HEAD", _) => put(Status::NOT_FOUND, asked, &[], 0, out),
            (_, "/" | "/search") => {
                text(Status::METHOD, asked, "expected GET / or POST /search", out);
            }
            _ => text(Status::NOT_FOUND, asked, "expected GET / or POST /search", out),
        }
    }
}

/// A reply's head; a body of `len` bytes follows.
fn put(
    status: Status,
    (version, keep_alive): (Version, bool),
    fields: &[(&str, &str)],
    len: usize,
    out: &mut Out,
) {
    let mut all = vec![("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")];
    if status == Status::METHOD {
        all.push(("Allow", "GET, HEAD, POST"));
    }
    all.extend_from_slice(fields);
    let framing = Framing::Length(len as u64);
    Reply { status, fields: &all, framing, keep_alive }.put(version, out.bytes());
}

fn text(status: Status, asked: (Version, bool), words: &str, out: &mut Out) {
    let words = format!("{words}\n");
    put(status, asked, &[("Content-Type", "text/plain; charset=utf-8")], words.len(), out);
    out.bytes().extend_from_slice(words.as_bytes());
}

impl Service for Editor {
    type State = ();
    type Session = Session;
    type Job = Job;
    type Outcome = Answer;

    fn limits(&self) -> Limits {
        Limits {
            input_max: self.heads.head_max + BODY_MAX,
            output_high: 256 * 1024,
            output_low: 64 * 1024,
            // A silent connection holds nothing but its place.
            sessions_max: 1024,
        }
    }

    fn patience(&self) -> Option<Duration> {
        Some(PATIENCE)
    }

    fn open(&self, cx: &Cx<'_, ()>, _peer: Peer, _out: &mut Out) -> Session {
        let pending = (Version::Http11, false);
        Session { until: cx.now + PATIENCE, begun: false, is_invited: false, pending }
    }

    fn step(
        &self,
        cx: &Cx<'_, ()>,
        session: &mut Session,
        event: Event<'_, Answer>,
        out: &mut Out,
    ) -> Step<Job> {
        match event {
            Event::Bytes(input) => self.serve(cx.now, session, input, out),
            Event::Outcome(Answer(status, body)) => {
                put(status, session.pending, &[("Content-Type", JSON)], body.len(), out);
                out.bytes().extend_from_slice(&body);
                session.until = cx.now + PATIENCE;
                let goes_on = session.pending.1;
                if goes_on { Step::read(0).wake_at(session.until) } else { Step::close(0) }
            }
            Event::Deadline if cx.now >= session.until => {
                if session.begun {
                    let asked = (Version::Http11, false);
                    text(Status::TIMEOUT, asked, "expected the rest in time", out);
                }
                Step::close(0)
            }
            Event::Room | Event::Deadline => Step::read(0).wake_at(session.until),
            Event::Eof | Event::Drain => Step::close(0),
        }
    }

    fn work(&self, _state: &(), job: Job) -> Answer {
        let answer = Query::read(&job.0).and_then(|query| query.answer());
        match answer {
            Ok(answer) => Answer(Status::OK, answer.to_string().into_bytes()),
            Err(error) => {
                let reason = serde_json::json!({ "error": format!("{error:#}") });
                Answer(Status::BAD_REQUEST, reason.to_string().into_bytes())
            }
        }
    }
}
