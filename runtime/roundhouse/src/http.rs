//! A service of HTTP/1.1 from a plain function: one call a request.
//!
//! Heads, chunks and their limits are read by `wire`, which refuses every request whose end is
//! ambiguous (RFC 9112). This file keeps connections alive, answers HEAD without a body, invites
//! held-back bodies (`Expect: 100-continue`), decodes chunks, and answers what is refused.

mod body;
mod message;

use core::time::Duration;
use std::borrow::Cow;

use seam::{
    Closed, Cx, Event, Instant, Limits, Out, Peer, PushRefused, Service, Share, Step, WallClock,
};
use wire::http::date;
use wire::http::reply::CONTINUE;
use wire::http::{Bad, Body, Head, Reply, Status, Version, head};
use wire::websocket::{HEAD_MAX, MessageKind, put_message};

pub use message::{HttpRequest, HttpResponse};

use crate::routes::{Routed, Routes, Source};
use crate::socket::Talk;
use crate::stream::Stream;
use crate::upload::{Arriving, Rest};
use body::Pending;
use message::with_request;

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
    let keeps_state = size_of_val(&answer) > 0;
    let now: Now<()> = Box::new(move |_, request, response| answer(request, response));
    Http::new(Answer::Now(now), keeps_state)
}

/// [`http`], for a function that also gets the context of the call: the time, the worker, and the
/// state that all workers share.
pub fn http_with<T: Share>(
    answer: impl Fn(&Cx<'_, T>, HttpRequest<'_>, &mut HttpResponse) + Send + Sync + 'static,
) -> Http<T> {
    let keeps_state = size_of_val(&answer) > 0;
    Http::new(Answer::Now(Box::new(answer)), keeps_state)
}

