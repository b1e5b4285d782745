//! The media to request, and the report on what arrived.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use meter::Histogram;
use serde::Serialize;

use super::track::TrackCounts;

/// The delivery of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// As unicast datagrams.
    Datagrams,
    /// Interleaved in the connection.
    Connection,
    /// As datagrams to a multicast group, joined on the interface with this address; an unspecified
    /// one leaves the choice to the routes. One session receives for all.
    Group(Ipv4Addr),
}

/// The media to play, and the way to play it.
#[derive(Clone, Debug)]
pub struct ListenPlan {
    /// The server's address.
    pub address: SocketAddr,
    /// The URL to play.
    pub url: String,
    /// The delivery of media.
    pub lower: Transport,
    /// The number of sessions.
    pub sessions: u32,
    /// The time over which they begin.
    pub ramp: Duration,
    /// The time to listen after the ramp; a session that has played to its end stops earlier.
    /// Senders that sent BYE before the session was torn down.
    pub time: Duration,
    /// The starting position, in seconds.
    pub from_s: f64,
    /// Name and password.
    pub login: Option<(String, String)>,
}

impl ListenPlan {
    /// The number of sessions that should have begun after `passed_ns`.
    pub(super) fn due(&self, passed_ns: u64) -> u32 {
        if self.ramp.is_zero() {
            return self.sessions;
        }
        let share = passed_ns as f64 / self.ramp.as_nanos() as f64;
        ((share * f64::from(self.sessions)) as u32 + 1).min(self.sessions)
    }
}

/// The figures of one received medium.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MediaReport {
    /// Sessions begun.
    pub sessions: u32,
    /// Receivers of unrequested media.
    pub receivers: u32,
    /// Sessions that received media.
    pub played: u32,
    /// Sessions that failed, by reason.
    pub failed: Vec<(String, u32)>,
    /// Senders that said goodbye (BYE) before the session was torn down.
    pub ended: u32,
    /// The duration, in seconds.
    pub seconds: f64,
    /// The sum over all senders; the jitter is the largest.
    #[serde(flatten)]
    pub sums: TrackCounts,
    /// Sender reports.
    pub reports: u64,
    /// Datagrams dropped because this machine's receive buffers were full; they also count as lost.
    /// The receiver was too slow, not the sender.
    pub dropped: u64,
    /// Datagrams that belong to no known sender.
    pub strangers: u64,
    /// First packets whose number differs from the one in RTP-Info.
    pub misannounced: u32,
    /// From the first request to the first packet, in milliseconds.
    pub first_packet_ms: Percentiles,
    /// Lateness of packets relative to the earliest of their sender, in milliseconds.
    pub late_ms: Percentiles,
    /// Each sender, where there are few.
    pub tracks: Vec<TrackReport>,
}

/// One sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrackReport {
    /// Its SSRC.
    pub ssrc: u32,
    /// Payload type and encoding.
    pub payload: String,
    /// The counts.
    #[serde(flatten)]
    pub found: TrackCounts,
    /// The lateness of its packets, in milliseconds.
    pub late_ms: Percentiles,
}

/// A distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// 999 of 1000 are at most this.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

impl Percentiles {
    pub(super) fn of(histogram: &Histogram) -> Percentiles {
        let ms = |q: f64| histogram.quantile(q) as f64 / 1e6;
        if histogram.count() == 0 {
            return Percentiles::default();
        }
        Percentiles {
            p50: ms(0.5),
            p99: ms(0.99),
            p999: ms(0.999),
            max: histogram.max() as f64 / 1e6,
        }
    }
}
