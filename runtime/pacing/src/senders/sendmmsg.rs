//! `sendmmsg`: one sendmmsg(2) for all due packets, directly from the memory of their bytes: no
//! read, one copy.

use seam::Burst;
use sys::udp::Batch;

use super::outlet::{Count, Outlet};
use super::{Sender, SenderRow, Start, Transmit};

pub(super) const ROW: SenderRow = SenderRow {
    sender: Sender::Sendmmsg,
    name: "sendmmsg",
    how: "timer wheel; one sendmmsg for all that is due",
    needs: "Linux 3.0",
    sends_files: false,
    sets_up_queues: false,
    start: |_| Ok(Start::wheel(Sendmmsg::default())),
};

/// One call for all due packets, over all streams.
#[derive(Default)]
pub struct Sendmmsg(Batch);

impl Transmit for Sendmmsg {
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
