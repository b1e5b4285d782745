//! The turn of a session that any of several threads may step, until it would block.

use std::os::fd::OwnedFd;
use std::time::Duration;

use memory::Phase;
use seam::{Buffers, Closed, Conn, Cx, Instant, Peer, SessionId};
use sys::ready::Interest;
use sys::socket::{self, Received};

use super::parking::{Connection, Parked};
use crate::context::WorkerContext;
use crate::limits::{BLOCKING_BUFFERS, DRAIN_LOOK, LINGER_RECEIVES, RECEIVE_BYTES, SHORT_LOOK};
use crate::parts::connection::Sent;
use crate::parts::transmit::CallMode;

/// The interval between two checks of a peer that takes no output.
const LOOK: Duration = Duration::from_secs(2);

/// The buffers that a thread keeps from one session to the next.
pub(crate) struct Spare {
    pub scratch: Vec<u8>,
    pub buffers: Buffers,
}

impl Spare {
    pub fn new() -> Spare {
        Spare { scratch: vec![0; RECEIVE_BYTES], buffers: Buffers::new(BLOCKING_BUFFERS) }
    }
}

/// The end of a turn.
pub(crate) enum Rest {
    /// The session waits for these events, or until it is due.
    Parked(Interest),
    /// It has more to do than a turn allows.
    Again,
    /// It has a job, which the turn must not do.
    Job,
    /// It has output, which the turn must not send.
    Output,
    Over,
}

/// A thread that steps a session.
pub(crate) struct Stepper<'a, 'd> {
    pub context: &'a WorkerContext<'d>,
    pub spare: &'a mut Spare,
    pub now: Instant,
    /// Jobs run in the turn.
    pub works: bool,
    /// Output is sent in the turn.
    pub sends: bool,
}

