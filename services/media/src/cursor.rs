//! A cursor through one track: which packet is next, when it is due, and its RTP header.
//!
//! Indices and times are absolute: in a file that repeats they keep growing with every lap. Each
//! `PLAY` orders one segment; sequence numbers and timestamps continue from segment to segment (RFC
//! 2326 appendix B).

use std::sync::Arc;

use seam::Instant;
use std::time::Duration;
use wire::containers::{Packet, Track};
use wire::rtp;

use super::title::Title;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// The maximum number of packets that can be owed; a greater difference means that the sequence
/// number lies in the past.
const OWED_MAX: u64 = 4096;

/// A range of packets, and the moment at which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub first: u64,
    /// The packet after the last one.
    pub stop: u64,
    /// The time in the file at `begin`.
    pub from_ns: u64,
    /// The moment of `from_ns`.
    pub begin: Instant,
    /// The sequence number of the first packet.
    pub sequence: u16,
    pub timestamp: u32,
    /// The last packet is followed by a BYE.
    pub ends: bool,
}

/// Ticks of a clock in a span of nanoseconds.
pub fn ticks(ns: u64, clock: u32) -> u64 {
    (u128::from(ns) * u128::from(clock) / u128::from(SECOND)) as u64
}

/// A track's packets on an endless timeline, lap after lap.
#[derive(Debug)]
pub struct Line<F> {
    pub title: Arc<Title<F>>,
    pub track: usize,
}

impl<F> Clone for Line<F> {
    fn clone(&self) -> Line<F> {
        Line::of(&self.title, self.track)
    }
}

impl<F> Line<F> {
    /// The timeline of a title's track.
    pub fn of(title: &Arc<Title<F>>, track: usize) -> Line<F> {
        Line { title: title.clone(), track }
    }

    #[inline]
    pub fn track(&self) -> &Track {
        &self.title.program.tracks[self.track]
    }

    /// The number of packets in a lap.
    #[inline]
    pub fn lap(&self) -> u64 {
        self.track().plan.len()
    }

    /// The due time of the packet, in the file's time. The index after the last has the end of the
    /// file.
    #[inline]
    pub fn at_ns(&self, index: u64) -> u64 {
        let lap = self.lap();
        let at = self.track().plan.at_ns(index % lap).unwrap_or(0);
        (index / lap).saturating_mul(self.title.program.duration_ns).saturating_add(at)
    }

    /// The packet, with its time and ticks on the whole timeline.
    #[inline]
    pub fn packet(&self, index: u64) -> Packet {
        let lap = self.lap();
        let mut packet = self.track().plan.packet(index % lap);
        let laps = index / lap;
        if laps > 0 {
            let before = laps.saturating_mul(self.title.program.duration_ns);
            packet.at_ns = packet.at_ns.saturating_add(before);
            packet.ticks = packet.ticks.saturating_add(ticks(before, self.track().clock));
        }
        packet
    }

    /// The first packet that is due at `ns` or later.
    pub fn first_at(&self, ns: u64) -> u64 {
        let duration = self.title.program.duration_ns;
        (ns / duration) * self.lap() + self.track().plan.first_at(ns % duration)
    }

    /// The last packet at or before `ns` at which a player can begin.
    pub fn sync_at(&self, ns: u64) -> u64 {
        let duration = self.title.program.duration_ns;
        (ns / duration) * self.lap() + self.track().plan.sync_at(ns % duration)
    }

    /// The first packet from `index` on at which a player can begin.
    pub fn sync_from(&self, index: u64) -> u64 {
        let lap = self.lap();
        (index / lap) * lap + self.track().plan.sync_from(index % lap)
    }
}

/// A position within a segment.
#[derive(Debug)]
pub struct Cursor<F> {
    pub line: Line<F>,
    pub segment: Segment,
    pub next: u64,
    /// The ticks of the first packet, from which timestamps count.
    first_ticks: u64,
}

impl<F> Cursor<F> {
    pub fn new(line: Line<F>, segment: Segment) -> Cursor<F> {
        let first_ticks = line.packet(segment.first).ticks;
        Cursor { line, segment, next: segment.first, first_ticks }
    }

    /// The moment at which the time `ns` of the file is due.
    #[inline]
    pub fn moment(&self, ns: u64) -> Instant {
        self.segment.begin + Duration::from_nanos(ns.saturating_sub(self.segment.from_ns))
    }

    /// When the next packet is due; `None` after the last one.
    #[inline]
    pub fn due(&self) -> Option<Instant> {
        (self.next < self.segment.stop).then(|| self.moment(self.line.at_ns(self.next)))
    }

    /// When the last packet before the next one is due; `None` before the first of the segment.
    pub fn last_due(&self) -> Option<Instant> {
        let has_last = self.next > self.segment.first;
        has_last.then(|| self.moment(self.line.at_ns(self.next - 1)))
    }

    #[inline]
    pub fn packet(&self, index: u64, ssrc: u32) -> (Packet, [u8; rtp::HEADER]) {
        let packet = self.line.packet(index);
        let Segment { first, sequence, timestamp, .. } = self.segment;
        let header = rtp::Header {
            marker: packet.marker,
            payload_type: self.line.track().payload_type,
            sequence: sequence.wrapping_add((index - first) as u16),
            timestamp: timestamp.wrapping_add(packet.ticks.wrapping_sub(self.first_ticks) as u32),
            ssrc,
        };
        (packet, header.bytes())
    }

    /// True if `segment` differs from the current one at most in its end.
    #[inline]
    pub fn is_at(&self, segment: &Segment) -> bool {
        (segment.first, segment.begin) == (self.segment.first, self.segment.begin)
    }

    /// The number of packets that must still be sent before the segment `behind` begins, by
    /// sequence number; 0 if the two do not connect.
    pub fn owed(&self, behind: &Segment) -> u64 {
        let Segment { first, sequence, stop, .. } = self.segment;
        let number = sequence.wrapping_add((self.next - first) as u16);
        let owed = u64::from(behind.sequence.wrapping_sub(number));
        if owed <= stop.saturating_sub(self.next) && owed < OWED_MAX { owed } else { 0 }
    }

    /// The timestamp that a packet of this moment would have.
    pub fn timestamp_at(&self, moment: Instant) -> u32 {
        let clock = self.line.track().clock;
        let since = u64::try_from(moment.since(self.segment.begin).as_nanos()).unwrap_or(u64::MAX);
        let now = ticks(self.segment.from_ns.saturating_add(since), clock);
        self.segment.timestamp.wrapping_add(now.wrapping_sub(self.first_ticks) as u32)
    }

    /// When the BYE is due: at the end of the last packet's time.
    pub fn end(&self) -> Instant {
        let duration = self.line.title.program.duration_ns;
        let stop = self.segment.stop;
        let at_lap_end = stop > 0 && stop.is_multiple_of(self.line.lap());
        let ns =
            if at_lap_end { (stop / self.line.lap()) * duration } else { self.line.at_ns(stop) };
        self.moment(ns)
    }
}
