//! The reports of receivers.

use seam::Instant;
use std::time::Duration;

/// The receivers' reports about one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reception {
    /// When the last report arrived; `None` before the first.
    pub at: Option<Instant>,
    /// Packets sent.
    pub packets: u32,
    /// Packets lost since the beginning.
    pub lost: i32,
    /// The fraction lost since the report before, in 256ths.
    pub lost_share: u8,
    /// The jitter, in ticks of the media.
    pub jitter: u32,
    /// The round trip, if it is known.
    pub round_trip: Option<Duration>,
}

/// The receivers' reports about all streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceptionTotals {
    /// Streams with reports.
    pub reporting: u64,
    /// The packets sent on these streams.
    pub packets: u64,
    /// Packets lost.
    pub lost: i64,
    /// The largest fraction lost since the report before, in 256ths.
    pub lost_share: u8,
    /// The longest round trip.
    pub round_trip: Duration,
}
