//! The options of the server, and the reasons for their defaults.

use seam::{Instant, Limits, WallClock};
use std::sync::Arc;
use std::time::Duration;
use wire::http::{Status, head};

use super::auth::Guard;
use super::dispatch::CHALLENGES;
use super::mime::MediaType;
use super::record::Format;
use super::rules::Rules;
use layers::SiteNames;
use layers::trust::Trusted;

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The limits of a connection.
    pub limits: Limits,
    /// The limits of a head.
    pub heads: head::Limits,
    /// Serve the demonstration routes.
    pub demo: bool,
    /// Serve files.
    pub files: bool,
    /// List folders without an `index.html`.
    pub listing: bool,
    /// The longest request body, in bytes.
    pub body_max: u64,
    /// How long a head may take, from its first byte (or from the start of the connection) to its
    /// last. The limit is absolute, so sending a byte now and then does not extend it.
    pub head_time: Duration,
    /// How long a connection may be idle between two requests.
    pub keep_alive: Duration,
    /// The grace period of a body before its rate counts.
    pub body_grace: Duration,
    /// The least rate of a body, in bytes a second.
    pub body_rate: u64,
    /// The port of HTTPS as clients see it: a request that came without TLS gets the address there.
    pub https: Option<u16>,
    /// Paths that need a name and a password.
    pub guards: Vec<Guard>,
    /// The format of the access log, if there is one.
    pub record: Option<Format>,
    /// Proxies whose `X-Forwarded-For` the log believes.
    pub trusted: Vec<Trusted>,
    /// The wall clock.
    pub wall: WallClock,
    /// Media types before those that are known.
    pub media_types: Vec<MediaType>,
    /// Pages for statuses of 400 or more.
    pub error_pages: Vec<ErrorPage>,
    /// The memory for files that a process compresses on the fly, in bytes; 0: it compresses none.
    pub compress_max: usize,
    /// The operator's rules for site 0, whose files also answer for unknown names.
    pub rules: Rules,
    /// The rules of the sites after it.
    pub other_rules: Vec<Rules>,
    /// The names of all sites; none if there is one site.
    pub names: SiteNames,
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
    /// 1 MiB of body, as in nginx; 10 s for a whole head; 15 s between requests; at least 256 bytes
    /// a second after a minute, a rate that a modem of 1988 reaches.
    fn default() -> Options {
        let heads = head::Limits::default();
        Options {
            limits: Limits {
                input_max: 2 * heads.head_max,
                output_high: 128 * 1024,
                // Refilled only when empty: an output that never empties keeps the sent bytes in
                // front of the waiting ones, and a large file would pile up in it.
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
            body_grace: Duration::from_secs(60),
            body_rate: 256,
            https: None,
            guards: Vec::new(),
            record: None,
            trusted: Vec::new(),
            wall: WallClock::Fixed(Instant::ZERO, 0),
            media_types: Vec::new(),
            error_pages: Vec::new(),
            compress_max: 0,
            rules: Rules::default(),
            other_rules: Vec::new(),
            names: SiteNames::default(),
        }
    }
}

impl Options {
    /// Nanoseconds since 1970 at an instant.
    pub fn wall_ns(&self, now: Instant) -> u64 {
        self.wall.ns_at(now)
    }

    /// Seconds since 1970 at an instant.
    pub(super) fn second(&self, now: Instant) -> u64 {
        self.wall_ns(now) / 1_000_000_000
    }

    pub(super) fn rules_of(&self, site: u16) -> &Rules {
        usize::from(site).checked_sub(1).map_or(&self.rules, |at| &self.other_rules[at])
    }

    pub(super) fn guard_of(&self, path: &[u8]) -> Option<usize> {
        if self.guards.is_empty() || path.starts_with(CHALLENGES) {
            return None;
        }
        // The file system takes two slashes for one.
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let path: Vec<u8> = names.flat_map(|name| [b"/", name].concat()).collect();
        self.guards.iter().position(|guard| path.starts_with(guard.prefix().as_bytes()))
    }

    pub(super) fn error_page(&self, status: Status) -> Option<&ErrorPage> {
        self.error_pages.iter().find(|page| page.code == status.0)
    }
}
