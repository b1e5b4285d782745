//! The hash of plans, files and layouts: not against forgers, but the same in every version.

use core::borrow::Borrow;

/// FNV-1a, 64 bits (Fowler, Noll, Vo; constants from RFC 9923).
pub fn fnv1a(bytes: impl IntoIterator<Item = impl Borrow<u8>>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte.borrow())).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    #[test]
    fn published_vectors() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv1a(text.bytes()), hash, "{text}");
        }
    }
}
