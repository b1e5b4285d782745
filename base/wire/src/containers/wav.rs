//! RIFF WAVE: μ-law, A-law and 16-bit samples in packets of 20 ms (RFC 3551 section 4.2).
//!
//! A chunk's length is limited by that of the file: an interrupted recorder leaves 0 or the largest
//! number there.

use std::io::{Read, Seek, SeekFrom};

use super::plan::{Even, Kind, SECOND, Track, scaled};
use super::{PAYLOAD_MAX, Program, Unplayable, fill};

/// Codes of `wFormatTag`.
const PCM: u16 = 0x0001;
const ALAW: u16 = 0x0006;
const MULAW: u16 = 0x0007;
/// The real code is in the first two bytes of the sub-format.
const EXTENSIBLE: u16 = 0xfffe;
/// The default packet time of audio in milliseconds (RFC 3551).
const PACKET_MS: u64 = 20;
/// A dynamic payload type.
const DYNAMIC: u8 = 97;

/// The content of the chunk `fmt `.
struct Format {
    code: u16,
    channels: u16,
    rate: u32,
    /// Bytes of one sample of all channels.
    block: u16,
    bits: u16,
}

/// Makes the plan of a WAVE file.
pub fn open(file: &mut (impl Read + Seek)) -> Result<Program, Unplayable> {
    let len = file.seek(SeekFrom::End(0))?;
    let mut at = 12;
    let mut format = None;
    loop {
        file.seek(SeekFrom::Start(at))?;
        let mut head = [0; 8];
        if fill(file, &mut head)? < head.len() {
            return Err(Unplayable::Damaged("expected a chunk `data`, found the end"));
        }
        let size = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        let from = at + 8;
        match &head[..4] {
            b"fmt " => format = Some(read_format(file, size)?),
            b"data" => {
                let format =
                    format.ok_or(Unplayable::Damaged("expected `fmt ` in front of `data`"))?;
                let whole = if size == 0 { len - from } else { size.min(len - from) };
                return plan(&format, from, whole);
            }
            _ => {}
        }
        // Chunks begin at even offsets.
        at = from + size + size % 2;
    }
}

fn read_format(file: &mut impl Read, size: u64) -> Result<Format, Unplayable> {
    let mut bytes = [0; 26];
    let wanted = bytes.len().min(size as usize);
    if fill(file, &mut bytes[..wanted])? < 16 {
        return Err(Unplayable::Damaged("expected 16 bytes of `fmt `, found fewer"));
    }
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let code = if short(0) == EXTENSIBLE { short(24) } else { short(0) };
    Ok(Format {
        code,
        channels: short(2),
        rate: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        block: short(12),
        bits: short(14),
    })
}

fn plan(format: &Format, from: u64, len: u64) -> Result<Program, Unplayable> {
    let &Format { code, channels, rate, block, bits } = format;
    let name = match (code, bits) {
        (MULAW, 8) => "PCMU",
        (ALAW, 8) => "PCMA",
        (PCM, 16) => "L16",
        _ => {
            return Err(Unplayable::Codec(format!(
                "μ-law, A-law or PCM of 16 bits, found format {code:#06x} of {bits} bits; ffmpeg \
                 -i FILE -c:a pcm_s16le NEW.wav makes one"
            )));
        }
    };
    let frame = u64::from(channels) * u64::from(bits / 8);
    if frame == 0 || frame != u64::from(block) || rate == 0 || rate > 768_000 || channels > 16 {
        return Err(Unplayable::Damaged("expected 1 to 16 channels in whole samples at a rate"));
    }
    let len = len - len % frame;
    if len == 0 {
        return Err(Unplayable::Damaged("expected samples, found none"));
    }
    let per_packet = (u64::from(rate) * PACKET_MS / 1000).min(PAYLOAD_MAX as u64 / frame).max(1);
    // Static payload types of RFC 3551.
    let payload_type = match (name, rate, channels) {
        ("PCMU", 8_000, 1) => 0,
        ("PCMA", 8_000, 1) => 8,
        ("L16", 44_100, 2) => 10,
        ("L16", 44_100, 1) => 11,
        _ => DYNAMIC,
    };
    let encoding =
        if channels == 1 { format!("{name}/{rate}") } else { format!("{name}/{rate}/{channels}") };
    let even = Even {
        data: from..from + len,
        bytes: per_packet * frame,
        samples: per_packet,
        rate,
        swapped: name == "L16",
    };
    let track = Track {
        kind: Kind::Audio,
        payload_type,
        encoding,
        parameters: None,
        clock: rate,
        bits: u64::from(rate) * frame * 8,
        plan: even.into(),
    };
    let duration_ns = scaled(len / frame, SECOND, rate.into()).max(1);
    let (tracks, left_out) = (vec![track], Vec::new());
    Ok(Program { tracks, duration_ns, made: [].into(), left_out })
}
