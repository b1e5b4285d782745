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

pub mod http2;
pub mod proxy;
mod site_names;
pub mod tls;
pub mod trust;
pub mod websocket;

pub use site_names::SiteNames;
pub use trust::Trusted;
