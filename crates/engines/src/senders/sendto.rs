//! A read of the file and a sendto(2) for each packet: what a plain program does, two calls and two
//! copies.

use std::os::unix::fs::FileExt;

use seam::{Burst, Packet, Payload};
use sys::udp::{Sent, Udp};

use super::Transmit;
use super::outlet::{Count, Outlet};

/// Sends from one buffer.
#[derive(Default)]
pub struct Sendto {
    buffer: Vec<u8>,
}

impl Transmit for Sendto {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        outlet.each_run(burst, count, |socket, run| {
            let mut sent = Sent::default();
            for packet in run {
                match self.send(outlet, burst, packet, socket) {
                    Ok(calls) => {
                        sent.calls += calls;
                        sent.count += 1;
                    }
                    Err(error) => {
                        sent.calls += 1;
                        sent.error = Some(error);
                        break;
                    }
                }
            }
            sent
        });
    }
}

impl Sendto {
    /// Says how many calls it took.
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
        let len = packet.len();
        // It only grows, so that no packet pays for zeroes that are written over at once.
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        let (head, body) = self.buffer[..len].split_at_mut(front.len());
        head.copy_from_slice(front);
        let mut calls = 1;
        match &packet.payload {
            Payload::None => {}
            Payload::Shared(bytes, range) => body.copy_from_slice(&bytes[range.clone()]),
            Payload::File(asset, range) => {
                let file = outlet.files.file(*asset).ok_or(std::io::ErrorKind::NotFound)?;
                file.read_exact_at(body, range.start)?;
                calls += 1;
            }
        }
        socket.send_to(&self.buffer[..len], packet.to, false).map(|_| calls)
    }
}
