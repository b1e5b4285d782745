//! A token bucket of the kernel's as a queue of packets of the future: fills a lane with a train.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use seam::{Channel, Instant};
use sys::udp::{Batch, Filling, MESSAGES_MAX, SEGMENTS_MAX, Sent};

use super::lane::Lane;
use super::outlet::{Count, Outlet};
use super::pauses::{Bucket, DRAIN, PAUSES};
use super::train::{Step, Train};
use super::waiting::{Handed, Queue};
use crate::casts::sockets::CastSockets;

/// The longest call that tells well enough when the bucket was emptied.
const SURE: Duration = Duration::from_micros(200);
/// How often it is tried to empty it in such a call.
const TRIES: usize = 8;
/// How long to wait for room in the send buffer, again and again.
const ROOM_WAIT: Duration = Duration::from_millis(1);
/// Bytes of pauses.
static NOTHING: [u8; PAUSES] = [0; PAUSES];

/// A lane, and what its bucket will hold.
pub struct Tokens {
    lane: Lane,
    bucket: Bucket,
    batch: Batch,
}

impl Tokens {
    /// With `stamping` the kernel writes numbers and times.
    ///
    /// # Errors
    /// What the machine lacks, and what to do.
    pub fn open(sockets: &CastSockets, stamping: bool) -> io::Result<Tokens> {
        let lane = Lane::open(sockets, stamping)?;
        Ok(Tokens { lane, bucket: Bucket::emptied_at(0), batch: Batch::default() })
    }

    fn send(&mut self, steps: Range<usize>, train: &Train, outlet: &Outlet<'_>) -> Sent {
        let (lane, channel) = (&self.lane, train.run(steps.start, steps.len()).channel);
        self.batch.send(outlet.sockets.of(channel), |filling| {
            for step in &train.steps[steps] {
                match step {
                    Step::Pause(len) => pause(filling, lane, *len),
                    Step::Send(message) => {
                        train.write(message, outlet, filling);
                        filling.mark(lane.mark(message.run));
                    }
                }
            }
        })
    }

    /// Empties the bucket, so that it is known when it was empty.
    fn drain(&mut self, outlet: &Outlet<'_>, count: &mut Count) -> io::Result<()> {
        for tried in 1.. {
            let before = sys::clock::now_ns();
            let lane = &self.lane;
            let sent = self.batch.send(outlet.sockets.of(Channel::Rtp), |filling| {
                DRAIN.into_iter().for_each(|len| pause(filling, lane, len));
            });
            count.calls += sent.calls;
            sent.error.map_or(Ok(()), Err)?;
            // It was emptied at `before` at the earliest: what is planned from there is not early.
            self.bucket = Bucket::emptied_at(before);
            let took = sys::clock::now_ns() - before;
            if took <= SURE.as_nanos() as u64 || tried == TRIES {
                break;
            }
            // Somebody had the processor in between, and all would be late by so much.
            self.lane.purge()?;
        }
        Ok(())
    }
}

impl Queue for Tokens {
    fn hand_over(
        &mut self,
        train: &mut Train,
        outlet: &Outlet<'_>,
        moment: &dyn Fn(Instant) -> Instant,
        count: &mut Count,
    ) -> io::Result<Vec<Handed>> {
        if self.bucket.is_full(sys::clock::now_ns()) {
            self.drain(outlet, count)?;
        }
        let bucket = &mut self.bucket;
        let plan = |at, bytes, pauses: &mut _| bucket.plan(moment(at).ns(), bytes, pauses);
        train.plan(SEGMENTS_MAX, self.lane.stamps(), |packet| outlet.has(packet), plan);
        let (mut at, mut handed) = (0, Vec::new());
        while at < train.steps.len() {
            let run = train.run(at, MESSAGES_MAX);
            let sent = self.send(run.range, train, outlet);
            count.calls += sent.calls;
            handed.extend(train.steps[at..at + sent.count].iter().filter_map(Step::handed));
            at += sent.count;
            match (sent.error, train.steps.get(at)) {
                (Some(error), Some(_)) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Room comes as packets leave; a pause that is left out would make all that
                    // comes after it early. An error of the wait shows in the next send.
                    let _ = outlet.sockets.of(run.channel).wait_writable(ROOM_WAIT);
                }
                (Some(_), Some(Step::Send(_))) => {
                    train.refused(at);
                    at += 1;
                }
                (Some(error), _) => return Err(error),
                (None, _) => {}
            }
        }
        Ok(handed)
    }

    fn left(&mut self) -> io::Result<u64> {
        self.lane.left()
    }

    fn purge(&mut self) -> io::Result<()> {
        // Of a new bucket it is known that it is full, and so that it must be emptied.
        self.bucket = Bucket::emptied_at(0);
        self.lane.purge()
    }
}

fn pause(filling: &mut Filling<'_, '_>, lane: &Lane, len: u8) {
    let nowhere: SocketAddr = lane.nowhere();
    filling.datagram(nowhere);
    filling.piece(&NOTHING[..usize::from(len)]);
    filling.mark(lane.mark(0));
}
