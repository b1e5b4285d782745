//! The server's options, and the defaults with their reasons.

use seam::{Instant, WallClock};
use std::time::Duration;

use super::group::Groups;

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server's ports for media and control, if it sends datagrams.
    pub ports: Option<(u16, u16)>,
    /// Multicast groups, if there are any.
    pub groups: Option<Groups>,
    /// The credentials that clients must prove, if any.
    pub credentials: Option<Credentials>,
    /// Session names, SSRCs and nonces are derived from it; only this server may know it.
    pub secret: [u8; 16],
    /// The CNAME of reports: the same for all streams of a server, because they share its clock,
    /// and different for each server.
    pub name: String,
    /// The wall clock.
    pub wall: WallClock,
    /// All clients see the same moment, which the clock determines; files begin again at their end.
    pub live: bool,
    /// Files begin again at their end.
    pub repeat: bool,
    /// Only these files are served, by their names; empty: every file beneath the root.
    pub only: Vec<String>,
    /// How long a session may be silent, without a request or a report.
    pub session_timeout: Duration,
    /// The maximum number of concurrent datagram streams to one address.
    pub per_address: usize,
    /// How far a client may fall behind before it skips to what is due now.
    pub debt: Duration,
    /// How late packets may be that are still sent after a pause or a seek.
    pub pause_debt: Duration,
    /// The longest file that is kept in memory, in bytes.
    pub file_max: u64,
    /// Streams are sent from files instead of from memory, for senders that pass files to the
    /// kernel.
    pub from_files: bool,
}

/// The credentials that a client must prove by Digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Default for Options {
    /// Players keep a session alive at half of the 60 s. One address plays fewer than 256 streams.
    fn default() -> Options {
        Options {
            ports: None,
            groups: None,
            credentials: None,
            secret: [0; 16],
            name: "roundhouse".to_owned(),
            wall: WallClock::Fixed(Instant::ZERO, 0),
            live: false,
            repeat: false,
            only: Vec::new(),
            session_timeout: Duration::from_secs(60),
            per_address: 256,
            debt: Duration::from_secs(3),
            pause_debt: Duration::from_millis(100),
            file_max: 64 << 20,
            from_files: false,
        }
    }
}

impl Options {
    /// The wall clock at a moment, in nanoseconds since 1970.
    pub(super) fn wall_ns(&self, now: Instant) -> u64 {
        self.wall.ns_at(now)
    }

    /// Whether files begin again at their end.
    pub(super) fn laps(&self) -> bool {
        self.live || self.repeat
    }
}
