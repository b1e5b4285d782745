//! Completion by `io_uring(7)`: a ring for each worker; the kernel moves the bytes and reports
//! completions.
//!
//! A turn is one `io_uring_enter(2)`. One multishot accept brings connections. One multishot
//! receive for each session brings bytes, in buffers that the kernel picks from a ring, so an idle
//! session owns none. The output of a turn leaves in one send for each session, with the next
//! enter. Descriptors are closed on the ring.
//!
//! `ENOBUFS` is flow control: a session that found the ring empty receives into its own buffers for
//! a while. So only as many sessions use the ring as it has buffers for.
//!
//! An armed receive holds its socket. So a session is closed only when none of its operations is
//! armed or in flight.

mod accept;
mod close;
mod receive;
mod ring_loop;
mod send;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use memory::{Phase, SlotState};
use seam::SessionId;
use sys::socket::SockRef;
use sys::uring::{Completion, Raw, Uring};

use self::ring_loop::{Mover, Ops, RingLoop, TOKEN_JOBS, TOKEN_STOP};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::helpers;
use crate::limits::{RING_LOOK, RING_YOUTH};
use crate::member::Member;
use crate::parts::connection::Connection;
use crate::parts::event_loop::{At, EventLoop};
use crate::parts::ring::accepting::{Accepting, TOKEN_LISTENER};
use crate::parts::ring::flight::ReceiveChange;
use crate::wait::mechanism::Mechanism;

/// The mechanism of workers with a ring each.
pub struct Rings;

impl Mechanism for Rings {
    fn serve(&self, context: &WorkerContext<'_>, _member: Member) -> Result<(), Fault> {
        // The thread that uses the ring makes it, after any fork.
        let ring = Uring::new(&context.knobs.ring).map_err(Fault::Ring)?;
        let busily = |microseconds| ring.poll_busily(microseconds);
        context.knobs.loops.poll_busily(busily).map_err(Fault::Wait)?;
        // The ring does not wait on a non-blocking descriptor, and our own calls must not wait. All
        // workers want the same mode of a listener that they share; an acceptor sets the mode of
        // its own listener.
        if !context.accept_source.is_given() {
            let listener = SockRef::from(&context.listener);
            listener.set_nonblocking(context.polls).map_err(Fault::Wait)?;
        }
        let accepting = Accepting::new(context.polls);
        helpers::with(context, |helpers| {
            let mover = Mover {
                ring,
                helpers,
                dirty: Vec::new(),
                again: VecDeque::new(),
                scratch: Vec::new(),
            };
            let young_until = context.now() + RING_YOUTH;
            let event_loop = EventLoop::new(context);
            let mut this = RingLoop { event_loop, accepting, mover, young_until };
            this.run().map_err(Fault::Wait)
        })
    }
}

