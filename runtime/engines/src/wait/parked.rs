//! Worker threads that never block: connections with nothing to do are parked in an epoll (Apache's
//! event MPM).
//!
//! One thread of each process, the listener, waits for all of its connections and queues each one
//! that becomes ready. The workers take connections from the queue; a worker serves a connection
//! until it would block, and parks it again. So a keep-alive connection costs no worker between two
//! requests. The price is a change of threads for each request, which a loop does not have.

mod ending;
pub mod listener;
pub mod parking;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use memory::{Doing, Phase};
use seam::{Buffers, Closed, Conn, Cx, Instant, SessionId};
use sys::ready::Interest;
use sys::socket::{self, Received};

use self::parking::{Connection, Parked, ParkedConnections, ParkedWork};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::{BLOCKING_BUFFERS, DRAIN_LOOK, RECEIVE_BYTES, SHORT_LOOK};
use crate::member::Member;
use crate::parts::connection::Sent;
use crate::parts::transmit::CallMode;
use crate::wait::mechanism::Mechanism;

/// The interval between two checks of a peer that takes no output.
const LOOK: Duration = Duration::from_secs(2);

impl Mechanism for ParkedConnections {
    fn serve(&self, context: &WorkerContext<'_>, member: Member) -> Result<(), Fault> {
        if member.feeds_workers() {
            return listener::serve(context, self, member.first);
        }
        let next = || {
            let work = self.next_ready();
            let is_over = || context.phase() > Phase::Ready && self.is_over();
            Ok(if work.is_none() && is_over() { Next::Over } else { Next::Work(work) })
        };
        serve(context, self, member.first + member.workers, next)
    }

    fn pools_sessions(&self) -> bool {
        true
    }

    fn has_listener(&self) -> bool {
        true
    }

    fn listener_ended(&self) {
        self.close();
    }
}

/// The next action of a worker.
pub(crate) enum Next {
    /// It serves a connection, if one is ready.
    Work(Option<ParkedWork>),
    /// It ends, because no more will come.
    Over,
}

/// Serves the connections that `next` gives until none will come. `shard` is the slot that names
/// the sessions.
pub(crate) fn serve(
    context: &WorkerContext<'_>,
    parking: &ParkedConnections,
    shard: usize,
    mut next: impl FnMut() -> Result<Next, Fault>,
) -> Result<(), Fault> {
    let (scratch, buffers) = (vec![0; RECEIVE_BYTES], Buffers::new(BLOCKING_BUFFERS));
    let (now, serving) = (context.now(), None);
    let mut worker = Worker { context, parking, shard, scratch, buffers, now, serving };
    context.ready();
    loop {
        let ready = match next()? {
            Next::Work(Some(ready)) => ready,
            Next::Work(None) => continue,
            Next::Over => return Ok(()),
        };
        worker.now = context.now();
        context.turn(worker.now);
        context.slot().serving.set(1);
        let served = catch_unwind(AssertUnwindSafe(|| worker.take(ready)));
        context.slot().serving.set(0);
        context.rest(Doing::Waiting);
        if let Err(panic) = served {
            // The session is lost; the listener must not wait for it.
            worker.serving.into_iter().for_each(|id| parking.end(id));
            resume_unwind(panic);
        }
    }
}

struct Worker<'a, 'd> {
    context: &'a WorkerContext<'d>,
    parking: &'a ParkedConnections,
    shard: usize,
    scratch: Vec<u8>,
    buffers: Buffers,
    now: Instant,
    /// The session that it serves.
    serving: Option<SessionId>,
}

impl<'a> Worker<'a, '_> {
    fn take(&mut self, work: ParkedWork) {
        match work {
            ParkedWork::New((fd, peer)) => {
                let id = self.parking.name(self.shard);
                self.serving = Some(id);
                let cx = self.cx(id);
                let conn = Conn::open(self.context.service, &cx, peer, &mut self.buffers);
                let connection = Connection::new(conn, fd, self.now, Parked::new(id));
                self.serve(Box::new(connection), true);
            }
            ParkedWork::Parked(mut connection, moved) => {
                self.serving = Some(connection.x.id);
                connection.conn.lend(&mut self.buffers);
                if connection.linger.is_some() {
                    self.drop_input(connection);
                } else {
                    self.check(&mut connection, moved);
                    self.serve(connection, moved);
                }
            }
        }
        self.serving = None;
    }

    fn cx(&self, id: SessionId) -> Cx<'a, ()> {
        self.context.cx(self.now, id)
    }

    /// Checks the deadlines of a session that was parked.
    fn check(&mut self, connection: &mut Connection, moved: bool) {
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

    /// Serves a session until it would block.
    fn serve(&mut self, mut connection: Box<Connection>, mut readable: bool) {
        loop {
            self.work_and_send(&mut connection);
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
                return self.part(connection);
            }
            if wants.job || wants.look || (wants.write && !connection.x.blocked) {
                continue;
            }
            let may_receive = connection.may_receive(self.context, self.now);
            if !readable || !wants.read || !may_receive {
                return self.park(connection);
            }
            readable = self.receive(&mut connection);
            if readable {
                // A peer that sends without end must not keep the worker from others.
                self.work_and_send(&mut connection);
                match self.parking.requeue(connection) {
                    None => return,
                    Some(back) => connection = back,
                }
            }
        }
    }

    /// Receives once; returns whether there may be more.
    fn receive(&mut self, connection: &mut Connection) -> bool {
        let received = socket::recv_nowait(&connection.fd, &mut self.scratch);
        self.now = self.context.now();
        let cx = self.cx(connection.x.id);
        connection.received(self.context, &cx, received, &self.scratch);
        received == Received::Bytes(RECEIVE_BYTES)
    }

    /// Runs jobs in place and sends until nothing waits or it would block.
    fn work_and_send(&mut self, connection: &mut Connection) {
        loop {
            if let Some(job) = connection.conn.take_job() {
                let outcome = self.context.service.work(&(), job);
                self.now = self.context.now();
                let cx = self.cx(connection.x.id);
                connection.conn.outcome(self.context.service, &cx, outcome);
                continue;
            }
            if connection.conn.looks() {
                let cx = self.cx(connection.x.id);
                connection.last_look(self.context, &cx, &mut self.scratch);
                continue;
            }
            if connection.conn.out().waiting() == 0 {
                connection.pace.rest();
                return;
            }
            if connection.x.blocked {
                return;
            }
            let cx = self.cx(connection.x.id);
            let sent = connection.send(self.context, &cx, CallMode::Nonblocking);
            connection.x.blocked = sent == Sent::Later;
        }
    }

    /// Parks a session until it is ready or due.
    fn park(&mut self, mut connection: Box<Connection>) {
        connection.conn.reclaim(&mut self.buffers);
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
        let interest = Interest {
            read: connection.linger.is_some() || (wants.read && !is_gated),
            write: connection.x.blocked,
            oneshot: true,
            ..Interest::NONE
        };
        if let Err((mut connection, _)) = self.parking.park(connection, interest) {
            connection.conn.abort(Closed::Reset);
            self.finish(*connection);
        }
    }
}
