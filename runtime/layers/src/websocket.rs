//! WebSocket around any service (RFC 6455), without a change to the service or to any engine.
//!
//! A session reads a handshake and then holds a [`Conn`] of the inner service, as TLS does. The
//! payload of messages is the inner service's byte stream:
//!
//! - A message is fed whole. A text gets a newline if it does not end with one, so that it is a
//!   line; a binary message is fed as it is.
//! - The output that the inner service makes before it waits for the next event is one message. It
//!   is a text if texts are spoken and each piece of it is UTF-8, else binary. So replies to one
//!   message come in one message, unless they fill the output.
//! - The longest message is the inner service's [`Limits::input_max`].
//!
//! The bytes of a push ([`Cx::push`]) are one message. Files pass as files, because payloads are
//! not masked. Pings are answered in turn, not while the inner service works on a message or
//! pauses. A drain ends with the close code 1001.

use std::time::Duration;

use seam::{
    Buffers, Closed, Conn, Cx, Event, Instant, Limits, Out, Part, Peer, PushRefused, Service, Step,
    Then, Wants,
};
use wire::http;
use wire::websocket::{
    BadHandshake, HEAD_MAX, Incoming, MessageKind, MessageReader, Opcode, WebSocketOptions,
    close_code, put_close, put_frame, put_head, put_message,
};

/// A service over WebSocket.
#[derive(Debug)]
pub struct WebSocket<S> {
    inner: S,
    options: WebSocketOptions,
}

impl<S> WebSocket<S> {
    /// Wraps `inner`.
    pub fn new(inner: S, options: impl Into<WebSocketOptions>) -> WebSocket<S> {
        WebSocket { inner, options: options.into() }
    }
}

/// One connection.
pub enum Session<S: Service> {
    /// It owes its handshake by this time.
    Asking(Peer, Instant),
    /// WebSocket.
    Talking(Box<Talk<S>>),
}

/// A connection of WebSocket.
pub struct Talk<S: Service> {
    conn: Conn<S::Session, S::Job>,
    kind: MessageKind,
    reader: MessageReader,
    /// Bytes of the inner output that are framed, while the outer one is full: the inner service
    /// continues when it has room.
    framed: usize,
    /// The code and the reason of the close frame, if the inner service does not decide them.
    code: Option<(u16, &'static str)>,
    /// The peer has sent a close frame or ended the connection.
    ended: bool,
}

impl<S: Service + 'static> Service for WebSocket<S> {
    inner_service!();

    type Session = Session<S>;

    fn limits(&self) -> Limits {
        let limits = self.inner.limits();
        let head_max = http::Limits::default().head_max;
        Limits { input_max: (limits.input_max + HEAD_MAX).max(head_max), ..limits }
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.options.patience)
    }

    fn open(&self, cx: &Cx<'_, S::State>, peer: Peer, _out: &mut Out) -> Session<S> {
        Session::Asking(peer, cx.now + self.options.patience)
    }

    fn step(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Session<S>,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        let (peer, until) = match session {
            Session::Talking(talk) => return talk.step(&self.inner, cx, event, out),
            Session::Asking(peer, until) => (*peer, *until),
        };
        let input = match event {
            Event::Bytes(input) => input,
            Event::Room => return Step::read(0).wake_at(until),
            Event::Deadline if cx.now < until => return Step::read(0).wake_at(until),
            Event::Deadline | Event::Eof | Event::Drain | Event::Outcome(_) => {
                return Step::close(0);
            }
        };
        let head = match http::next(input, &http::Limits::default()) {
            Ok(None) => return Step::read(0).wake_at(until),
            Ok(Some(head)) => head,
            Err(bad) => {
                let (status, why) = (bad.status(), bad.why());
                BadHandshake { status, why }.put(out.bytes());
                return Step::close(input.len());
            }
        };
        if !self.options.answer(&head, out.bytes()) {
            return Step::close(input.len());
        }
        let mut talk = Talk {
            conn: Conn::open(&self.inner, cx, peer, &mut Buffers::new(0)),
            kind: self.options.messages,
            reader: MessageReader::new(self.options.messages, self.inner.limits().input_max),
            framed: 0,
            code: None,
            ended: false,
        };
        talk.settle(&self.inner, cx, out);
        let step = talk.answer(head.len, out);
        *session = Session::Talking(Box::new(talk));
        step
    }

    fn push(
        &self,
        _cx: &Cx<'_, S::State>,
        session: &mut Session<S>,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), PushRefused> {
        let Session::Talking(talk) = session else { return Err(PushRefused) };
        put_message(talk.kind, bytes, out.bytes());
        Ok(())
    }

    fn close(&self, cx: &Cx<'_, S::State>, session: Session<S>, why: Closed) {
        if let Session::Talking(mut talk) = session {
            talk.conn.out().landed(talk.framed);
            crate::close(talk.conn, &self.inner, cx, why);
        }
    }
}

