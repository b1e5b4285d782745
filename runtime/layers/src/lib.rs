//! Layers around any service: TLS, HTTP/2, WebSocket, and the proxies that name a client.
//!
//! - [`http2`]: a service of HTTP/1.1 over HTTP/2.
//! - [`tls`]: a service over TLS.
//! - [`websocket`]: a service over WebSocket.
//! - [`proxy`]: a service behind proxies that name their clients by the PROXY protocol.
//! - [`trust`]: which proxies are trusted, and the client that they name in a header.
//!
//! Each layer is a [`seam::Service`] that holds another, so every engine runs it unchanged. A layer
//! names no socket, file, thread or clock, as the services do not.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The part of a layer's [`seam::Service`] that is the inner service's.
macro_rules! inner_service {
    () => {
        type State = S::State;
        type Job = S::Job;
        type Outcome = S::Outcome;

        fn refuses(&self) -> bool {
            self.inner.refuses()
        }

        fn keeps_state(&self) -> bool {
            self.inner.keeps_state()
        }

        fn work(&self, state: &S::State, job: S::Job) -> S::Outcome {
            self.inner.work(state, job)
        }

        fn tick(&self, cx: &seam::Cx<'_, S::State>) -> Option<seam::Instant> {
            self.inner.tick(cx)
        }
    };
}

use seam::{Closed, Conn, Cx, Service};

pub mod http2;
pub mod proxy;
mod site_names;
#[cfg(feature = "tls")]
pub mod tls;
pub mod trust;
pub mod websocket;

pub use site_names::SiteNames;
pub use trust::Trusted;

/// Ends the session of an inner service.
fn close<S: Service>(
    mut conn: Conn<S::Session, S::Job>,
    inner: &S,
    cx: &Cx<'_, S::State>,
    why: Closed,
) {
    if !conn.wants().close {
        conn.abort(why);
    }
    conn.close(inner, cx);
}
