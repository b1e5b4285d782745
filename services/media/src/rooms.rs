//! Conference rooms: a relay of RTP between speakers and listeners (a selective forwarding unit,
//! RFC 7667 section 3.7). Nothing is decoded or mixed: each listener gets the packets of the
//! speakers that it wants, with their own SSRCs.
//!
//! ```text
//! control   bytes -> RTSP requests -> replies (RFC 2326: ANNOUNCE, RECORD, DESCRIBE, PLAY)
//! members   what sessions have agreed with the members, in memory that all workers share
//! relay     datagrams in -> ring -> datagrams out, by the streaming worker
//! ```
//!
//! `rtsp://HOST/ROOM/NAME` is a speaker, `rtsp://HOST/ROOM` all of them; `?as=NAME` leaves out the
//! listener's own voice. A member may also send RTP without RTSP, if the server has a room for
//! that: it joins with its first packet, hears the others at the address that it sends from (RFC
//! 4961), and leaves with a BYE or after ten silent seconds.
//!
//! Reports are turned round: those of senders go on to the listeners, those of receivers and their
//! requests for pictures (RFC 4585) go to the speakers that they name.

mod control;
mod members;
mod relay;
#[cfg(test)]
mod tests;

use std::time::Duration;

use seam::Limits;

use crate::secret::Secret;

pub use control::Session;
pub use members::{MEMBERS, Rooms, SPEAKERS, TRACKS};
pub use relay::{QUEUE, Stream};

/// The choices of a relay.
#[derive(Clone, Debug)]
pub struct Options {
    /// The limits of a connection.
    pub limits: Limits,
    /// The server's ports of media and control.
    pub ports: (u16, u16),
    /// The secret from which names of sessions are derived.
    pub secret: [u8; 16],
    /// The room of members that send RTP without RTSP.
    pub plain: Option<String>,
    /// How long a session lives without request, packet or report.
    pub session_timeout: Duration,
}

/// The relay.
#[derive(Debug)]
pub struct Relay {
    options: Options,
    secret: Secret,
}

impl Relay {
    /// A relay with these options.
    pub fn new(options: Options) -> Relay {
        let secret = Secret::new(options.secret);
        Relay { options, secret }
    }
}
