//! The plan of a file: its tracks, and for each the packets with their times.
//!
//! Tracks of equal, equidistant packets are a formula; transport streams are interpolated between
//! readings of their clock; everything else is a table. All answer two questions in constant or
//! logarithmic time: the packet at index `i`, and the index at time `t`.

use std::ops::Range;
use std::sync::Arc;

/// A playable file.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its tracks, at least one.
    pub tracks: Vec<Track>,
    /// Its duration in nanoseconds; at least one.
    pub duration_ns: u64,
    /// Bytes that are not contiguous in the file: aggregates and scattered packets.
    pub made: Arc<[u8]>,
    /// The names of tracks that cannot be sent.
    pub left_out: Vec<String>,
}

/// The kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sound.
    Audio,
    /// Pictures, or both in a transport stream.
    Video,
}

/// One track: its description and its packets.
#[derive(Clone, Debug)]
pub struct Track {
    /// Audio or video.
    pub kind: Kind,
    /// The payload type, 0 to 127.
    pub payload_type: u8,
    /// The value of `a=rtpmap` after the payload type, such as `MP2T/90000`.
    pub encoding: String,
    /// The value of `a=fmtp` after the payload type, if any.
    pub parameters: Option<String>,
    /// The clock rate of the timestamp in hertz.
    pub clock: u32,
    /// The mean rate of the payload, in bits a second.
    pub bits: u64,
    /// Its packets.
    pub plan: Plan,
}

/// One packet: when it is due, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it is due, in nanoseconds from the start of the file.
    pub at_ns: u64,
    /// Its timestamp, in ticks from the start of the file.
    pub ticks: u64,
    /// Its marker bit.
    pub marker: bool,
    /// Whether a player can start here.
    pub sync: bool,
    /// The bytes between the RTP header and the payload's bytes.
    pub prefix: Prefix,
    /// The payload's bytes.
    pub payload: Payload,
}

/// Up to four bytes of a payload format's own header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    bytes: [u8; 4],
    len: u8,
}

impl Prefix {
    /// These bytes, four at most.
    pub fn new(prefix: &[u8]) -> Prefix {
        let mut bytes = [0; 4];
        bytes[..prefix.len()].copy_from_slice(prefix);
        Prefix { bytes, len: prefix.len() as u8 }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The location of a payload's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// In the file, as they are sent.
    File(Range<u64>),
    /// In the file, with the two bytes of each sample swapped.
    Swapped(Range<u64>),
    /// In [`Program::made`].
    Made(Range<usize>),
}

impl Payload {
    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Payload::File(range) | Payload::Swapped(range) => (range.end - range.start) as usize,
            Payload::Made(range) => range.len(),
        }
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The packets of a track.
#[derive(Clone, Debug, derive_more::From)]
#[from(Even, Clocked, Vec<Listed>)]
pub struct Plan {
    shape: Shape,
}

#[derive(Clone, Debug, derive_more::From)]
enum Shape {
    #[from]
    Even(Even),
    #[from]
    Clocked(Clocked),
    #[from(Vec<Listed>)]
    Listed(Box<[Listed]>),
}

/// Equal packets of samples.
#[derive(Clone, Debug)]
pub(super) struct Even {
    pub data: Range<u64>,
    /// Bytes of a packet; the last one may be shorter.
    pub bytes: u64,
    pub samples: u64,
    /// Samples a second.
    pub rate: u32,
    /// The bytes of each sample are swapped.
    pub swapped: bool,
}

/// Packets timed by readings of a clock.
#[derive(Clone, Debug)]
pub(super) struct Clocked {
    pub data: Range<u64>,
    /// Bytes of a packet; the last one may be shorter.
    pub bytes: u64,
    /// Ascending readings: bytes from the start of the data, nanoseconds. At least two; the first
    /// is at byte 0 and nanosecond 0.
    pub readings: Vec<(u64, u64)>,
    /// Packets at which a player can start, ascending.
    pub syncs: Vec<u32>,
    /// The stream's own time at its start, in nanoseconds.
    pub begins_ns: u64,
}

/// A packet of a table.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub at_ns: u64,
    pub ticks: u64,
    pub from: u64,
    pub len: u32,
    pub prefix: Prefix,
    pub flags: u8,
}

/// Flags of [`Listed`].
pub(super) const MARKER: u8 = 1;
pub(super) const SYNC: u8 = 2;
pub(super) const MADE: u8 = 4;

/// `count * numerator / denominator` without overflow.
pub(super) fn scaled(count: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(count) * u128::from(numerator);
    u64::try_from(product / u128::from(denominator.max(1))).unwrap_or(u64::MAX)
}

pub(super) const SECOND: u64 = 1_000_000_000;

impl Plan {
    /// The number of packets; at least one.
    pub fn len(&self) -> u64 {
        match &self.shape {
            Shape::Even(even) => (even.data.end - even.data.start).div_ceil(even.bytes),
            Shape::Clocked(clocked) => {
                (clocked.data.end - clocked.data.start).div_ceil(clocked.bytes)
            }
            Shape::Listed(listed) => listed.len() as u64,
        }
    }

