//! The one thread of a process that waits for others: for peers to come, for parked sessions to
//! move or fall due, and for the server to drain.

use std::io;
use std::os::fd::AsFd;

use memory::{Doing, Phase, Refusal, SlotState};
use seam::{Closed, Instant, Service, SessionId};
use sys::epoll::Events;
use sys::ready::{Interest, Ready};

use super::parking::{Call, Connection, ParkedConnections};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::{ACCEPTS, DRAIN_LOOK, EVENTS};
use crate::parts::admission::{Admission, Attempt};

// Sessions have keys below 2^60; these are above.
const KEY_LISTENER: u64 = 1 << 60;
const KEY_STOP: u64 = 2 << 60;
const KEY_BELL: u64 = 3 << 60;

/// How long settings that were reloaded may take to be noticed, at the most.
const RELOAD: std::time::Duration = std::time::Duration::from_secs(5);
/// One of several processes that watch one listener is woken.
const DOOR: Interest = Interest { exclusive: true, ..Interest::READ };

/// Listens until the server drains. `first` is the worker slot of the process's first worker.
pub fn serve<S: Service>(
    context: &WorkerContext<'_, S>,
    parking: &ParkedConnections<S>,
    first: usize,
) -> Result<(), Fault> {
    let mut listener = Listener {
        context,
        parking,
        admission: Admission::new(context.sessions_max()),
        first,
        accepted: 0,
        listening: false,
        now: context.now(),
        next_tick: context.is_first.then_some(Instant::ZERO),
    };
    listener.run().map_err(Fault::Wait)
}

struct Listener<'a, 'd, S: Service> {
    context: &'a WorkerContext<'d, S>,
    parking: &'a ParkedConnections<S>,
    admission: Admission,
    first: usize,
    /// Connections accepted, by which the process's life is measured.
    accepted: u64,
    listening: bool,
    now: Instant,
    /// When the world wants to tick, if this process lets it.
    next_tick: Option<Instant>,
}

impl<S: Service> Listener<'_, '_, S> {
    fn run(&mut self) -> io::Result<()> {
        let (context, parking) = (self.context, self.parking);
        let stop = Interest { edge: true, ..Interest::READ };
        parking.epoll.add(context.stop.as_fd(), stop, KEY_STOP)?;
        parking.epoll.add(&parking.bell, Interest::READ, KEY_BELL)?;
        context.ready();
        let mut events = Events::with_capacity(EVENTS);
        loop {
            self.accept()?;
            context.rest(Doing::Waiting);
            parking.epoll.wait(&mut events, self.timeout())?;
            self.now = context.now();
            if context.turn(self.now) {
                self.admission.set_limit(context.sessions_max());
                // They were parked until a time that may be another by now.
                let parked = parking.sift(|_| true);
                parked.into_iter().for_each(|connection| self.call(connection, false));
            }
            events.iter().for_each(|event| self.hear(event));
            (0..parking.take_gone()).for_each(|_| context.closed(self.now));
            self.follow_phase();
            if parking.soonest() <= self.now {
                let now = self.now;
                let due = parking.sift(|connection| connection.scheduled <= now);
                due.into_iter().for_each(|connection| self.call(connection, false));
            }
            self.tick();
            context.see_to_wishes();
            if context.phase() > Phase::Ready && context.slot().open.read() == 0 {
                return Ok(());
            }
        }
    }

    fn timeout(&self) -> Option<std::time::Duration> {
        let mut soonest = self.parking.soonest();
        for moment in [self.admission.resumes_at(), self.next_tick] {
            soonest = soonest.min(moment.unwrap_or(Instant::NEVER));
        }
        let timeout = (soonest != Instant::NEVER).then(|| soonest.since(self.now));
        match self.context.phase() {
            // With somebody here it looks now and then whether it was reloaded.
            Phase::Starting | Phase::Ready if self.context.slot().open.read() > 0 => {
                Some(timeout.map_or(RELOAD, |time| time.min(RELOAD)))
            }
            Phase::Starting | Phase::Ready => timeout,
            _ => Some(timeout.map_or(DRAIN_LOOK, |time| time.min(DRAIN_LOOK))),
        }
    }

