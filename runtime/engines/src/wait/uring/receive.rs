//! Input: each session has one receive that stays armed; its completions bring the bytes.

use std::ops::DerefMut;
use std::os::fd::AsFd;

use seam::{Closed, SessionId};
use sys::uring::{Armed, Receive, Received, Uring};

use super::Loop;
use crate::parts::connection::Connection;

/// Receives that a session makes into its own buffers after it found the ring empty. With 64
/// sessions on 8 buffers, trying the ring again at once costs a quarter more CPU a request: 1.24
/// [1.19 1.31] at depth 16, 1.29 [1.22 1.33] at depth 1 (2 cores, Linux 6.18).
const OWN_BUFFERS: u8 = 64;

/// A connection's operations that are armed or in flight on a ring.
#[derive(Default)]
pub(in crate::wait) struct Flight {
    /// The receive that holds the socket.
    pub armed: Option<Armed>,
    /// The receive has been told to stop.
    pub stopping: bool,
    /// A send is in flight, or the wait for a peer that takes no more of a file.
    pub sending: bool,
    /// Input is known to be waiting in the socket.
    waiting: bool,
    /// The number of receives that still go into the session's own buffers.
    own: u8,
}

impl Flight {
    /// Whether any operation holds the socket.
    pub fn is_busy(&self) -> bool {
        self.sending || self.armed.is_some()
    }

    /// Handles the completion of a receive; `more`: it stays armed.
    pub fn received(&mut self, input: &Received, more: bool, waiting: bool) {
        self.waiting = waiting;
        if !more {
            (self.armed, self.stopping) = (None, false);
        }
        if matches!(input, Received::NoBuffers) {
            // The bytes that found no buffer are still in the socket.
            (self.own, self.waiting) = (OWN_BUFFERS, true);
        }
    }
}

/// A connection on a ring; `X` gives its [`Flight`].
pub(in crate::wait) trait HasFlight {
    fn flight(&mut self) -> &mut Flight;
}

/// Arms or stops a connection's receive, as `reads` says; `is_over`: the session has ended.
pub(in crate::wait) fn follow<X: HasFlight, R: DerefMut<Target = Uring>>(
    connection: &mut Connection<X>,
    id: SessionId,
    (reads, is_over): (bool, bool),
    usual: Receive,
    ring: impl FnOnce() -> R,
) {
    let (fd, flight) = (connection.fd.as_fd(), connection.x.flight());
    match flight.armed {
        None if reads => {
            let how = if flight.own > 0 { Receive::Own } else { usual };
            flight.own = flight.own.saturating_sub(1);
            flight.armed = Some(ring().receive(fd, id.bits(), how, flight.waiting));
        }
        // One more buffer does no harm, so a receive of one buffer is stopped only to close.
        Some(armed) if !reads && !flight.stopping && (is_over || usual == Receive::Multishot) => {
            flight.stopping = true;
            ring().cancel(armed);
        }
        _ => {}
    }
}

/// Stops a connection's receive, so that a call can receive; true if nothing is armed. Everything
/// that the ring has received comes before the end of an armed receive.
pub(in crate::wait) fn release<X: HasFlight, R: DerefMut<Target = Uring>>(
    connection: &mut Connection<X>,
    ring: impl FnOnce() -> R,
) -> bool {
    let flight = connection.x.flight();
    if let Some(armed) = flight.armed.filter(|_| !flight.stopping) {
        flight.stopping = true;
        ring().cancel(armed);
    }
    flight.armed.is_none()
}

impl Loop<'_> {
    pub(super) fn received(&mut self, id: SessionId, input: Received, more: bool, waiting: bool) {
        let cx = self.event_loop.cx(id);
        let (context, judge) = (self.event_loop.context, self.event_loop.judge());
        let Some(connection) = self.event_loop.table.lookup(id) else {
            debug_assert!(false, "a receive outlived its session");
            if let Received::Bytes(buffer) = input {
                self.ring.give_back(buffer);
            }
            return;
        };
        connection.x.flight.received(&input, more, waiting);
        match input {
            Received::Bytes(buffer) => {
                connection.conn.lend(&mut self.event_loop.buffers);
                connection.active = cx.now;
                let bytes = self.ring.bytes(&buffer);
                context.slot().bytes_in.add(bytes.len() as u64);
                judge.look(&connection.fd);
                connection.conn.feed(context.service, &cx, bytes);
                self.ring.give_back(buffer);
                // Now, not at the end of the turn: the next session is judged by it.
                if let Some(job) = connection.conn.take_job() {
                    self.helpers.submit(id, job);
                }
            }
            Received::Eof => {
                connection.ended = true;
                connection.conn.lend(&mut self.event_loop.buffers);
                connection.conn.eof(context.service, &cx);
            }
            Received::NoBuffers => context.slot().enobufs.add(1),
            Received::Cancelled => {}
            Received::Failed(_) => {
                connection.ended = true;
                connection.conn.abort(Closed::Reset);
            }
        }
        self.touch(id);
    }
}
