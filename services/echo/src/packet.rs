//! A packet has ten bytes, all little-endian: a length field of two, which is always 8, and a
//! payload of eight.
//!
//! Clients use the payload as a number; the server never looks at it.

/// The length of a packet in bytes, its length field included.
pub const PACKET: usize = 10;
/// Bytes of the length field.
pub const HEAD: usize = 2;
/// The required value of the length field: the payload's length.
pub const LENGTH: u16 = 8;
/// The number that the server sends on accept.
pub const LOGIN: u64 = 0x7fff_ffff_ffff_ffff;

/// The packet that carries `number`.
#[must_use]
pub fn packet(number: u64) -> [u8; PACKET] {
    let mut bytes = [0; PACKET];
    bytes[..HEAD].copy_from_slice(&LENGTH.to_le_bytes());
    bytes[HEAD..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The front of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Bytes of whole, valid packets.
    pub whole: usize,
    /// The length that the next packet claims, if it has arrived and is wrong.
    pub bad_length: Option<u16>,
}

/// Finds the whole packets at the front of `bytes`, at most `packets_max` of them.
///
/// A packet with a wrong length is detected by its first two bytes; its end is unknown, so nothing
/// after it can be trusted.
#[must_use]
pub fn front(bytes: &[u8], packets_max: usize) -> Front {
    let expected = LENGTH.to_le_bytes();
    let (whole, _) = bytes.as_chunks::<PACKET>();
    let looked_at = whole.len().min(packets_max);
    let right = whole[..looked_at].iter().take_while(|packet| packet[..HEAD] == expected).count();
    let rest = &bytes[right * PACKET..];
    let claims = rest.first_chunk::<HEAD>().map(|head| u16::from_le_bytes(*head));
    // After `packets_max` packets, the next one has not been checked.
    let bad_length = claims.filter(|&length| length != LENGTH && right < packets_max);
    Front { whole: right * PACKET, bad_length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_library() {
        assert_eq!(packet(LOGIN), *b"\x08\0\xff\xff\xff\xff\xff\xff\xff\x7f");
        assert_eq!(packet(0x1000), *b"\x08\0\0\x10\0\0\0\0\0\0");
    }

    #[test]
    fn a_wrong_length_is_found_as_soon_as_it_is_known() {
        let check = |bytes: &[u8], most: usize, whole: usize, bad_length: Option<u16>| {
            assert_eq!(front(bytes, most), Front { whole, bad_length }, "{bytes:?}, {most}");
        };
        let two = [packet(1), packet(2)].concat();
        check(&two, 9, 20, None);
        check(&two[..19], 9, 10, None);
        check(&two, 1, 10, None);
        check(b"", 9, 0, None);
        check(b"\x09", 9, 0, None);
        check(b"\x09\0", 9, 0, Some(9));
        check(&[&two[..], b"\x08\x01"].concat(), 9, 20, Some(0x108));
        check(&[&two[..10], b"\0\0\0\0\0\0\0\0\0\0"].concat(), 9, 10, Some(0));
        check(&[&two[..10], b"\0\0"].concat(), 1, 10, None);
    }
}
