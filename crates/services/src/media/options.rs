//! What can be chosen about the server, and the defaults with their reasons.

use seam::{Instant, Limits};
use std::time::Duration;

use super::group::Groups;

/// The choices.
#[derive(Debug, Clone)]
pub struct Options {
    /// The bounds of a connection.
    pub limits: Limits,
    /// The server's ports of media and control, if somebody streams datagrams.
    pub ports: Option<(u16, u16)>,
    /// Groups for those who want to listen together, if there are any.
    pub groups: Option<Groups>,
    /// Who may, if not everybody.
    pub credentials: Option<Credentials>,
    /// What session names, senders' names and nonces are drawn from; nobody else may know it.
    pub secret: [u8; 16],
    /// By which name reports go out (CNAME): one for all that one server sends, for its clock is
    /// one, and another for each server.
    pub name: String,
    /// The wall clock: a moment, and the nanoseconds since 1970 at it.
    pub wall: (Instant, u64),
    /// Everybody sees the same moment, which the clock chooses, and the end is the beginning.
    pub live: bool,
    /// The end is the beginning.
    pub repeat: bool,
    /// The name of a title that is others one behind the other, and their names.
    pub list: Option<(String, Vec<String>)>,
    /// Only these files are served, by their names; empty: every file beneath the root.
    pub only: Vec<String>,
    /// How long a session may be silent: no request, no report.
    pub session_timeout: Duration,
    /// Datagram transmissions to one address at a time.
    pub per_address: usize,
    /// How far a client may fall behind before it is sent on to what is due now.
    pub debt: Duration,
    /// Files up to this long are kept in memory, in bytes.
    pub file_max: u64,
    /// Sends send from files instead of from memory, for senders that pass files to the kernel.
    pub from_files: bool,
    /// What files in memory may take together, in bytes; those that are played are never dropped.
    pub memory_max: u64,
}

/// Who may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// What proves it.
    pub password: String,
}

impl Default for Options {
    /// 256 KiB of output are two seconds of a video of a megabit; 60 s are what players halve for
    /// their signs of life; 256 transmissions are more than one address plays.
    fn default() -> Options {
        Options {
            limits: Limits {
                // A head, a body, or the longest interleaved packet.
                input_max: 80 * 1024,
                output_high: 256 * 1024,
                output_low: 64 * 1024,
                sessions_max: 16 * 1024,
            },
            ports: None,
            groups: None,
            credentials: None,
            secret: [0; 16],
            name: "roundhouse".to_owned(),
            wall: (Instant::ZERO, 0),
            live: false,
            repeat: false,
            list: None,
            only: Vec::new(),
            session_timeout: Duration::from_secs(60),
            per_address: 256,
            debt: Duration::from_secs(3),
            file_max: 64 << 20,
            from_files: false,
            memory_max: 512 << 20,
        }
    }
}

impl Options {
    /// Nanoseconds since 1970 at a moment.
    pub(super) fn wall_ns(&self, now: Instant) -> u64 {
        let (moment, wall_ns) = self.wall;
        wall_ns.saturating_add(now.ns()).saturating_sub(moment.ns())
    }

    /// Whether the end is the beginning.
    pub(super) fn laps(&self) -> bool {
        self.live || self.repeat
    }
}
