//! Blocking calls, one connection at a time: the classic server, alone (iterative) or as one of
//! many children (prefork).
//!
//! The kernel's scheduler is the event loop. A worker accepts, and then lives through one
//! connection ([`Turn`]): send all output, wait for input, step, until the session is over; then it
//! lingers and closes, and accepts the next. Jobs run in place, because no other session waits for
//! the worker.
//!
//! A call that waits wakes at least every 250 ms ([`WAIT`]), by the timeouts that accepted sockets
//! inherit from the listener. After each wait the worker sees the phase of the server, memory that
//! is short, the session's deadline and a peer that is still. A session's earlier deadline shortens
//! the timeout of the next receive, which costs a `setsockopt(2)`; a session without one never
//! pays.
//!
//! While all workers are busy and clients wait, a client that is silent loses its place
//! ([`SilenceBound`]): otherwise a few idle ones would keep all others out.
//!
//! The calls that wait are a trait ([`BlockingCalls`]): a turn waits in the kernel on a thread, and
//! by a switch of stacks on a coroutine. It is compiled for each.

pub mod calls;
mod ending;
pub mod kept;

use std::time::Duration;

use memory::{Doing, Phase, SlotState};
use seam::{Closed, Conn, Instant, SessionId};

use self::calls::{BlockingCalls, ThreadCalls};
use self::kept::Kept;
use crate::accept::source::Arrival;
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::{SHORT_LOOK, WAIT};
use crate::member::Member;
use crate::parts::admission::{Admission, Attempt};
use crate::parts::connection::{Connection, Sent};
use crate::parts::silence::SilenceBound;
use crate::parts::tick::tick;
use crate::wait::mechanism::Mechanism;

/// The mechanism of workers that share nothing.
pub struct Blocking;

impl Mechanism for Blocking {
    fn serve(&self, context: &WorkerContext<'_>, _member: Member) -> Result<(), Fault> {
        let mut admission = Admission::new(1);
        let mut kept = Kept::new();
        kept.next_tick = context.is_first.then_some(Instant::ZERO);
        context.ready();
        let mut served = 0;
        while context.phase() <= Phase::Ready || !context.is_over() {
            let now = context.now();
            context.turn(now);
            kept.next_tick = tick(context, kept.next_tick, now);
            context.rest(Doing::Waiting);
            let accepted = context.accept_source.take(true);
            match admission.sort(accepted, now, context.slot()) {
                Attempt::Taken(arrival) => {
                    serve_next(context, &mut kept, arrival);
                    served += 1;
                    if served >= context.lifetime {
                        context.slot().dismiss();
                    }
                }
                Attempt::Gone | Attempt::Empty => {}
                Attempt::Exhausted => admission.sleep_back_off(now),
            }
        }
        Ok(())
    }
}

/// Serves one connection that the supervisor has accepted.
pub fn serve_one(context: &WorkerContext<'_>, kept: &mut Kept, arrival: Arrival) {
    context.slot().set_state(SlotState::Ready);
    kept.served = context.id.generation();
    serve_next(context, kept, arrival);
}

/// Serves a connection on this thread, to its end.
fn serve_next(context: &WorkerContext<'_>, kept: &mut Kept, arrival: Arrival) {
    context.id.enter();
    kept.served = kept.served % SessionId::GENERATION_MAX + 1;
    let id = SessionId::new(context.id.slot(), 0, kept.served);
    Turn::new(context, ThreadCalls::new(kept), id, arrival).run();
}

/// A worker's turn with one connection, from accept to close.
pub(crate) struct Turn<'a, 'd, C> {
    context: &'a WorkerContext<'d>,
    calls: C,
    connection: Connection<SessionId>,
    now: Instant,
    /// When to check the peer's pace next.
    look: Instant,
    silence_bound: SilenceBound,
}

impl<'a, 'd, C: BlockingCalls> Turn<'a, 'd, C> {
    /// The turn of the session `id` with a client that has come.
    pub fn new(
        context: &'a WorkerContext<'d>,
        mut calls: C,
        id: SessionId,
        (fd, peer): Arrival,
    ) -> Self {
        let now = calls.resumed(context); // A reload may have come while it waited.
        let cx = context.cx(now, id);
        let conn = Conn::open(context.service, &cx, peer, &mut calls.kept().buffers);
        context.opened(now);
        let connection = Connection::new(conn, fd, now, id);
        let silence_bound = SilenceBound::default();
        Turn { context, calls, connection, now, look: now, silence_bound }
    }

    /// Serves the connection to its end.
    pub fn run(mut self) {
        self.serve();
        self.finish();
    }

    /// Serves the connection until it can be closed.
    pub fn serve(&mut self) {
        loop {
            self.work_and_send();
            self.context.carry_out_effects();
            let mut wants = self.connection.conn.wants();
            if wants.close {
                return;
            }
            let phase = self.context.phase();
            if phase >= Phase::Draining {
                match phase {
                    Phase::Draining => {
                        self.connection.conn.last_call(self.now, self.connection.active);
                    }
                    _ => self.connection.conn.abort(Closed::Forced),
                }
                wants = self.connection.conn.wants();
            }
            if wants.close || wants.write || wants.job || wants.look {
                continue;
            }
            self.wait(wants.read, wants.wake);
        }
    }

