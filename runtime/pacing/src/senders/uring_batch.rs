//! `uring-batch`, `uring-zc`: one io_uring_enter(2) for all due packets, as sendmmsg(2) does, with
//! or without a copy.
//!
//! A send to a UDP socket completes while it is submitted, so there is no wait to save, and the
//! ring adds work for each entry. The sender exists so that this can be measured.

use std::io;

use seam::{Burst, Packet};
use sys::udp::{Batch, SendRing};

use super::outlet::{Count, Outlet};
use super::{Row, Sender, Start, Transmit};

pub(super) const ROW: Row = Row {
    sender: Sender::UringBatch,
    name: "uring-batch",
    how: "timer wheel; one io_uring_enter for all that is due",
    needs: "io_uring",
    sends_files: false,
    sets_up_queues: false,
    start: |_| Ok(Start::wheel(UringBatch::new(false)?)),
};

/// One entry for each packet.
pub struct UringBatch {
    ring: SendRing,
    batch: Batch,
}

impl UringBatch {
    /// `zerocopy`: the kernel sends from our pages, and reports when it is done with them.
    ///
    /// # Errors
    /// io_uring is absent or forbidden, or lacks the operation.
    pub fn new(zerocopy: bool) -> io::Result<UringBatch> {
        Ok(UringBatch { ring: SendRing::new(zerocopy)?, batch: Batch::default() })
    }

    fn send(
        &mut self,
        outlet: &Outlet<'_>,
        burst: &Burst,
        run: &[Packet],
        count: &mut Count,
    ) -> io::Result<()> {
        let socket = outlet.sockets.of(run[0].channel);
        let (results, calls) = self.ring.send(&mut self.batch, socket, |filling| {
            for packet in run {
                filling.datagram(packet.to);
                outlet.write(filling, burst, packet);
            }
        })?;
        count.calls += calls;
        for (packet, &result) in run.iter().zip(results) {
            if result >= 0 {
                count.left(std::slice::from_ref(packet));
            } else {
                count.failed += 1;
            }
        }
        Ok(())
    }
}

impl Transmit for UringBatch {
    fn transmit(&mut self, outlet: &Outlet<'_>, burst: &Burst, count: &mut Count) {
        let mut rest = burst.packets();
        while !rest.is_empty() {
            let run = outlet.run(rest);
            if run == 0 {
                count.failed += 1;
                rest = &rest[1..];
                continue;
            }
            if self.send(outlet, burst, &rest[..run], count).is_err() {
                count.failed += run;
            }
            rest = &rest[run..];
        }
    }
}
