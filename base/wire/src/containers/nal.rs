//! Fragments pictures of H.264 (RFC 6184, packetization mode 1) and H.265 (RFC 7798) into payloads:
//! units that fit are sent whole, longer ones as fragments (FU), and each key picture is preceded
//! by the parameter sets in one payload (STAP-A, AP). A receiver joins those of H.264 again.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use super::plan::Prefix;
use super::{PAYLOAD_MAX, Unplayable, fill};

/// Types of payloads of H.264.
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
const KIND: u8 = 0x1f;
/// Types of payloads of H.265.
const AP: u8 = 48;
const FU: u8 = 49;
/// The type of a unit of a key picture of H.264.
const KEY: u8 = 5;
/// The bytes before each unit in the byte stream format of H.264.
const START: [u8; 4] = [0, 0, 0, 1];
/// The importance of a unit (NRI), copied to its carrier.
const IMPORTANCE: u8 = 0x60;
/// The bits of a unit's first byte of H.265 that are no type: the error bit, and a layer's highest.
const BESIDE: u8 = 0x81;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// Units begin with one byte.
    H264,
    /// Units begin with two bytes.
    H265,
}

impl Standard {
    /// The name of its encoding in a description.
    pub fn name(self) -> &'static str {
        match self {
            Standard::H264 => "H264",
            Standard::H265 => "H265",
        }
    }

    /// The length of a unit's header, in bytes.
    fn head(self) -> usize {
        match self {
            Standard::H264 => 1,
            Standard::H265 => 2,
        }
    }

    /// The parameter sets as one payload; `None` if there are none or they do not fit.
    pub fn together(self, sets: &[&[u8]]) -> Option<Vec<u8>> {
        let importance =
            sets.iter().map(|set| set.first().map_or(0, |it| it & IMPORTANCE)).max()?;
        let mut payload = match self {
            Standard::H264 => vec![importance | STAP_A],
            // A payload of one unit is that unit (RFC 7798 section 4.4.2).
            Standard::H265 if sets.len() == 1 => sets[0].to_vec(),
            // The lowest layer, and the lowest of the sets' temporal ids.
            Standard::H265 => vec![AP << 1, 1],
        };
        if self == Standard::H264 || sets.len() > 1 {
            for set in sets {
                payload.extend_from_slice(&u16::try_from(set.len()).ok()?.to_be_bytes());
                payload.extend_from_slice(set);
            }
        }
        (payload.len() <= PAYLOAD_MAX).then_some(payload)
    }

    /// Appends the payloads of the picture at `sample` in the file to `cuts`. Each of its units has
    /// a length prefix of `length_size` bytes.
    pub fn cut(
        self,
        file: &mut (impl Read + Seek),
        sample: Range<u64>,
        length_size: usize,
        cuts: &mut Vec<Cut>,
    ) -> Result<(), Unplayable> {
        let mut at = sample.start;
        while at < sample.end {
            // A length of up to four bytes, and the unit's header.
            let mut front = [0; 6];
            file.seek(SeekFrom::Start(at))?;
            let front = &mut front[..length_size + self.head()];
            let broken =
                || Unplayable::Damaged("expected units of H.264 or H.265 that fill their sample");
            if fill(file, front)? <= length_size {
                return Err(broken());
            }
            let (length, first) = front.split_at(length_size);
            let len = length.iter().fold(0_u64, |len, byte| len << 8 | u64::from(*byte));
            let start = at + length_size as u64;
            at = start + len;
            if at > sample.end {
                return Err(broken());
            }
            if len >= self.head() as u64 {
                self.unit(first, start..at, cuts);
            }
        }
        Ok(())
    }

    fn unit(self, first: &[u8], unit: Range<u64>, cuts: &mut Vec<Cut>) {
        if unit.end - unit.start <= PAYLOAD_MAX as u64 {
            cuts.push(Cut { prefix: Prefix::default(), range: unit });
            return;
        }
        // The header of each fragment replaces that of the unit and is one byte longer.
        let mut from = unit.start + self.head() as u64;
        let mut edge = BEGINS;
        while from < unit.end {
            let to = unit.end.min(from + PAYLOAD_MAX as u64 - self.head() as u64 - 1);
            if to == unit.end {
                edge |= ENDS;
            }
            let prefix = match self {
                Standard::H264 => {
                    Prefix::new(&[first[0] & (0x80 | IMPORTANCE) | FU_A, edge | first[0] & KIND])
                }
                Standard::H265 => Prefix::new(&[
                    first[0] & BESIDE | FU << 1,
                    first[1],
                    edge | first[0] >> 1 & 0x3f,
                ]),
            };
            cuts.push(Cut { prefix, range: from..to });
            (from, edge) = (to, 0);
        }
    }
}

/// Appends the units in the payloads of a picture to `out`, each after a start code, and returns
/// whether one belongs to a key picture. The payloads come with their sequence numbers, in order; a
/// unit that lacks a fragment is left out.
pub fn join<'a>(payloads: impl IntoIterator<Item = (u16, &'a [u8])>, out: &mut Vec<u8>) -> bool {
    let mut is_key = false;
    let mut put = |unit: &[&[u8]], out: &mut Vec<u8>| {
        let first = unit.concat().first().map(|first| first & KIND);
        is_key |= first == Some(KEY);
        out.extend_from_slice(&START);
        unit.iter().for_each(|bytes| out.extend_from_slice(bytes));
    };
    // The unit that fragments have begun: its place in `out`, and the next sequence number.
    let mut begun: Option<(usize, u16)> = None;
    for (sequence, payload) in payloads {
        let (first, mut rest) =
            payload.split_first().map_or((0, payload), |(it, rest)| (*it, rest));
        let fragment = rest.split_first().filter(|_| first & KIND == FU_A);
        let edge = fragment.map_or(BEGINS, |(edge, _)| *edge);
        let mut start = begun.take();
        // Another unit begins, or a fragment is missing.
        if start.is_some_and(|(_, next)| edge & BEGINS != 0 || next != sequence) {
            out.truncate(start.take().map_or(out.len(), |(start, _)| start));
        }
        match (first & KIND, fragment) {
            (FU_A, Some((edge, bytes))) => {
                let place = start.map_or(out.len(), |(start, _)| start);
                match (edge & BEGINS != 0, start) {
                    (true, _) => put(&[&[first & !KIND | edge & KIND], bytes], out),
                    (false, Some(_)) => out.extend_from_slice(bytes),
                    (false, None) => continue,
                }
                begun = (edge & ENDS == 0).then_some((place, sequence.wrapping_add(1)));
            }
            (STAP_A, _) => {
                while let Some((len, after)) = rest.split_first_chunk() {
                    let len = usize::from(u16::from_be_bytes(*len));
                    let Some((set, after)) = after.split_at_checked(len) else { break };
                    put(&[set], out);
                    rest = after;
                }
            }
            (1..STAP_A, _) => put(&[payload], out),
            _ => {}
        }
    }
    out.truncate(begun.map_or(out.len(), |(start, _)| start));
    is_key
}
