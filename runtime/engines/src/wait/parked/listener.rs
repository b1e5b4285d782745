//! The waiting thread of a process: it waits for connections, for parked sessions to become ready
//! or due, and for the server to drain.
//!
//! It steps no session. It takes a session out of its slot and queues it for a worker, with the
//! reason: an event, or a deadline. A session is in one place at a time, so a late event finds an
//! empty slot and is dropped. The listener accepts only while a worker is idle, so a busy process
//! leaves clients to others; a worker that becomes idle rings the bell.
//!
//! Phases, reloads and short memory are handled by queueing sessions: each worker looks at the
//! phase when it serves one. The listener counts the connections of its process, because a worker
//! that ends a session may be any of them.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use memory::{Doing, Phase, Refusal, SlotState};
use seam::{Closed, Instant, SessionId};
use sys::epoll::Events;
use sys::ready::{Interest, Ready};

use super::parking::{self, Connection, ParkedConnections};
use crate::accept::set::WorkerListener;
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::{ACCEPTS, DRAIN_LOOK, EVENTS, SHORT_LOOK, WAIT};
use crate::parts::admission::{Admission, Attempt};
use crate::parts::silence::SilenceBound;
use crate::parts::tick::tick;

// Sessions have keys below 2^60; these are above.
const KEY_LISTENER: u64 = 1 << 60;
const KEY_STOP: u64 = 2 << 60;
const KEY_BELL: u64 = 3 << 60;

/// The longest time for which reloaded settings may go unnoticed.
const RELOAD: Duration = Duration::from_secs(5);
/// Of several processes that watch one listener, the kernel wakes only one; of those that watch a
/// set of them, all.
fn interest(listener: WorkerListener<'_>) -> Interest {
    Interest { exclusive: matches!(listener, WorkerListener::One(_)), ..Interest::READ }
}

/// Listens until the server drains. `first` is the worker slot of the process's first worker.
pub fn serve(
    context: &WorkerContext<'_>,
    parking: &ParkedConnections,
    first: usize,
) -> Result<(), Fault> {
    let mut events = Events::with_capacity(EVENTS);
    let mut duties = Duties::new(context);
    let mut listener = Listener { context, parking, first, serves: false, duties: &mut duties };
    let mut run = || {
        listener.begin()?;
        context.ready();
        while !listener.turn(&mut events)? {}
        Ok(())
    };
    run().map_err(Fault::Wait)
}

/// The state of a listener, whichever thread listens.
pub struct Duties {
    pub admission: Admission,
    /// The number of accepted connections, which decides when the process is replaced.
    accepted: u64,
    listening: bool,
    /// The listener had an event, after which nothing has been accepted yet.
    is_acceptable: bool,
    pub now: Instant,
    /// The time of the service's next tick, if this process calls it.
    pub next_tick: Option<Instant>,
    /// When the silent may next have to make room, and after which silence.
    next_room: Instant,
    silence: SilenceBound,
}

impl Duties {
    pub fn new(context: &WorkerContext<'_>) -> Duties {
        Duties {
            admission: Admission::new(context.sessions_max()),
            accepted: 0,
            listening: false,
            is_acceptable: false,
            now: context.now(),
            next_tick: context.is_first.then_some(Instant::ZERO),
            next_room: Instant::ZERO,
            silence: SilenceBound::default(),
        }
    }

    /// The time that the listener may sleep; `soonest` is when the first session is due.
    pub fn timeout(&self, context: &WorkerContext<'_>, mut soonest: Instant) -> Option<Duration> {
        for moment in [self.admission.resumes_at(), self.next_tick] {
            soonest = soonest.min(moment.unwrap_or(Instant::NEVER));
        }
        if context.board.is_short() {
            soonest = soonest.min(self.now + SHORT_LOOK);
        }
        if self.admission.is_full() {
            soonest = soonest.min(self.next_room);
        }
        let timeout = (soonest != Instant::NEVER).then(|| soonest.since(self.now));
        match context.phase() {
            // With open connections it checks periodically for reloaded settings.
            Phase::Starting | Phase::Ready if context.slot().open.read() > 0 => {
                Some(timeout.map_or(RELOAD, |time| time.min(RELOAD)))
            }
            Phase::Starting | Phase::Ready => timeout,
            _ => Some(timeout.map_or(DRAIN_LOOK, |time| time.min(DRAIN_LOOK))),
        }
    }

    /// At the limit, while others wait: the silence after which a client must make room.
    pub fn room_bound(&mut self, context: &WorkerContext<'_>) -> Option<Duration> {
        if !self.admission.is_full() || self.now < self.next_room {
            return None;
        }
        self.next_room = self.now + WAIT;
        self.silence.bound(context.is_awaited(), self.now)
    }
}

/// The thread that listens.
pub struct Listener<'a, 'd> {
    pub context: &'a WorkerContext<'d>,
    pub parking: &'a ParkedConnections,
    /// The slot of the process's first worker.
    pub first: usize,
    /// It serves connections itself: it does not wait while some are queued.
    pub serves: bool,
    pub duties: &'a mut Duties,
}

impl Listener<'_, '_> {
    /// Watches the server's stop and the bell of the workers.
    pub fn begin(&mut self) -> io::Result<()> {
        let (context, parking) = (self.context, self.parking);
        let stop = Interest { edge: true, ..Interest::READ };
        parking.epoll.add(context.stop.as_fd(), stop, KEY_STOP)?;
        parking.epoll.add(&parking.bell, Interest::READ, KEY_BELL)
    }

