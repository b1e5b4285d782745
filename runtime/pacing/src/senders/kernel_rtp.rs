//! `kernel-rtp`: one call for the packets of a second. The kernel copies the payloads out of its
//! page cache, holds the packets until they are due, writes the whole RTP header of each, and sends
//! it by its timer interrupt: what the published system call for streaming does (read, build the
//! header, send, wait), on an unmodified kernel.
//!
//! The queue is a token bucket, which pauses between packets keep to the schedule (`bucket`), on a
//! device of its own (`device`). Payloads are named by their place in a mapping, so this process
//! never touches their bytes. Where packets leave the queue, a program writes their headers
//! (`head_stamps`).

mod bucket;
mod device;
mod head_stamps;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use seam::{Channel, Instant};
use sys::udp::{Batch, Filling, MESSAGES_MAX, SEGMENTS_MAX, Sent};

use super::maps::Maps;
use super::outlet::{Count, Outlet};
use super::queue::{Handed, Queue};
use super::send_plan::{SendPlan, Step};
use super::{Sender, SenderRow, Start};
use crate::sockets::StreamSockets;
use bucket::{Bucket, DRAIN, PAUSES};
use device::PacedDevice;
pub(super) use head_stamps::{HEAD, HeadStamps};

pub(super) const ROW: SenderRow = SenderRow {
    sender: Sender::KernelRtp,
    name: "kernel-rtp",
    how: "one call a second: the kernel reads, waits, writes heads, sends",
    needs: "root, ifb, tbf, cls_bpf",
    sends_files: true,
    sets_up_queues: true,
    start: |sockets| Ok(Start::queue(KernelRtp::open(sockets)?)),
};

/// The longest time for which packets wait: long enough that ten streams of 33 packets a second
/// need less than one entry into the kernel for twenty packets.
const WINDOW: Duration = Duration::from_secs(1);

/// The longest call after which it is known precisely enough when the bucket was empty.
const SURE: Duration = Duration::from_micros(200);
/// The number of attempts to empty it within such a call.
const TRIES: usize = 8;
/// The length of each wait for room in the send buffer.
const ROOM_WAIT: Duration = Duration::from_millis(1);
/// The bytes of pauses.
static NOTHING: [u8; PAUSES] = [0; PAUSES];

/// The device, and the state of its bucket.
pub struct KernelRtp {
    device: PacedDevice,
    bucket: Bucket,
    batch: Batch,
    maps: Maps,
}

impl KernelRtp {
    /// # Errors
    /// Which feature the machine lacks, and the remedy.
    fn open(sockets: &StreamSockets) -> io::Result<KernelRtp> {
        let device = PacedDevice::open(sockets)?;
        let (batch, maps) = (Batch::default(), Maps::default());
        Ok(KernelRtp { device, bucket: Bucket::emptied_at(0), batch, maps })
    }

    fn send(&mut self, steps: Range<usize>, plan: &SendPlan, outlet: &Outlet<'_>) -> Sent {
        let channel = plan.run(steps.start, steps.len()).channel;
        let (device, maps) = (&self.device, &self.maps);
        self.batch.send(outlet.sockets.of(channel), |filling| {
            for step in &plan.steps[steps] {
                match step {
                    Step::Pause(len) => pause(filling, device, *len),
                    Step::Send(message) => {
                        plan.write(message, (outlet, maps), filling);
                        filling.mark(device.mark(message.run));
                    }
                }
            }
        })
    }

    /// Empties the bucket, so that the moment when it was empty is known.
    fn drain(&mut self, outlet: &Outlet<'_>, count: &mut Count) -> io::Result<()> {
        for tried in 1.. {
            let before = sys::clock::now_ns();
            let device = &self.device;
            let sent = self.batch.send(outlet.sockets.of(Channel::Rtp), |filling| {
                DRAIN.into_iter().for_each(|len| pause(filling, device, len));
            });
            count.calls += sent.calls;
            sent.error.map_or(Ok(()), Err)?;
            // The bucket was empty at `before` at the earliest, so a plan that starts there sends
            // nothing early.
            self.bucket = Bucket::emptied_at(before);
            let took = sys::clock::now_ns() - before;
            if took <= SURE.as_nanos() as u64 || tried == TRIES {
                break;
            }
            // The scheduler took the processor away in between, and every packet would be late by
            // that time.
            self.device.purge()?;
        }
        Ok(())
    }
}

impl Queue for KernelRtp {
    fn hand_over(
        &mut self,
        plan: &mut SendPlan,
        outlet: &Outlet<'_>,
        moment: &dyn Fn(Instant) -> Instant,
        count: &mut Count,
    ) -> io::Result<Vec<Handed>> {
        if self.bucket.is_full(sys::clock::now_ns()) {
            self.drain(outlet, count)?;
        }
        self.maps.prepare(plan.gathered());
        let (bucket, maps) = (&mut self.bucket, &self.maps);
        let leaves_at = |at, bytes, pauses: &mut _| bucket.plan(moment(at).ns(), bytes, pauses);
        plan.arrange(
            SEGMENTS_MAX,
            Some(self.device.stamps()),
            |packet| maps.has(outlet, packet),
            leaves_at,
        );
        let (mut at, mut handed) = (0, Vec::new());
        while at < plan.steps.len() {
            let run = plan.run(at, MESSAGES_MAX);
            let sent = self.send(run.range, plan, outlet);
            count.calls += sent.calls;
            handed.extend(plan.steps[at..at + sent.count].iter().filter_map(Step::handed));
            at += sent.count;
            match (sent.error, plan.steps.get(at)) {
                (Some(error), Some(_)) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Leaving packets make room. The pause must not be left out, because every
                    // later packet would be early then. An error of the wait shows in the next
                    // send.
                    let _ = outlet.sockets.of(run.channel).wait_writable(ROOM_WAIT);
                }
                (Some(_), Some(Step::Send(_))) => {
                    plan.refused(at);
                    at += 1;
                }
                (Some(error), _) => return Err(error),
                (None, _) => {}
            }
        }
        Ok(handed)
    }

    fn left(&mut self) -> io::Result<u64> {
        self.device.left()
    }

    fn window(&self) -> Duration {
        WINDOW
    }

    fn purge(&mut self) -> io::Result<()> {
        // A new bucket is full, and so must be emptied.
        self.bucket = Bucket::emptied_at(0);
        self.device.purge()
    }
}

fn pause(filling: &mut Filling<'_, '_>, device: &PacedDevice, len: u8) {
    let nowhere: SocketAddr = device.nowhere();
    filling.datagram(nowhere);
    filling.piece(&NOTHING[..usize::from(len)]);
    filling.mark(device.mark(0));
}
