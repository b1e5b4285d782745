//! The echo service of game servers' libraries: packets of ten bytes that come back unchanged.
//!
//! ```text
//!   packet    what ten bytes mean, and how many whole packets stand in front of some bytes
//!   register  the shared state: what was refused and why, and who is here
//!   service   a login packet on accept, then every packet as it came
//! ```
//!
//! The protocol does nothing, which is its use: what it costs is the server's own. It is also the
//! one over which libraries lose the end of a packet that was cut at a segment's border, so a cut
//! at every byte is what is tested first.

mod fuzz;
pub mod packet;
mod register;
mod service;

pub use fuzz::fuzz;
pub use register::{CloseReason, Register, SEATS};
pub use service::{Echo, Options};
