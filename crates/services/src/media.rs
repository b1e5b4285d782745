//! A media streamer: RTSP 1.0 (RFC 2326) in front, RTP and RTCP (RFC 3550) behind it.
//!
//! ```text
//!   service     bytes -> requests -> replies; packets within the connection by the clock
//!   answer      what each method does
//!   transport   which way packets go: datagrams, the connection itself, a group
//!   play        play, pause, and where one stands
//!   push        transmissions that nobody asks for by RTSP
//!   place       which file and which of its tracks a URL names
//!   door        who may
//!   orders      what sessions order and casters play, in memory that all workers see
//!   cast        datagrams by the clock: the caster
//!   player      packets and reports in the order of their moments
//!   run         one track's packets: numbers, timestamps, due times
//!   title       files: their plans and their bytes
//!   group       titles that are sent once, to an address that many listen to
//!   live        transport streams that come through a pipe
//!   chance      what nobody shall guess
//!   pocket      a small server for fuzzers and tests
//!   fuzz        conversations whole and in pieces, which must be answered alike
//! ```
//!
//! One connection has one session at most, and a session ends with its connection: players that
//! vanish without a word leave nothing behind. The surprising thing is who keeps the pace: packets
//! within the connection are paced by the session's own deadlines, datagrams by a caster that
//! shares nothing with the session but a slot of atomics, and both by the same player.

mod answer;
mod cast;
mod chance;
mod door;
mod fuzz;
mod group;
pub mod live;
mod options;
mod orders;
mod place;
mod play;
mod player;
mod pocket;
mod push;
mod run;
mod service;
#[cfg(test)]
mod tests;
mod title;
mod transport;

pub use cast::Cast;
pub use fuzz::fuzz;
pub use group::Groups;
pub use options::{Door, Options};
pub use orders::{Echo, Orders, Reception, SLOTS};
pub use push::{Aim, Push};
pub use service::{Job, Media, Outcome, Session};
