//! A media streamer: RTSP 1.0 (RFC 2326) in front, RTP and RTCP (RFC 3550) behind it.
//!
//! ```text
//!   service     bytes -> requests -> replies; packets within the connection by the clock
//!   answer      what each method does
//!   transport   which way packets go: datagrams, the connection itself, a group
//!   play        play, pause, and where one stands
//!   push        transmissions that nobody asks for by RTSP
//!   place       which file and which of its tracks a URL names
//!   digest      passwords (RFC 2617)
//!   orders      what sessions order and streaming workers play, in memory that all workers see
//!   paced_source datagrams by the clock
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
//! within the connection are paced by the session's own deadlines, datagrams by a streaming worker
//! that shares nothing with the session but a slot of atomics, and both by the same player.

mod answer;
mod cursor;
mod digest;
mod fuzz;
mod group;
pub mod live;
mod options;
mod orders;
mod paced_source;
mod playback;
mod push;
mod rtp_stream;
mod secret;
mod service;
mod test_server;
#[cfg(test)]
mod tests;
mod title;
mod transport;
mod url;

pub use fuzz::fuzz;
pub use group::Groups;
pub use options::{Credentials, Options};
pub use orders::{Orders, Reception, ReceptionTotals, SLOTS};
pub use paced_source::Stream;
pub use push::{Aim, Push};
pub use service::{Job, Media, Outcome, Session};
