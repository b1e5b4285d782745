//! Packets sent from where they lie, by sendmsg(2) each or by sendmmsg(2) together: no read, one
//! copy.

use seam::{Burst, Packet};
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

impl Many {
    /// Sends some packets of a burst.
    pub(super) fn send(
        &mut self,
        outlet: &Outlet<'_>,
        burst: &Burst,
        packets: &[Packet],
        count: &mut Count,
    ) {
        outlet.each_run_of(packets, count, |socket, run| {
            self.0.send(socket, |filling| {
                for packet in run {
                    filling.datagram(packet.to);
                    outlet.write(filling, burst, packet);
                }
            })
        });
    }
}

impl Transmit for Many {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        self.send(outlet, burst, burst.packets(), count);
    }
}
