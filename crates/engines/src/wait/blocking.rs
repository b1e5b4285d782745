//! Blocking calls, one connection at a time: the classic server, alone (iterative) or as one of
//! many children (prefork).
//!
//! The kernel's scheduler is the event loop. A call that waits wakes at least every 250 ms, by the
//! timeouts that accepted sockets inherit from the listener, so that drains and limits are seen.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use memory::{Doing, Phase, Refusal, SlotState};
use seam::{Buffers, Closed, Conn, Instant, Peer, Service, SessionId};
use sys::socket;

use crate::accept::{Arrival, GRAIN};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::parts::door::{Door, Failure};
use crate::parts::pace::{Pace, Taking};
use crate::parts::transmit::{Wait, transmit};

/// What is received at once, in bytes.
const SCRATCH: usize = 64 * 1024;

/// Serves until the server drains.
pub fn serve<S: Service>(context: &WorkerContext<'_, S>) -> Result<(), Fault> {
    let mut door = Door::new(1);
    let mut room = Room::new(context);
    context.ready();
    let mut visits = 0;
    while context.phase() <= Phase::Ready || !context.is_over() {
        let now = context.now();
        context.turn(now);
        room.tick(context, now);
        context.rest(Doing::Waiting);
        match context.accept_source.take(true) {
            Ok((fd, peer)) => {
                Visit::new(context, &mut room, fd, Peer::Net(peer)).run();
                visits += 1;
                if visits >= context.lifetime {
                    context.slot().dismiss();
                }
            }
            Err(error) => match door.failed(&error, now) {
                Failure::Empty => {}
                Failure::Peer => context.slot().refuse(Refusal::Gone),
                Failure::Exhausted => {
                    context.slot().refuse(Refusal::Exhausted);
                    std::thread::sleep(door.opens_at().map_or(GRAIN, |moment| moment.since(now)));
                }
            },
        }
    }
    Ok(())
}

/// Serves one connection that somebody else has accepted.
pub fn serve_one<S: Service>(context: &WorkerContext<'_, S>, (fd, peer): Arrival) {
    context.slot().set_state(SlotState::Ready);
    context.turn(context.now());
    let mut room = Room { served: context.id.generation(), ..Room::new(context) };
    Visit::new(context, &mut room, fd, Peer::Net(peer)).run();
}

/// What a worker uses again for each visitor.
struct Room {
    scratch: Vec<u8>,
    buffers: Buffers,
    served: u32,
    /// When the world wants to tick, if this worker lets it.
    next_tick: Option<Instant>,
}

impl Room {
    fn new<S: Service>(context: &WorkerContext<'_, S>) -> Room {
        let next_tick = context.is_first.then_some(Instant::ZERO);
        Room { scratch: vec![0; SCRATCH], buffers: Buffers::new(4), served: 0, next_tick }
    }

    /// Lets the world tick if its moment has come.
    fn tick<S: Service>(&mut self, context: &WorkerContext<'_, S>, now: Instant) {
        if self.next_tick.is_some_and(|moment| moment <= now) {
            // From here on the world is a successor's to move, if there is one.
            let here = context.phase() != Phase::Leaving;
            self.next_tick =
                here.then(|| context.service.tick(&context.cx(now, SessionId::NONE))).flatten();
        }
    }
}

/// One connection from accept to close.
struct Visit<'a, 'd, S: Service> {
    context: &'a WorkerContext<'d, S>,
    room: &'a mut Room,
    fd: OwnedFd,
    id: SessionId,
    conn: Conn<S>,
    now: Instant,
    /// When bytes last moved.
    active: Instant,
    /// How the peer takes its output, and when it is looked at next.
    pace: Pace,
    look: Instant,
    /// The socket's receive timeout, if it is not [`GRAIN`].
    patience: Duration,
    ended: bool,
}

impl<'a, 'd, S: Service> Visit<'a, 'd, S> {
    fn new(context: &'a WorkerContext<'d, S>, room: &'a mut Room, fd: OwnedFd, peer: Peer) -> Self {
        let now = context.now();
        room.served = room.served % SessionId::GENERATION_MAX + 1;
        let id = SessionId::new(context.id.slot(), 0, room.served);
        let conn = Conn::open(context.service, &context.cx(now, id), peer, &mut room.buffers);
        context.opened(now);
        let (pace, patience, ended) = (Pace::new(), GRAIN, false);
        Visit { context, room, fd, id, conn, now, active: now, pace, look: now, patience, ended }
    }

