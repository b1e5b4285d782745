//! The fixed header of RTP (RFC 3550 section 5.1), written and read.
//!
//! Our packets have no padding, extension or contributing sources, so the header is always twelve
//! bytes and is written without a branch. Received packets may have all of them; [`Packet::read`]
//! skips to the payload.

/// The length of a header without extension and contributing sources, in bytes.
pub const HEADER: usize = 12;
/// The version in the two highest bits of the first byte.
const VERSION: u8 = 2;

/// The header of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The marker bit, which the payload format defines.
    pub marker: bool,
    /// The payload type, 0 to 127.
    pub payload_type: u8,
    /// One more than in the packet before, modulo 2^16.
    pub sequence: u16,
    /// The sampling time in ticks of the payload's clock, from a random start.
    pub timestamp: u32,
    /// The synchronisation source.
    pub ssrc: u32,
}

impl Header {
    /// The encoded header.
    #[inline]
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = VERSION << 6;
        bytes[1] = (u8::from(self.marker) << 7) | (self.payload_type & 0x7f);
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }
}

/// A received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its header.
    pub header: Header,
    /// Its payload, without padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a datagram; `None` unless it is RTP version 2 and its lengths add up.
    pub fn read(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let (fixed, rest) = bytes.split_first_chunk::<HEADER>()?;
        if fixed[0] >> 6 != VERSION {
            return None;
        }
        let (padded, extended) = (fixed[0] & 0x20 != 0, fixed[0] & 0x10 != 0);
        let mut rest = rest.get(4 * usize::from(fixed[0] & 0x0f)..)?;
        if extended {
            let (profile, behind) = rest.split_first_chunk::<4>()?;
            let words = u16::from_be_bytes([profile[2], profile[3]]);
            rest = behind.get(4 * usize::from(words)..)?;
        }
        if padded {
            let padding = usize::from(*rest.last()?);
            if padding == 0 {
                return None;
            }
            rest = rest.get(..rest.len().checked_sub(padding)?)?;
        }
        let header = Header {
            marker: fixed[1] & 0x80 != 0,
            payload_type: fixed[1] & 0x7f,
            sequence: u16::from_be_bytes([fixed[2], fixed[3]]),
            timestamp: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            ssrc: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        };
        Some(Packet { header, payload: rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtp_types::{RtpPacket, RtpPacketBuilder};

    #[test]
    fn what_is_written_is_what_others_read() {
        for (marker, payload_type, sequence) in [(false, 33, 0), (true, 127, 65_535), (true, 0, 7)]
        {
            let header = Header {
                marker,
                payload_type,
                sequence,
                timestamp: 0xdead_beef,
                ssrc: 0x0102_0304,
            };
            let mut bytes = header.bytes().to_vec();
            bytes.extend_from_slice(b"payload");
            let theirs = RtpPacket::parse(&bytes).expect("a packet");
            assert_eq!(theirs.marker_bit(), marker);
            assert_eq!(theirs.payload_type(), payload_type);
            assert_eq!(theirs.sequence_number(), sequence);
            assert_eq!(theirs.timestamp(), header.timestamp);
            assert_eq!(theirs.ssrc(), header.ssrc);
            assert_eq!(theirs.payload(), b"payload");
            let ours = Packet::read(&bytes).expect("a packet");
            assert_eq!(ours, Packet { header, payload: b"payload" });
        }
    }

    #[test]
    fn what_others_write_is_read_with_all_that_may_stand_in_front_and_behind() {
        let theirs = RtpPacketBuilder::new()
            .payload_type(96)
            .sequence_number(9)
            .timestamp(10)
            .ssrc(11)
            .add_csrc(12)
            .add_csrc(13)
            .extension(0xbede, &b"12345678"[..])
            .padding(5)
            .payload(&b"abc"[..])
            .write_vec()
            .expect("a packet");
        let ours = Packet::read(&theirs).expect("a packet");
        assert_eq!(ours.payload, b"abc");
        assert_eq!((ours.header.sequence, ours.header.timestamp, ours.header.ssrc), (9, 10, 11));
        assert_eq!(Packet::read(&[0x40; 12]), None, "version 1");
        assert_eq!(Packet::read(&[0xa0; 12]), None, "padding that is not there");
    }
}
