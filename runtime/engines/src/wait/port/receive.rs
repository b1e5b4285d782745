//! Input: the messages of a session, receives among them, and the effect of each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use seam::{Closed, Instant, SessionId};
use sys::uring::Received;

use super::completion_port::{Connection, Message};
use super::thread::PortThread;
use crate::parts::connection::Overdue;
use crate::parts::ring::output::land;

impl PortThread<'_, '_> {
    pub(super) fn handle(&mut self, id: SessionId, connection: &mut Connection, message: Message) {
        let (service, cx) = (self.context.service, self.cx(id));
        match message {
            Message::Received { input, more, waiting } => {
                connection.x.flight.received(&input, more, waiting);
                self.received(id, connection, input);
            }
            Message::Sent { result, load } => {
                if land(self.context, &cx, connection, (result, load), &mut self.buffers) {
                    connection.x.flight.sending = false;
                }
            }
            Message::Writable => connection.x.flight.sending = false,
            Message::Outcome(Some(outcome)) => {
                connection.conn.lend(&mut self.buffers);
                connection.conn.outcome(service, &cx, outcome);
            }
            Message::Outcome(None) => connection.conn.abort(Closed::Reset),
            Message::Push(bytes) => {
                if connection.conn.push(service, &cx, &bytes).is_err() {
                    self.context.slot().pushes_dropped.add(1);
                }
            }
            Message::Due(entry) => {
                if connection.scheduled == entry {
                    connection.scheduled = Instant::NEVER;
                    connection.conn.lend(&mut self.buffers);
                    connection.conn.deadline(service, &cx);
                }
            }
            Message::Look => self.look(connection),
            Message::MakeRoom(bound) => {
                let silence = cx.now.since(connection.active);
                if silence >= bound && connection.is_silent(cx.now) {
                    connection.end_overdue(Overdue::Idle);
                }
            }
            Message::Drain => {
                connection.conn.lend(&mut self.buffers);
                connection.conn.last_call(cx.now, connection.active);
            }
            Message::Force => {
                connection.conn.abort(Closed::Forced);
                self.cut(connection);
            }
        }
    }

    fn received(&mut self, id: SessionId, connection: &mut Connection, input: Received) {
        let (context, cx) = (self.context, self.cx(id));
        match input {
            Received::Bytes(buffer) => {
                connection.conn.lend(&mut self.buffers);
                let bytes = self.port.ring.bytes(&buffer);
                let fed = catch_unwind(AssertUnwindSafe(|| {
                    connection.feed(context, &cx, bytes);
                }));
                // This happens also after a panic: a buffer that is not given back is lost forever.
                self.read.push(buffer);
                if fed.is_err() {
                    self.panicked(id, connection);
                }
            }
            Received::Eof => {
                connection.ended = true;
                connection.conn.lend(&mut self.buffers);
                connection.conn.eof(context.service, &cx);
            }
            Received::NoBuffers => context.slot().enobufs.add(1),
            // This thread requested the cancellation, or the thread that armed the receive has
            // ended; then it is armed again.
            Received::Cancelled => {}
            Received::Failed(_) => {
                connection.ended = true;
                connection.conn.abort(Closed::Reset);
            }
        }
    }

    /// Ends a session that is overdue.
    fn look(&mut self, connection: &mut Connection) {
        // The step of one that stays arms its receive.
        if let Some(why) = connection.overdue(self.context, self.now)
            && connection.end_overdue(why)
        {
            self.cut(connection);
        }
    }
}
