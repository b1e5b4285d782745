//! How a session ends on the ring: nothing of it may be armed or in flight when its descriptor is
//! closed.

use std::os::fd::AsFd;

use memory::Phase;
use seam::{Closed, Service, SessionId};
use sys::socket;

use super::Loop;
use super::tactics::CloseBy;
use crate::parts::event_loop::Overdue;

impl<S: Service> Loop<'_, S> {
    /// Everything has landed: closes, or lets the peer finish first so that the last reply is not
    /// lost to a reset. False if the session is gone.
    pub(super) fn part(&mut self, id: SessionId) -> bool {
        let forced = self.event_loop.context.phase() >= Phase::Forced;
        let Some(place) = self.event_loop.table.lookup(id) else { return false };
        let polite = matches!(place.conn.why(), Closed::Service | Closed::Overlong);
        if polite && !place.x.ended && !forced {
            if place.linger.is_some() {
                return true;
            }
            // Not on the ring, which leaves a shutdown to a thread of the kernel's: that looks the
            // number up when it comes to it, and may find the next connection under it.
            if socket::shutdown_write(&place.fd).is_ok() {
                self.event_loop.start_linger(id);
                return true;
            }
        }
        if place.x.armed.is_some() {
            // It holds the socket; its last completion brings us back here.
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

    /// Ends a session whatever is armed or in flight.
    pub(super) fn cut(&mut self, id: SessionId) {
        if let Some(place) = self.event_loop.table.lookup(id) {
            place.linger = None;
            if place.x.flying || place.x.armed.is_some() {
                place.x.stopping = true;
                self.ring.cancel_all(place.fd.as_fd());
            }
            self.touch(id);
        }
    }

    pub(super) fn overdue(&mut self, id: SessionId, why: Overdue) {
        let Some(place) = self.event_loop.table.lookup(id) else { return };
        match why {
            Overdue::Idle => {
                place.conn.shut(Closed::Idle);
                self.touch(id);
            }
            Overdue::Stalled => {
                place.conn.abort(Closed::Stalled);
                self.cut(id);
            }
            Overdue::Lingering => {
                // It may still read what the kernel holds for it; we listen no longer.
                place.x.ended = true;
                self.cut(id);
            }
        }
    }
}