impl<'a> Stepper<'a, '_> {
    pub fn cx(&self, id: SessionId) -> Cx<'a, ()> {
        self.context.cx(self.now, id)
    }

    /// Opens the session of a new connection, and takes its descriptor; if the service panics, that
    /// stays in its place.
    pub fn open(
        &mut self,
        id: SessionId,
        fd: &mut Option<OwnedFd>,
        peer: Peer,
    ) -> Option<Box<Connection>> {
        let cx = self.cx(id);
        let conn = Conn::open(self.context.service, &cx, peer, &mut self.spare.buffers);
        Some(Box::new(Connection::new(conn, fd.take()?, self.now, Parked::new(id))))
    }

    /// A session that was parked gets buffers, and its deadlines are checked; `moved`: for an
    /// event.
    pub fn resume(&mut self, connection: &mut Connection, moved: bool) {
        connection.conn.lend(&mut self.spare.buffers);
        if connection.linger.is_some() {
            return;
        }
        let cx = self.cx(connection.x.id);
        connection.conn.deadline(self.context.service, &cx);
        if connection.is_shed(self.context, self.now) {
            connection.conn.abort(Closed::Shed);
        } else {
            let owes = std::mem::take(&mut connection.x.blocked);
            if owes && moved {
                connection.active = self.now;
            }
            if let Some(why) = connection.why_over(self.context, self.now, owes) {
                connection.end(why);
            }
        }
        connection.x.blocked = false;
    }

    /// Steps a session until it would block; `readable`: there may be input.
    pub fn step(&mut self, connection: &mut Connection, readable: &mut bool) -> Rest {
        if connection.linger.is_some() {
            return self.drop_input(connection, readable);
        }
        loop {
            self.work_and_send(connection);
            self.context.carry_out_effects();
            match self.context.phase() {
                Phase::Starting | Phase::Ready | Phase::Leaving => {}
                Phase::Draining => {
                    connection.x.drained = true;
                    connection.conn.last_call(self.now, connection.active);
                }
                Phase::Forced | Phase::Done => connection.conn.abort(Closed::Forced),
            }
            let wants = connection.conn.wants();
            if wants.close {
                let lingers = connection.lingers(self.now, self.context.phase());
                return if lingers { self.rest(connection) } else { Rest::Over };
            }
            if wants.job && !self.works {
                return Rest::Job;
            }
            if wants.write && !self.sends {
                return Rest::Output;
            }
            if wants.job || wants.look || (wants.write && !connection.x.blocked) {
                continue;
            }
            let may_receive = connection.may_receive(self.context, self.now);
            if !*readable || !wants.read || !may_receive {
                return self.rest(connection);
            }
            *readable = self.receive(connection);
            if *readable {
                // A peer that sends without end must not keep the worker from others.
                self.work_and_send(connection);
                return Rest::Again;
            }
        }
    }

    /// Receives once; returns whether there may be more.
    fn receive(&mut self, connection: &mut Connection) -> bool {
        let received = socket::recv_nowait(&connection.fd, &mut self.spare.scratch);
        self.now = self.context.now();
        let cx = self.cx(connection.x.id);
        connection.received(self.context, &cx, received, &self.spare.scratch);
        received == Received::Bytes(RECEIVE_BYTES)
    }

    /// Runs jobs in place, if it works, and sends until nothing waits or it would block.
    fn work_and_send(&mut self, connection: &mut Connection) {
        loop {
            if self.works
                && let Some(job) = connection.conn.take_job()
            {
                let outcome = self.context.service.work(&(), job);
                self.now = self.context.now();
                let cx = self.cx(connection.x.id);
                connection.conn.outcome(self.context.service, &cx, outcome);
                continue;
            }
            if connection.conn.looks() {
                let cx = self.cx(connection.x.id);
                connection.last_look(self.context, &cx, &mut self.spare.scratch);
                continue;
            }
            if connection.conn.out().waiting() == 0 {
                connection.pace.rest();
                return;
            }
            if connection.x.blocked || !self.sends {
                return;
            }
            let cx = self.cx(connection.x.id);
            let sent = connection.send(self.context, &cx, CallMode::Nonblocking);
            connection.x.blocked = sent == Sent::Later;
        }
    }

    /// Receives and drops what a peer sends while its connection lingers.
    fn drop_input(&mut self, connection: &mut Connection, readable: &mut bool) -> Rest {
        let phase = self.context.phase();
        if phase >= Phase::Forced || connection.has_lingered(self.now, phase) {
            return Rest::Over;
        }
        for _ in 0..LINGER_RECEIVES {
            match socket::recv_nowait(&connection.fd, &mut self.spare.scratch) {
                Received::Bytes(_) => {}
                Received::Later => {
                    *readable = false;
                    break;
                }
                Received::End | Received::Broken => return Rest::Over,
            }
        }
        self.rest(connection)
    }

    /// Lets a session wait until it is ready or due.
    fn rest(&mut self, connection: &mut Connection) -> Rest {
        connection.conn.reclaim(&mut self.spare.buffers);
        let wants = connection.conn.wants();
        let is_gated = !connection.may_receive(self.context, self.now);
        let still = match (connection.linger, connection.x.blocked) {
            (Some(until), _) if self.context.phase() < Phase::Draining => until,
            (Some(_), _) => self.now + DRAIN_LOOK,
            (None, false) => connection.active + self.context.idle(),
            // Shorter than the stall time, because a peer can be too slow without being stalled.
            (None, true) => self.now + LOOK.min(self.context.write_stall() / 4),
        };
        let looked_at = if is_gated { self.now + SHORT_LOOK } else { Instant::NEVER };
        connection.scheduled = still.min(wants.wake.unwrap_or(Instant::NEVER)).min(looked_at);
        Rest::Parked(Interest {
            read: connection.linger.is_some() || (wants.read && !is_gated),
            write: connection.x.blocked,
            oneshot: true,
            ..Interest::NONE
        })
    }

    /// Ends a session.
    pub fn finish(&mut self, mut connection: Connection) {
        connection.conn.reclaim(&mut self.spare.buffers);
        let cx = self.cx(connection.x.id);
        drop(connection.close(self.context, &cx));
    }
}