    /// Waits for events and queues the connections that are ready or due; true if the server has
    /// drained.
    pub fn turn(&mut self, events: &mut Events) -> io::Result<bool> {
        let (context, parking) = (self.context, self.parking);
        self.accept()?;
        context.rest(Doing::Waiting);
        parking.epoll.wait(events, self.timeout())?;
        let now = context.now();
        self.duties.now = now;
        if context.turn(now) {
            self.duties.admission.set_limit(context.sessions_max());
            // Their deadlines were computed from the old settings.
            let parked = parking.take_where(|_| true);
            parked.into_iter().for_each(|connection| self.queue(connection, false));
        }
        events.iter().for_each(|event| self.complete(event));
        (0..parking.take_ended()).for_each(|_| context.closed(now));
        self.follow_phase();
        if context.board.is_short() {
            let parked = parking.take_where(Connection::holds_much);
            parked.into_iter().for_each(|connection| self.queue(connection, false));
        }
        if parking.soonest() <= now {
            let due = parking.take_where(|connection| connection.scheduled <= now);
            due.into_iter().for_each(|connection| self.queue(connection, false));
        }
        self.make_room();
        self.duties.next_tick = tick(context, self.duties.next_tick, now);
        context.carry_out_effects();
        Ok(context.slot().open.read() == 0 && context.is_over())
    }

    fn timeout(&self) -> Option<Duration> {
        if self.serves && self.parking.queued() > 0 {
            return Some(Duration::ZERO);
        }
        self.duties.timeout(self.context, self.parking.soonest())
    }

    fn complete(&mut self, event: Ready) {
        match event.key {
            KEY_LISTENER => self.duties.is_acceptable = true,
            KEY_STOP => self.context.slot().set_state(SlotState::Draining),
            KEY_BELL => {
                self.parking.bell.clear();
            }
            bits => {
                if let Some(connection) = self.parking.claim(SessionId::from_bits(bits)) {
                    self.queue(connection, true);
                }
            }
        }
    }

    fn queue(&mut self, connection: Box<Connection>, moved: bool) {
        if let Err(parking::ParkedWork::Parked(connection, _)) =
            self.parking.put(parking::ParkedWork::Parked(connection, moved))
        {
            // There is room for every session, so this cannot happen; if it did, the session must
            // not leak.
            self.end(*connection, Closed::Reset);
        }
    }

    // ---- accept

    /// At the limit, while others wait: ends the parked sessions of the longest silent clients.
    fn make_room(&mut self) {
        let Some(bound) = self.duties.room_bound(self.context) else { return };
        let now = self.duties.now;
        let is_silent = |it: &Connection| now.since(it.active) >= bound && it.is_silent(now);
        for mut connection in self.parking.take_where(is_silent) {
            connection.end(Closed::Idle);
            self.queue(connection, false);
        }
    }

    /// Accepts up to [`ACCEPTS`] connections, each for an idle worker, if the listener is readable
    /// or was not watched; watches it only while connections are admitted. Of several processes one
    /// may be woken for a connection when its last worker is taken, so their listeners try at every
    /// turn; a thread that serves too is the leader of one process.
    fn accept(&mut self) -> io::Result<()> {
        let (context, parking) = (self.context, self.parking);
        let is_acceptable =
            std::mem::take(&mut self.duties.is_acceptable) | !self.duties.listening | !self.serves;
        let mut wants = false;
        for _ in 0..ACCEPTS {
            let open = context.slot().open.read() as usize;
            wants = !context.is_over()
                && self.duties.admission.is_open(open, self.duties.now)
                && parking.has_idle();
            if !wants || !is_acceptable {
                break;
            }
            let accepted = context.accept_source.take(false);
            match self.duties.admission.sort(accepted, self.duties.now, context.slot()) {
                Attempt::Taken(arrival) => self.admit(arrival),
                Attempt::Gone => {}
                Attempt::Empty => break,
                Attempt::Exhausted => {
                    wants = false;
                    break;
                }
            }
        }
        if wants != self.duties.listening {
            let source = context.accept_source.fd();
            match wants {
                true => parking.epoll.add(source, interest(context.listener), KEY_LISTENER)?,
                false => parking.epoll.remove(source)?,
            }
            self.duties.listening = wants;
        }
        Ok(())
    }

    fn admit(&mut self, arrival: crate::accept::source::Arrival) {
        let context = self.context;
        context.opened(self.duties.now);
        if self.parking.put(parking::ParkedWork::New(arrival)).is_err() {
            context.slot().refuse(Refusal::NoWorker);
            context.closed(self.duties.now);
        }
        self.duties.accepted += 1;
        if self.duties.accepted >= context.lifetime {
            (self.first..=context.id.slot()).for_each(|slot| context.board.slot(slot).dismiss());
        }
    }

    // ---- the end

    /// Queues parked sessions that have not been told yet that the server drains; closes all of
    /// them when it is forced.
    fn follow_phase(&mut self) {
        match self.context.phase() {
            Phase::Starting | Phase::Ready | Phase::Leaving => {}
            Phase::Draining => {
                let uninformed = self
                    .parking
                    .take_where(|connection| !connection.x.drained && connection.linger.is_none());
                uninformed.into_iter().for_each(|connection| self.queue(connection, false));
            }
            Phase::Forced | Phase::Done => {
                let parked = self.parking.take_where(|_| true);
                parked.into_iter().for_each(|connection| self.end(*connection, Closed::Forced));
            }
        }
    }

    fn end(&mut self, mut connection: Connection, why: Closed) {
        let id = connection.x.id;
        connection.conn.abort(why);
        connection.close(self.context, &self.context.cx(self.duties.now, id));
        self.parking.end(id);
    }
}
