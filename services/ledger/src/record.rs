//! One order as 48 bytes, and the head of a segment, which is as long. Numbers are little-endian.
//!
//! ```text
//!   0 length   4 lag   8 number   16 request   24 left   32 stock   36 change   40 prev   44 crc
//!   0 "rhorders"       8 first order           16 zeros                         40 prev   44 crc
//! ```

/// The length of a record, and of a segment's head.
pub(crate) const LEN: usize = 48;
const MAGIC: &[u8; 8] = b"rhorders";

/// An executed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderRecord {
    /// Its number; the first order has 1.
    pub seq: u64,
    /// The client's number for it, which it may send again; 0: none.
    pub request: u64,
    /// The stock's id.
    pub stock: u32,
    /// The number of shares that the market gained: positive for `sell`, negative for `buy`.
    pub change: i32,
    /// The number left afterwards.
    pub left: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked {
    pub record: OrderRecord,
    /// The last order that was durable when this one was written.
    pub durable: u64,
    /// The checksum of the predecessor.
    pub prev: u32,
    pub crc: u32,
}

impl OrderRecord {
    /// Appends the record to `out` as the successor of the one with checksum `prev`, while orders
    /// up to `durable` are on the disk. Returns its checksum.
    pub(crate) fn encode(&self, durable: u64, prev: u32, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        let lag = u32::try_from(self.seq - durable).unwrap_or(u32::MAX);
        out.extend_from_slice(&(LEN as u32).to_le_bytes());
        out.extend_from_slice(&lag.to_le_bytes());
        out.extend_from_slice(&self.seq.to_le_bytes());
        out.extend_from_slice(&self.request.to_le_bytes());
        out.extend_from_slice(&self.left.to_le_bytes());
        out.extend_from_slice(&self.stock.to_le_bytes());
        out.extend_from_slice(&self.change.to_le_bytes());
        seal(start, prev, out)
    }

    /// The record in `bytes`, if it is whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Linked> {
        let (prev, crc) = opened(bytes)?;
        if u32_at(bytes, 0) != LEN as u32 {
            return None;
        }
        let seq = u64_at(bytes, 8);
        let record = OrderRecord {
            seq,
            request: u64_at(bytes, 16),
            left: u64_at(bytes, 24),
            stock: u32_at(bytes, 32),
            change: u32_at(bytes, 36) as i32,
        };
        let durable = seq.saturating_sub(u32_at(bytes, 4).into());
        Some(Linked { record, durable, prev, crc })
    }
}

/// The head of a segment whose first order is `first`, after a record with checksum `prev`.
pub(crate) fn head(first: u64, prev: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(LEN);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&first.to_le_bytes());
    out.resize(LEN - 8, 0);
    seal(0, prev, &mut out);
    out
}

/// The first order of a segment and the checksum before it, if its head is whole.
pub(crate) fn read_head(bytes: &[u8]) -> Option<(u64, u32)> {
    let (prev, _) = opened(bytes)?;
    bytes.starts_with(MAGIC).then(|| (u64_at(bytes, 8), prev))
}

/// Appends `prev` and the checksum of all since `start`, and returns that.
fn seal(start: usize, prev: u32, out: &mut Vec<u8>) -> u32 {
    out.extend_from_slice(&prev.to_le_bytes());
    let crc = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
    crc
}

/// The checksums at the end of `bytes`, if the last one is right.
fn opened(bytes: &[u8]) -> Option<(u32, u32)> {
    let bytes = bytes.get(..LEN)?;
    let crc = u32_at(bytes, LEN - 4);
    (crc == crc32fast::hash(&bytes[..LEN - 4])).then(|| (u32_at(bytes, LEN - 8), crc))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_and_no_changed_bit_does() {
        let record = OrderRecord { seq: 9, request: 77, stock: 5, change: -3, left: 1 << 60 };
        let mut bytes = Vec::new();
        let crc = record.encode(6, 0xabcd, &mut bytes);
        let found = OrderRecord::decode(&bytes).expect("whole");
        assert_eq!((found.record, found.durable), (record, 6));
        assert_eq!((found.prev, found.crc, bytes.len()), (0xabcd, crc, LEN));
        let mut segment = head(10, crc);
        assert_eq!(read_head(&segment), Some((10, crc)));
        for bit in 0..LEN * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            segment[bit / 8] ^= 1 << (bit % 8);
            assert!(OrderRecord::decode(&bytes).is_none() && read_head(&segment).is_none());
            bytes[bit / 8] ^= 1 << (bit % 8);
            segment[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(OrderRecord::decode(&[0; LEN]).is_none() && read_head(&[0; LEN]).is_none());
        assert!(OrderRecord::decode(&bytes[..LEN - 1]).is_none());
    }
}
