//! What can be chosen about the server, and the defaults with their reasons.

use seam::{Instant, Limits};
use std::sync::Arc;
use std::time::Duration;
use wire::http::{Status, head};

use super::record::Format;

/// The choices.
#[derive(Debug, Clone)]
pub struct Options {
    /// The bounds of a connection.
    pub limits: Limits,
    /// The bounds of a head.
    pub heads: head::Limits,
    /// Offer the routes of the demonstration.
    pub demo: bool,
    /// Offer files.
    pub files: bool,
    /// List a folder that has no `index.html`.
    pub listing: bool,
    /// The longest body of a request, in bytes.
    pub body_max: u64,
    /// ReplyMode long a head may take, from its first byte (or from the beginning of a connection) to its
    /// last. Absolute, so that a byte now and then does not help.
    pub head_time: Duration,
    /// ReplyMode long a connection may be silent between two requests.
    pub keep_alive: Duration,
    /// What a body gets for free before its rate counts.
    pub body_grace: Duration,
    /// The least rate of a body, in bytes a second.
    pub body_rate: u64,
    /// ReplyMode requests are recorded, if they are.
    pub record: Option<Format>,
    /// The wall clock: a moment, and the nanoseconds since 1970 at it.
    pub wall: (Instant, u64),
    /// Pages for statuses from 400 on.
    pub error_pages: Vec<ErrorPage>,
}

/// The page of a status.
#[derive(Debug, Clone)]
pub struct ErrorPage {
    /// The status.
    pub code: u16,
    /// Its media type.
    pub kind: &'static str,
    /// Its bytes.
    pub body: Arc<[u8]>,
}

impl Default for Options {
    /// 1 MiB of body as nginx has it; 10 s for a head, since the whole of it counts; 15 s between
    /// requests; 256 bytes a second after 5 s, which a modem of 1988 reaches.
    fn default() -> Options {
        let heads = head::Limits::default();
        Options {
            limits: Limits {
                input_max: 2 * heads.head_max,
                output_high: 128 * 1024,
                // Filled again only when all is gone: an output that never becomes empty keeps what
                // was sent in front of what waits, and a great file would pile up in it.
                output_low: 0,
                sessions_max: 16 * 1024,
            },
            heads,
            demo: false,
            files: false,
            listing: true,
            body_max: 1 << 20,
            head_time: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
            body_grace: Duration::from_secs(5),
            body_rate: 256,
            record: None,
            wall: (Instant::ZERO, 0),
            error_pages: Vec::new(),
        }
    }
}

impl Options {
    /// Nanoseconds since 1970 at a moment.
    pub fn wall_ns(&self, now: Instant) -> u64 {
        let (moment, wall_ns) = self.wall;
        wall_ns.saturating_add(now.ns()).saturating_sub(moment.ns())
    }

    /// Seconds since 1970 at a moment.
    pub(super) fn second(&self, now: Instant) -> u64 {
        self.wall_ns(now) / 1_000_000_000
    }

    /// The page of a status, if it has one.
    pub(super) fn error_page(&self, status: Status) -> Option<&ErrorPage> {
        self.error_pages.iter().find(|page| page.code == status.0)
    }
}
