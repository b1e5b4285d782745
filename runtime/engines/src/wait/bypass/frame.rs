//! Ethernet frames as the stack needs them: which connection a frame is for, whether it is whole,
//! and the answers to questions for our hardware address.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes of an Ethernet head.
pub const ETHERNET: usize = 14;
/// A frame of ARP without padding (RFC 826).
pub const ARP: usize = 42;
const IPV4: usize = 20;
const TCP: usize = 20;

/// A hardware address.
pub type Mac = [u8; 6];

/// The place of a server on a network.
#[derive(Clone, Copy, Debug)]
pub struct Station {
    /// Its hardware address.
    pub mac: Mac,
    /// Its address and port.
    pub address: SocketAddrV4,
    /// The largest packet, without the Ethernet head.
    pub mtu: usize,
    /// Frames come without having crossed a wire: a sender may have left the checksum to hardware,
    /// and it then holds the sum of the addresses only.
    pub is_virtual: bool,
}

/// A frame for the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'f> {
    /// A question for our hardware address.
    Question {
        /// The hardware address of the machine that asks.
        mac: Mac,
        address: Ipv4Addr,
    },
    /// A segment of TCP for our port.
    Segment(Segment<'f>),
}

/// A segment of TCP in its packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Segment<'f> {
    /// The peer, or the router next to us on its way.
    pub mac: Mac,
    pub peer: SocketAddrV4,
    /// It asks for a new connection.
    pub is_first: bool,
    /// The packet, without the Ethernet head and padding.
    pub packet: &'f [u8],
}

impl Station {
    /// Reads a frame; `None` if it is not for the server, or damaged.
    pub fn read<'f>(&self, frame: &'f [u8]) -> Option<Frame<'f>> {
        let mac = *frame.get(6..)?.first_chunk()?;
        match frame.get(12..14)? {
            [0x08, 0x06] => self.read_question(frame, mac),
            [0x08, 0x00] => self.read_segment(&frame[ETHERNET..], mac).map(Frame::Segment),
            _ => None,
        }
    }

    fn read_question(&self, frame: &[u8], mac: Mac) -> Option<Frame<'static>> {
        let arp = frame.get(ETHERNET..ARP)?;
        // Ethernet, IPv4, their lengths, and a question.
        let is_question = arp[..8] == [0, 1, 8, 0, 6, 4, 0, 1];
        let is_ours = arp[24..28] == self.address.ip().octets();
        let address = Ipv4Addr::from(*arp[14..].first_chunk::<4>()?);
        (is_question && is_ours).then_some(Frame::Question { mac, address })
    }

    fn read_segment<'f>(&self, packet: &'f [u8], mac: Mac) -> Option<Segment<'f>> {
        let half = |at: usize| {
            let bytes = packet.get(at..at + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let len = usize::from(half(2)?);
        let packet = packet.get(..len).filter(|packet| packet.len() >= IPV4 + TCP)?;
        if packet[0] != 0x45 || packet[9] != 6 || packet[16..20] != self.address.ip().octets() {
            return None;
        }
        if half(IPV4 + 2)? != self.address.port() || !self.is_whole(packet) {
            return None;
        }
        let from = Ipv4Addr::from(*packet[12..].first_chunk::<4>()?);
        let flags = packet[IPV4 + 13];
        // SYN, without ACK, RST and FIN.
        let is_first = flags & 0b1_0111 == 0b0_0010;
        let peer = SocketAddrV4::new(from, half(IPV4)?);
        Some(Segment { mac, peer, is_first, packet })
    }

    /// Whether the checksum of the segment is right, or left to hardware that never came.
    fn is_whole(&self, packet: &[u8]) -> bool {
        let segment = &packet[IPV4..];
        let addresses = sum(&packet[12..20], 6 + segment.len() as u32);
        let found = u16::from_be_bytes([segment[16], segment[17]]);
        (self.is_virtual && found == fold(addresses)) || fold(sum(segment, addresses)) == 0xffff
    }

    /// Writes the Ethernet head of a packet to `mac`.
    pub fn write_head(&self, frame: &mut [u8], mac: Mac) {
        frame[..6].copy_from_slice(&mac);
        frame[6..12].copy_from_slice(&self.mac);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
    }

    /// Writes the answer to a question for our hardware address.
    pub fn write_answer(&self, frame: &mut [u8], mac: Mac, address: Ipv4Addr) {
        self.write_head(frame, mac);
        frame[12..22].copy_from_slice(&[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
        frame[22..28].copy_from_slice(&self.mac);
        frame[28..32].copy_from_slice(&self.address.ip().octets());
        frame[32..38].copy_from_slice(&mac);
        frame[38..42].copy_from_slice(&address.octets());
    }
}

/// The sum of 16-bit words (RFC 1071), not folded; at most 64 KiB.
fn sum(bytes: &[u8], start: u32) -> u32 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let sum = pairs.iter().fold(start, |sum, pair| sum + u32::from(u16::from_be_bytes(*pair)));
    sum + rest.first().map_or(0, |last| u32::from(*last) << 8)
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    (once + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Station = Station {
        mac: [2, 0, 0, 0, 0, 1],
        address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 80),
        mtu: 1500,
        is_virtual: false,
    };

    /// A SYN from 10.0.0.2:4096, whose checksum is 0.
    fn first() -> Vec<u8> {
        let mut frame = vec![0; ETHERNET + 46];
        frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
        frame[34..38].copy_from_slice(&[16, 0, 0, 80]);
        frame[46..48].copy_from_slice(&[0x50, 0b0_0010]);
        frame
    }

    #[test]
    fn segments_for_the_port_are_read_if_they_are_whole() {
        let mut frame = first();
        assert_eq!(PLACE.read(&frame), None, "no checksum");
        let addresses = sum(&frame[26..34], 6 + 20);
        let all = fold(sum(&frame[34..54], addresses));
        frame[50..52].copy_from_slice(&(!all).to_be_bytes());
        let Some(Frame::Segment(found)) = PLACE.read(&frame) else { panic!("a segment") };
        assert_eq!((found.peer.to_string().as_str(), found.is_first), ("10.0.0.2:4096", true));
        assert_eq!((found.mac, found.packet.len()), ([2, 0, 0, 0, 0, 2], 40));
        frame[50..52].copy_from_slice(&fold(addresses).to_be_bytes());
        assert_eq!(PLACE.read(&frame), None, "left to hardware");
        let near = Station { is_virtual: true, ..PLACE };
        assert!(near.read(&frame).is_some());
        frame[37] = 81;
        assert_eq!(near.read(&frame), None, "another port");
        for len in 0..frame.len() {
            near.read(&frame[..len]);
        }
    }

    #[test]
    fn a_question_for_our_address_is_answered() {
        let mut ask = [0; ARP];
        let asking = Station {
            mac: [2, 0, 0, 0, 0, 2],
            address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 0),
            ..PLACE
        };
        asking.write_answer(&mut ask, [0; 6], *PLACE.address.ip());
        assert_eq!(PLACE.read(&ask), None, "an answer");
        ask[21] = 1;
        let (mac, address) = (asking.mac, *asking.address.ip());
        assert_eq!(PLACE.read(&ask), Some(Frame::Question { mac, address }));
        assert_eq!(asking.read(&ask), None, "for another");
    }
}
