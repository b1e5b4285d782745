//! HTTP/2 around any service that speaks HTTP/1.1 (RFC 9113), without a change to the service or to
//! any engine.
//!
//! A connection whose first bytes are the preface of HTTP/2 speaks it; every other one belongs to
//! the inner service from its first byte. So TLS offers both by ALPN, and a client with prior
//! knowledge needs no upgrade.
//!
//! Each stream is a [`seam::Conn`] of the inner service for one request: its head and body go in as
//! HTTP/1.1, and the reply comes out as HEADERS and DATA ([`wire::http2`]). Flow control is the
//! back-pressure of the seam. A body of a request is held until the inner service takes it, and the
//! window grows by as much. A reply that the peer's windows have no room for stays in the output of
//! its stream, which is small ([`STREAM_OUTPUT`]), and the inner service waits.
//!
//! A request is answered as soon as its head is there. Most replies are short and complete at once:
//! their streams end before the next frame is read, and their session has the next stream, as on a
//! connection of HTTP/1.1 that stays open. Streams whose replies are longer take turns, a frame at
//! a time.
//!
//! Everything that a peer can make the server hold or do is bounded: streams at once, heads, bodies
//! that wait, resets, frames without progress, and the time that a reply waits for a window. Beyond
//! that the connection ends with GOAWAY.
//!
//! The inner service must not append files that an engine sends by itself, and cannot push to a
//! stream of HTTP/2 ([`Cx::push`]): a connection is many sessions. One job of a connection is at
//! work at a time.

mod settings;
mod stream;
mod talk;

use std::time::Duration;

use seam::{Closed, Cx, Event, Instant, Limits, Out, Peer, PushRefused, Service, Step};
use wire::http2::{FRAME_HEAD, FRAME_MAX, PREFACE};

use self::talk::Talk;

/// The most streams of a connection at once.
pub const STREAMS_MAX: usize = 100;
/// Output of a stream in bytes from which its service waits.
pub const STREAM_OUTPUT: usize = 32 * 1024;
/// The longest head of a request, in bytes as RFC 9113 section 6.5.2 counts them.
pub const HEAD_MAX: usize = 32 * 1024;
/// The window of a connection for bodies of requests, in bytes.
pub const CONNECTION_WINDOW: u32 = 256 * 1024;
/// The time that a reply may wait for a window.
pub const WINDOW_PATIENCE: Duration = Duration::from_secs(30);
/// The time that a connection without a stream stays open.
pub const IDLE: Duration = Duration::from_secs(60);
/// The time for the first bytes of a connection.
const PREFACE_TIME: Duration = Duration::from_secs(10);

/// A service over HTTP/2 and HTTP/1.1.
#[derive(Debug)]
pub struct Http2<S> {
    inner: S,
}

impl<S> Http2<S> {
    /// Wraps `inner`, which speaks HTTP/1.1.
    pub fn new(inner: S) -> Http2<S> {
        Http2 { inner }
    }
}

/// One connection.
pub enum Session<S: Service> {
    /// Its first bytes are not complete; it owes them by this time. Whether it came without
    /// encryption: then it gets HTTP/1.1.
    Fresh(Peer, Instant, bool),
    /// HTTP/1.1.
    One(S::Session),
    /// HTTP/2.
    Two(Box<Talk<S>>),
}

impl<S: Service> Http2<S> {
    fn begin(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Session<S>,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        let Session::Fresh(peer, until, is_unsealed) = *session else { return Step::close(0) };
        let input = match event {
            Event::Bytes(input) => input,
            Event::Room => return Step::read(0).wake_at(until),
            Event::Deadline if cx.now < until => return Step::read(0).wake_at(until),
            Event::Deadline | Event::Eof | Event::Drain | Event::Outcome(_) => {
                return Step::close(0);
            }
        };
        let len = input.len().min(PREFACE.len());
        if is_unsealed || input[..len] != PREFACE[..len] {
            let mut inner = self.inner.open(cx, peer, out);
            if is_unsealed {
                self.inner.unsealed(&mut inner);
            }
            let step = self.inner.step(cx, &mut inner, Event::Bytes(input), out);
            *session = Session::One(inner);
            return step;
        }
        if len < PREFACE.len() {
            return Step::read(0).wake_at(until);
        }
        *session = Session::Two(Box::new(Talk::new(peer, cx.now, out)));
        Step::read(PREFACE.len()).wake_at(until)
    }
}

impl<S: Service + 'static> Service for Http2<S> {
    inner_service!();

    type Session = Session<S>;

    fn limits(&self) -> Limits {
        let limits = self.inner.limits();
        Limits { input_max: limits.input_max.max(FRAME_HEAD + FRAME_MAX), ..limits }
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.inner.patience().map_or(PREFACE_TIME, |it| it.min(PREFACE_TIME)))
    }

    fn open(&self, cx: &Cx<'_, S::State>, peer: Peer, _out: &mut Out) -> Session<S> {
        let patience = self.patience().unwrap_or(PREFACE_TIME);
        Session::Fresh(peer, cx.now + patience, false)
    }

    fn unsealed(&self, session: &mut Session<S>) {
        if let Session::Fresh(.., is_unsealed) = session {
            *is_unsealed = true;
        }
    }

    fn step(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Session<S>,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        match session {
            Session::One(inner) => self.inner.step(cx, inner, event, out),
            Session::Two(talk) => talk.step(&self.inner, cx, event, out),
            Session::Fresh(..) => self.begin(cx, session, event, out),
        }
    }

    fn push(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Session<S>,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), PushRefused> {
        match session {
            Session::One(inner) => self.inner.push(cx, inner, bytes, out),
            Session::Fresh(..) | Session::Two(_) => Err(PushRefused),
        }
    }

    fn close(&self, cx: &Cx<'_, S::State>, session: Session<S>, why: Closed) {
        match session {
            Session::Fresh(..) => {}
            Session::One(inner) => self.inner.close(cx, inner, why),
            Session::Two(talk) => talk.close(&self.inner, cx, why),
        }
    }
}