impl<S: Service> Talk<S> {
    fn step(
        &mut self,
        inner: &S,
        cx: &Cx<'_, S::State>,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        let mut used = 0;
        match event {
            Event::Bytes(input) => used = self.hear(inner, cx, input, out),
            Event::Eof => self.end(inner, cx, close_code::NORMAL),
            Event::Drain => {
                self.code.get_or_insert((close_code::GOING_AWAY, "the server stops"));
                self.conn.drain(inner, cx);
            }
            Event::Deadline => self.conn.deadline(inner, cx),
            Event::Outcome(outcome) => self.conn.outcome(inner, cx, outcome),
            Event::Room => {}
        }
        self.settle(inner, cx, out);
        self.answer(used, out)
    }

    /// Takes whole frames while the inner service takes messages; returns how much it used.
    fn hear(&mut self, inner: &S, cx: &Cx<'_, S::State>, input: &[u8], out: &mut Out) -> usize {
        let mut used = 0;
        while !self.ended && !out.is_full() {
            // The output of a message ends before the next message is fed, however both are cut.
            let Wants { read, job, .. } = self.conn.wants();
            if !read || job {
                return used;
            }
            match self.reader.next(&input[used..]) {
                Ok(None) => return used,
                Ok(Some((incoming, len))) => {
                    used += len;
                    self.take(inner, cx, incoming, out);
                }
                Err(bad) => {
                    self.code = Some((bad.code, bad.why));
                    self.ended = true;
                    self.conn.abort(Closed::Reset);
                }
            }
            self.settle(inner, cx, out);
        }
        // Input after the end is ignored.
        if self.ended { input.len() } else { used }
    }

    fn take(&mut self, inner: &S, cx: &Cx<'_, S::State>, incoming: Incoming, out: &mut Out) {
        match incoming {
            Incoming::Message(mut message) => {
                if self.kind == MessageKind::Text && !message.ends_with(b"\n") {
                    message.push(b'\n');
                }
                self.conn.lend_spare();
                self.conn.feed(inner, cx, &message);
            }
            Incoming::Ping(payload) => put_frame(Opcode::Pong, &payload, out.bytes()),
            Incoming::Close(code) => self.end(inner, cx, code),
            Incoming::Nothing => {}
        }
    }

    /// The peer sends no more; its code is echoed.
    fn end(&mut self, inner: &S, cx: &Cx<'_, S::State>, code: u16) {
        self.ended = true;
        self.code.get_or_insert((code, ""));
        self.conn.eof(inner, cx);
    }

    /// Moves output as messages until there is no more or the outer output is full.
    fn settle(&mut self, inner: &S, cx: &Cx<'_, S::State>, out: &mut Out) {
        loop {
            self.framed += frame(self.kind, self.conn.out(), out);
            if self.framed == 0 || out.is_full() {
                return;
            }
            self.conn.landed(inner, cx, std::mem::take(&mut self.framed));
        }
    }

    /// The next step, and its deadline.
    fn answer(&mut self, used: usize, out: &mut Out) -> Step<S::Job> {
        out.note_kept(self.conn.held() + self.reader.held());
        let Wants { read, job, wake, close, .. } = self.conn.wants();
        if let Some(job) = job.then(|| self.conn.take_job()).flatten() {
            return Step::offload(used, job);
        }
        if close {
            let (code, why) = self.code.unwrap_or(match self.conn.why() {
                Closed::Service => (close_code::NORMAL, ""),
                Closed::Overlong => (close_code::TOO_BIG, "expected a shorter request"),
                _ => (close_code::POLICY, "expected the rest of the request sooner"),
            });
            put_close(code, why, out.bytes());
            return Step::close(used);
        }
        self.conn.reclaim_spare();
        let then = if read { Then::Read } else { Then::Pause };
        Step { used, then, wake }
    }
}

/// Moves all of `from` to `out` as one message; returns its length.
fn frame(kind: MessageKind, from: &mut Out, out: &mut Out) -> usize {
    let len = from.waiting();
    if len == 0 {
        return 0;
    }
    let parts: Vec<Part> = std::iter::from_fn(|| from.take()).collect();
    let is_utf8 = |part: &Part| part.in_memory().is_some_and(|it| str::from_utf8(it).is_ok());
    let is_text = kind == MessageKind::Text && parts.iter().all(is_utf8);
    put_head(if is_text { Opcode::Text } else { Opcode::Binary }, len, out.bytes());
    for part in parts {
        match part {
            Part::Bytes(bytes) => out.bytes().extend_from_slice(&bytes),
            Part::Shared(bytes, range) => out.shared(bytes, range),
            Part::File(source, range) => out.file(source, range),
        }
    }
    len
}