/// [`http`], for a function that may block: it runs on a helper thread of the engine, and the
/// connection's later requests wait for it. Other connections do not.
pub fn http_offload<T: Share>(
    answer: impl Fn(&T, HttpRequest<'_>, &mut HttpResponse) + Send + Sync + 'static,
) -> Http<T> {
    let keeps_state = size_of_val(&answer) > 0;
    Http::new(Answer::Slow(Box::new(answer)), keeps_state)
}

type Now<T> = Box<dyn Fn(&Cx<'_, T>, HttpRequest<'_>, &mut HttpResponse) + Send + Sync>;
type Slow<T> = Box<dyn Fn(&T, HttpRequest<'_>, &mut HttpResponse) + Send + Sync>;

pub(crate) enum Answer<T> {
    Now(Now<T>),
    Slow(Slow<T>),
    Routes(Box<Routes<T>>),
}

/// A service of HTTP/1.1, made by [`http`].
pub struct Http<T> {
    answer: Answer<T>,
    keeps_state: bool,
    /// The longest body of a request, in bytes; a longer one gets 413.
    pub body_max: usize,
    /// The time for a whole request, and for the pause before it. A request that takes longer gets
    /// 408.
    pub patience: Duration,
    /// Whether answers have the field `Date`.
    pub dated: bool,
}

/// One connection of [`Http`].
pub struct HttpSession<T> {
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
    /// The body that is being sent piece by piece.
    stream: Option<Box<Stream<T>>>,
    /// The body that is being taken piece by piece.
    upload: Option<Box<Arriving<T>>>,
    /// The connection has become a WebSocket.
    socket: Option<Box<Talk<T>>>,
    /// The second that the last answer was dated with, and its field.
    date: (u64, [u8; DATE_FIELD]),
}

/// The clock of the field `Date`.
const WALL_CLOCK: WallClock = WallClock::Asked(|at| sys::clock::wall_ns(at.ns()));
/// The length of the field `Date`.
const DATE_FIELD: usize = "Date: ".len() + date::DATE_LEN + "\r\n".len();

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
    /// A streamed body has begun.
    Stream(usize),
    /// The connection has become a WebSocket.
    Socket(usize),
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

/// One step of a connection.
struct Turn<'p, 'c, T> {
    http: &'p Http<T>,
    cx: &'p Cx<'c, T>,
    session: &'p mut HttpSession<T>,
    out: &'p mut Out,
}

impl<T: Share> Http<T> {
    pub(crate) fn new(answer: Answer<T>, keeps_state: bool) -> Http<T> {
        Http {
            answer,
            keeps_state,
            body_max: 64 * 1024,
            patience: Duration::from_secs(30),
            dated: true,
        }
    }

    /// The values that the service's closures have captured never change, so that each worker
    /// process may have a copy of them. Without this word such a service is refused by engines with
    /// worker processes ([`Service::keeps_state`]).
    #[must_use]
    pub fn constant(self) -> Http<T> {
        Http { keeps_state: false, ..self }
    }
}

impl<T: Share> Turn<'_, '_, T> {
    /// Answers the requests of `input`; returns how many bytes it used, or the step that ends them.
    #[inline]
    fn take(&mut self, input: &[u8]) -> Result<usize, Step<SlowRequest>> {
        let response = HttpResponse::of(Status::OK);
        let (mut used, mut batch) = (0, Batch { response, head: None });
        while used < input.len() && !self.out.is_full() {
            match self.next(&input[used..], &mut batch) {
                Ok(Next::Go(len)) => used += len,
                Ok(Next::Wait(len)) => return Ok(used + len),
                Ok(Next::Work(len, job)) => return Err(Step::offload(used + len, *job)),
                Ok(Next::Stream(len)) => return Err(self.go_on(used + len)),
                Ok(Next::Socket(len)) => return Err(self.go_on_talking(input, used + len)),
                Ok(Next::Close) => return Err(Step::close(input.len())),
                Err(refusal) => {
                    self.refuse(*refusal);
                    return Err(Step::close(input.len()));
                }
            }
        }
        Ok(used)
    }

    /// One request, or a part of it.
    #[inline]
    fn next<'a>(&mut self, input: &'a [u8], batch: &mut Batch<'a>) -> Result<Next, Refusal> {
        if self.session.upload.is_some() {
            return self.go_on_upload(input, &mut batch.response);
        }
        if let Some(mut pending) = self.session.pending.take() {
            let (used, is_whole) = pending.take(input, self.http.body_max)?;
            if is_whole {
                self.out.note_kept(0);
                let head = head::next(&pending.head, &head::Limits::default()).map_err(refusal)?;
                let head = head.expect("a head that was whole before its body came");
                let request = (&head, &*pending.head, Some(&*pending.body));
                return self.call(request, used, batch);
            }
            self.out.note_kept(pending.head.len() + pending.body.len());
            self.session.pending = Some(pending);
            return Ok(Next::Wait(used));
        }
        // Old clients leave a CR LF after a body; it begins no request.
        if !self.session.has_begun && !b"\r\n".starts_with(input) {
            self.session.has_begun = true;
            self.session.until = self.cx.now + self.http.patience;
        }
        self.session.is_head = input.strip_prefix(b"\r\n").unwrap_or(input).starts_with(b"HEAD ");
        let known = batch.head.filter(|(_, bytes)| input.starts_with(bytes));
        let head = match known {
            Some((head, _)) => head,
            None => match head::next(input, &head::Limits::default()).map_err(refusal)? {
                Some(head) => head,
                None => return Ok(Next::Wait(0)),
            },
        };
        let room = self.http.upload_room(&head);
        let body_max = room.unwrap_or(self.http.body_max as u64);
        if matches!(head.body, Body::Length(len) if len > body_max) {
            return Err(too_long());
        }
        if room.is_some() {
            let request = (&head, &input[..head.len], None);
            return self.call(request, head.len, batch);
        }
        let rest = Rest::of(head.body);
        if let Rest::Bytes(len) = rest
            && let Some(body) = input.get(head.len..head.len + len as usize)
        {
            let request = (&head, &input[..head.len], Some(body));
            batch.head = Some((head, request.1));
            return self.call(request, head.len + body.len(), batch);
        }
        if head.expects {
            self.out.bytes().extend_from_slice(CONTINUE);
        }
        let pending = Pending { head: input[..head.len].to_vec(), body: Vec::new(), rest };
        self.session.pending = Some(Box::new(pending));
        Ok(Next::Go(head.len))
    }

    /// Answers a request, or gives it to a helper; without a body if that has not come.
    #[inline]
    fn call(
        &mut self,
        (head, bytes, body): (&Head<'_>, &[u8], Option<&[u8]>),
        used: usize,
        batch: &mut Batch<'_>,
    ) -> Result<Next, Refusal> {
        let cx = self.cx;
        let response = &mut batch.response;
        let mut source_of_body: Option<Source<T>> = None;
        let is_unread = body.is_none() && head.body != Body::Length(0);
        let body = body.unwrap_or_default();
        let mode = (head.version, head.keep_alive && !self.session.is_last && !is_unread);
        response.clear();
        match &self.http.answer {
            _ if !cx.admit() => {
                let words =
                    "expected less load, found more requests than can be answered in time\n";
                response.status(503).field("Retry-After", "1").text(words);
            }
            Answer::Now(answer) => {
                with_request(head, body, |request| answer(cx, request, response))?;
            }
            Answer::Slow(_) => return Ok(self.offload(mode, (bytes, body), used)),
            Answer::Routes(routes) => {
                match with_request(head, body, |request| routes.answer(cx, request, response))? {
                    Routed::Answered => {}
                    Routed::Slow => return Ok(self.offload(mode, (bytes, body), used)),
                    Routed::Stream(source) => source_of_body = Some(source),
                    Routed::Upload(upload, room) => {
                        return self.begin_upload((head, bytes), (upload, room), response);
                    }
                    Routed::Socket(socket) if response.status == Status::SWITCHING => {
                        self.put_head((response, Some("\r\n")), mode);
                        let talk = Talk::open(socket, self.http.body_max, cx, self.out);
                        self.session.socket = Some(Box::new(talk));
                        return Ok(Next::Socket(used));
                    }
                    // A layer has answered in place of a WebSocket.
                    Routed::Socket(_) => {}
                }
            }
        }
        if let Some(source) = source_of_body {
            let stream = Stream::new(source, mode, cx.now);
            self.put_head((response, stream.framing()), mode);
            note(cx, head, response);
            return Ok(match self.session.is_head {
                true if mode.1 => Next::Go(used),
                true => Next::Close,
                false => {
                    self.session.stream = Some(Box::new(stream));
                    Next::Stream(used)
                }
            });
        }
        Ok(self.reply(head, (response, mode), used))
    }

    #[inline]
    fn reply(
        &mut self,
        head: &Head<'_>,
        (response, mode): (&HttpResponse, (Version, bool)),
        used: usize,
    ) -> Next {
        note(self.cx, head, response);
        self.put(response, mode);
        if mode.1 { Next::Go(used) } else { Next::Close }
    }

    /// Gives a request to a helper thread.
    fn offload(
        &mut self,
        mode: (Version, bool),
        (head, body): (&[u8], &[u8]),
        used: usize,
    ) -> Next {
        self.session.mode = mode;
        Next::Work(used, Box::new(SlowRequest(head.to_vec(), body.to_vec())))
    }

    #[inline]
    fn put(&mut self, response: &HttpResponse, mode: (Version, bool)) {
        let status = response.status;
        self.put_head((response, None), mode);
        if !self.session.is_head && !status.is_bodiless() {
            self.out.bytes().extend_from_slice(&response.body);
        }
    }

    /// Appends a head: with the length of the body, or with the `framing` of a streamed one.
    #[inline]
    fn put_head(
        &mut self,
        (response, framing): (&HttpResponse, Option<&'static str>),
        (version, keep_alive): (Version, bool),
    ) {
        let Turn { http, cx, session, out } = self;
        let (status, len) = (response.status, response.body.len() as u64);
        let bytes = out.bytes();
        status.put(bytes);
        if http.dated {
            let second = WALL_CLOCK.ns_at(cx.now) / 1_000_000_000;
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
        match framing {
            None => Reply { status, fields: &[], len, keep_alive }.end(version, bytes),
            Some(framing) => bytes.extend_from_slice(framing.as_bytes()),
        }
        cx.answered(1);
        (session.has_begun, session.until) = (false, cx.now + http.patience);
    }

    /// Says why a request is refused, and closes.
    #[cold]
    fn refuse(&mut self, (status, why): (Status, Cow<'static, str>)) {
        if status == Status::CONTENT_TOO_LONG {
            let body_max = self.http.body_max;
            self.cx.note(|note| {
                *note = format!("limit: `body_max`, {body_max} bytes, or the route's")
            });
        }
        let mut response = HttpResponse::of(status);
        response.text(format!("{why}\n"));
        self.put(&response, (Version::Http11, false));
    }
}

impl<T: Share> Service for Http<T> {
    type State = T;
    type Session = HttpSession<T>;
    type Job = SlowRequest;
    type Outcome = HttpResponse;

    fn limits(&self) -> Limits {
        // A head and what comes with it in one receive; bodies are taken as they come.
        let input_max = 2 * head::Limits::default().head_max;
        let input_max = match &self.answer {
            Answer::Routes(routes) if routes.has_sockets => input_max.max(self.body_max + HEAD_MAX),
            _ => input_max,
        };
        Limits { input_max, ..Limits::default() }
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.patience)
    }

    fn open(&self, cx: &Cx<'_, T>, _peer: Peer, _out: &mut Out) -> HttpSession<T> {
        HttpSession {
            until: cx.now + self.patience,
            has_begun: false,
            is_head: false,
            is_last: false,
            mode: (Version::Http11, false),
            pending: None,
            stream: None,
            upload: None,
            socket: None,
            date: (0, *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
        }
    }

    fn step(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession<T>,
        event: Event<'_, HttpResponse>,
        out: &mut Out,
    ) -> Step<SlowRequest> {
        let mut used = 0;
        if let Some(socket) = &mut session.socket {
            return socket.step(cx, event, out);
        }
        if let Some(stream) = &mut session.stream {
            match event {
                Event::Bytes(_) => stream.holds_input = true,
                Event::Eof => session.is_last = true,
                Event::Drain => {
                    stream.end(out);
                    return Step::close(0);
                }
                _ => {}
            }
            return Turn { http: self, cx, session, out }.go_on(0);
        }
        let turn = &mut Turn { http: self, cx, session: &mut *session, out: &mut *out };
        match event {
            Event::Bytes(input) => match turn.take(input) {
                Ok(len) => used = len,
                Err(step) => return step,
            },
            // The client has not taken its answer; the engine bounds how slowly it may do so.
            Event::Deadline if !turn.session.has_begun && !turn.out.is_empty() => {
                turn.session.until = cx.now + self.patience;
            }
            Event::Deadline if turn.session.until <= cx.now => {
                let patience = self.patience;
                cx.note(|note| *note = format!("limit: `patience`, {patience:?} for a request"));
                if turn.session.has_begun {
                    let why = "expected a whole request in less time";
                    turn.refuse((Status::TIMEOUT, why.into()));
                }
                return Step::close(0);
            }
            // A body that has begun may end.
            Event::Drain if turn.session.pending.is_some() || turn.session.upload.is_some() => {
                turn.session.is_last = true;
            }
            Event::Drain | Event::Eof => return Step::close(0),
            Event::Room | Event::Deadline => {}
            Event::Outcome(response) => {
                turn.put(&response, turn.session.mode);
                if !turn.session.mode.1 {
                    return Step::close(0);
                }
            }
        }
        match &session.upload {
            Some(upload) if upload.wake > cx.now => Step::pause(used).wake_at(upload.wake),
            _ => Step::read(used).wake_at(session.until),
        }
    }

    fn push(
        &self,
        _cx: &Cx<'_, T>,
        session: &mut HttpSession<T>,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), PushRefused> {
        if session.socket.is_none() {
            return Err(PushRefused);
        }
        put_message(MessageKind::Text, bytes, out.bytes());
        Ok(())
    }

    fn close(&self, cx: &Cx<'_, T>, session: HttpSession<T>, _why: Closed) {
        if let Some(socket) = session.socket {
            socket.close(cx);
        }
    }

    fn refuses(&self) -> bool {
        true
    }

    fn keeps_state(&self) -> bool {
        self.keeps_state
    }

    fn work(&self, state: &T, SlowRequest(head, body): SlowRequest) -> HttpResponse {
        let mut response = HttpResponse::of(Status::OK);
        let answer = |request: HttpRequest<'_>| match &self.answer {
            Answer::Slow(answer) => answer(state, request, &mut response),
            Answer::Routes(routes) => routes.work(state, request, &mut response),
            Answer::Now(_) => {}
        };
        if let Ok(Some(head)) = head::next(&head, &head::Limits::default())
            && let Err(refusal) = with_request(&head, &body, answer)
        {
            let (status, why) = *refusal;
            response = HttpResponse::of(status);
            response.text(format!("{why}\n"));
        }
        response
    }
}

/// A line for `--verbose`.
#[inline]
fn note<T>(cx: &Cx<'_, T>, head: &Head<'_>, response: &HttpResponse) {
    cx.note(|note| *note = format!("{} {} {}", head.method, head.target, response.status.0));
}
