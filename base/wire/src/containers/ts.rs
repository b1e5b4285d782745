//! MPEG transport streams (ISO/IEC 13818-1): seven packets of 188 bytes to a datagram, paced by the
//! program clock reference that the stream itself carries (RFC 2250 section 2).
//!
//! The clock is read from the first PID that carries one. If it jumps, as between two joined
//! recordings, time continues at the previous pace.

use std::io::{Read, Seek, SeekFrom};

use super::plan::{Clocked, Kind, Plan, SECOND, Track, scaled};
use super::{PACKETS_MAX, Program, Unplayable, fill};

const PACKET: usize = 188;
const SYNC_BYTE: u8 = 0x47;
/// Packets per datagram: 1316 bytes, as usual.
const GROUP: usize = 7;
/// The number of streams that are searched for their first presentation time.
const STREAMS: usize = 16;
/// The PID of the program association table.
const PROGRAMS: u16 = 0;
/// The payload type (RFC 3551).
const PAYLOAD_TYPE: u8 = 33;
/// Ticks of its timestamps a second.
const CLOCK: u32 = 90_000;
/// Ticks of the program clock a second; it wraps at 2^33 times 300.
const PCR_HZ: u64 = 27_000_000;
/// Where the program clock wraps.
const PCR_WRAP: u64 = (1 << 33) * 300;
/// The clock must be sent every 100 ms, so a greater difference between two readings is a jump.
const JUMP: u64 = 2 * PCR_HZ;
/// The minimum distance of kept readings in nanoseconds; closer ones would only add jitter.
const READING_NS: u64 = 20_000_000;
/// Program tables belong to the next picture if they are this close to it; they must be repeated at
/// least every half second.
const TABLES: u64 = PCR_HZ / 2;
/// The number of bytes of the file that are read at once.
const READ: usize = PACKET * GROUP * 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PacketInfo {
    /// The PID, 13 bits; 0 is the program association table.
    pid: u16,
    /// The program clock, in ticks of 27 MHz.
    pcr: Option<u64>,
    /// A player can start at this packet.
    sync: bool,
}

/// Reads the header of a packet of [`PACKET`] bytes; `None` if it is invalid.
fn inspect(packet: &[u8]) -> Option<PacketInfo> {
    if packet.len() < PACKET || packet[0] != SYNC_BYTE {
        return None;
    }
    let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
    let mut told = PacketInfo { pid, pcr: None, sync: false };
    let (has_field, field_len) = (packet[3] & 0x20 != 0, packet[4]);
    if has_field && field_len > 0 {
        let flags = packet[5];
        told.sync = flags & 0x40 != 0;
        if flags & 0x10 != 0 && field_len >= 7 {
            let base = u64::from(u32::from_be_bytes([packet[6], packet[7], packet[8], packet[9]]));
            let base = (base << 1) | u64::from(packet[10] >> 7);
            let rest = u64::from(packet[10] & 1) << 8 | u64::from(packet[11]);
            told.pcr = Some(base * 300 + rest);
        }
    }
    Some(told)
}

/// The presentation time of the picture or audio frame that begins in this packet, in ticks of 90
/// kHz (ISO/IEC 13818-1 section 2.4.3.7).
fn shown(packet: &[u8]) -> Option<u64> {
    let begins = packet[1] & 0x40 != 0 && packet[3] & 0x10 != 0;
    let field = if packet[3] & 0x20 != 0 { 1 + usize::from(packet[4]) } else { 0 };
    let [0, 0, 1, 0xbd | 0xc0..=0xef, _, _, _, flags, _, time @ ..] = packet.get(4 + field..)?
    else {
        return None;
    };
    let &[a, b, c, d, e, ..] = time else { return None };
    let high = u64::from(a >> 1 & 7) << 30;
    let middle = u64::from(u16::from_be_bytes([b, c]) >> 1) << 15;
    let low = u64::from(u16::from_be_bytes([d, e]) >> 1);
    (begins && flags & 0x80 != 0).then_some(high | middle | low)
}

/// The readings of the clock so far.
#[derive(Default)]
struct Watch {
    /// The PID whose clock is used.
    pid: Option<u16>,
    /// Byte and ticks of the latest reading.
    last: Option<(u64, u64)>,
    /// Ticks since the first reading.
    elapsed: u64,
    /// Bytes and nanoseconds.
    readings: Vec<(u64, u64)>,
}

