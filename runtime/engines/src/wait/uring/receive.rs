//! Input: each session has one receive that stays armed; its completions bring the bytes.

use seam::{Closed, SessionId};
use sys::uring::Received;

use super::ring_loop::RingLoop;
use crate::parts::event_loop::At;

impl RingLoop<'_> {
    pub(super) fn received(&mut self, id: SessionId, input: Received, more: bool, waiting: bool) {
        let Some(At { context, connection, cx, buffers, .. }) = self.event_loop.at(id) else {
            debug_assert!(false, "a receive outlived its session");
            if let Received::Bytes(buffer) = input {
                self.mover.ring.give_back(buffer);
            }
            return;
        };
        connection.x.flight.received(&input, more, waiting);
        match input {
            Received::Bytes(buffer) => {
                connection.conn.lend(buffers);
                connection.feed(context, &cx, self.mover.ring.bytes(&buffer));
                self.mover.ring.give_back(buffer);
                // Now, not at the end of the turn: the next session is judged by it.
                if let Some(job) = connection.conn.take_job() {
                    self.mover.helpers.submit(id, job);
                }
            }
            Received::Eof => {
                connection.ended = true;
                connection.conn.lend(buffers);
                connection.conn.eof(context.service, &cx);
            }
            Received::NoBuffers => context.slot().enobufs.add(1),
            Received::Cancelled => {}
            Received::Failed(_) => {
                connection.ended = true;
                connection.conn.abort(Closed::Reset);
            }
        }
        self.mover.touch(id, &mut connection.x);
    }
}
