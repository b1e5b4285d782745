//! The buffer of a receiver that plays: each picture is due a fixed time after the moment at which
//! its packets would have arrived on an undisturbed way. Packets that come later are of no use.
//!
//! The demonstration in the browser calls `packet` for each arrival and `due` until it returns
//! nothing. The least transit time so far stands for the undisturbed way (as in `Track`), and the
//! depth of the buffer is added to it. Packets wait in units, one per timestamp; a unit is played
//! when its moment has come, whole or not, in the order of decoding. A packet that belongs to a
//! unit already played is late, one that never came is missing, and both are reported so that the
//! page can draw them.

use std::collections::BTreeMap;

use load::listen::Track;
use wire::containers::join_avc;
use wire::rtp::Packet;

/// The most lost packets that are reported at once.
const REPORTED_MAX: i64 = 1024;
/// Values of lateness that the track keeps.
const KEPT: usize = 256;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrived before its picture was due.
    InTime,
    /// It arrived too late.
    Late,
    /// It had not arrived when its picture was due.
    Missing,
}

/// A packet and its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketFate {
    /// Its sequence number, counted on beyond 16 bits.
    pub number: i64,
    /// How much longer it took than the fastest, in nanoseconds; 0 if it is missing.
    pub delay_ns: i64,
    /// Its fate.
    pub fate: Fate,
}

/// A picture that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its time in the stream, in microseconds.
    pub time_us: i64,
    /// Decoders can begin with it.
    pub is_key: bool,
    /// Every packet of it came in time.
    pub is_whole: bool,
    /// Its units, each after a start code.
    pub bytes: Vec<u8>,
}

/// The packets of a picture by their numbers.
#[derive(Default)]
struct Unit {
    payloads: BTreeMap<i64, Vec<u8>>,
    /// The number of the packet that is marked as the last.
    end: Option<i64>,
}

/// The buffer.
pub struct Playout {
    /// The statistics of RFC 3550.
    pub track: Track,
    /// Packets that came too late.
    pub late: u64,
    /// Pictures that were due with at least one packet, and those of them that were damaged.
    pub pictures: (u64, u64),
    clock: i64,
    /// The highest number and the highest timestamp so far.
    highest: Option<(i64, i64)>,
    first_ns: i64,
    /// The least transit time so far: arrival minus time in the stream.
    base_ns: i64,
    units: BTreeMap<i64, Unit>,
    /// The last packet of the last picture that was due, and whether it has the mark.
    played: Option<(i64, bool)>,
}

impl Playout {
    /// A buffer for timestamps that count `clock` ticks a second.
    pub fn new(clock: u32) -> Playout {
        Playout {
            track: Track::new(clock, KEPT),
            late: 0,
            pictures: (0, 0),
            clock: i64::from(clock.max(1)),
            highest: None,
            first_ns: 0,
            base_ns: i64::MAX,
            units: BTreeMap::new(),
            played: None,
        }
    }

    fn media_ns(&self, ticks: i64) -> i64 {
        (i128::from(ticks) * 1_000_000_000 / i128::from(self.clock)) as i64
    }

    /// Takes a packet that arrived at `now_ns`; pictures are due `buffer_ns` after their time.
    pub fn packet(&mut self, packet: &Packet<'_>, now_ns: i64, buffer_ns: i64) -> PacketFate {
        let header = &packet.header;
        self.track.packet(header, packet.payload.len(), now_ns.cast_unsigned());
        let (sequence, stamp) = (i64::from(header.sequence), i64::from(header.timestamp));
        let (highest, latest) = self.highest.unwrap_or((sequence, stamp));
        let step = (header.sequence.wrapping_sub(highest as u16)).cast_signed();
        let number = highest + i64::from(step);
        let step = (header.timestamp.wrapping_sub(latest as u32)).cast_signed();
        let ticks = latest + i64::from(step);
        let media_ns = self.media_ns(ticks);
        if self.highest.is_none() {
            self.first_ns = media_ns;
        }
        self.highest = Some((highest.max(number), latest.max(ticks)));
        self.base_ns = self.base_ns.min(now_ns - media_ns);
        let delay_ns = now_ns - media_ns - self.base_ns;
        let is_over = self.played.is_some_and(|(last, _)| number <= last);
        if is_over || delay_ns > buffer_ns {
            self.late += 1;
            return PacketFate { number, delay_ns, fate: Fate::Late };
        }
        let unit = self.units.entry(ticks).or_default();
        unit.payloads.insert(number, packet.payload.to_vec());
        unit.end = unit.end.or(header.marker.then_some(number));
        PacketFate { number, delay_ns, fate: Fate::InTime }
    }

