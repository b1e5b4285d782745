//! Audio and video files as plans of packets: which bytes of the file are sent when, and after
//! which header.
//!
//! ```text
//!   plan    the result: tracks, their packets, their times
//!   ts      MPEG transport streams, seven packets to a datagram, paced by their clock (RFC 2250)
//!   wav     RIFF WAVE: PCMU, PCMA, L16 (RFC 3551)
//!   mp4     ISO base media: H.264 (RFC 6184), H.265 (RFC 7798), AAC (RFC 3640) and Opus
//!   edits   which part of an MP4 track is presented, and when
//!   nal     fragments pictures of H.264 and H.265 into payloads
//!   ogg     Ogg: Opus (RFC 7587)
//! ```
//!
//! A plan is made once, in one pass over the file, and shared by all its players. It holds no
//! media: packets name ranges of the file, like the hint tracks of QuickTime. So a plan takes at
//! most some thirty bytes a packet, and a sender may take the bytes from a mapping, from a read, or
//! from the page cache.

mod edits;
mod mp4;
mod nal;
mod ogg;
mod plan;
pub mod ts;
mod wav;

#[cfg(test)]
mod tests;

use std::io::{self, Read, Seek};

pub use nal::join as join_avc;
pub use plan::{Kind, Packet, Payload, Plan, Prefix, Program, Track};

/// The largest payload of a packet, in bytes. Seven packets of a transport stream take 1316; 1400
/// bytes with 12 + 8 + 40 bytes of headers stay below the 1500 of Ethernet and leave room for a
/// tunnel.
pub const PAYLOAD_MAX: usize = 1400;
/// The most packets of one track: half a day of video at 20 Mbit/s.
const PACKETS_MAX: usize = 1 << 26;

/// Reads `file` and makes its plan, whatever kind of file it is.
///
/// # Errors
/// [`Unplayable`] says what was expected, what was found and what to do.
pub fn open(file: &mut (impl Read + Seek)) -> Result<Program, Unplayable> {
    let mut magic = [0; 12];
    let read = fill(file, &mut magic)?;
    file.rewind()?;
    match &magic[..read] {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E'] => wav::open(file),
        [0x47, ..] => ts::open(file),
        [b'O', b'g', b'g', b'S', ..] => ogg::open(file),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] | [_, _, _, _, b'm', b'o', b'o', b'v', ..] => {
            mp4::open(file)
        }
        [] => Err(Unplayable::Empty),
        _ => Err(Unplayable::Kind),
    }
}

/// Fills `into` as far as the file reaches.
fn fill(file: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Why a file cannot be played.
#[derive(Debug, derive_more::Display, derive_more::From)]
pub enum Unplayable {
    /// The file format is unknown.
    #[display(
        "expected a file of MPEG-TS, WAV, MP4 (H.264, H.265, AAC, Opus) or Ogg (Opus), found \
         another kind; ffmpeg -i FILE -c:v libx264 -c:a aac NEW.mp4 makes one of most"
    )]
    Kind,
    /// The file has no bytes.
    #[display("expected a file of media, found an empty one; is it complete?")]
    Empty,
    /// The file has an index for each of its fragments.
    #[display(
        "expected an MP4 with one index, found one in fragments; ffmpeg -i FILE -c copy NEW.mp4 \
         joins them"
    )]
    Fragments,
    /// The format is known, the codec is not.
    #[display("expected a codec that is sent here, {_0}")]
    Codec(String),
    /// The file is damaged or incomplete.
    #[display("the file is damaged: {_0}")]
    Damaged(&'static str),
    /// The file cannot be read.
    #[display("the file cannot be read: {_0}")]
    #[from]
    Io(io::Error),
}

impl std::error::Error for Unplayable {}
