//! Ending a session on the ring: none of its operations may be armed or in flight when its
//! descriptor is closed.

use std::os::fd::AsFd;

use seam::{Closed, SessionId};

use super::ring_loop::RingLoop;
use crate::parts::connection::Overdue;
use crate::tactics::CloseBy;

impl RingLoop<'_> {
    /// Handles a session whose output is flushed: it lingers, or closes as soon as nothing is
    /// armed. False if the session is gone.
    pub(super) fn part(&mut self, id: SessionId) -> bool {
        let (now, phase) = (self.event_loop.now, self.event_loop.context.phase());
        let Some(connection) = self.event_loop.table.lookup(id) else { return false };
        // An armed receive holds the socket; its last completion leads back here.
        if connection.lingers(now, phase) || connection.x.flight.armed.is_some() {
            return true;
        }
        if let Some(fd) = self.event_loop.close(id) {
            match self.tactics.close {
                CloseBy::Ring => self.ring.close(fd),
                CloseBy::Call => drop(fd),
            }
        }
        false
    }

    /// Ends a session even if operations are armed or in flight.
    pub(super) fn cut(&mut self, id: SessionId) {
        if let Some(connection) = self.event_loop.table.lookup(id) {
            connection.linger = None;
            if connection.x.flight.is_busy() {
                connection.x.flight.stopping = true;
                self.ring.cancel_all(connection.fd.as_fd());
            }
            self.touch(id);
        }
    }

    pub(super) fn overdue(&mut self, id: SessionId, why: Overdue) {
        let Some(connection) = self.event_loop.table.lookup(id) else { return };
        match why {
            Overdue::Idle => {
                connection.conn.shut(Closed::Idle);
                self.touch(id);
            }
            Overdue::Stalled | Overdue::Shed => {
                connection.conn.abort(why.closed());
                self.cut(id);
            }
            Overdue::Resumed => self.touch(id),
            Overdue::Lingering => {
                // The peer may still read the data that the kernel holds for it; the server
                // receives no longer.
                connection.ended = true;
                self.cut(id);
            }
        }
    }
}