    fn hear(&mut self, event: Ready) {
        match event.key {
            KEY_LISTENER => {}
            KEY_STOP => self.context.slot().set_state(SlotState::Draining),
            KEY_BELL => {
                self.parking.bell.clear();
            }
            bits => {
                if let Some(connection) = self.parking.claim(SessionId::from_bits(bits)) {
                    self.call(connection, true);
                }
            }
        }
    }

    fn call(&mut self, connection: Box<Connection<S>>, moved: bool) {
        if let Err(Call::Back(connection, _)) = self.parking.call(Call::Back(connection, moved)) {
            // There is room for every session, so this cannot be; nobody must be lost by it.
            self.end(*connection, Closed::Reset);
        }
    }

    // ---- accept

    /// Takes those who wait, a bounded number, each for a worker that is free; watches the admission
    /// only while it is open.
    fn accept(&mut self) -> io::Result<()> {
        let (context, parking) = (self.context, self.parking);
        let mut wants = false;
        for _ in 0..ACCEPTS {
            let open = context.slot().open.read() as usize;
            wants = context.phase() <= Phase::Ready
                && self.admission.is_open(open, self.now)
                && parking.has_free();
            if !wants {
                break;
            }
            let accepted = context.accept_source.take(false);
            match self.admission.sort(accepted, self.now, context.slot()) {
                Attempt::Taken(arrival) => self.admit(arrival),
                Attempt::Gone => {}
                Attempt::Empty => break,
                Attempt::Exhausted => {
                    wants = false;
                    break;
                }
            }
        }
        if wants != self.listening {
            match wants {
                true => parking.epoll.add(context.accept_source.fd(), DOOR, KEY_LISTENER)?,
                false => parking.epoll.remove(context.accept_source.fd())?,
            }
            self.listening = wants;
        }
        Ok(())
    }

    fn admit(&mut self, arrival: crate::accept::Arrival) {
        let context = self.context;
        context.opened(self.now);
        if self.parking.call(Call::Come(arrival)).is_err() {
            context.slot().refuse(Refusal::NoWorker);
            context.closed(self.now);
        }
        self.accepted += 1;
        if self.accepted >= context.lifetime {
            (self.first..=context.id.slot()).for_each(|slot| context.board.slot(slot).dismiss());
        }
    }

    // ---- the way out

    /// Calls workers to those who were not told yet that the server drains; cuts the parked when it
    /// is forced.
    fn follow_phase(&mut self) {
        match self.context.phase() {
            Phase::Starting | Phase::Ready | Phase::Leaving => {}
            Phase::Draining => {
                let untold = self
                    .parking
                    .sift(|connection| !connection.x.drained && connection.linger.is_none());
                untold.into_iter().for_each(|connection| self.call(connection, false));
            }
            Phase::Forced | Phase::Done => {
                let parked = self.parking.sift(|_| true);
                parked.into_iter().for_each(|connection| self.end(*connection, Closed::Forced));
            }
        }
    }

    fn end(&mut self, mut connection: Connection<S>, why: Closed) {
        let id = connection.x.id;
        connection.conn.abort(why);
        connection.close(self.context.service, &self.context.cx(self.now, id));
        self.parking.leave(id);
    }

    fn tick(&mut self) {
        if self.next_tick.is_some_and(|moment| moment <= self.now) {
            let here = self.context.phase() != Phase::Leaving;
            let cx = self.context.cx(self.now, SessionId::NONE);
            // From here on the world is a successor's to move, if there is one.
            self.next_tick = here.then(|| self.context.service.tick(&cx)).flatten();
        }
    }
}