impl Watch {
    fn read(&mut self, at: u64, pid: u16, pcr: u64) {
        if *self.pid.get_or_insert(pid) != pid {
            return;
        }
        if let Some((last_at, last)) = self.last {
            let gone = (pcr + PCR_WRAP - last) % PCR_WRAP;
            let gone = if gone > JUMP { self.usual(at - last_at) } else { gone };
            self.elapsed += gone;
        }
        self.last = Some((at, pcr));
        let ns = scaled(self.elapsed, SECOND, PCR_HZ);
        let is_new = self.readings.last().is_none_or(|(_, last)| ns >= last + READING_NS);
        if is_new {
            self.readings.push((at, ns));
        }
    }

    /// The ticks that `bytes` take at the average rate so far.
    fn usual(&self, bytes: u64) -> u64 {
        match (self.readings.first(), self.readings.last()) {
            (Some((from, _)), Some((to, ns))) if to > from => {
                scaled(scaled(bytes, *ns, to - from), PCR_HZ, SECOND)
            }
            _ => 0,
        }
    }

    /// The readings, shifted so that the first byte is due at nanosecond 0.
    fn finish(mut self) -> Result<Vec<(u64, u64)>, Unplayable> {
        let few = Unplayable::Damaged("expected a program clock at two places, found fewer");
        let [(first, first_ns), (second, second_ns), ..] = self.readings[..] else {
            return Err(few);
        };
        if first > 0 {
            let lead = scaled(first, second_ns - first_ns, second - first);
            self.readings.iter_mut().for_each(|(_, ns)| *ns += lead);
            self.readings.insert(0, (0, 0));
        }
        Ok(self.readings)
    }
}

/// Makes the plan of a transport stream.
pub fn open(file: &mut (impl Read + Seek)) -> Result<Program, Unplayable> {
    file.seek(SeekFrom::Start(0))?;
    let mut piece = vec![0; READ];
    let mut watch = Watch::default();
    let mut syncs = Vec::new();
    // The last program association table, and the clock there.
    let mut tables = None;
    let mut firsts: Vec<(u16, u64)> = Vec::new();
    let mut at = 0_u64;
    'file: loop {
        let filled = fill(file, &mut piece)?;
        for packet in piece[..filled].chunks_exact(PACKET) {
            let Some(told) = inspect(packet) else { break 'file };
            if let Some(pcr) = told.pcr {
                watch.read(at, told.pid, pcr);
            }
            let group = (at / (PACKET * GROUP) as u64) as u32;
            let is_first = || firsts.len() < STREAMS && firsts.iter().all(|it| it.0 != told.pid);
            if let Some(shown) = shown(packet).filter(|_| is_first()) {
                firsts.push((told.pid, shown));
            }
            if told.pid == PROGRAMS {
                tables = Some((group, watch.elapsed));
            }
            if told.sync && watch.pid == Some(told.pid) {
                // A player that starts here needs the program tables first.
                let near = tables.filter(|(_, ticks)| watch.elapsed - ticks <= TABLES);
                let from = near.map_or(group, |(from, _)| from);
                if syncs.last().is_none_or(|last| *last < from) {
                    syncs.push(from);
                }
            }
            at += PACKET as u64;
        }
        if filled < piece.len() {
            break;
        }
    }
    if at / (PACKET * GROUP) as u64 >= PACKETS_MAX as u64 {
        return Err(Unplayable::Damaged("the stream is longer than half a day"));
    }
    let readings = watch.finish()?;
    let bytes = (PACKET * GROUP) as u64;
    let first = firsts.iter().map(|(_, shown)| *shown).min().unwrap_or(0);
    let begins_ns = scaled(first, SECOND, CLOCK.into());
    let clocked = Clocked { data: 0..at, bytes, readings, syncs, begins_ns };
    let duration_ns = clocked.ns_at(at).max(1);
    let track = Track {
        kind: Kind::Video,
        payload_type: PAYLOAD_TYPE,
        encoding: "MP2T/90000".to_owned(),
        parameters: None,
        clock: CLOCK,
        bits: scaled(at * 8, SECOND, duration_ns),
        plan: Plan::from(clocked),
    };
    let (tracks, left_out) = (vec![track], Vec::new());
    Ok(Program { tracks, duration_ns, made: [].into(), left_out })
}
