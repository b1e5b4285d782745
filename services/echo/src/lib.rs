//! The echo service of game server libraries: packets of ten bytes that come back unchanged.
//!
//! ```text
//!   packet    the ten bytes, and how many whole packets the input starts with
//!   register  the shared state: counts of closed connections, and the roster
//!   roster    the list of sessions, for services whose operator may end them
//!   service   a login packet on accept, then every packet as received
//! ```
//!
//! The protocol does nothing, so its cost is the server's own. Libraries have lost packets that
//! were cut at a segment boundary, so the first test cuts at every byte.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod packet;
mod register;
pub mod roster;
mod service;

pub use register::{CloseReason, Register, SEATS};
pub use service::{Echo, Options};
