//! A media streamer: clients control it by RTSP 1.0 (RFC 2326) and receive RTP and RTCP (RFC 3550).
//!
//! ```text
//! service       bytes -> requests -> replies; interleaved packets by the clock
//! answer        the methods
//! url           the file and the track that a URL names
//! digest        passwords (RFC 2617)
//! transport     negotiates datagrams, interleaving, or a group
//! playback      play, pause, seek: the position of a presentation
//! orders        the sessions' orders to the streaming worker, in shared memory
//! paced_source  datagrams by the clock, for the streaming worker
//! rtp_stream    packets and reports in the order of their due times
//! cursor        one track's packets: sequence numbers, timestamps, due times
//! title         files: their plans and their bytes
//! group         titles that are sent once, to an address that many clients listen to
//! secret        numbers that cannot be guessed
//! test_server   a small server for tests
//! fuzz          conversations whole and in pieces, which must get the same answers
//! ```
//!
//! A connection has at most one session, and the session ends with its connection, so players that
//! vanish leave no state. An RTP stream is paced in one of two ways. Packets that are interleaved
//! with the connection are paced by the session's own deadlines. Datagrams are paced by a streaming
//! worker, which shares only a slot of atomics with the session.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod answer;
mod cursor;
mod digest;
#[cfg(test)]
mod fuzz;
mod group;
mod options;
mod orders;
mod paced_source;
mod playback;
mod rtp_stream;
pub(crate) mod secret;
mod service;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tests;
mod title;
mod transport;
mod url;

pub use group::Groups;
pub use options::{Credentials, Options};
pub use orders::{Orders, Reception, ReceptionTotals, SLOTS};
pub use paced_source::Stream;
pub use service::{Job, Media, Outcome, Session};
