//! Output: one send at a time for each session, with all the output that waits. Files go by a call
//! first, `sendfile(2)`: the ring could only splice them, which the kernel does in separate
//! threads. When the peer takes no more of a file, the ring waits until it does. (Sending the next
//! piece by the ring instead took 2.5 times the CPU for a file of 10 MiB.)

use std::io;
use std::os::fd::AsFd;

use seam::SessionId;
use sys::uring::Load;

use super::ring_loop::{Mover, Ops, RingLoop};
use crate::limits::SEND_BYTES;
use crate::parts::connection::Sent;
use crate::parts::event_loop::At;
use crate::parts::ring::output::{land, load};
use crate::parts::transmit::CallMode;

impl RingLoop<'_> {
    pub(super) fn sent(&mut self, id: SessionId, result: io::Result<usize>, load: Option<Load>) {
        let Some(At { context, connection, cx, buffers, .. }) = self.event_loop.at(id) else {
            debug_assert!(false, "a send outlived its session");
            return;
        };
        if land(context, &cx, connection, (result, load), buffers) {
            connection.x.flight.sending = false;
        }
        self.mover.touch(id, &mut connection.x);
    }

    /// Continues with sessions that have more of a file to send, as many as fit a turn.
    pub(super) fn send_more(&mut self) {
        while !self.event_loop.is_long()
            && let Some(id) = self.mover.again.pop_front()
        {
            if let Some(connection) = self.event_loop.table.lookup(id) {
                connection.x.again = false;
                self.settle(id);
            }
        }
    }

    /// Handles a peer that takes output again, or the end of the wait for it.
    pub(super) fn writable(&mut self, id: SessionId) {
        if let Some(connection) = self.event_loop.table.lookup(id) {
            connection.x.flight.sending = false;
            self.mover.touch(id, &mut connection.x);
        }
    }
}

impl Mover<'_> {
    /// Sends everything that waits, if nothing is in flight.
    pub(super) fn send(&mut self, at: &mut At<'_, '_, Ops>, is_long: bool) {
        let connection = &mut *at.connection;
        let is_busy = connection.x.flight.sending || connection.x.again;
        if is_busy || connection.conn.out().waiting() == 0 {
            return;
        }
        if connection.conn.out().has_file() && !self.send_files(at, is_long) {
            return;
        }
        self.launch(at);
    }

    /// Sends files, and the output before them, as far as the peer takes it and a turn allows;
    /// false if there is more of them. In a long turn it sends nothing, so that large transfers do
    /// not delay small replies.
    fn send_files(&mut self, at: &mut At<'_, '_, Ops>, is_long: bool) -> bool {
        let At { context, connection, cx, moved, .. } = at;
        let mut left = if is_long { 0 } else { SEND_BYTES };
        while left > 0 && connection.conn.out().has_file() {
            match connection.send(context, cx, CallMode::Nonblocking) {
                Sent::Bytes(len) => {
                    left = left.saturating_sub(len);
                    **moved += len;
                }
                Sent::Later => {
                    connection.x.flight.sending = true;
                    self.ring.watch_writable(connection.fd.as_fd(), cx.me.bits());
                    return false;
                }
                Sent::Broken => {}
            }
        }
        let has_more = connection.conn.out().has_file();
        if has_more {
            connection.x.again = true;
            self.again.push_back(cx.me);
        }
        !has_more
    }

    /// One send on the ring of everything that waits.
    fn launch(&mut self, at: &mut At<'_, '_, Ops>) {
        let connection = &mut *at.connection;
        if let Some(load) = load(connection.conn.out()) {
            connection.x.flight.sending = true;
            self.ring.send(connection.fd.as_fd(), at.cx.me.bits(), load);
        }
    }
}
