//! A media streamer: clients control it by RTSP 1.0 (RFC 2326) and receive RTP and RTCP (RFC 3550).
//!
//! ```text
//!   service       bytes -> requests -> replies; interleaved packets by the clock
//!   answer        the methods
//!   url           the file and the track that a URL names
//!   digest        passwords (RFC 2617)
//!   transport     negotiates datagrams, interleaving, or a group
//!   playback      play, pause, seek: the position of a presentation
//!   push          streams without an RTSP session
//!   orders        the sessions' orders to the streaming worker, in shared memory
//!   paced_source  datagrams by the clock, for the streaming worker
//!   rtp_stream    packets and reports in the order of their moments
//!   cursor        one track's packets: sequence numbers, timestamps, due times
//!   title         files: their plans and their bytes
//!   group         titles that are sent once, to an address that many listen to
//!   live          transport streams that come through a pipe
//!   secret        numbers that cannot be guessed
//!   test_server   a small server for fuzzers and tests
//!   fuzz          conversations whole and in pieces, which must be answered alike
//! ```
//!
//! One connection has at most one session, and a session ends with its connection, so vanished
//! players leave no state. Two clocks pace the same RTP stream. The session's own deadlines pace
//! packets that are interleaved with the connection. A streaming worker, which shares only a slot
//! of atomics with the session, paces datagrams.

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
