//! `uring-chain`: a chain of io_uring operations as a queue. After one submission the kernel waits,
//! reads the file and sends.
//!
//! A chain for each stream would wake the thread that submitted it for each packet, inside the
//! kernel, and cost as much as sleeping. So all streams share one chain, and the packets due within
//! a slot of a millisecond share one timeout. The next chain is submitted when this one has ended,
//! because two late chains would overtake each other.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use seam::{Instant, Packet, Payload};
use sys::udp::{ChainRing, Link, LinkBody};

use super::outlet::{Count, Outlet};
use super::queue::{Handed, Queue};
use super::send_plan::{SendPlan, Step};
use super::{Sender, SenderRow, Start};

pub(super) const ROW: SenderRow = SenderRow {
    sender: Sender::UringChain,
    name: "uring-chain",
    how: "the kernel waits, reads, sends: one call for seconds",
    needs: "io_uring",
    sends_files: true,
    sets_up_queues: false,
    start: |_| {
        let ring = ChainRing::new()?;
        Ok(Start::queue(UringChain { ring, chain: None, left: 0 }))
    },
};

/// The maximum number of packets in a chain: few enough to be made and submitted within a slot or
/// two, because the next packets are late until then.
const PACKETS_MAX: usize = 2048;
/// Packets due within this span leave at its end.
const SLOT_NS: u64 = 1_000_000;

/// A ring that holds at most one chain.
pub struct UringChain {
    ring: ChainRing,
    chain: Option<usize>,
    left: u64,
}

impl Queue for UringChain {
    fn hand_over(
        &mut self,
        plan: &mut SendPlan,
        outlet: &Outlet<'_>,
        moment: &dyn Fn(Instant) -> Instant,
        count: &mut Count,
    ) -> io::Result<Vec<Handed>> {
        let slot = |at, _, _: &mut _| moment(at).ns().next_multiple_of(SLOT_NS);
        plan.arrange(1, None, |packet| outlet.has(packet), slot);
        if plan.steps.is_empty() {
            return Ok(Vec::new());
        }
        let links = plan.packets().map(|(at_ns, packet, front)| Link {
            at_ns,
            socket: outlet.sockets.of(packet.channel),
            to: packet.to,
            front,
            body: body(outlet, packet),
        });
        let before = self.ring.calls;
        let chain = self.ring.submit(links);
        count.calls += self.ring.calls - before;
        self.chain = Some(chain?);
        Ok(plan.steps.iter().filter_map(Step::handed).collect())
    }

    fn left(&mut self) -> io::Result<u64> {
        for (_, sent) in self.ring.reap() {
            self.left += sent as u64;
            self.chain = None;
        }
        Ok(self.left)
    }

    fn purge(&mut self) -> io::Result<()> {
        // A chain that has just ended cannot be canceled.
        self.left()?;
        self.chain.map_or(Ok(()), |chain| self.ring.cancel(chain))
    }

    fn window(&self) -> Duration {
        // Only the number of packets is limited, because a slow stream can have one call for many
        // seconds.
        Duration::MAX
    }

    fn packets_max(&self) -> usize {
        PACKETS_MAX
    }

    fn is_counted(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        self.chain.is_none()
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.watched())
    }
}

fn body<'d>(outlet: &'d Outlet<'_>, packet: &'d Packet) -> LinkBody<'d> {
    match &packet.payload {
        Payload::None => LinkBody::None,
        Payload::Shared(bytes, range) => LinkBody::Bytes(&bytes[range.clone()]),
        Payload::File(source, range) => match outlet.files.file(source) {
            Some(file) => LinkBody::File(file, range.start, packet.payload.len() as u32),
            None => LinkBody::None,
        },
    }
}
