//! What a listener asks for, and what it has heard.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use meter::Histogram;
use serde::Serialize;

use super::track::Tallied;

/// How media shall come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// As datagrams to us.
    Datagrams,
    /// In the connection.
    Connection,
    /// As datagrams to a group, which is joined on the interface with this address; an unspecified
    /// one leaves the choice to the routes. One session hears for all.
    Group(Ipv4Addr),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Where the server listens.
    pub address: SocketAddr,
    /// What is to be played.
    pub url: String,
    /// How media shall come.
    pub lower: Lower,
    /// How many sessions.
    pub sessions: u32,
    /// Over how long they begin.
    pub ramp: Duration,
    /// How long to listen from then on; whoever has played to its end is done before.
    pub time: Duration,
    /// Where to begin, in seconds.
    pub from_s: f64,
    /// Name and password.
    pub login: Option<(String, String)>,
}

impl Ask {
    /// How many sessions are to have begun after `passed_ns`.
    pub(super) fn due(&self, passed_ns: u64) -> u32 {
        if self.ramp.is_zero() {
            return self.sessions;
        }
        let share = passed_ns as f64 / self.ramp.as_nanos() as f64;
        ((share * f64::from(self.sessions)) as u32 + 1).min(self.sessions)
    }
}

/// What was heard.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hearing {
    /// Sessions that were begun.
    pub sessions: u32,
    /// Receivers that nobody had asked for.
    pub receivers: u32,
    /// Those that media came for.
    pub played: u32,
    /// Those that failed, by reason.
    pub failed: Vec<(String, u32)>,
    /// Those that the sender ended (BYE) before anybody asked it to.
    pub ended: u32,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The sum over all senders; the jitter is the largest.
    #[serde(flatten)]
    pub sums: Tallied,
    /// Sender reports.
    pub reports: u64,
    /// Datagrams that found no room in this machine's receive buffers, and count as lost: the
    /// listener was too slow, not the sender.
    pub dropped: u64,
    /// Datagrams that were no packets of anybody.
    pub strangers: u64,
    /// First packets that were not those which RTP-Info had announced.
    pub misannounced: u32,
    /// From the first question to the first packet, in milliseconds.
    pub first_packet_ms: Shares,
    /// How late packets were against the earliest of their sender, in milliseconds.
    pub late_ms: Shares,
    /// Each sender, where there are few.
    pub tracks: Vec<Heard>,
}

/// One sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heard {
    /// Its name in RTP.
    pub ssrc: u32,
    /// The payload type and what it is.
    pub payload: String,
    /// What was found.
    #[serde(flatten)]
    pub found: Tallied,
    /// How late its packets were, in milliseconds.
    pub late_ms: Shares,
}

/// A distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// The median.
    pub p50: f64,
    /// Of a hundred.
    pub p99: f64,
    /// Of a thousand.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

impl Shares {
    pub(super) fn of(histogram: &Histogram) -> Shares {
        let ms = |q: f64| histogram.quantile(q) as f64 / 1e6;
        if histogram.count() == 0 {
            return Shares::default();
        }
        Shares { p50: ms(0.5), p99: ms(0.99), p999: ms(0.999), max: histogram.max() as f64 / 1e6 }
    }
}
