//! Stopping a server: its listeners, its drain, and its force. The server first keeps new clients
//! out, and still accepts those in the kernel's queue.
//!
//! Closing a listener resets the connections in its queue, whose peers may have sent requests. So
//! the listeners are made deaf first: they drop SYN packets, which a new client takes for packet
//! loss and sends again. Handshakes in progress complete: on a busy machine the last packet waits
//! for a core even if both ends are local. The workers continue as before until the queue is empty.
//! Where all workers are busy, the drain begins after [`AT_MOST`], and the connections in the queue
//! take the places of those that end.

use std::os::fd::OwnedFd;
use std::time::Duration;

use language::eprintln;
use memory::Phase;
use seam::Instant;
use sys::{netlink, socket};

use super::crew::Crew;
use super::state::{Closing, GRACE, Supervisor, clock};
use crate::address::SocketFile;

/// The time after which a handshake that the kernel reports nowhere has completed.
const AT_LEAST: Duration = Duration::from_millis(20);
/// The time that accepting the queue may take before the drain begins, if the drain is not shorter.
const AT_MOST: Duration = Duration::from_millis(100);
/// Stops within this time are one: `timeout` (coreutils) signals a program and then its group.
const REPEAT: Duration = Duration::from_millis(500);
/// The time that handshakes in progress may take.
const HANDSHAKES: Duration = Duration::from_secs(1);
/// The time between two looks at the queue.
const LOOK: Duration = Duration::from_millis(2);

impl<C: Crew> Supervisor<'_, C> {
    /// The longest drain, by the settings in force.
    pub(super) fn drain(&self) -> Duration {
        self.common.in_force().drain()
    }

    /// Stops the server: the first call drains, the second forces.
    pub(super) fn stop(&mut self) {
        let now = clock();
        if self.stopping.stopped_at.is_some_and(|before| now.since(before) < REPEAT) {
            return;
        }
        self.stopping.stopped_at = Some(now);
        match self.phase() {
            Phase::Ready if self.stopping.closing.is_none() => self.close_listeners(now),
            Phase::Starting | Phase::Leaving => self.enter(Phase::Draining, self.drain()),
            Phase::Ready => {
                self.stopping.closing = None;
                self.force("stopped twice");
            }
            Phase::Draining => self.force("stopped twice"),
            Phase::Forced | Phase::Done => {}
        }
    }

    /// The phase that is reported: the drain begins as soon as the listeners are deaf.
    pub(super) fn public_phase(&self) -> Phase {
        if self.stopping.closing.is_some() { Phase::Draining } else { self.phase() }
    }

    pub(super) fn force(&mut self, why: &str) {
        eprintln!(
            "stopping by force, {why}: {} connections are cut",
            self.common.board.open_total()
        );
        self.report.forced = true;
        self.enter(Phase::Forced, GRACE);
    }

    /// Enforces the deadline of the phase.
    pub(super) fn press(&mut self, now: Instant) {
        if self.stopping.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.stopping.deadline = None;
        match self.phase() {
            Phase::Leaving => self.enter(Phase::Draining, self.drain()),
            // On a busy machine workers may still be ending, though there is nothing to cut.
            Phase::Draining if self.is_vacant() => self.enter(Phase::Forced, GRACE),
            Phase::Draining => self.force("the time to drain is over"),
            _ => {
                self.report.forced = true;
                if !self.crew.kill() {
                    eprintln!("a worker does not end: ending the process");
                    self.save_at_last();
                    self.close_handler();
                    sys::process::exit_now(1);
                }
            }
        }
    }

    /// Whether neither a connection is open nor a stream may be in progress.
    fn is_vacant(&self) -> bool {
        let common = self.common;
        common.extra.is_none() && !self.has_queue() && common.board.open_total() == 0
    }

    /// Keeps new clients out; drains as soon as the queue is empty.
    fn close_listeners(&mut self, now: Instant) {
        let listeners = self.common.listeners;
        // A successor, or the next server of a service manager, accepts from the same listeners.
        let is_followed = self.takeover.successor.is_some() || self.takeover.handed_over.is_some();
        let are_ours = !is_followed && !listeners.is_lent;
        let shut_out = || {
            // Nobody connects to a path that is gone.
            listeners.files.iter().for_each(SocketFile::remove);
            let is_net = |it: &&OwnedFd| socket::local_addr(it).is_ok();
            listeners.sockets.iter().filter(is_net).all(|it| socket::deafen(it).is_ok())
        };
        if !are_ours || !shut_out() {
            self.enter(Phase::Draining, self.drain());
            return;
        }
        self.common.board.set_deaf();
        let (from, until) = (now + AT_LEAST, now + AT_MOST.min(self.drain()));
        self.stopping.closing = Some(Closing { from, until, looks_at: from.min(until) });
    }

    /// Drains once the queue is empty.
    pub(super) fn empty_queue(&mut self, now: Instant) {
        let Some(closing) = &mut self.stopping.closing else { return };
        if now < closing.looks_at {
            return;
        }
        closing.looks_at = now + LOOK;
        let Closing { from, until, .. } = *closing;
        let is_due = now >= until || (now >= from && self.queue().length == 0);
        let is_patient = now < from + HANDSHAKES.min(self.drain());
        if is_due && !(is_patient && self.has_handshakes()) {
            self.stopping.closing = None;
            self.enter(Phase::Draining, self.drain());
        }
    }

    /// Whether clients are about to enter the queue.
    fn has_handshakes(&self) -> bool {
        let sockets = self.common.listeners.sockets.iter();
        let mut places: Vec<_> = sockets.flat_map(socket::local_addr).collect();
        places.dedup();
        places.into_iter().any(|it| netlink::handshakes(it).is_ok_and(|count| count > 0))
    }

    /// The last worker has left.
    pub(super) fn finish(&mut self) {
        let totals = self.common.board.totals();
        (self.report.accepted, self.report.refused) = (totals.accepted, totals.refused);
        self.report.starved = totals.enobufs;
        let turnover = self.common.board.turnover();
        self.report.spawned = turnover.spawned.read();
        self.report.retired = turnover.retired.read();
        self.report.recycled = turnover.recycled.read();
        self.save_at_last();
        if self.takeover.handed_over.is_none() {
            self.store.end();
            self.common.listeners.files.iter().for_each(SocketFile::remove);
        }
        self.common.board.advance(Phase::Done);
    }
}
