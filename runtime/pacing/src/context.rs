//! The context of a streaming worker, and the steps that every kind of worker shares: taking
//! orders, receiving reports, sending and counting.
//!
//! A `PacedRunner` makes one context per worker, and its loop (`thread_per_stream`, `timer_wheel`
//! or `kernel_queue`) calls these steps. `start` asks the source for the next order, `receive`
//! hands reports to it, and `send` passes a burst to the sender, then records count, bytes and the
//! lateness of every packet. The loops differ only in when they call a stream; a send is the same
//! for all of them, so their figures can be compared. Work is bounded per call: a burst is at most
//! one sendmmsg(2), and reports are read 64 at a time, so that they cannot delay media.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use engines::ExtraWorkerEntry;
use engines::eprintln;
use memory::{Phase, SlotState};
use seam::{Burst, Channel, Effects, Instant, PacedCx, PacedLimits, PacedSource};
use sys::poll::{PollFd, poll};
use sys::socket::SockRef;

use super::group_sockets::GroupSockets;
use super::rank::Rank;
use super::sockets::StreamSockets;
use super::stats::StreamStats;
use crate::classes::Classes;
use crate::runner::PacedRunner;
use crate::senders::Transmit;
use crate::senders::outlet::{Count, Files, Outlet};

/// The maximum number of packets in a burst: the limit of one sendmmsg(2).
pub const BURST_MAX: usize = 1024;
/// The maximum number of datagrams received at a time, so that reports cannot delay media.
const RECEIVED_MAX: usize = 64;
/// The interval at which a successor checks for orders of its predecessor's sessions.
const POLL_HANDOVER: Duration = Duration::from_millis(250);
/// The longest report that is read whole; RTCP stays below the minimum MTU.
pub(super) const REPORT_MAX: usize = 2048;

/// A streaming worker's source, sender and place in the server. Several threads of one worker may
/// share it.
pub(crate) struct StreamContext<'a, P: PacedSource> {
    pub source: &'a P,
    pub state: &'a P::State,
    pub limits: PacedLimits,
    pub entry: &'a ExtraWorkerEntry<'a>,
    pub outlet: Outlet<'a>,
    pub stats: &'a StreamStats,
    /// Whether the sender reads files that were opened at run time.
    sends_files: bool,
    /// The rank for threads that the worker starts.
    pub rank: Rank,
    pub classes: Classes,
    pub groups: GroupSockets,
}

