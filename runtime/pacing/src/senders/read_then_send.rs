//! A read of the file and a sendto(2) for each packet, as a simple program does: two calls, two
//! copies. `plain` and `plain-abs` send so, and others the packets that they cannot send otherwise.

use seam::{Burst, Packet, Payload};
use sys::udp::Udp;

use super::Transmit;
use super::outlet::{Count, Outlet};

#[derive(Default)]
pub struct ReadThenSend {
    buffer: Vec<u8>,
}

impl Transmit for ReadThenSend {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        outlet.each(burst, count, |socket, packet| self.send(outlet, burst, packet, socket));
    }
}

impl ReadThenSend {
    /// Returns the number of its calls.
    pub(super) fn send(
        &mut self,
        outlet: &Outlet<'_>,
        burst: &Burst,
        packet: &Packet,
        socket: &Udp,
    ) -> std::io::Result<usize> {
        let front = burst.front(packet);
        if packet.payload.is_empty() {
            return socket.send_to(front, packet.to, false).map(|_| 1);
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(front);
        let mut calls = 1;
        match &packet.payload {
            Payload::None => {}
            Payload::Shared(bytes, range) => {
                self.buffer.extend_from_slice(&bytes[range.clone()]);
            }
            Payload::File(source, range) => {
                calls += outlet.files.read(source, range.clone(), &mut self.buffer)?;
            }
        }
        socket.send_to(&self.buffer, packet.to, false).map(|_| calls)
    }
}
