//! The contract between a service and the engine that runs it: bytes and `now` go in, bytes and a
//! deadline come out.
//!
//! Code here cannot block, open a socket, start a thread or read a clock; its one dependency is the
//! type of a moment, [`Instant`].
//! A [`Service`] is a sans-I/O state machine. A [`Conn`] is one connection of it and the only
//! caller of [`Service::step`]. Blocking threads, `epoll`, `io_uring` and the simulator are each a
//! plain loop around [`Conn`]:
//!
//! ```text
//!   lend -> feed / eof / deadline / drain / outcome
//!        -> (job? write?) until would-block -> wants -> reclaim
//! ```
//!
//! The surprising thing: readiness ("may I write?") and completion ("it is written") are both
//! absent. Engines that write now call [`Conn::sent`]; engines that write later call
//! [`Conn::landed`]; the service cannot tell the difference.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod conn;
mod effects;
mod ids;
mod out;
mod overdue;
mod paced;
mod service;
mod share;

pub use clock::{Instant, WallClock};
pub use conn::{Conn, PushRefused, Wants};
pub use effects::{Effects, NoPush, Push};
pub use ids::{AssetId, SHARDS_MAX, SessionId, WorkerId};
pub use out::{Buffers, Out, Part, Source};
pub use overdue::{Taking, overdue};
pub use paced::{
    Body, Burst, Channel, Next, PacedCx, PacedLimits, PacedSource, Packet, PacketClass, Payload,
    StreamPolicy,
};
pub use service::{Closed, Cx, Event, Limits, Peer, Service, Step, Then};
pub use share::{BadSeed, Dead, Share};
