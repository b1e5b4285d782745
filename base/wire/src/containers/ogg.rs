//! Opus in Ogg (RFC 3533, RFC 7845): an Opus packet is an RTP packet (RFC 7587), and its first byte
//! tells its duration.
//!
//! We parse pages ourselves because a plan needs the *position* of each packet in the file. Packets
//! that span pages are not contiguous; they are rare and kept in memory.

use std::io::{Read, Seek, SeekFrom};

use super::plan::{Kind, Listed, MADE, MARKER, Prefix, SECOND, SYNC, Track, scaled};
use super::{PACKETS_MAX, PAYLOAD_MAX, Program, Unplayable, fill};

/// The clock of Opus is always 48 kHz (RFC 7587 section 4.1).
pub(super) const RATE: u32 = 48_000;
/// The payload type of audio here: a dynamic one.
pub(super) const PAYLOAD_TYPE: u8 = 97;
/// The length in bytes of a page's header before its segment table.
const HEAD: usize = 27;
/// An Opus frame has at most 1275 bytes; a packet longer than this is not Opus.
const SCATTERED_MAX: usize = 64 * 1024;
const CONTINUED: u8 = 1;

/// The duration of an Opus packet in 48ths of a millisecond (RFC 6716 section 3.1); `None` if its
/// code is invalid.
pub(super) fn samples(front: &[u8]) -> Option<u64> {
    let code = *front.first()?;
    let frame = match code >> 3 {
        // SILK, hybrid, CELT.
        config @ 0..=11 => [480, 960, 1920, 2880][usize::from(config & 3)],
        config @ 12..=15 => [480, 960][usize::from(config & 1)],
        config => [120, 240, 480, 960][usize::from(config & 3)],
    };
    let frames = match code & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u64::from(*front.get(1)? & 0x3f),
    };
    // The maximum is 120 ms.
    (1..=5760).contains(&(frame * frames)).then_some(frame * frames)
}

/// The name of a layout that RTP cannot carry: its packets hold several streams of Opus, and RFC
/// 7587 knows one of one or two channels.
pub(super) fn layout(channels: u8, streams: u8) -> Option<String> {
    (channels > 2 || streams != 1)
        .then(|| format!("Opus with {channels} channels in {streams} streams"))
}

/// The track of Opus, whatever its container.
pub(super) fn track(channels: u8, bits: u64, packets: Vec<Listed>) -> Track {
    let stereo = u8::from(channels > 1);
    Track {
        kind: Kind::Audio,
        payload_type: PAYLOAD_TYPE,
        // Always two channels in the description (RFC 7587 section 7).
        encoding: "opus/48000/2".to_owned(),
        parameters: Some(format!("sprop-stereo={stereo}")),
        clock: RATE,
        bits,
        plan: packets.into(),
    }
}

#[derive(Default)]
struct Reading {
    /// The chosen stream, and its channels.
    stream: Option<(u32, u8)>,
    /// Header packets so far, of two.
    heads: u8,
    /// Samples so far.
    ticks: u64,
    bytes: u64,
    packets: Vec<Listed>,
    made: Vec<u8>,
    /// The packet that continues in the next page.
    scattered: Vec<u8>,
    is_open: bool,
}

/// Makes the plan of an Ogg file.
pub fn open(file: &mut (impl Read + Seek)) -> Result<Program, Unplayable> {
    file.seek(SeekFrom::Start(0))?;
    let mut reading = Reading::default();
    let mut at = 0_u64;
    let (mut table, mut body) = ([0; 255], Vec::new());
    loop {
        let mut head = [0; HEAD];
        if fill(file, &mut head)? < HEAD || &head[..4] != b"OggS" || head[4] != 0 {
            break;
        }
        let segments = usize::from(head[26]);
        let table = &mut table[..segments];
        let len: usize = match fill(file, table)? {
            read if read < segments => break,
            _ => table.iter().map(|len| usize::from(*len)).sum(),
        };
        body.resize(len, 0);
        if fill(file, &mut body)? < len {
            break;
        }
        let from = at + (HEAD + segments) as u64;
        let serial = u32::from_le_bytes([head[14], head[15], head[16], head[17]]);
        reading.page(serial, head[5] & CONTINUED != 0, table, (&body, from))?;
        at = from + len as u64;
    }
    reading.finish()
}

