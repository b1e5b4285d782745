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

mod ending;

use std::os::fd::OwnedFd;
use std::time::Duration;

use memory::{Doing, Phase, SlotState};
use seam::{Buffers, Closed, Conn, Instant, Peer, SessionId};
use sys::socket;

use crate::accept::source::Arrival;
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::{BLOCKING_BUFFERS, RECEIVE_BYTES, SHORT_LOOK, WAIT};
use crate::member::Member;
use crate::parts::admission::{Admission, Attempt};
use crate::parts::connection::{Connection, Sent};
use crate::parts::silence::SilenceBound;
use crate::parts::tick::tick;
use crate::parts::transmit::CallMode;
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
                Attempt::Taken((fd, peer)) => {
                    Turn::new(context, &mut kept, fd, peer).run();
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
pub fn serve_one(context: &WorkerContext<'_>, kept: &mut Kept, (fd, peer): Arrival) {
    context.slot().set_state(SlotState::Ready);
    kept.served = context.id.generation();
    Turn::new(context, kept, fd, peer).run();
}

/// The buffers that a worker keeps from one connection to the next.
pub struct Kept {
    /// Input, in a capacity of [`RECEIVE_BYTES`] whose pages the kernel touches as it needs them.
    scratch: Vec<u8>,
    buffers: Buffers,
    served: u32,
    /// The time of the service's next tick, if this worker calls it.
    next_tick: Option<Instant>,
}

impl Kept {
    /// Buffers for one connection at a time.
    pub fn new() -> Kept {
        let mut buffers = Buffers::new(BLOCKING_BUFFERS);
        let first = buffers.take();
        buffers.put(first);
        let scratch = Vec::with_capacity(RECEIVE_BYTES);
        Kept { scratch, buffers, served: 0, next_tick: None }
    }
}

/// A worker's turn with one connection, from accept to close.
struct Turn<'a, 'd> {
    context: &'a WorkerContext<'d>,
    kept: &'a mut Kept,
    connection: Connection<SessionId>,
    now: Instant,
    /// When to check the peer's pace next.
    look: Instant,
    /// The socket's receive timeout, if it is not [`WAIT`].
    timeout: Duration,
    silence_bound: SilenceBound,
}

impl<'a, 'd> Turn<'a, 'd> {
    fn new(context: &'a WorkerContext<'d>, kept: &'a mut Kept, fd: OwnedFd, peer: Peer) -> Self {
        let now = context.now();
        context.id.enter();
        context.turn(now); // A reload may have come while it waited.
        kept.served = kept.served % SessionId::GENERATION_MAX + 1;
        let id = SessionId::new(context.id.slot(), 0, kept.served);
        let conn = Conn::open(context.service, &context.cx(now, id), peer, &mut kept.buffers);
        context.opened(now);
        let connection = Connection::new(conn, fd, now, id);
        let silence_bound = SilenceBound::default();
        let (look, timeout) = (now, WAIT);
        Turn { context, kept, connection, now, look, timeout, silence_bound }
    }

    fn run(mut self) {
        loop {
            self.work_and_send();
            self.context.carry_out_effects();
            let mut wants = self.connection.conn.wants();
            if wants.close {
                break;
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
        self.finish();
    }

    fn cx(&self) -> seam::Cx<'a, ()> {
        self.context.cx(self.now, self.connection.x)
    }

    /// Waits for input, or for the session's own deadline, at most [`WAIT`].
    fn wait(&mut self, read: bool, wake: Option<Instant>) {
        self.connection.conn.lend(&mut self.kept.buffers);
        let [wakes, ticks] = [wake, self.kept.next_tick].map(|it| it.unwrap_or(Instant::NEVER));
        let timeout = wakes.min(ticks).since(self.now).min(WAIT);
        if !self.connection.may_receive(self.context, self.now) {
            self.context.rest(Doing::Waiting);
            std::thread::sleep(SHORT_LOOK.min(timeout));
            self.now = self.context.now();
            self.shed();
        } else if read {
            self.receive(timeout);
            self.shed();
        } else {
            self.context.rest(Doing::Waiting);
            std::thread::sleep(timeout);
            self.now = self.context.now();
        }
        self.kept.next_tick = tick(self.context, self.kept.next_tick, self.now);
        self.connection.conn.deadline(self.context.service, &self.cx());
        let silence = self.now.since(self.connection.active);
        // A client is silent only where the service waits for it, and has bounded that time.
        let must_leave = read
            && wake.is_some()
            && silence >= WAIT
            && self.silence_bound.must_leave(self.context.is_awaited(), silence, self.now);
        if must_leave || silence >= self.context.idle() {
            self.connection.conn.shut(Closed::Idle);
        }
    }

    fn receive(&mut self, timeout: Duration) {
        // A timeout of zero would mean "forever" (socket(7), SO_RCVTIMEO).
        let timeout = timeout.max(Duration::from_micros(1));
        if timeout != self.timeout {
            self.timeout = timeout;
            if socket::set_receive_timeout(&self.connection.fd, Some(timeout)).is_err() {
                self.connection.conn.abort(Closed::Reset);
                return;
            }
        }
        self.context.rest(Doing::Reading);
        let received = socket::recv_into(&self.connection.fd, &mut self.kept.scratch);
        self.now = self.context.now();
        self.context.turn(self.now);
        self.await_memory();
        let cx = self.cx();
        self.connection.received(self.context, &cx, received, &self.kept.scratch);
        self.connection.count_much(self.context, self.now);
    }

    /// Waits while the connections of all workers hold far more than the budget: a request that
    /// came during the wait for it may want much memory at once.
    fn await_memory(&mut self) {
        while self.context.board.is_short()
            && self.context.board.is_dire()
            && self.context.phase() < Phase::Forced
        {
            self.context.rest(Doing::Waiting);
            std::thread::sleep(SHORT_LOOK);
            self.now = self.context.now();
            self.context.board.judge_memory(self.now.ns());
            // Where all workers wait here, the connections of least use end the shortage.
            self.shed();
            if self.connection.conn.is_closing() {
                return;
            }
        }
    }

    /// Runs jobs in place, and sends until nothing waits.
    fn work_and_send(&mut self) {
        loop {
            let cx = self.cx();
            if let Some(job) = self.connection.conn.take_job() {
                let outcome = self.context.service.work(&(), job);
                self.now = self.context.now();
                self.connection.conn.outcome(self.context.service, &self.cx(), outcome);
                continue;
            }
            if self.connection.conn.looks() {
                self.connection.last_look(self.context, &cx, &mut self.kept.scratch);
                continue;
            }
            if self.connection.conn.out().waiting() == 0 {
                self.connection.pace.rest();
                return;
            }
            let sent = self.connection.send(self.context, &cx, CallMode::Blocking);
            if sent != Sent::Broken && self.connection.conn.out().waiting() > 0 {
                self.endure();
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
    fn endure(&mut self) {
        self.context.rest(Doing::Writing);
        self.now = self.context.now();
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