    fn run(mut self) {
        loop {
            self.work_and_send();
            self.context.see_to_wishes();
            let wants = self.conn.wants();
            if wants.done {
                break;
            }
            match self.context.phase() {
                Phase::Starting | Phase::Ready | Phase::Leaving => {}
                Phase::Draining => self.conn.drain(self.context.service, &self.cx()),
                Phase::Forced | Phase::Done => self.conn.abort(Closed::Forced),
            }
            let wants = self.conn.wants();
            if wants.done || wants.write || wants.job {
                continue;
            }
            self.wait(wants.read, wants.wake);
        }
        self.finish();
    }

    fn cx(&self) -> seam::Cx<'a, S::State> {
        self.context.cx(self.now, self.id)
    }

    /// Waits for input, or for the session's own deadline, at most [`GRAIN`].
    fn wait(&mut self, read: bool, wake: Option<Instant>) {
        self.conn.lend(&mut self.room.buffers);
        let soonest = [wake, self.room.next_tick].into_iter().flatten().min();
        let patience = soonest.map_or(GRAIN, |moment| moment.since(self.now).min(GRAIN));
        if read {
            self.receive(patience);
        } else {
            std::thread::sleep(patience);
            self.now = self.context.now();
        }
        self.room.tick(self.context, self.now);
        self.conn.deadline(self.context.service, &self.cx());
        if self.now.since(self.active) >= self.context.idle() {
            self.conn.shut(Closed::Idle);
        }
    }

    fn receive(&mut self, patience: Duration) {
        // A timeout of zero would mean "for ever" (socket(7), SO_RCVTIMEO).
        let patience = patience.max(Duration::from_micros(1));
        if patience != self.patience {
            self.patience = patience;
            if socket::set_receive_timeout(&self.fd, Some(patience)).is_err() {
                self.conn.abort(Closed::Reset);
                return;
            }
        }
        self.context.rest(Doing::Reading);
        let received = socket::recv(&self.fd, &mut self.room.scratch);
        self.now = self.context.now();
        self.context.turn(self.now);
        let cx = self.cx();
        match received {
            Ok(0) => {
                self.ended = true;
                self.conn.eof(self.context.service, &cx);
            }
            Ok(len) => {
                self.active = self.now;
                self.context.slot().bytes_in.add(len as u64);
                self.conn.feed(self.context.service, &cx, &self.room.scratch[..len]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.conn.abort(Closed::Reset),
        }
    }

    /// Works on jobs in place and sends until nothing waits.
    fn work_and_send(&mut self) {
        loop {
            let cx = self.cx();
            if let Some(job) = self.conn.take_job() {
                let outcome = self.context.service.work(self.context.state, job);
                self.now = self.context.now();
                self.conn.done(self.context.service, &self.cx(), outcome);
                continue;
            }
            if self.conn.out().waiting() == 0 {
                self.pace.rest();
                return;
            }
            match transmit(self.context.assets, &self.fd, self.conn.out(), Wait::May) {
                Ok(len) => {
                    self.active = self.now;
                    self.pace.give(&self.fd, len);
                    self.context.slot().bytes_out.add(len as u64);
                    self.conn.sent(self.context.service, &cx, len);
                    if self.conn.out().waiting() > 0 {
                        self.endure();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.context.rest(Doing::Writing);
                    self.endure();
                }
                Err(_) => self.conn.abort(Closed::Reset),
            }
        }
    }

    /// The peer does not take everything at once: waits on, unless it takes too little or the
    /// server is forced.
    fn endure(&mut self) {
        self.now = self.context.now();
        if self.context.phase() >= Phase::Forced {
            self.conn.abort(Closed::Forced);
        }
        if self.now < self.look {
            return;
        }
        self.look = self.now + GRAIN.min(self.context.write_stall() / 4);
        match self.pace.look(&self.fd, self.now, self.context.knobs) {
            Taking::Some => self.active = self.now,
            Taking::Nothing if self.now.since(self.active) < self.context.write_stall() => {}
            Taking::Nothing | Taking::TooLittle => self.conn.abort(Closed::Stalled),
        }
    }

    /// Lets the peer finish, so that the last reply is not lost to a reset, then closes.
    fn finish(mut self) {
        let why = self.conn.why();
        if !self.ended && matches!(why, Closed::Service | Closed::Overlong) {
            self.linger();
        }
        if why == Closed::Stalled {
            // The kernel would keep what the peer does not take, for minutes.
            let _ = socket::set_linger_reset(&self.fd);
        }
        self.context.rest(Doing::Working);
        self.conn.reclaim(&mut self.room.buffers);
        let cx = self.context.cx(self.now, self.id);
        self.conn.close(self.context.service, &cx);
        self.context.closed(self.now);
    }

    fn linger(&mut self) {
        let until = self.context.now() + self.context.knobs.linger;
        self.context.rest(Doing::Closing);
        if socket::shutdown_write(&self.fd).is_err() {
            return;
        }
        while self.context.now() < until && self.context.phase() < Phase::Forced {
            match socket::recv(&self.fd, &mut self.room.scratch) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}