impl Reading {
    /// Reads a page: its segment table, and its body, which starts at `from` in the file.
    fn page(
        &mut self,
        serial: u32,
        continued: bool,
        table: &[u8],
        (body, from): (&[u8], u64),
    ) -> Result<(), Unplayable> {
        if self.stream.is_none() && body.starts_with(b"OpusHead") && body.len() >= 19 {
            // Family 0 has no table of streams (RFC 7845 section 5.1).
            let streams = if body[18] == 0 { 1 } else { body.get(19).copied().unwrap_or(0) };
            if let Some(layout) = layout(body[9], streams) {
                return Err(Unplayable::Codec(format!(
                    "found {layout}; ffmpeg -i FILE -ac 2 -c:a libopus NEW.ogg makes two channels"
                )));
            }
            self.stream = Some((serial, body[9]));
        }
        if self.stream.is_none_or(|(ours, _)| ours != serial) {
            return Ok(());
        }
        if !continued {
            // The packet that was left open was never finished.
            self.scattered.clear();
            self.is_open = false;
        }
        let (mut start, mut end) = (0, 0);
        for len in table {
            end += usize::from(*len);
            if *len == 255 {
                continue;
            }
            if self.is_open {
                self.scattered.extend_from_slice(&body[start..end]);
                let whole = std::mem::take(&mut self.scattered);
                self.is_open = false;
                let place = self.made.len() as u64;
                if self.packet(&whole, place, MADE)? {
                    self.made.extend_from_slice(&whole);
                }
            } else if !(continued && start == 0) {
                self.packet(&body[start..end], from + start as u64, 0)?;
            }
            start = end;
        }
        if start < end {
            self.scattered.extend_from_slice(&body[start..end]);
            self.is_open = true;
            if self.scattered.len() > SCATTERED_MAX {
                return Err(Unplayable::Damaged("expected packets of Opus, found longer ones"));
            }
        }
        Ok(())
    }

    /// Handles a complete packet; returns whether it is audio.
    fn packet(&mut self, packet: &[u8], from: u64, flags: u8) -> Result<bool, Unplayable> {
        if self.heads < 2 {
            self.heads += 1;
            return Ok(false);
        }
        let Some(samples) = samples(packet) else { return Ok(false) };
        if packet.len() > PAYLOAD_MAX || self.packets.len() >= PACKETS_MAX {
            return Err(Unplayable::Damaged("expected packets of 1400 bytes at most"));
        }
        let first = if self.packets.is_empty() { MARKER } else { 0 };
        self.packets.push(Listed {
            at_ns: scaled(self.ticks, SECOND, RATE.into()),
            ticks: self.ticks,
            from,
            len: packet.len() as u32,
            prefix: Prefix::default(),
            flags: flags | SYNC | first,
        });
        self.ticks += samples;
        self.bytes += packet.len() as u64;
        Ok(true)
    }

    fn finish(self) -> Result<Program, Unplayable> {
        let Some((_, channels)) = self.stream else {
            return Err(Unplayable::Codec(
                "Opus, found other streams in the Ogg file; ffmpeg -i FILE -c:a libopus NEW.ogg \
                 makes one"
                    .to_owned(),
            ));
        };
        if self.packets.is_empty() {
            return Err(Unplayable::Damaged("expected packets of sound, found none"));
        }
        let duration_ns = scaled(self.ticks, SECOND, RATE.into()).max(1);
        let bits = scaled(self.bytes * 8, SECOND, duration_ns);
        let tracks = vec![track(channels, bits, self.packets)];
        let (made, left_out) = (self.made.into(), Vec::new());
        Ok(Program { tracks, duration_ns, made, left_out })
    }
}
