//! `wheel-mmap`: sendmsg(2) for each packet, directly from the memory of its bytes: no read, one
//! copy.

use seam::Burst;
use sys::udp::Batch;

use super::outlet::{Count, Outlet};
use super::{Sender, SenderRow, Start, Transmit};

pub(super) const ROW: SenderRow = SenderRow {
    sender: Sender::WheelMmap,
    name: "wheel-mmap",
    how: "timer wheel; sendmsg a packet from the mapped file",
    needs: "nothing",
    sends_files: false,
    sets_up_queues: false,
    start: |_| Ok(Start::wheel(WheelMmap::default())),
};

/// One call for each packet (`wheel-mmap`).
#[derive(Default)]
pub struct WheelMmap(Batch);

impl Transmit for WheelMmap {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        outlet.each_run(burst, count, |socket, run| {
            self.0.send_each(socket, |filling| {
                for packet in run {
                    filling.datagram(packet.to);
                    outlet.write(filling, burst, packet);
                }
            })
        });
    }
}
