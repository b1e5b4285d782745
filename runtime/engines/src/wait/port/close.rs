//! Ending a session on the ring of a port, and counting sessions. When a descriptor is closed,
//! nothing of its session may be armed or in flight.

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use memory::Phase;
use seam::{Instant, SessionId};

use super::completion_port::Connection;
use super::thread::PortThread;
use crate::parts::lock::lock;

impl PortThread<'_, '_> {
    /// Counts an opened session; returns whether the other sessions were already told of a drain,
    /// and of a force.
    pub(super) fn count_open(&self) -> (bool, bool) {
        let leader = lock(&self.port.leader);
        let (board, slot) = (self.context.board, self.context.board.slot(self.port.slot));
        // In this order, a reader that reads `accepted` first never takes the server for idle.
        slot.open.add(1);
        slot.accepted.add(1);
        board.began(self.now.ns());
        (leader.drained, leader.forced)
    }

    /// Whether the session stays although its output is flushed: because it lingers, or because an
    /// armed receive holds the socket. The receive's last completion leads back here.
    pub(super) fn part(&mut self, connection: &mut Connection) -> bool {
        let lingers = connection.lingers(self.now, self.context.phase());
        lingers || connection.x.flight.armed.is_some()
    }

    /// Stops all operations of a session that are armed or in flight.
    pub(super) fn cut(&mut self, connection: &mut Connection) {
        connection.linger = None;
        if connection.x.flight.is_busy() {
            connection.x.flight.stopping = true;
            self.port.ring.hub().cancel_all(connection.fd.as_fd());
            // Submit at once: later, the descriptor's number could be another connection's. If this
            // fails, the next submission tries again.
            let _ = self.port.ring.submit();
        }
    }

    /// The session is over, and nothing of it is in flight.
    pub(super) fn finish(&mut self, id: SessionId, mut connection: Connection) {
        let port = self.port;
        connection.release(self.context, self.now);
        connection.reset_if_stalled();
        let Connection { conn, fd, x, .. } = connection;
        if !x.panicked {
            let (context, cx) = (self.context, self.cx(id));
            let closed = catch_unwind(AssertUnwindSafe(|| conn.close(context.service, &cx)));
            context.slot().panics.add(u64::from(closed.is_err()));
        }
        port.table.close(id);
        port.ring.hub().close(fd);
        self.count_closed();
    }

    /// Counts a closed session, and wakes the leader if that matters to it.
    fn count_closed(&self) {
        let (context, port) = (self.context, self.port);
        let (board, slot) = (context.board, context.board.slot(port.slot));
        let mut leader = lock(&port.leader);
        leader.inside -= 1;
        let is_last = slot.open.read() == 1;
        if is_last {
            // A reader that sees no connection must also see since when.
            board.ended(self.now.ns());
        }
        slot.open.sub(1);
        let is_awaited =
            !leader.admission.was_open() || (is_last && context.phase() > Phase::Ready);
        drop(leader);
        if is_awaited {
            port.wake_leader_by(Instant::ZERO);
        }
        if is_last && board.is_empty_now() {
            context.bell.ring();
        }
    }
}
