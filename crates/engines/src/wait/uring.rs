//! Completion by `io_uring(7)`: a ring for each worker; the kernel moves the bytes and says when it
//! is done.
//!
//! A turn is one `io_uring_enter(2)`. Connections come by one multishot accept; bytes come by one
//! multishot receive a session into buffers that the kernel picks from a ring, so a session that
//! waits owns none; what the sessions of a turn have to say leaves in one send each with the next
//! enter; descriptors are closed on the ring. Each of these can be done in another way
//! ([`tactics`]), so that what it is worth can be measured.
//!
//! `ENOBUFS` is flow control: a session that found the ring empty receives into buffers of its own
//! for a while, so that those who stay are as many as the ring has buffers for.
//!
//! The surprising thing: an armed receive holds its socket. A session is closed only when nothing
//! of it is armed or in flight.

mod arrivals;
pub(super) mod outbound;
mod parting;
pub mod tactics;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use memory::{Doing, Phase, SlotState};
use seam::{Closed, Service, SessionId};
use sys::uring::{Armed, Completion, Raw, Receive, Received, Uring};

use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::helpers::{self, Helpers};
use crate::parts::event_loop::EventLoop;
use arrivals::Arrivals;
use tactics::Tactics;

/// What the loop keeps for each session.
#[derive(Default)]
struct Ops {
    /// The receive that holds the socket.
    armed: Option<Armed>,
    /// It has been asked to stop.
    stopping: bool,
    /// A send is in flight, or the wait for a peer that takes no more of a file.
    flying: bool,
    /// It waits for the end of the turn.
    dirty: bool,
    /// It waits in the list of those who have more of a file to send.
    again: bool,
    /// Input is known to be there already.
    waiting: bool,
    /// How many receives it still makes into buffers of its own, having found the ring empty.
    alone: u8,
    /// The peer has stopped sending.
    ended: bool,
}

/// Receives after which a session that found the ring empty tries it again. With 64 sessions on 8
/// buffers, trying again at once costs a quarter more CPU a request: 1.24 [1.19 1.31] at depth 16,
/// 1.29 [1.22 1.33] at depth 1 (2 cores, Linux 6.18).
const ALONE: u8 = 64;

// Sessions have tokens below 2^60 and shard numbers below 4096; a token without a generation names
// no session.
const TOKEN_DOOR: u64 = 1;
const TOKEN_STOP: u64 = 2;
const TOKEN_JOBS: u64 = 3;

struct Loop<'a, S: Service> {
    event_loop: EventLoop<'a, S, Ops>,
    ring: Uring,
    helpers: &'a dyn Helpers<S>,
    tactics: Tactics,
    /// How bytes are received.
    receive: Receive,
    /// Sessions that something happened to in this turn.
    dirty: Vec<SessionId>,
    /// Sessions that had more of a file to send than a turn allows.
    again: VecDeque<SessionId>,
    arrivals: Arrivals,
}

/// Serves until the server drains.
pub fn serve<S: Service>(context: &WorkerContext<'_, S>) -> Result<(), Fault> {
    // The ring is made by the thread that uses it, and after any fork.
    let tactics = context.knobs.tactics;
    let ring = tactics.ring(&context.knobs.ring).map_err(Fault::Ring)?;
    let arrivals = Arrivals::new(context, tactics).map_err(Fault::Wait)?;
    helpers::with(context, |helpers| {
        let (event_loop, dirty, receive) = (EventLoop::new(context), Vec::new(), tactics.receive());
        let again = VecDeque::new();
        let mut this = Loop { event_loop, ring, helpers, tactics, receive, dirty, again, arrivals };
        this.run().map_err(Fault::Wait)
    })
}

