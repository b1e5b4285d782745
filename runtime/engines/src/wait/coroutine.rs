//! A stack for each connection: the code of the blocking engine, on coroutines. Where a thread
//! would sleep in the kernel, a coroutine switches to the loop, which resumes it when epoll(7)
//! reports its descriptor or its time has come.
//!
//! A turn of the loop: wait, read the clock once, resume those whose event has come, those with
//! more to do, and those whose time is over. The turn of a connection is [`blocking::Turn`]; only
//! its waiting calls differ ([`calls`]). A connection is watched once, by edges, so no request
//! costs an `epoll_ctl(2)`; its [`Seat`] remembers the events.
//!
//! A coroutine with nothing to do sleeps for as long as its session wants. The loop therefore
//! resumes all of them in parts, as others sweep their sessions ([`duties`]): each looks for itself
//! whether it is idle, stalled or of least use, whether memory is short, and what phase the server
//! is in.
//!
//! Bounds as in other loops: one receive a turn, a share of output a turn, then the others. A
//! service that panics ends its connection alone. A stack that overflows meets its guard page, and
//! the process ends.
//!
//! [`blocking::Turn`]: crate::wait::blocking::Turn

mod accept;
mod calls;
mod duties;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use memory::{Doing, Phase, SlotState};
use seam::{Instant, SessionId};
use sys::coroutine::{self, Scope};
use sys::epoll::{Epoll, Events};
use sys::ready::{Interest, Ready};

use self::calls::{Awaits, Seat, Worker};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::helpers;
use crate::limits::{DRAIN_LOOK, EVENTS, SHORT_LOOK};
use crate::member::Member;
use crate::parts::admission::Admission;
use crate::parts::deadlines::Deadlines;
use crate::parts::event_loop::sweep_every;
use crate::parts::table::Table;
use crate::parts::tick::tick;
use crate::wait::mechanism::Mechanism;

/// The stack of a connection, if `--stack` names none: room for a handshake of TLS. Only the pages
/// that it touches are memory.
const STACK: usize = 256 << 10;

// Sessions have keys below 2^60; these are above.
const KEY_LISTENER: u64 = 1 << 60;
const KEY_STOP: u64 = 2 << 60;
const KEY_JOBS: u64 = 3 << 60;

/// The mechanism of workers with coroutines, which share nothing.
pub struct Coroutines;

impl Mechanism for Coroutines {
    fn serve(&self, context: &WorkerContext<'_>, _member: Member) -> Result<(), Fault> {
        helpers::with(context, |helpers| {
            let worker = Worker::new(context, helpers);
            coroutine::scope(context.knobs.loops.stack.unwrap_or(STACK), |scope| {
                let mut this = Loop::open(&worker, scope).map_err(Fault::Wait)?;
                context.ready();
                this.run().map_err(Fault::Wait)
            })
        })
    }
}

/// A connection, as the loop knows it.
struct Fiber {
    seat: Rc<Seat>,
    /// Its coroutine.
    place: usize,
    /// Its entry among the deadlines.
    scheduled: Instant,
}

struct Loop<'l, 'a> {
    worker: &'a Worker<'a>,
    scope: &'l mut Scope<'a>,
    epoll: Epoll,
    table: Table<Fiber>,
    deadlines: Deadlines,
    /// Sessions that had more to do than a turn allows.
    again: VecDeque<SessionId>,
    admission: Admission,
    listening: bool,
    now: Instant,
    next_tick: Option<Instant>,
    next_sweep: Instant,
    sweep_from: usize,
    /// When the silent may next have to make room.
    next_room: Instant,
    /// The phase that all coroutines have been resumed to see.
    seen: Phase,
    was_short: bool,
}