    /// The next picture that is due, and the packets that it waited for in vain.
    pub fn due(&mut self, now_ns: i64, buffer_ns: i64) -> Option<(Picture, Vec<PacketFate>)> {
        // In the order of decoding, which is not that of time if there are B pictures.
        let first = |(_, unit): &(&i64, &Unit)| *unit.payloads.keys().next().unwrap_or(&0);
        let ticks = *self.units.iter().min_by_key(first)?.0;
        let media_ns = self.media_ns(ticks);
        if now_ns < self.base_ns.saturating_add(media_ns).saturating_add(buffer_ns) {
            return None;
        }
        let unit = self.units.remove(&ticks)?;
        let (first, last) = (*unit.payloads.keys().next()?, *unit.payloads.keys().next_back()?);
        let (before, is_ended) = self.played.unwrap_or((first - 1, true));
        let from = (before + 1).max(last - REPORTED_MAX);
        let missing = (from..last).filter(|number| !unit.payloads.contains_key(number));
        let missing: Vec<PacketFate> =
            missing.map(|number| PacketFate { number, delay_ns: 0, fate: Fate::Missing }).collect();
        // Packets before the first belong to the picture before, if that has no end.
        let begins = !is_ended || first <= before + 1;
        let has_gap = missing.iter().any(|it| it.number > first);
        let is_whole = begins && !has_gap && unit.end == Some(last);
        self.played = Some((last, unit.end == Some(last)));
        let mut bytes = Vec::new();
        let payloads = unit.payloads.iter().map(|(number, it)| (*number as u16, it.as_slice()));
        let is_key = join_avc(payloads, &mut bytes);
        self.pictures.0 += 1;
        self.pictures.1 += u64::from(!is_whole);
        let time_us = (media_ns - self.first_ns) / 1000;
        Some((Picture { time_us, is_key, is_whole, bytes }, missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::rtp::Header;

    const MS: i64 = 1_000_000;

    /// Packets of two a picture, 40 ms apart: the number of each, and its delay in milliseconds. A
    /// number's picture is half of it.
    fn played(came: &[(u16, i64)]) -> (Playout, Vec<Fate>, Vec<bool>) {
        let mut playout = Playout::new(90_000);
        let mut at: Vec<(i64, u16)> = came
            .iter()
            .map(|(number, late)| (i64::from(number / 2) * 40 + late, *number))
            .collect();
        at.sort_unstable();
        let (mut fates, mut whole) = (Vec::new(), Vec::new());
        for now in 0..1000 {
            for (_, number) in at.iter().filter(|(at, _)| *at == now) {
                let header = Header {
                    marker: number % 2 == 1,
                    payload_type: 96,
                    // Both counters wrap on the way.
                    sequence: 65_534_u16.wrapping_add(*number),
                    timestamp: (u32::MAX - 4000).wrapping_add(u32::from(number / 2) * 3600),
                    ssrc: 1,
                };
                let payload = [0x65 - 4 * u8::from(*number > 1), 1];
                let packet = Packet { header, payload: &payload };
                fates.push(playout.packet(&packet, now * MS, 100 * MS).fate);
            }
            while let Some((picture, missing)) = playout.due(now * MS, 100 * MS) {
                fates.extend(missing.iter().map(|it| it.fate));
                assert_eq!(picture.is_key, picture.time_us == 0);
                whole.push(picture.is_whole);
            }
        }
        (playout, fates, whole)
    }

    #[test]
    fn a_picture_waits_for_its_packets_and_no_longer() {
        use Fate::{InTime, Late, Missing};
        let (playout, fates, whole) = played(&[(0, 0), (1, 90), (2, 0), (3, 30), (4, 0), (5, 0)]);
        assert_eq!((fates, whole), (vec![InTime; 6], vec![true; 3]));
        assert_eq!((playout.late, playout.pictures, playout.track.counts().lost), (0, (3, 0), 0));
        // The second packet is lost, the fifth too late.
        let (playout, fates, whole) = played(&[(0, 0), (2, 0), (3, 0), (4, 150), (5, 0)]);
        assert_eq!(fates, [InTime, InTime, InTime, InTime, Missing, Missing, Late]);
        assert_eq!(whole, [false, true, false]);
        let counts = playout.track.counts();
        assert_eq!((playout.late, playout.pictures, counts.lost), (1, (3, 2), 1));
        assert_eq!((counts.packets, counts.reordered), (5, 1));
    }
}
