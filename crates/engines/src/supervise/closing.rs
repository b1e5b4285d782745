//! Stopping a server: its listeners, its drain, and its force. The server first keeps new clients
//! out, and still accepts those in the kernel's queue.
//!
//! Closing a listener resets the connections in its queue, whose peers may have sent requests. So
//! the listeners are made deaf first: they drop SYN packets, which a new client takes for packet
//! loss and sends again. Handshakes in progress get [`AT_LEAST`] to complete. The workers continue
//! as before until the queue is empty, or until [`AT_MOST`] has passed because all workers are
//! busy.

use std::time::Duration;

use memory::Phase;
use seam::{Instant, Service};
use sys::socket;

use super::{Crew, GRACE, Supervisor, clock};
use crate::say::say;

/// The time that a handshake in progress may take. The kernel does not report such handshakes, and
/// on a busy machine the last packet waits for a core even if both ends are local.
const AT_LEAST: Duration = Duration::from_millis(10);
/// How long accepting the queue may take, if the drain is not shorter. A server that serves one
/// client at a time accepts the next one only when the last has left.
const AT_MOST: Duration = Duration::from_secs(2);
/// The interval between two checks of the queue.
const LOOK: Duration = Duration::from_millis(2);

/// A stop in progress, while the listeners are deaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    from: Instant,
    until: Instant,
    looks_at: Instant,
}

impl Closing {
    /// When to check the queue.
    pub fn wakes_at(&self) -> Instant {
        self.looks_at
    }
}

impl<S: Service, C: Crew> Supervisor<'_, S, C> {
    /// Stops the server: the first call drains, the second forces.
    pub(super) fn stop(&mut self) {
        match self.phase() {
            Phase::Ready if self.closing.is_none() => self.close_listeners(clock()),
            Phase::Starting | Phase::Leaving => self.enter(Phase::Draining, self.drain),
            Phase::Ready => {
                self.closing = None;
                self.force("stopped twice");
            }
            Phase::Draining => self.force("stopped twice"),
            Phase::Forced | Phase::Done => {}
        }
    }

    /// The phase that is reported: the drain begins as soon as the listeners are deaf.
    pub(super) fn public_phase(&self) -> Phase {
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
                say!("a worker does not end: ending the process");
                self.save();
                self.close_handler();
                sys::process::exit_now(1);
            }
        }
    }

    /// Keeps new clients out; drains as soon as the queue is empty.
    fn close_listeners(&mut self, now: Instant) {
        // A successor accepts from the same listeners.
        let are_ours = self.successor.is_none() && !self.handed_over;
        let listeners = &self.common.listeners.sockets;
        if !are_ours || !listeners.iter().all(|listener| socket::deafen(listener).is_ok()) {
            self.enter(Phase::Draining, self.drain);
            return;
        }
        let (from, until) = (now + AT_LEAST, now + AT_MOST.min(self.drain));
        self.closing = Some(Closing { from, until, looks_at: from.min(until) });
    }

    /// Drains once the queue is empty.
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