impl RingLoop<'_> {
    fn run(&mut self) -> io::Result<()> {
        let context = self.event_loop.context;
        self.mover.ring.watch(context.stop.as_fd(), TOKEN_STOP);
        self.mover.ring.watch(self.mover.helpers.bell(), TOKEN_JOBS);
        self.accept();
        context.ready();
        let mut batch: Vec<Raw> = Vec::new();
        loop {
            self.event_loop.end_turn();
            let is_idle = self.mover.again.is_empty();
            let mut timeout =
                if is_idle { self.event_loop.timeout() } else { Some(Duration::ZERO) };
            let is_young = self.event_loop.now < self.young_until;
            if is_young {
                timeout = Some(timeout.unwrap_or(RING_LOOK).min(RING_LOOK));
            }
            self.mover.ring.wait(timeout, &mut batch)?;
            self.event_loop.begin_turn();
            if is_young && batch.is_empty() {
                self.accepting.retry(context, &mut self.mover.ring);
            }
            for raw in batch.drain(..) {
                let completion = self.mover.ring.completion(&raw);
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
                for id in self.event_loop.outcomes(self.mover.helpers) {
                    self.touch(id);
                }
                if !more {
                    self.mover.ring.watch(self.mover.helpers.bell(), TOKEN_JOBS);
                }
            }
            Completion::Ready { token: TOKEN_LISTENER, .. } => self.accepting.polled(),
            Completion::Ready { .. } => {
                self.event_loop.context.slot().set_state(SlotState::Draining)
            }
            Completion::Quiet => {}
        }
    }

    /// Settles all sessions of the turn; true when the server has drained.
    fn end_turn(&mut self) -> bool {
        self.send_more();
        for id in self.event_loop.wake_due() {
            self.touch(id);
        }
        self.event_loop.tick();
        for (id, why) in self.event_loop.sweep() {
            self.overdue(id, why);
        }
        for (id, why) in self.event_loop.make_room(self.accepting.has_waiting()) {
            self.overdue(id, why);
        }
        let drained = self.leave();
        loop {
            // A settled session may make room for a connection, and a new connection has to be
            // settled.
            self.accept();
            if !self.settle_all() {
                break;
            }
        }
        // An armed accept may still bring a connection.
        drained && self.event_loop.table.len() == 0 && !self.accepting.is_armed()
    }

    /// Settles until no session is dirty; true if one was. Settling can push to other sessions,
    /// which makes them dirty.
    fn settle_all(&mut self) -> bool {
        let mut any = false;
        loop {
            for id in self.event_loop.effects() {
                self.touch(id);
            }
            let Some(id) = self.mover.dirty.pop() else { return any };
            self.settle(id);
            any = true;
        }
    }

    /// Follows the phase of the server; true when it drains.
    fn leave(&mut self) -> bool {
        match self.event_loop.context.phase() {
            Phase::Starting | Phase::Ready => false,
            Phase::Leaving => {
                self.event_loop.stop_admitting();
                self.event_loop.context.is_over()
            }
            Phase::Draining => {
                for id in self.event_loop.drain() {
                    self.touch(id);
                }
                self.event_loop.context.is_over()
            }
            Phase::Forced | Phase::Done => {
                self.accepting.clear();
                for id in self.event_loop.force() {
                    self.cut(id);
                }
                true
            }
        }
    }

    fn touch(&mut self, id: SessionId) {
        if let Some(connection) = self.event_loop.table.lookup(id) {
            self.mover.touch(id, &mut connection.x);
        }
    }

    /// Settles a session that had an event.
    fn settle(&mut self, id: SessionId) {
        let is_long = self.event_loop.is_long();
        let Some(mut at) = self.event_loop.at(id) else { return };
        at.connection.x.dirty = false;
        if !self.mover.settle(&mut at, is_long) {
            self.close(id);
        }
    }
}

impl Mover<'_> {
    /// Hands out the job, starts the send, then compares what the session wants with what is armed,
    /// and changes the difference; false if the session is over.
    fn settle(&mut self, at: &mut At<'_, '_, Ops>, is_long: bool) -> bool {
        let id = at.cx.me;
        if at.connection.conn.looks() {
            let flight = &mut at.connection.x.flight;
            if let Some(armed) = flight.stop() {
                self.ring.cancel(armed);
            }
            if flight.armed.is_some() {
                return true;
            }
            at.connection.last_look(at.context, &at.cx, &mut self.scratch);
        }
        self.send(at, is_long);
        let connection = &mut *at.connection;
        if let Some(job) = connection.conn.take_job() {
            self.helpers.submit(id, job);
        }
        let wants = connection.conn.wants();
        if wants.close && !connection.x.flight.sending {
            // An armed receive holds the socket; its last completion leads back here.
            let lingers = connection.lingers(at.cx.now, at.context.phase());
            if !lingers && connection.x.flight.armed.is_none() {
                return false;
            }
        }
        connection.conn.reclaim(at.buffers);
        let may_receive = connection.may_receive(at.context, at.cx.now);
        let reads =
            (wants.read && may_receive) || (connection.linger.is_some() && !connection.ended);
        let Connection { x: Ops { flight, .. }, fd, .. } = connection;
        match flight.change(reads) {
            Some(ReceiveChange::Arm { how, waiting }) => {
                let armed = self.ring.receive(fd.as_fd(), id.bits(), how, waiting);
                flight.armed = Some(armed);
            }
            Some(ReceiveChange::Stop(armed)) => self.ring.cancel(armed),
            None => {}
        }
        at.schedule(wants.wake);
        true
    }
}