    fn cx(&self) -> seam::Cx<'a, ()> {
        self.context.cx(self.now, self.connection.x)
    }

    /// Waits for input, or for the session's own deadline, at most [`BlockingCalls::LONGEST`].
    fn wait(&mut self, read: bool, wake: Option<Instant>) {
        if C::IS_SHARED {
            self.connection.conn.reclaim(&mut self.calls.kept().buffers);
        } else {
            self.connection.conn.lend(&mut self.calls.kept().buffers);
        }
        let next_tick = self.calls.kept().next_tick;
        let [wakes, ticks] = [wake, next_tick].map(|it| it.unwrap_or(Instant::NEVER));
        let timeout = wakes.min(ticks).since(self.now).min(C::LONGEST);
        if !self.connection.may_receive(self.context, self.now) {
            self.calls.rest(self.context, Doing::Waiting);
            self.calls.sleep(SHORT_LOOK.min(timeout));
            self.now = self.calls.now(self.context);
            self.shed();
        } else if read {
            self.receive(timeout);
            self.shed();
        } else {
            self.calls.rest(self.context, Doing::Waiting);
            self.calls.sleep(timeout);
            self.now = self.calls.now(self.context);
        }
        if !C::IS_SHARED {
            let next_tick = tick(self.context, next_tick, self.now);
            self.calls.kept().next_tick = next_tick;
        }
        self.connection.conn.deadline(self.context.service, &self.cx());
        let silence = self.now.since(self.connection.active);
        // A client is silent only where the service waits for it, and on a thread has bounded that
        // time.
        let is_silent = match C::IS_SHARED {
            true => self.connection.is_silent(self.now),
            false => wake.is_some() && silence >= WAIT,
        };
        let must_leave = read
            && is_silent
            && self.silence_bound.must_leave(
                self.calls.is_awaited(self.context),
                silence,
                self.now,
            );
        if must_leave || silence >= self.context.idle() {
            self.connection.conn.shut(Closed::Idle);
        }
    }

    fn receive(&mut self, timeout: Duration) {
        self.calls.rest(self.context, Doing::Reading);
        let Ok(received) = self.calls.receive(&self.connection.fd, Some(timeout)) else {
            self.connection.conn.abort(Closed::Reset);
            return;
        };
        self.now = self.calls.resumed(self.context);
        if !C::IS_SHARED {
            self.await_memory();
        }
        let cx = self.cx();
        let kept = &mut *self.calls.kept();
        if C::IS_SHARED {
            self.connection.conn.lend(&mut kept.buffers);
        }
        self.connection.received(self.context, &cx, received, &kept.scratch);
        self.connection.count_much(self.context, self.now);
    }

    /// Waits while the connections of all workers hold far more than the budget: a request that
    /// came during the wait for it may want much memory at once.
    fn await_memory(&mut self) {
        while self.context.board.is_short()
            && self.context.board.is_dire()
            && self.context.phase() < Phase::Forced
        {
            self.calls.rest(self.context, Doing::Waiting);
            self.calls.sleep(SHORT_LOOK);
            self.now = self.calls.now(self.context);
            self.context.board.judge_memory(self.now.ns());
            // Where all workers wait here, the connections of least use end the shortage.
            self.shed();
            if self.connection.conn.is_closing() {
                return;
            }
        }
    }

    /// Does jobs, and sends until nothing waits.
    fn work_and_send(&mut self) {
        loop {
            let cx = self.cx();
            if let Some(job) = self.connection.conn.take_job() {
                let outcome = self.calls.work(self.context, self.connection.x, job);
                self.now = self.calls.now(self.context);
                match outcome {
                    Some(outcome) => {
                        let cx = self.cx();
                        self.connection.conn.outcome(self.context.service, &cx, outcome);
                    }
                    None => self.connection.conn.abort(Closed::Reset),
                }
                continue;
            }
            if self.connection.conn.looks() {
                let kept = &mut *self.calls.kept();
                self.connection.last_look(self.context, &cx, &mut kept.scratch);
                continue;
            }
            if self.connection.conn.out().waiting() == 0 {
                self.connection.pace.rest();
                return;
            }
            let sent = self.connection.send(self.context, &cx, C::SEND);
            if sent != Sent::Broken && self.connection.conn.out().waiting() > 0 {
                self.endure(sent);
            }
        }
    }

    /// Ends the session if memory is short and it is of least use.
    fn shed(&mut self) {
        if self.context.board.is_short() && self.connection.is_shed(self.context, self.now) {
            self.connection.conn.abort(Closed::Shed);
        }
    }

    /// The peer does not take all output at once: waits, unless it takes too little or the server
    /// is forced.
    fn endure(&mut self, sent: Sent) {
        self.calls.rest(self.context, Doing::Writing);
        self.calls.await_room(sent);
        self.now = self.calls.now(self.context);
        if self.context.phase() >= Phase::Forced {
            self.connection.conn.abort(Closed::Forced);
        }
        self.connection.count_much(self.context, self.now);
        self.shed();
        if self.now < self.look {
            return;
        }
        self.look = self.now + WAIT.min(self.context.write_stall() / 4);
        if let Some(why) = self.connection.why_over(self.context, self.now, true) {
            self.connection.end(why);
        }
    }
}
