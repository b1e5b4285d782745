//! How a session is counted in and out, and how it ends: nothing of it may be armed or in flight
//! when its descriptor is closed.

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use memory::Phase;
use seam::{Closed, Instant, Service, SessionId};
use sys::socket;

use super::Hand;
use super::completion_port::{Connection, lock};
use crate::wait::uring::tactics::CloseBy;

impl<S: Service> Hand<'_, '_, S> {
    /// Counts a session that has come; what everyone was told already.
    pub(super) fn count_in(&self) -> (bool, bool) {
        let watch = lock(&self.completion_port.watch);
        let (board, slot) =
            (self.context.board, self.context.board.slot(self.completion_port.slot));
        // In this order, who reads `accepted` first never takes it for over already.
        slot.open.add(1);
        slot.accepted.add(1);
        board.began(self.now.ns());
        (watch.drained, watch.forced)
    }

    /// Everything has landed: the session is over (false), or lets the peer finish first so that
    /// the last reply is not lost to a reset.
    pub(super) fn part(&mut self, place: &mut Connection<S>) -> bool {
        let forced = self.context.phase() >= Phase::Forced;
        let polite = matches!(place.conn.why(), Closed::Service | Closed::Overlong);
        if polite && !place.ended && !forced {
            if place.linger.is_some() {
                return true;
            }
            // Not on the ring: see the departures that ARCHITECTURE.md tells of.
            if socket::shutdown_write(&place.fd).is_ok() {
                place.linger = Some(self.now + self.context.knobs.linger);
                return true;
            }
        }
        // An armed receive holds the socket; its last completion brings us back here.
        place.armed.is_some()
    }

    /// Stops whatever of a session is armed or in flight.
    pub(super) fn cut(&mut self, place: &mut Connection<S>) {
        place.linger = None;
        if place.flying || place.armed.is_some() {
            place.stopping = true;
            self.completion_port.ring.hub().cancel_all(place.fd.as_fd());
            // At once: later, the number could be another's. What fails is tried by the next.
            let _ = self.completion_port.ring.submit();
        }
    }

    /// The session is over, and nothing of it is in flight.
    pub(super) fn finish(&mut self, id: SessionId, place: Connection<S>) {
        let completion_port = self.completion_port;
        if place.conn.why() == Closed::Stalled {
            // The kernel would keep what the peer does not take, for minutes.
            let _ = socket::set_linger_reset(&place.fd);
        }
        let Connection { conn, fd, wrecked, .. } = place;
        if !wrecked {
            let (context, cx) = (self.context, self.cx(id));
            let closed = catch_unwind(AssertUnwindSafe(|| conn.close(context.service, &cx)));
            context.slot().panics.add(u64::from(closed.is_err()));
        }
        let _ = completion_port.table.close(id);
        match completion_port.tactics.close {
            CloseBy::Ring => completion_port.ring.hub().close(fd),
            CloseBy::Call => drop(fd),
        }
        self.count_out();
    }

    /// Counts a session that is gone, and has the leader look if that matters to it.
    fn count_out(&self) {
        let (context, completion_port) = (self.context, self.completion_port);
        let (board, slot) = (context.board, context.board.slot(completion_port.slot));
        let mut watch = lock(&completion_port.watch);
        watch.inside -= 1;
        let is_last = slot.open.read() == 1;
        if is_last {
            // Whoever sees that nobody is left must see since when.
            board.ended(self.now.ns());
        }
        slot.open.sub(1);
        let is_awaited = !watch.door.was_open() || (is_last && context.phase() > Phase::Ready);
        drop(watch);
        if is_awaited {
            completion_port.hurry(Instant::ZERO);
        }
        if is_last && board.is_empty_now() {
            context.bell.ring();
        }
    }
}
