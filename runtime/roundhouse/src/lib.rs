//! Write a service once, serve it on every server architecture, simulate it, race it.
//!
//! ```no_run
//! use roundhouse::prelude::*;
//!
//! fn main() -> ExitCode {
//!     roundhouse::main(lines(|name, reply| {
//!         reply.put("hello, ").put(name);
//!     }))
//! }
//! ```
//!
//! This program has every flag of `roundhouse serve`: `--engine uring`, `--workers 4`, `--config
//! FILE`, `--admin`, `--drain`. Its first line of output is JSON with the address.
//!
//! | to | use |
//! |---|---|
//! | answer lines | [`lines`], [`Lines`] |
//! | answer frames of fixed or announced length | [`FixedFrames`], [`PrefixedFrames`] |
//! | answer HTTP/1.1 | [`routes`], [`http()`] |
//! | do anything else with bytes and time | [`Service`] |
//! | keep state that workers share, be they threads or processes | [`share!`], [`shared`] |
//! | talk to pages of browsers | [`Server::websocket`] |
//! | serve as a program | [`main`](main()), [`Server::main`] |
//! | serve inside another program, or a test | [`Server::run`], [`Server::spawn`] |
//! | try split packets, slow readers, resets and drains in virtual time | [`sim::check`] |
//!
//! A service has no socket, thread or clock. It receives bytes and the time, appends its reply and
//! says what it wants next; the engine does the rest. Slow work leaves by one door: a service
//! returns [`Step::offload`](seam::Step::offload), or is made by [`Frames::offload`].

mod call;
mod frames;
mod http;
mod messages;
mod pool;
mod reply;
mod routes;
mod serve;
#[cfg(feature = "sim")]
pub mod sim;
mod socket;
mod stream;
mod upload;

pub use call::Call;
#[cfg(feature = "tokio")]
pub use engines::{AsyncError, AsyncThread};
pub use engines::{Fault, Refused, Report};
pub use frames::{Cut, FixedFrames, Frames, Lines, PrefixedFrames};
pub use http::{
    Http, HttpRequest, HttpResponse, HttpSession, SlowRequest, http, http_offload, http_with,
};
pub use messages::{After, Handler, Messages, ReplyBuffer, lines};
pub use pool::{Pool, PoolError};
pub use reply::{Html, HttpError, IntoReply, Json};
pub use routes::{Inner, Pieces, Routes, routes};
pub use seam::{Service, share};
pub use serve::{Server, ServerHandle, main};
pub use socket::{Socket, SocketEvent, SocketReply};
pub use stream::Flow;
pub use upload::Upload;
pub use wire::websocket::{MessageKind, WebSocketOptions};

/// State that all workers share, in safe Rust: counters, tables, maps, logs, snapshots.
///
/// An array of [`Share`](seam::Share) values is a fixed table; atomics and numbers are values too.
/// [`share!`](crate::share) makes a state of several of them.
pub mod shared {
    pub use memory::shared::{ByteMap, Bytes, Counter, Fixed, Log, Map, NoRoom, SnapshotCell};
    pub use seam::{BadSeed, Dead, Share};
}

/// Everything that a service needs.
pub mod prelude {
    pub use core::convert::Infallible;
    pub use core::time::Duration;
    pub use std::process::ExitCode;

    pub use seam::{
        Closed, Cx, Event, Instant, Limits, Out, Peer, Service, SessionId, Share, Step, Then,
        WorkerId, share,
    };

    pub use crate::shared::*;
    pub use crate::{
        After, Call, Cut, FixedFrames, Flow, Frames, Html, HttpError, HttpRequest, HttpResponse,
        Inner, IntoReply, Json, Lines, MessageKind, Pieces, Pool, PoolError, PrefixedFrames,
        ReplyBuffer, Server, Socket, SocketEvent, SocketReply, Upload, WebSocketOptions, http,
        http_offload, http_with, lines, routes,
    };
    #[cfg(feature = "tokio")]
    pub use crate::{AsyncError, AsyncThread};
}
