//! A service of HTTP/1.1 from a plain function: one call a request.
//!
//! Heads, chunks and their limits are read by `wire`, which refuses every request whose end is
//! ambiguous (RFC 9112). This file keeps connections alive, answers HEAD without a body, invites
//! held-back bodies (`Expect: 100-continue`), decodes chunks, and answers what is refused.

use core::time::Duration;
use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use seam::{Cx, Event, Instant, Limits, Out, Peer, Service, Share, Step};
use wire::http::date;
use wire::http::reply::CONTINUE;
use wire::http::{Bad, Body, Chunked, Head, Reply, Status, Target, Version, head};

use crate::messages::ReplyBuffer;

/// A service that answers each request by `answer`, which shares nothing.
///
/// ```
/// use roundhouse::prelude::*;
///
/// let mut service = http(|request, response| match (request.method, request.path) {
///     ("GET", "/") => response.text("hello\n"),
///     ("GET", _) => response.status(404).text("expected /\n"),
///     _ => response.status(405).field("Allow", "GET, HEAD").text("expected GET\n"),
/// });
/// let script = r"
/// >| HEAD /other HTTP/1.1\r\nHost: a\r\n\r\n
/// <| HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n
/// <| Content-Length: 11\r\n\r\n
/// = end
/// ";
/// service.dated = false; // A test that compares bytes wants none that differ.
/// roundhouse::sim::check(&service, script, 20);
/// ```
pub fn http(
    answer: impl Fn(HttpRequest<'_>, &mut HttpResponse) + Send + Sync + 'static,
) -> Http<()> {
    Http::new(Answer::Now(Box::new(move |_, request, response| answer(request, response))))
}

/// [`http`], for a function that also gets the context of the call: the time, the worker, and the
/// state that all workers share.
pub fn http_with<T: Share>(
    answer: impl Fn(&Cx<'_, T>, HttpRequest<'_>, &mut HttpResponse) + Send + Sync + 'static,
) -> Http<T> {
    Http::new(Answer::Now(Box::new(answer)))
}

/// [`http`], for a function that may block: it runs on a helper thread of the engine, and the
/// connection's later requests wait for it. Other connections do not.
pub fn http_offload<T: Share>(
    answer: impl Fn(&T, HttpRequest<'_>, &mut HttpResponse) + Send + Sync + 'static,
) -> Http<T> {
    Http::new(Answer::Slow(Box::new(answer)))
}

type Now<T> = Box<dyn Fn(&Cx<'_, T>, HttpRequest<'_>, &mut HttpResponse) + Send + Sync>;
type Slow<T> = Box<dyn Fn(&T, HttpRequest<'_>, &mut HttpResponse) + Send + Sync>;

enum Answer<T> {
    Now(Now<T>),
    Slow(Slow<T>),
}

/// A service of HTTP/1.1, made by [`http`].
pub struct Http<T> {
    answer: Answer<T>,
    /// The time from 1970 to the start of the engine's clock, in nanoseconds.
    boot_ns: u64,
    /// The longest body of a request, in bytes; a longer one gets 413.
    pub body_max: usize,
    /// The time for a whole request, and for the pause before it. A request that takes longer gets
    /// 408.
    pub patience: Duration,
    /// Whether answers have the field `Date`.
    pub dated: bool,
}

/// A request with its whole body.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    /// The method, such as `GET`. HEAD comes as GET: the server leaves the body of its answer out.
    pub method: &'a str,
    /// The path of the target: decoded, without `.` and `..`, starting with `/`; or `*`.
    pub path: &'a str,
    /// The text after the first `?` of the target, as it was sent.
    pub query: &'a str,
    /// The body, without chunks; empty without one.
    pub body: &'a [u8],
    head: &'a Head<'a>,
}

impl<'a> HttpRequest<'a> {
    /// The value of a header field, whatever the case of its name.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.head.field(name)
    }
}

/// The answer to a request: 200 with an empty body until something else is said.
#[derive(Debug)]
pub struct HttpResponse {
    status: Status,
    /// The lines of the fields.
    fields: Vec<u8>,
    /// The media type; empty without one.
    kind: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    fn of(status: Status) -> HttpResponse {
        // A small body does not grow.
        HttpResponse { status, fields: Vec::new(), kind: "", body: Vec::with_capacity(128) }
    }

    /// Sets the status; one that is not from 200 to 599 becomes 500.
    pub fn status(&mut self, code: u16) -> &mut Self {
        let code = if (200..600).contains(&code) { code } else { 500 };
        let mut known = REASONS.split('|').filter_map(|known| known.split_once(' '));
        let reason = known.find(|(known, _)| known.parse() == Ok(code));
        self.status = Status(code, reason.map_or("", |(_, words)| words));
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

/// The words for the statuses that services use (RFC 9110 section 15); no others are needed.
const REASONS: &str = "200 OK|201 Created|202 Accepted|204 No Content|301 Moved Permanently|\
    302 Found|303 See Other|304 Not Modified|307 Temporary Redirect|308 Permanent Redirect|\
    400 Bad Request|401 Unauthorized|403 Forbidden|404 Not Found|405 Method Not Allowed|\
    409 Conflict|410 Gone|415 Unsupported Media Type|422 Unprocessable Content|\
    429 Too Many Requests|500 Internal Server Error|501 Not Implemented|503 Service Unavailable";

/// One connection of [`Http`].
#[derive(Debug)]
pub struct HttpSession {
    /// When the request, or the pause before it, has taken too long.
    until: Instant,
    /// Part of a request has arrived.
    has_begun: bool,
    /// The request is for a head, so its answer has no body.
    is_head: bool,
    /// The server stops: the next answer is the last.
    is_last: bool,
    /// How the answer of a slow request ends.
    mode: (Version, bool),
    /// A request whose body is not complete.
    pending: Option<Box<Pending>>,
    /// The second that the last answer was dated with, and its field.
    date: (u64, [u8; DATE_FIELD]),
}

/// The length of the field `Date`.
const DATE_FIELD: usize = "Date: ".len() + date::DATE_LEN + "\r\n".len();

#[derive(Debug)]
struct Pending {
    head: Vec<u8>,
    body: Vec<u8>,
    rest: Rest,
}

/// The part of a body that has not come.
#[derive(Debug)]
enum Rest {
    Bytes(usize),
    Chunks(Chunked),
}

/// The reason why a connection ends with a refusal; rare, so it stands apart.
type Refusal = Box<(Status, Cow<'static, str>)>;

#[cold]
fn too_long() -> Refusal {
    Box::new((Status::CONTENT_TOO_LONG, "expected a shorter body".into()))
}

#[cold]
fn refusal(bad: Bad) -> Refusal {
    Box::new((bad.status(), bad.why().into()))
}

/// A request for a helper thread: its head and its body.
#[derive(Debug)]
pub struct SlowRequest(Vec<u8>, Vec<u8>);

/// The action after a part of the input, and the bytes of it that were used.
enum Next {
    Go(usize),
    Wait(usize),
    Work(usize, Box<SlowRequest>),
    Close,
}

/// Facts that the requests of one step share. Clients that send several at once mostly repeat
/// themselves.
struct Batch<'a> {
    /// Room for an answer.
    response: HttpResponse,
    /// The last head, if its body came with it: one of the same bytes has the same meaning.
    head: Option<(Head<'a>, &'a [u8])>,
}

impl<T: Share> Http<T> {
    fn new(answer: Answer<T>) -> Http<T> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let boot_ns = (wall.as_nanos() as u64).saturating_sub(sys::clock::now_ns());
        Http {
            answer,
            boot_ns,
            body_max: 64 * 1024,
            patience: Duration::from_secs(30),
            dated: true,
        }
    }

    /// One request, or a part of it.
    #[inline]
    fn next<'a>(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession,
        input: &'a [u8],
        (batch, out): (&mut Batch<'a>, &mut Out),
    ) -> Result<Next, Refusal> {
        if let Some(mut pending) = session.pending.take() {
            let (used, is_whole) = pending.take(input, self.body_max)?;
            if is_whole {
                out.note_kept(0);
                let head = head::next(&pending.head, &head::Limits::default()).map_err(refusal)?;
                let head = head.expect("a head that was whole before its body came");
                let request = (&head, &*pending.head, &*pending.body);
                return self.call(cx, session, request, used, (batch, out));
            }
            out.note_kept(pending.head.len() + pending.body.len());
            session.pending = Some(pending);
            return Ok(Next::Wait(used));
        }
        // Old clients leave a CR LF after a body; it begins no request.
        if !session.has_begun && !b"\r\n".starts_with(input) {
            (session.has_begun, session.until) = (true, cx.now + self.patience);
        }
        session.is_head = input.strip_prefix(b"\r\n").unwrap_or(input).starts_with(b"HEAD ");
        let known = batch.head.filter(|(_, bytes)| input.starts_with(bytes));
        let head = match known {
            Some((head, _)) => head,
            None => match head::next(input, &head::Limits::default()).map_err(refusal)? {
                Some(head) => head,
                None => return Ok(Next::Wait(0)),
            },
        };
        let rest = match head.body {
            Body::Length(len) if len > self.body_max as u64 => return Err(too_long()),
            Body::Length(len) => Rest::Bytes(len as usize),
            Body::Chunked => Rest::Chunks(Chunked::new()),
        };
        if let Rest::Bytes(len) = rest
            && let Some(body) = input.get(head.len..head.len + len)
        {
            let request = (&head, &input[..head.len], body);
            batch.head = Some((head, request.1));
            return self.call(cx, session, request, head.len + len, (batch, out));
        }
        if head.expects {
            out.bytes().extend_from_slice(CONTINUE);
        }
        let pending = Pending { head: input[..head.len].to_vec(), body: Vec::new(), rest };
        session.pending = Some(Box::new(pending));
        Ok(Next::Go(head.len))
    }

    /// Answers a whole request, or gives it to a helper.
    #[inline]
    fn call(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession,
        (head, bytes, body): (&Head<'_>, &[u8], &[u8]),
        used: usize,
        (batch, out): (&mut Batch<'_>, &mut Out),
    ) -> Result<Next, Refusal> {
        let response = &mut batch.response;
        let mode = (head.version, head.keep_alive && !session.is_last);
        response.status = Status::OK;
        response.fields.clear();
        response.kind = "";
        response.body.clear();
        match &self.answer {
            _ if !cx.admit() => {
                let words =
                    "expected less load, found more requests than can be answered in time\n";
                response.status(503).field("Retry-After", "1").text(words);
            }
            Answer::Now(answer) => {
                with_request(head, body, |request| answer(cx, request, response))?;
            }
            Answer::Slow(_) => {
                session.mode = mode;
                let request = SlowRequest(bytes.to_vec(), body.to_vec());
                return Ok(Next::Work(used, Box::new(request)));
            }
        }
        cx.note(|note| *note = format!("{} {} {}", head.method, head.target, response.status.0));
        self.put(cx, session, response, mode, out);
        Ok(if mode.1 { Next::Go(used) } else { Next::Close })
    }

    #[inline]
    fn put(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession,
        response: &HttpResponse,
        (version, keep_alive): (Version, bool),
        out: &mut Out,
    ) {
        let (status, len) = (response.status, response.body.len() as u64);
        let bytes = out.bytes();
        status.put(bytes);
        if self.dated {
            let second = (self.boot_ns + cx.now.ns()) / 1_000_000_000;
            if session.date.0 != second {
                session.date.0 = second;
                session.date.1[6..6 + date::DATE_LEN].copy_from_slice(&date::format(second));
            }
            bytes.extend_from_slice(&session.date.1);
        }
        if !response.fields.is_empty() {
            bytes.extend_from_slice(&response.fields);
        }
        if !response.kind.is_empty() {
            bytes.extend_from_slice(b"Content-Type: ");
            bytes.extend_from_slice(response.kind.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        Reply { status, fields: &[], len, keep_alive }.end(version, bytes);
        if !session.is_head && !status.is_bodiless() {
            bytes.extend_from_slice(&response.body);
        }
        cx.answered(1);
        (session.has_begun, session.until) = (false, cx.now + self.patience);
    }

    /// Says why a request is refused, and closes.
    #[cold]
    fn refuse(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession,
        refusal: (Status, Cow<'static, str>),
        out: &mut Out,
    ) {
        let (status, why) = refusal;
        let mut response = HttpResponse::of(status);
        response.text(format!("{why}\n"));
        self.put(cx, session, &response, (Version::Http11, false), out);
    }
}

impl Pending {
    /// Takes bytes of the body; returns how many, and whether it is whole.
    fn take(&mut self, input: &[u8], body_max: usize) -> Result<(usize, bool), Refusal> {
        let chunks = match &mut self.rest {
            Rest::Bytes(left) => {
                let len = input.len().min(*left);
                self.body.extend_from_slice(&input[..len]);
                *left -= len;
                return Ok((len, *left == 0));
            }
            Rest::Chunks(chunks) => chunks,
        };
        let mut used = 0;
        loop {
            let piece = chunks.next(&input[used..]).map_err(refusal)?;
            used += piece.used;
            self.body.extend_from_slice(piece.data);
            if self.body.len() > body_max {
                return Err(too_long());
            }
            if piece.end || piece.used == 0 {
                return Ok((used, piece.end));
            }
        }
    }
}

impl<T: Share> Service for Http<T> {
    type State = T;
    type Session = HttpSession;
    type Job = SlowRequest;
    type Outcome = HttpResponse;

    fn limits(&self) -> Limits {
        // A head and what comes with it in one receive; bodies are taken as they come.
        Limits { input_max: 2 * head::Limits::default().head_max, ..Limits::default() }
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.patience)
    }

    fn open(&self, cx: &Cx<'_, T>, _peer: Peer, _out: &mut Out) -> HttpSession {
        HttpSession {
            until: cx.now + self.patience,
            has_begun: false,
            is_head: false,
            is_last: false,
            mode: (Version::Http11, false),
            pending: None,
            date: (0, *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
        }
    }

    fn step(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession,
        event: Event<'_, HttpResponse>,
        out: &mut Out,
    ) -> Step<SlowRequest> {
        let mut used = 0;
        match event {
            Event::Bytes(input) => {
                let response = HttpResponse::of(Status::OK);
                let mut batch = Batch { response, head: None };
                while used < input.len() && !out.is_full() {
                    match self.next(cx, session, &input[used..], (&mut batch, out)) {
                        Ok(Next::Go(len)) => used += len,
                        Ok(Next::Wait(len)) => {
                            used += len;
                            break;
                        }
                        Ok(Next::Work(len, job)) => return Step::offload(used + len, *job),
                        Ok(Next::Close) => return Step::close(input.len()),
                        Err(refusal) => {
                            self.refuse(cx, session, *refusal, out);
                            return Step::close(input.len());
                        }
                    }
                }
            }
            // The client has not taken its answer; the engine bounds how slowly it may do so.
            Event::Deadline if !session.has_begun && !out.is_empty() => {
                session.until = cx.now + self.patience;
            }
            Event::Deadline if session.until <= cx.now => {
                if session.has_begun {
                    let why = "expected a whole request in less time";
                    self.refuse(cx, session, (Status::TIMEOUT, why.into()), out);
                }
                return Step::close(0);
            }
            // A body that has begun may end.
            Event::Drain if session.pending.is_some() => session.is_last = true,
            Event::Drain | Event::Eof => return Step::close(0),
            Event::Room | Event::Deadline => {}
            Event::Outcome(response) => {
                self.put(cx, session, &response, session.mode, out);
                if !session.mode.1 {
                    return Step::close(0);
                }
            }
        }
        Step::read(used).wake_at(session.until)
    }

    fn refuses(&self) -> bool {
        true
    }

    fn work(&self, state: &T, SlowRequest(head, body): SlowRequest) -> HttpResponse {
        let mut response = HttpResponse::of(Status::OK);
        if let Answer::Slow(answer) = &self.answer
            && let Ok(Some(head)) = head::next(&head, &head::Limits::default())
            && let Err(refusal) =
                with_request(&head, &body, |request| answer(state, request, &mut response))
        {
            let (status, why) = *refusal;
            response = HttpResponse::of(status);
            response.text(format!("{why}\n"));
        }
        response
    }
}

/// Lends a whole request to `answer`.
fn with_request(
    head: &Head<'_>,
    body: &[u8],
    answer: impl FnOnce(HttpRequest<'_>),
) -> Result<(), Refusal> {
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
    answer(HttpRequest { method, path, query: target.query, body, head });
    Ok(())
}