    /// The media's own time at its start, in nanoseconds: 0, except for transport streams, whose
    /// presentation times start anywhere.
    pub fn begins_ns(&self) -> u64 {
        match &self.shape {
            Shape::Clocked(clocked) => clocked.begins_ns,
            Shape::Even(_) | Shape::Listed(_) => 0,
        }
    }

    /// True if there are no packets, which never happens in a program.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packet at `index`.
    ///
    /// # Panics
    /// If `index` is beyond the end.
    #[inline]
    pub fn packet(&self, index: u64) -> Packet {
        assert!(index < self.len(), "a packet beyond the plan");
        match &self.shape {
            Shape::Even(even) => even.packet(index),
            Shape::Clocked(clocked) => clocked.packet(index),
            Shape::Listed(listed) => listed[index as usize].packet(),
        }
    }

    /// When the packet at `index` is due, in nanoseconds from the start; `None` beyond the end.
    #[inline]
    pub fn at_ns(&self, index: u64) -> Option<u64> {
        if index >= self.len() {
            return None;
        }
        Some(match &self.shape {
            Shape::Even(even) => even.at_ns(index),
            Shape::Clocked(clocked) => clocked.ns_at(index * clocked.bytes),
            Shape::Listed(listed) => listed[index as usize].at_ns,
        })
    }

    /// The first packet that is due at `ns` or later; [`Plan::len`] if none is.
    pub fn first_at(&self, ns: u64) -> u64 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.at_ns(middle) {
                Some(at) if at < ns => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// The last packet at or before `ns` at which a player can start.
    pub fn sync_at(&self, ns: u64) -> u64 {
        let after = self.first_at(ns.saturating_add(1));
        let last = after.saturating_sub(1);
        match &self.shape {
            Shape::Even(_) => last,
            Shape::Clocked(clocked) => {
                let syncs = clocked.syncs.partition_point(|sync| u64::from(*sync) <= last);
                if syncs == 0 { last } else { u64::from(clocked.syncs[syncs - 1]) }
            }
            Shape::Listed(listed) => (0..=last)
                .rev()
                .find(|index| listed[*index as usize].flags & SYNC != 0)
                .unwrap_or(0),
        }
    }

    /// The first packet from `index` on at which a player can start; [`Plan::len`] if there is
    /// none.
    pub fn sync_from(&self, index: u64) -> u64 {
        match &self.shape {
            Shape::Even(_) => index.min(self.len()),
            Shape::Clocked(clocked) => {
                let before = clocked.syncs.partition_point(|sync| u64::from(*sync) < index);
                clocked.syncs.get(before).map_or(self.len(), |sync| u64::from(*sync))
            }
            Shape::Listed(listed) => (index..self.len())
                .find(|index| listed[*index as usize].flags & SYNC != 0)
                .unwrap_or(self.len()),
        }
    }
}

impl Even {
    fn at_ns(&self, index: u64) -> u64 {
        scaled(index * self.samples, SECOND, self.rate.into())
    }

    fn packet(&self, index: u64) -> Packet {
        let from = self.data.start + index * self.bytes;
        let range = from..(from + self.bytes).min(self.data.end);
        Packet {
            at_ns: self.at_ns(index),
            ticks: index * self.samples,
            // The first packet after silence (RFC 3551 section 4.1).
            marker: index == 0,
            sync: true,
            prefix: Prefix::default(),
            payload: if self.swapped { Payload::Swapped(range) } else { Payload::File(range) },
        }
    }
}

impl Clocked {
    /// The due time of the byte `offset` of the data, interpolated between the readings around it,
    /// or extrapolated from the last two.
    pub fn ns_at(&self, offset: u64) -> u64 {
        let readings = &self.readings;
        let after = readings.partition_point(|(at, _)| *at <= offset);
        let after = after.clamp(1, readings.len() - 1);
        let ((from, from_ns), (to, to_ns)) = (readings[after - 1], readings[after]);
        from_ns + scaled(offset.saturating_sub(from), to_ns - from_ns, to - from)
    }

    fn packet(&self, index: u64) -> Packet {
        let offset = index * self.bytes;
        let from = self.data.start + offset;
        let at_ns = self.ns_at(offset);
        Packet {
            at_ns,
            ticks: scaled(at_ns, 90_000, SECOND),
            // Only set at a discontinuity of the clock (RFC 2250 section 2); there is none.
            marker: false,
            sync: self.syncs.binary_search(&(index as u32)).is_ok(),
            prefix: Prefix::default(),
            payload: Payload::File(from..(from + self.bytes).min(self.data.end)),
        }
    }
}

impl Listed {
    fn packet(&self) -> Packet {
        let to = self.from + u64::from(self.len);
        Packet {
            at_ns: self.at_ns,
            ticks: self.ticks,
            marker: self.flags & MARKER != 0,
            sync: self.flags & SYNC != 0,
            prefix: self.prefix,
            payload: if self.flags & MADE != 0 {
                Payload::Made(self.from as usize..to as usize)
            } else {
                Payload::File(self.from..to)
            },
        }
    }
}
