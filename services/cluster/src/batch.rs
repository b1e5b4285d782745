//! A batch as bytes. Numbers are little-endian.
//!
//! ```text
//!   0 "rhbatch2"   8 node   16 first ticket   24 since   32 orders, 16 each   crc
//!                                                        request 8, stock 4, change 4
//! ```

/// The length of an order, and of what precedes the first one.
const LEN: usize = 16;
const FRONT: usize = 32;
const MAGIC: &[u8; 8] = b"rhbatch2";

/// An order that is not executed yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacedOrder {
    /// The client's number for it; 0: none.
    pub request: u64,
    /// The stock's id; 0: a read, which changes nothing and waits for the orders before it.
    pub stock: u32,
    /// The number of shares that the market is to gain: negative for `buy`.
    pub change: i32,
    /// How many numbered orders the node knew to be decided when it took this one
    /// ([`crate::Replica::decided`]).
    pub since: u64,
}

/// Orders of one node. Tickets are its own numbers for them, without gaps from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub node: u64,
    /// The ticket of the first order.
    pub first: u64,
    /// The least [`PlacedOrder::since`] of its numbered orders, which stands for all.
    pub since: u64,
    pub orders: Vec<PlacedOrder>,
}

pub(crate) fn encode(node: u64, first: u64, orders: &[PlacedOrder]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRONT + LEN * orders.len() + 4);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&node.to_le_bytes());
    out.extend_from_slice(&first.to_le_bytes());
    let numbered = orders.iter().filter(|order| order.request != 0);
    let since = numbered.map(|order| order.since).min().unwrap_or(u64::MAX);
    out.extend_from_slice(&since.to_le_bytes());
    for PlacedOrder { request, stock, change, .. } in orders {
        out.extend_from_slice(&request.to_le_bytes());
        out.extend_from_slice(&stock.to_le_bytes());
        out.extend_from_slice(&change.to_le_bytes());
    }
    seal(&mut out);
    out
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Batch> {
    let body = opened(bytes)?;
    let (front, orders) = body.split_at_checked(FRONT)?;
    let since = u64_at(front, 24);
    let order = |order: &[u8]| PlacedOrder {
        since,
        request: u64_at(order, 0),
        stock: u64_at(order, 8) as u32,
        change: (u64_at(order, 8) >> 32) as i32,
    };
    (front.starts_with(MAGIC) && orders.len() % LEN == 0).then(|| Batch {
        node: u64_at(front, 8),
        first: u64_at(front, 16),
        since,
        orders: orders.chunks_exact(LEN).map(order).collect(),
    })
}

pub(crate) fn seal(out: &mut Vec<u8>) {
    let crc = crc32fast::hash(out);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// The bytes before the checksum, if that is right.
pub(crate) fn opened(bytes: &[u8]) -> Option<&[u8]> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    (u32::from_le_bytes(*crc) == crc32fast::hash(body)).then_some(body)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_survives_and_no_changed_bit_does() {
        let orders = [(7, 1, -3), (0, 0, 0), (u64::MAX, u32::MAX, i32::MIN)]
            .map(|(request, stock, change)| PlacedOrder { request, stock, change, since: 5 });
        let mut bytes = encode(9, 11, &orders);
        let orders = orders.to_vec();
        assert_eq!(decode(&bytes), Some(Batch { node: 9, first: 11, since: 5, orders }));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "the first {len} bytes");
        }
    }
}
