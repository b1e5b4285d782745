//! The services: sans-I/O state machines behind [`seam::Service`].
//!
//! No service names a socket, a file, a thread or a clock: bytes and `now` go in, bytes and a
//! deadline come out. State that all workers share is a [`seam::Share`], placed by the launcher.
//!
//! - [`echo`]: packets that come back unchanged, the usual benchmark of game server libraries.
//! - [`game`]: a world with a map in which sessions walk and see each other.
//! - [`media`]: audio and video files, streamed by RTSP and RTP.
//! - [`proxy`]: any of them behind proxies that name their clients.
//! - [`rooms`]: conference rooms, a relay of RTP between speakers and listeners.
//! - [`roster`]: the list of sessions, for services whose operator may end them.
//! - [`stock`]: a stock market that speaks a line protocol.
//! - [`tls`]: any of them over TLS.
//! - [`web`]: an HTTP/1.1 server of files and demonstration routes.
//! - [`websocket`]: any of them over WebSocket.
//! - [`work`]: computation that makes a request dearer.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod echo;
pub mod game;
pub mod media;
pub mod proxy;
pub mod rooms;
pub mod roster;
mod site_names;
pub mod stock;
pub mod tls;
pub mod web;
pub mod websocket;
pub mod work;

pub use site_names::SiteNames;
