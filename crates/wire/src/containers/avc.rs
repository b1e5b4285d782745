//! Fragments H.264 pictures into payloads (RFC 6184, packetization mode 1): units that fit are sent
//! whole, longer ones as fragments (FU-A), and each key picture is preceded by the parameter sets
//! in one payload (STAP-A).

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use super::plan::Prefix;
use super::{PAYLOAD_MAX, Unplayable, fill};

/// Types of payloads.
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
const KIND: u8 = 0x1f;
/// The importance of a unit (NRI), copied to its carrier.
const IMPORTANCE: u8 = 0x60;
/// The fragment starts, or ends, a unit.
const BEGINS: u8 = 0x80;
const ENDS: u8 = 0x40;

/// A payload of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The bytes of the payload header.
    pub prefix: Prefix,
    /// Where the bytes are in the file.
    pub range: Range<u64>,
}

/// The parameter sets as one payload; `None` if there are none or they do not fit.
pub fn together(sets: &[&[u8]]) -> Option<Vec<u8>> {
    let importance = sets.iter().map(|set| set.first().map_or(0, |it| it & IMPORTANCE)).max()?;
    let mut payload = vec![importance | STAP_A];
    for set in sets {
        payload.extend_from_slice(&u16::try_from(set.len()).ok()?.to_be_bytes());
        payload.extend_from_slice(set);
    }
    (payload.len() <= PAYLOAD_MAX).then_some(payload)
}

/// Appends the payloads of the picture at `sample` in the file to `cuts`. Each of its units has a
/// length prefix of `length_size` bytes.
pub fn cut(
    file: &mut (impl Read + Seek),
    sample: Range<u64>,
    length_size: usize,
    cuts: &mut Vec<Cut>,
) -> Result<(), Unplayable> {
    let mut at = sample.start;
    while at < sample.end {
        // A length of up to four bytes, and the unit's first byte.
        let mut front = [0; 5];
        file.seek(SeekFrom::Start(at))?;
        let front = &mut front[..=length_size];
        let broken = || Unplayable::Damaged("expected units of H.264 that fill their sample");
        if fill(file, front)? < front.len() {
            return Err(broken());
        }
        let (length, first) = (&front[..length_size], front[length_size]);
        let len = length.iter().fold(0_u64, |len, byte| len << 8 | u64::from(*byte));
        let start = at + length_size as u64;
        at = start + len;
        if at > sample.end {
            return Err(broken());
        }
        if len > 0 {
            unit(first, start..at, cuts);
        }
    }
    Ok(())
}

fn unit(first: u8, unit: Range<u64>, cuts: &mut Vec<Cut>) {
    if unit.end - unit.start <= PAYLOAD_MAX as u64 {
        cuts.push(Cut { prefix: Prefix::default(), range: unit });
        return;
    }
    // The two header bytes of each fragment replace the unit's first byte.
    let mut from = unit.start + 1;
    let mut edge = BEGINS;
    while from < unit.end {
        let to = unit.end.min(from + PAYLOAD_MAX as u64 - 2);
        if to == unit.end {
            edge |= ENDS;
        }
        let prefix = Prefix::new(&[first & (0x80 | IMPORTANCE) | FU_A, edge | first & KIND]);
        cuts.push(Cut { prefix, range: from..to });
        (from, edge) = (to, 0);
    }
}