impl<S: Service> Loop<'_, S> {
    fn run(&mut self) -> io::Result<()> {
        let context = self.event_loop.context;
        self.ring.watch(context.stop.as_fd(), TOKEN_STOP);
        self.ring.watch(self.helpers.bell(), TOKEN_JOBS);
        self.watch_door();
        context.ready();
        let mut batch: Vec<Raw> = Vec::new();
        loop {
            context.rest(Doing::Waiting);
            let is_idle = self.again.is_empty();
            let timeout = if is_idle { self.event_loop.timeout() } else { Some(Duration::ZERO) };
            self.ring.wait(timeout, &mut batch)?;
            self.event_loop.begin_turn();
            for raw in batch.drain(..) {
                let completion = self.ring.completion(&raw);
                self.complete(completion);
            }
            if self.end_turn() {
                return Ok(());
            }
        }
    }

    fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Received { token, input, more, waiting } => {
                self.received(SessionId::from_bits(token), input, more, waiting);
            }
            Completion::Sent { token, result, load } => {
                self.sent(SessionId::from_bits(token), result, load);
            }
            Completion::Writable { token } => self.writable(SessionId::from_bits(token)),
            Completion::Accepted { result, more, .. } => self.accepted(result, more),
            Completion::Ready { token: TOKEN_JOBS, more } => {
                for id in self.event_loop.outcomes(self.helpers) {
                    self.touch(id);
                }
                if !more {
                    self.ring.watch(self.helpers.bell(), TOKEN_JOBS);
                }
            }
            Completion::Ready { token: TOKEN_DOOR, .. } => self.arrivals.knocked(),
            Completion::Ready { .. } => {
                self.event_loop.context.slot().set_state(SlotState::Draining)
            }
            Completion::Quiet => {}
        }
    }

    /// Settles whatever the turn has touched; true when the server has drained.
    fn end_turn(&mut self) -> bool {
        self.go_on();
        for id in self.event_loop.wake_due() {
            self.touch(id);
        }
        self.event_loop.tick();
        for (id, why) in self.event_loop.sweep() {
            self.overdue(id, why);
        }
        let drained = self.leave();
        loop {
            // Who is settled may leave room for others, and who comes has to be settled.
            self.watch_door();
            if !self.settle_all() {
                break;
            }
        }
        // An accept that is armed may still bring somebody.
        drained && self.event_loop.table.len() == 0 && !self.arrivals.is_armed()
    }

    /// Settles until nobody is dirty; true if anybody was. Settling can push to others, which makes
    /// them dirty in turn.
    fn settle_all(&mut self) -> bool {
        let mut any = false;
        loop {
            for id in self.event_loop.effects() {
                self.touch(id);
            }
            let Some(id) = self.dirty.pop() else { return any };
            self.settle(id);
            any = true;
        }
    }

    /// Follows the phase of the server; true when it drains.
    fn leave(&mut self) -> bool {
        match self.event_loop.context.phase() {
            Phase::Starting | Phase::Ready => false,
            Phase::Leaving => {
                self.event_loop.shut_door();
                self.event_loop.context.is_over()
            }
            Phase::Draining => {
                for id in self.event_loop.drain() {
                    self.touch(id);
                }
                self.event_loop.context.is_over()
            }
            Phase::Forced | Phase::Done => {
                self.arrivals.parked.clear();
                for id in self.event_loop.force() {
                    self.cut(id);
                }
                true
            }
        }
    }

    fn touch(&mut self, id: SessionId) {
        if let Some(place) = self.event_loop.table.lookup(id)
            && !place.x.dirty
        {
            place.x.dirty = true;
            self.dirty.push(id);
        }
    }

    // ---- receive

    fn received(&mut self, id: SessionId, input: Received, more: bool, waiting: bool) {
        let cx = self.event_loop.cx(id);
        let now = self.event_loop.now;
        let context = self.event_loop.context;
        let Some(place) = self.event_loop.table.lookup(id) else {
            debug_assert!(false, "a receive outlived its session");
            if let Received::Bytes(buffer) = input {
                self.ring.give_back(buffer);
            }
            return;
        };
        place.x.waiting = waiting;
        if !more {
            (place.x.armed, place.x.stopping) = (None, false);
        }
        match input {
            Received::Bytes(buffer) => {
                place.conn.lend(&mut self.event_loop.buffers);
                place.active = now;
                let bytes = self.ring.bytes(&buffer);
                context.slot().bytes_in.add(bytes.len() as u64);
                place.conn.feed(context.service, &cx, bytes);
                self.ring.give_back(buffer);
            }
            Received::Eof => {
                place.x.ended = true;
                place.conn.lend(&mut self.event_loop.buffers);
                place.conn.eof(context.service, &cx);
            }
            Received::NoBuffers => {
                // What found no buffer is still there.
                (place.x.alone, place.x.waiting) = (ALONE, true);
                context.slot().enobufs.add(1);
            }
            Received::Cancelled => {}
            Received::Failed(_) => {
                place.x.ended = true;
                place.conn.abort(Closed::Reset);
            }
        }
        self.touch(id);
    }

    // ---- settle

    /// Hands out the job, starts the send, then asks what is wanted and changes the difference.
    fn settle(&mut self, id: SessionId) {
        let Some(place) = self.event_loop.table.lookup(id) else { return };
        place.x.dirty = false;
        self.send(id);
        let Some(place) = self.event_loop.table.lookup(id) else { return };
        if let Some(job) = place.conn.take_job() {
            self.helpers.submit(id, job);
        }
        let wants = place.conn.wants();
        if wants.done && !place.x.flying && !self.part(id) {
            return;
        }
        let Some(place) = self.event_loop.table.lookup(id) else { return };
        place.conn.reclaim(&mut self.event_loop.buffers);
        let reads = wants.read || (place.linger.is_some() && !place.x.ended);
        match place.x.armed {
            None if reads => {
                let (fd, waiting) = (place.fd.as_fd(), place.x.waiting);
                let how = if place.x.alone > 0 { Receive::Own } else { self.receive };
                place.x.alone = place.x.alone.saturating_sub(1);
                place.x.armed = Some(self.ring.receive(fd, id.bits(), how, waiting));
            }
            // One buffer more does no harm: a receive of one is stopped only to part.
            Some(armed)
                if !reads
                    && !place.x.stopping
                    && (wants.done || self.receive == Receive::Multishot) =>
            {
                place.x.stopping = true;
                self.ring.cancel(armed);
            }
            _ => {}
        }
        self.event_loop.schedule(id);
    }
}
