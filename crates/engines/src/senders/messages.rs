//! Packets sent from where they lie, by sendmsg(2) each or by sendmmsg(2) together: no read, one
//! copy.

use seam::Burst;
use sys::udp::Batch;

use super::Transmit;
use super::outlet::{Count, Outlet};

/// One call for each packet (`wheel-mmap`).
#[derive(Default)]
pub struct Each(Batch);

impl Transmit for Each {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        outlet.each_run(burst, count, |socket, run| {
            self.0.send_each(socket, false, |filling| {
                for packet in run {
                    filling.datagram(packet.to);
                    outlet.write(filling, burst, packet);
                }
            })
        });
    }
}

/// One call for all that is due, over all casts (`sendmmsg`).
#[derive(Default)]
pub struct Many(Batch);

impl Transmit for Many {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        outlet.each_run(burst, count, |socket, run| {
            self.0.send(socket, |filling| {
                for packet in run {
                    filling.datagram(packet.to);
                    outlet.write(filling, burst, packet);
                }
            })
        });
    }
}
