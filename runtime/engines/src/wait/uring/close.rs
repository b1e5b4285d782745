//! Ending a session on the ring: none of its operations may be armed or in flight when its
//! descriptor is closed.

use std::os::fd::AsFd;

use seam::SessionId;

use super::ring_loop::RingLoop;
use crate::parts::connection::Overdue;

impl RingLoop<'_> {
    /// Ends a session of which nothing is armed or in flight.
    pub(super) fn close(&mut self, id: SessionId) {
        if let Some(fd) = self.event_loop.close(id) {
            self.mover.ring.close(fd);
        }
    }

    /// Ends a session even if operations are armed or in flight.
    pub(super) fn cut(&mut self, id: SessionId) {
        if let Some(connection) = self.event_loop.table.lookup(id) {
            connection.linger = None;
            if connection.x.flight.is_busy() {
                connection.x.flight.stopping = true;
                self.mover.ring.cancel_all(connection.fd.as_fd());
            }
            self.mover.touch(id, &mut connection.x);
        }
    }

    pub(super) fn overdue(&mut self, id: SessionId, why: Overdue) {
        let Some(connection) = self.event_loop.table.lookup(id) else { return };
        if connection.end_overdue(why) {
            self.cut(id);
        } else {
            self.mover.touch(id, &mut connection.x);
        }
    }
}
