//! The PROXY protocol before any service, TLS included: connections of trusted proxies begin with a
//! header that names their client ([`wire::proxy`]), and the service within sees that client as its
//! peer. All other connections belong to the service from their first byte.

use std::time::Duration;

use seam::{Closed, Cx, Event, Instant, Limits, Out, Peer, PushRefused, Service, Step};
use wire::proxy;

use crate::Trusted;

/// A service whose trusted peers speak the PROXY protocol first.
#[derive(Debug)]
pub struct Proxied<S: Service> {
    inner: S,
    trusted: Vec<Trusted>,
    /// Called for each connection that ends within its header or with another beginning.
    refused: fn(&S::State),
}

impl<S: Service> Proxied<S> {
    /// Puts the protocol before `inner` for peers of `trusted`; `refused` counts connections that
    /// end with an incomplete or malformed header.
    pub fn new(inner: S, trusted: Vec<Trusted>, refused: fn(&S::State)) -> Proxied<S> {
        Proxied { inner, trusted, refused }
    }
}

/// One connection.
pub enum Session<T> {
    /// It owes its header by this time; whether it has begun.
    Owed(Peer, Option<Instant>, bool),
    /// It belongs to the inner service.
    Open(T),
}

impl<S: Service> Proxied<S> {
    /// An event of a connection that owes its header. A header has the time that the inner service
    /// gives a new connection.
    fn read(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Session<S::Session>,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        let Session::Owed(peer, until, begun) = session else { return Step::close(0) };
        let wait = Step { wake: *until, ..Step::read(0) };
        let input = match event {
            Event::Bytes(input) => input,
            Event::Room => return wait,
            Event::Deadline | Event::Eof | Event::Drain | Event::Outcome(_) => {
                return Step::close(0);
            }
        };
        *begun = true;
        match proxy::next(input) {
            Ok(None) => wait,
            Ok(Some(header)) => {
                let client = header.client.map_or(*peer, Peer::Net);
                *session = Session::Open(self.inner.open(cx, client, out));
                let wake = self.inner.patience().map(|patience| cx.now + patience);
                Step { wake, ..Step::read(header.len) }
            }
            Err(bad) => {
                cx.note(|note| *note = bad.to_string());
                Step::close(input.len())
            }
        }
    }
}

impl<S: Service> Service for Proxied<S> {
    inner_service!();

    type Session = Session<S::Session>;

    fn limits(&self) -> Limits {
        let limits = self.inner.limits();
        Limits { input_max: limits.input_max.max(proxy::HEADER_MAX), ..limits }
    }

    fn patience(&self) -> Option<Duration> {
        self.inner.patience()
    }

    fn open(&self, cx: &Cx<'_, S::State>, peer: Peer, out: &mut Out) -> Session<S::Session> {
        if self.trusted.iter().any(|it| it.covers(peer)) {
            return Session::Owed(peer, self.patience().map(|patience| cx.now + patience), false);
        }
        Session::Open(self.inner.open(cx, peer, out))
    }

    fn step(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Session<S::Session>,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        match session {
            Session::Open(inner) => self.inner.step(cx, inner, event, out),
            Session::Owed(..) => self.read(cx, session, event, out),
        }
    }

    fn push(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Session<S::Session>,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), PushRefused> {
        match session {
            Session::Open(inner) => self.inner.push(cx, inner, bytes, out),
            Session::Owed(..) => Err(PushRefused),
        }
    }

    fn close(&self, cx: &Cx<'_, S::State>, session: Session<S::Session>, why: Closed) {
        match session {
            Session::Open(inner) => self.inner.close(cx, inner, why),
            Session::Owed(.., true) => (self.refused)(cx.state),
            // A health check may connect and leave.
            Session::Owed(.., false) => {}
        }
    }
}
