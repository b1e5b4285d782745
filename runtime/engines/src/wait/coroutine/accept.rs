//! Accepting, and the start of a connection's coroutine.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use memory::Refusal;
use seam::{Instant, SessionId};
use sys::coroutine::Switch;
use sys::ready::Interest;

use super::calls::{CoroutineCalls, Seat, Worker};
use super::{Fiber, KEY_LISTENER, Loop};
use crate::accept::source::Arrival;
use crate::limits::ACCEPTS;
use crate::parts::admission::Attempt;
use crate::wait::blocking::Turn;

/// A connection's events: each change, once.
const EDGES: Interest =
    Interest { read: true, write: true, edge: true, rdhup: true, ..Interest::NONE };

impl Loop<'_, '_> {
    /// Accepts if the listener is readable, and watches it only while connections are admitted.
    pub(super) fn follow_admission(&mut self, is_acceptable: bool) -> io::Result<()> {
        let source = self.worker.context.accept_source;
        let mut open = self.admission.is_open(self.table.len(), self.now);
        if open && (is_acceptable || !self.listening) {
            open = self.accept();
        }
        if open != self.listening {
            match open {
                true => self.epoll.add(source.fd(), source.interest(), KEY_LISTENER)?,
                false => self.epoll.remove(source.fd())?,
            }
            self.listening = open;
        }
        Ok(())
    }

    /// Accepts up to [`ACCEPTS`] connections; false if accepting must stop.
    fn accept(&mut self) -> bool {
        let context = self.worker.context;
        for count in 0..ACCEPTS {
            // New connections may request much at once; they wait while others are served.
            if count > 0 && self.worker.is_long() {
                return true;
            }
            if !self.admission.is_open(self.table.len(), self.now) {
                return false;
            }
            match self.admission.sort(context.accept_source.take(false), self.now, context.slot()) {
                Attempt::Taken(arrival) => self.admit(arrival),
                Attempt::Gone => {}
                Attempt::Empty => return true,
                Attempt::Exhausted => return false,
            }
        }
        true
    }

    /// Gives a connection a coroutine, and runs it until it waits.
    fn admit(&mut self, arrival: Arrival) {
        let (worker, id, seat) = (self.worker, self.table.next_id(), Rc::new(Seat::new()));
        let watched = self.epoll.add(&arrival.0, EDGES, id.bits());
        let its_seat = Rc::clone(&seat);
        let started = watched.and_then(|()| {
            self.scope.start(move |switch| serve(worker, its_seat, switch, id, arrival))
        });
        match started {
            Ok(place) => {
                self.table.insert(Fiber { seat, place, scheduled: Instant::NEVER });
                self.resume(id);
            }
            // No memory for a stack, or no mapping is left (vm.max_map_count): the client is sent
            // away, and accepting pauses.
            Err(_) => {
                worker.context.slot().refuse(Refusal::Exhausted);
                self.admission.back_off(self.now);
            }
        }
    }
}

/// The life of a coroutine: one connection.
fn serve(
    worker: &Worker<'_>,
    seat: Rc<Seat>,
    switch: &Switch<'_>,
    id: SessionId,
    arrival: Arrival,
) {
    let calls = CoroutineCalls { worker, switch, seat };
    let mut turn = Turn::new(worker.context, calls, id, arrival);
    // Also where the worker ends before its connections, which unwinds them.
    match catch_unwind(AssertUnwindSafe(|| turn.serve())) {
        Ok(()) => turn.finish(),
        Err(_) => turn.abandon(),
    }
}
