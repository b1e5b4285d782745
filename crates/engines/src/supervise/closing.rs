//! How a server is stopped: its doors, its drain, and what happens to who does not leave. It begins
//! with nobody else coming, and with who waits at the door being let in.
//!
//! A listener that is closed resets the connections that nobody has accepted, and their peers may
//! have asked already. So the listeners are made deaf to newcomers first, who take that for a lost
//! packet; who was half inside gets [`AT_LEAST`] to complete the handshake; and the workers go on
//! as before until nobody waits, or [`AT_MOST`] has passed because they are all taken.

use std::time::Duration;

use memory::Phase;
use seam::{Instant, Service};
use sys::socket;

use super::{Crew, GRACE, Supervisor, clock};
use crate::say::say;

/// How long a handshake may take that had begun. The kernel does not tell of those, and on a busy
/// machine the last packet of one waits for its turn even if both ends are here.
const AT_LEAST: Duration = Duration::from_millis(10);
/// How long those who wait may take to be let in, if the drain is not shorter: a server that serves
/// one after the other lets the next in when the last has left.
const AT_MOST: Duration = Duration::from_secs(2);
/// Between two looks at the queue.
const LOOK: Duration = Duration::from_millis(2);

/// The listeners are deaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    from: Instant,
    until: Instant,
    looks_at: Instant,
}

impl Closing {
    /// When the queue is to be looked at.
    pub fn wakes_at(&self) -> Instant {
        self.looks_at
    }
}

impl<S: Service, C: Crew> Supervisor<'_, S, C> {
    /// The first word drains, the second forces.
    pub(super) fn stop(&mut self) {
        match self.phase() {
            Phase::Ready if self.closing.is_none() => self.close_doors(clock()),
            Phase::Starting | Phase::Leaving => self.enter(Phase::Draining, self.drain),
            Phase::Ready => {
                self.closing = None;
                self.force("told twice");
            }
            Phase::Draining => self.force("told twice"),
            Phase::Forced | Phase::Done => {}
        }
    }

    /// The phase as it is told: the drain has begun as soon as the doors are closed.
    pub(super) fn told_phase(&self) -> Phase {
        if self.closing.is_some() { Phase::Draining } else { self.phase() }
    }

    pub(super) fn force(&mut self, why: &str) {
        say!("stopping by force, {why}: {} connections are cut", self.common.board.open_total());
        self.report.forced = true;
        self.enter(Phase::Forced, GRACE);
    }

    /// Enforces the deadline of the phase.
    pub(super) fn press(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.deadline = None;
        match self.phase() {
            Phase::Leaving => self.enter(Phase::Draining, self.drain),
            Phase::Draining => self.force("the time to drain is over"),
            _ if self.crew.kill() => {}
            _ => {
                say!("a worker does not leave: ending the process");
                self.save();
                self.close_handler();
                sys::process::exit_now(1);
            }
        }
    }

    /// Nobody else comes from here on; drains as soon as nobody waits to be accepted.
    fn close_doors(&mut self, now: Instant) {
        // Who took the server over goes on listening at the same doors.
        let are_ours = self.successor.is_none() && !self.handed_over;
        let listeners = &self.common.listeners.sockets;
        if !are_ours || !listeners.iter().all(|listener| socket::deafen(listener).is_ok()) {
            self.enter(Phase::Draining, self.drain);
            return;
        }
        let (from, until) = (now + AT_LEAST, now + AT_MOST.min(self.drain));
        self.closing = Some(Closing { from, until, looks_at: from.min(until) });
    }

    /// Drains once nobody waits to be accepted.
    pub(super) fn empty_queue(&mut self, now: Instant) {
        let Some(closing) = &mut self.closing else { return };
        if now < closing.looks_at {
            return;
        }
        closing.looks_at = now + LOOK;
        let Closing { from, until, .. } = *closing;
        if now >= until || (now >= from && self.queue().length == 0) {
            self.closing = None;
            self.enter(Phase::Draining, self.drain);
        }
    }
}