impl<'a, P: PacedSource> StreamContext<'a, P> {
    pub fn new(
        runner: &PacedRunner<'a, P>,
        entry: &'a ExtraWorkerEntry<'a>,
    ) -> io::Result<StreamContext<'a, P>> {
        let PacedRunner { source, state, sender, sockets, stats, rank, classes } = *runner;
        let limits = source.limits();
        let outlet = Outlet { sockets, files: Files::new(entry.assets) };
        Ok(StreamContext {
            source,
            state,
            limits,
            entry,
            outlet,
            stats,
            sends_files: sender.row().sends_files,
            rank,
            classes,
            groups: GroupSockets::new()?,
        })
    }

    pub fn sockets(&self) -> &StreamSockets {
        self.outlet.sockets
    }

    pub fn now(&self) -> Instant {
        Instant::from_ns(sys::clock::now_ns())
    }

    /// Collects the notes of the source; one for each thread.
    pub fn effects(&self) -> Effects {
        Effects::new(false, self.entry.verbose)
    }

    pub fn cx<'c>(&'c self, now: Instant, effects: &'c Effects) -> PacedCx<'c, P::State> {
        PacedCx::new(now, self.entry.id, self.state, effects)
    }

    pub fn print_notes(&self, effects: &Effects) {
        for note in effects.take_notes() {
            eprintln!("{note}");
        }
    }

    /// Reports that the worker can take orders.
    pub fn ready(&self) {
        let first = self.entry.id.slot();
        for slot in first..first + self.entry.slots {
            self.entry.board.slot(slot).set_state(SlotState::Ready);
        }
        self.entry.bell.ring();
    }

    /// The phase of the server.
    pub fn phase(&self) -> Phase {
        self.entry.board.phase()
    }

    /// Whether the worker can end, if its streams are over (`is_idle`). A successor takes new
    /// orders as soon as there is one; while the server drains, no process does.
    pub fn is_over(&self, is_idle: bool) -> bool {
        let phase = self.phase();
        phase >= Phase::Forced || phase > Phase::Ready && is_idle
    }

    /// Whether a successor continues this stream.
    pub fn is_inherited(&self, stream: &P::Stream) -> bool {
        self.phase() == Phase::Leaving && self.source.policy(stream).is_transferable
    }

    /// The longest sleep between two checks for orders.
    pub fn nap(&self) -> Option<Duration> {
        self.entry.is_successor.then_some(POLL_HANDOVER)
    }

    /// Sleeps until orders change, a datagram arrives, `watched` is readable, `timeout` is over, or
    /// the server begins to end. Returns whether orders wait, whether datagrams of the two channels
    /// wait, and whether reports to groups wait.
    pub fn wait(
        &self,
        watched: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
        phase: Phase,
    ) -> io::Result<[bool; 4]> {
        let mut list = vec![
            PollFd::new(self.entry.orders.as_fd(), true, false),
            PollFd::new(self.sockets().of(Channel::Rtp).as_fd(), true, false),
            PollFd::new(self.sockets().of(Channel::Rtcp).as_fd(), true, false),
            PollFd::new(self.groups.fd(), true, false),
        ];
        list.extend(watched.map(|fd| PollFd::new(fd, true, false)));
        if phase <= Phase::Ready {
            list.push(PollFd::new(self.entry.stop.as_fd(), true, false));
        }
        poll(&mut list, timeout)?;
        Ok([0, 1, 2, 3].map(|at| list[at].readable()))
    }

    /// Begins a turn.
    pub fn turn(&self, now: Instant) {
        let slot = self.entry.board.slot(self.entry.id.slot());
        slot.turns.add(1);
        slot.beat_ns.set(now.ns());
    }

    /// Takes the next order, if one waits and there is room next to `running` streams.
    pub fn start(
        &self,
        running: usize,
        cx: &PacedCx<'_, P::State>,
    ) -> Option<(P::Stream, seam::Next)> {
        if running >= self.limits.streams_max || self.phase() > Phase::Ready {
            return None;
        }
        let started = self.source.start(cx)?;
        self.stats.started.add(1);
        if let Some(at) = self.source.policy(&started.0).report_group {
            let interface = SockRef::from(self.sockets().of(Channel::Rtcp)).multicast_if_v4();
            let opened = interface.and_then(|interface| self.groups.open(at, interface));
            if let Err(error) = opened {
                eprintln!("reports to {at} are not received: {error}");
            }
        }
        Some(started)
    }

    pub fn close(&self, cx: &PacedCx<'_, P::State>, stream: P::Stream) {
        if let Some(at) = self.source.policy(&stream).report_group {
            self.groups.close(at);
        }
        self.source.close(cx, stream);
        self.stats.closed.add(1);
    }

    /// Removes the packets from position `from` on that are too late for their class.
    pub fn drop_late(&self, burst: &mut Burst, from: usize, now: Instant) {
        if self.classes.limits.iter().any(Option::is_some) {
            burst.drop_from(from, |packet| {
                let is_dropped = self.classes.drops(packet, now);
                if is_dropped {
                    self.stats.dropped[packet.class as usize].add(1);
                }
                is_dropped
            });
        }
    }

    /// Sends a burst without the packets that are too late, counts it, records the lateness of its
    /// packets, and empties it.
    pub fn send(&self, transmit: &mut dyn Transmit, burst: &mut Burst) {
        self.drop_late(burst, 0, self.now());
        if burst.is_empty() {
            return;
        }
        let mut count = Count::default();
        if !self.sends_files {
            let files = &self.outlet.files;
            count.failed +=
                burst.load_open(|source, range, into| files.read(source, range, into).is_ok());
        }
        transmit.transmit(&self.outlet, burst, &mut count);
        self.count(&count);
        let now = self.now();
        let mut rest = burst.packets();
        // Packets of one moment are usually neighbours.
        while let Some(first) = rest.first() {
            let id = (first.at, first.class);
            let same = rest.iter().take_while(|packet| (packet.at, packet.class) == id).count();
            self.stats.note(first.class, now.since(first.at), same as u64);
            rest = &rest[same..];
        }
        burst.clear();
    }

    pub fn count(&self, count: &Count) {
        self.stats.packets.add(count.packets as u64);
        self.stats.calls.add(count.calls as u64);
        self.stats.failed.add(count.failed as u64);
        let slot = self.entry.board.slot(self.entry.id.slot());
        slot.bytes_out.add(count.bytes as u64);
    }

    /// Passes the datagrams that arrived on the socket of `channel` to the source.
    pub fn receive(&self, cx: &PacedCx<'_, P::State>, channel: Channel) {
        let mut buffer = [0; REPORT_MAX];
        for _ in 0..RECEIVED_MAX {
            match self.sockets().of(channel).receive(&mut buffer) {
                Ok((len, from)) => {
                    self.stats.received.add(1);
                    self.source.receive(cx, from, channel, &buffer[..len]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The error belongs to a datagram sent earlier; the next receive returns the
                // waiting datagram.
                Err(_) => {}
            }
        }
    }

    pub fn receive_from_groups(&self, cx: &PacedCx<'_, P::State>) {
        self.groups.receive(RECEIVED_MAX, |from, bytes| {
            self.stats.received.add(1);
            self.source.receive(cx, from, Channel::Rtcp, bytes);
        });
    }
}
