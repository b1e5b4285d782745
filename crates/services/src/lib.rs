//! What the server serves: sans-I/O state machines behind [`seam::Service`].
//!
//! No service names a socket, a file, a thread or a clock; bytes and `now` go in, bytes and a
//! deadline come out, and what all workers share lies in a [`seam::Share`] that the launcher
//! places.
//!
//! - [`echo`]: packets that come back unchanged, as game servers' libraries are tried with.
//! - [`game`]: a world with a map, in which sessions walk and watch each other.
//! - [`media`]: files of sound and pictures, streamed by RTSP and RTP.
//! - [`pages`]: a few web pages and a document whose editions are told as they come.
//! - [`roster`]: who is here, for services whose operator may end sessions.
//! - [`stock`]: a stock market that speaks a line protocol.
//! - [`tls`]: any of them behind TLS.
//! - [`web`]: an HTTP/1.1 server of files and of a demonstration's routes.
//! - [`fuzz`](fn@fuzz): this crate's fuzzer.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod cuts;
pub mod echo;
mod fuzz;
pub mod game;
pub mod media;
pub mod pages;
pub mod roster;
pub mod stock;
pub mod tls;
pub mod web;

pub use fuzz::fuzz;
