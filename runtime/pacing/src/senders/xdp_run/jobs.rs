//! Packets as rows of the table that the program reads.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use sys::bpf::Table;

/// The length in bytes of the headers of Ethernet, IPv4 and UDP.
pub const HEADS: usize = 42;
/// The length without Ethernet's header.
pub const PLAIN_HEADS: usize = 28;
/// Most bytes of a packet: the room in an ordinary frame.
pub const PACKET_MAX: usize = 1472;
/// Packets of one call; the row before the first holds the program's progress.
pub const PACKETS: usize = 1024;
/// The length of a row in bytes. It is not a power of two, because the fields of all rows would
/// then share a few cache lines.
const ROW: usize = 1600;

/// Offsets of the fields of a row.
pub const STATUS: i16 = 0;
pub const DEVICE: i16 = 4;
pub const SOURCE: i16 = 8;
pub const TO: i16 = 12;
pub const PORTS: i16 = 16;
pub const LEN: i16 = 20;
pub const SUM: i16 = 24;
pub const CUT: i16 = 28;
/// The first and the third word of the IPv4 header, without its length and checksum.
pub const FIRST: i16 = 32;
pub const NUMBER: i16 = 34;
pub const FRAGMENT: i16 = 36;
pub const HOPS: i16 = 38;
pub const BYTES: i16 = 64;

/// Fields of the row before the first: packets taken, and packets in all.
pub const TAKEN: i16 = 0;
pub const COUNT: i16 = 4;

/// Base of the status that reports a failed route lookup.
pub const ROUTE_FAILED: u32 = 256;

/// The outcome of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The row was not taken.
    Waits,
    /// The packet has left.
    Left,
    /// The route has no neighbour's address yet.
    NoNeighbour,
    /// The route has changed, or there is none.
    Rerouted,
}

/// The header fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The device that it leaves by; 0 for this machine.
    pub way: u32,
    pub from: (Ipv4Addr, u16),
    pub to: (Ipv4Addr, u16),
    /// Type of service and TTL.
    pub service: u8,
    pub hops: u8,
    /// `Identification` of the IPv4 header.
    pub number: u16,
}

/// A table for jobs.
pub fn table() -> std::io::Result<Table> {
    Table::new(ROW / 4, PACKETS + 1)
}

/// Writes row `index` of those that leave together, in frames made for packets of `longest` bytes.
/// The packet is both `parts` together.
pub fn write(table: &mut Table, index: usize, job: &Job, parts: [&[u8]; 2], longest: usize) {
    let [front, behind] = parts;
    let len = front.len() + behind.len();
    let mut head = [0; BYTES as usize];
    let mut put = |at: i16, bytes: &[u8]| head[at as usize..][..bytes.len()].copy_from_slice(bytes);
    put(DEVICE, &job.way.to_ne_bytes());
    put(SOURCE, &job.from.0.octets());
    put(TO, &job.to.0.octets());
    put(PORTS, &job.from.1.to_be_bytes());
    put(PORTS + 2, &job.to.1.to_be_bytes());
    put(LEN, &(len as u32).to_ne_bytes());
    put(SUM, &u32::from(sum(parts)).to_ne_bytes());
    put(CUT, &(len as i32 - longest as i32).to_ne_bytes());
    put(FIRST, &[0x45, job.service]);
    put(NUMBER, &job.number.to_be_bytes());
    // Don't fragment: either the packet fits, or it is returned.
    put(FRAGMENT, &[0x40, 0]);
    put(HOPS, &[job.hops, 17]);
    table.put(index + 1, 0, &head);
    table.put(index + 1, BYTES as usize, front);
    table.put(index + 1, BYTES as usize + front.len(), behind);
}

/// Allows the program to take `count` rows.
pub fn open(table: &Table, count: usize) {
    table.write(0, &[0, count as u32]);
}

/// The outcome of row `index`.
pub fn fate(table: &Table, index: usize) -> Fate {
    let status = &table.row(index + 1)[STATUS as usize / 4];
    match status.load(Ordering::Acquire) {
        0 => Fate::Waits,
        1 => Fate::Left,
        // BPF_FIB_LKUP_RET_NO_NEIGH
        status if status == ROUTE_FAILED + 7 => Fate::NoNeighbour,
        _ => Fate::Rerouted,
    }
}

/// The sum of 16-bit words with end-around carry (RFC 1071), in memory order.
fn sum([front, behind]: [&[u8]; 2]) -> u16 {
    let (front_sum, behind_sum) = (sum_of(front), sum_of(behind));
    // If the first part has an odd number of bytes, the second begins with the other half of a
    // word.
    let is_odd = !front.len().is_multiple_of(2);
    let behind_sum = if is_odd { behind_sum.swap_bytes() } else { behind_sum };
    let (sum, carry) = front_sum.overflowing_add(behind_sum);
    sum + u16::from(carry)
}

fn sum_of(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain(std::iter::once(&last));
    let mut sum: u64 = words.map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_that_of_its_words_however_many_bytes_there_are() {
        let bytes: Vec<u8> = (0..2000_u32).map(|at| (at * 37 + at / 5) as u8).collect();
        for len in (0..70).chain([1471, 1472, 2000]) {
            let words = bytes[..len].chunks(2);
            let slow = words.fold(0_u32, |sum, word| {
                let word = u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]);
                let sum = sum + u32::from(word);
                (sum & 0xffff) + (sum >> 16)
            });
            // Memory order is network order, swapped on most machines.
            for front in [0, 1, 2, 3, 12, 13].map(|it| it.min(len)) {
                let parts = [&bytes[..front], &bytes[front..len]];
                assert_eq!(u16::from_be(sum(parts)), slow as u16, "{front} of {len}");
            }
        }
    }
}