impl<'l, 'a> Loop<'l, 'a> {
    fn open(worker: &'a Worker<'a>, scope: &'l mut Scope<'a>) -> io::Result<Loop<'l, 'a>> {
        let (context, epoll, now) = (worker.context, Epoll::new()?, worker.now.get());
        let stop = Interest { edge: true, ..Interest::READ };
        epoll.add(context.stop.as_fd(), stop, KEY_STOP)?;
        epoll.add(worker.helpers.bell(), Interest::READ, KEY_JOBS)?;
        Ok(Loop {
            worker,
            scope,
            epoll,
            table: Table::new(context.id.slot()),
            deadlines: Deadlines::default(),
            again: VecDeque::new(),
            admission: Admission::new(context.sessions_max()),
            listening: false,
            now,
            next_tick: context.is_first.then_some(now),
            next_sweep: now + sweep_every(context),
            sweep_from: 0,
            next_room: Instant::ZERO,
            seen: Phase::Ready,
            was_short: false,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let context = self.worker.context;
        let mut events = Events::with_capacity(EVENTS);
        self.follow_admission(false)?;
        loop {
            context.rest(Doing::Waiting);
            let waited = self.epoll.wait(&mut events, self.timeout());
            self.begin_turn();
            // Only as many as were waiting, so that large transfers do not delay new events.
            for _ in 0..self.again.len() {
                let Some(id) = self.again.pop_front() else { break };
                self.resume(id);
            }
            let mut is_acceptable = false;
            match waited {
                Ok(_) => {
                    for event in events.iter() {
                        is_acceptable |= event.key == KEY_LISTENER;
                        self.complete(event);
                    }
                }
                Err(error) => context.endure(error)?,
            }
            self.follow_admission(is_acceptable)?;
            self.wake_due();
            self.next_tick = tick(context, self.next_tick, self.now);
            context.carry_out_effects();
            self.follow_phase();
            self.sweep();
            self.make_room();
            if self.table.len() == 0 && context.is_over() {
                return Ok(());
            }
        }
    }

    /// The time that the loop may sleep; `None`: until an event.
    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let mut soonest = if self.table.len() > 0 { self.next_sweep } else { Instant::NEVER };
        if self.admission.is_full() {
            soonest = soonest.min(self.next_room);
        }
        if self.seen > Phase::Ready || self.worker.context.phase() > Phase::Ready {
            // Another worker may have accepted the last connection.
            soonest = soonest.min(self.now + DRAIN_LOOK);
        }
        for moment in [self.deadlines.next(), self.admission.resumes_at(), self.next_tick] {
            soonest = soonest.min(moment.unwrap_or(Instant::NEVER));
        }
        (soonest != Instant::NEVER).then(|| soonest.since(self.now))
    }

    /// Begins a turn: reads the clock, once.
    fn begin_turn(&mut self) {
        let context = self.worker.context;
        self.now = self.worker.begin_turn();
        let is_short = context.board.is_short();
        if std::mem::replace(&mut self.was_short, is_short) != is_short {
            // Coroutines that were kept from receiving resume with the next sweep.
            self.next_sweep = self.next_sweep.min(self.now + SHORT_LOOK);
        }
        if context.turn(self.now) {
            self.admission.set_limit(context.sessions_max());
            self.next_sweep = self.now;
        }
    }

    fn complete(&mut self, event: Ready) {
        match event.key {
            KEY_LISTENER => {}
            KEY_STOP => self.worker.context.slot().set_state(SlotState::Draining),
            KEY_JOBS => {
                for done in self.worker.helpers.collect() {
                    self.worker.context.job_ended(done.times);
                    if let Some(fiber) = self.table.lookup(done.id) {
                        fiber.seat.outcome.set(Some(done.outcome));
                        self.resume(done.id);
                    }
                }
            }
            bits => {
                let id = SessionId::from_bits(bits);
                let Some(fiber) = self.table.lookup(id) else { return };
                if fiber.seat.note(event) {
                    self.resume(id);
                }
            }
        }
    }

    /// Runs a coroutine until it waits; true if its connection has ended.
    fn resume(&mut self, id: SessionId) -> bool {
        let Some(fiber) = self.table.lookup(id) else { return false };
        fiber.seat.begin_turn();
        self.worker.context.slot().stack_switches.add(2);
        let resumed = self.scope.resume(fiber.place);
        match resumed {
            Ok(false) => {
                self.deadlines.ask(id, Some(fiber.seat.until.get()), &mut fiber.scheduled);
                if fiber.seat.awaits.get() == Awaits::Turn {
                    self.again.push_back(id);
                }
                false
            }
            Ok(true) => {
                self.table.remove(id);
                true
            }
            // A service that panics when it opens or closes a session costs the worker.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
