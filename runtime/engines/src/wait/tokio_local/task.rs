//! The task of a connection.

use std::future::poll_fn;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use memory::Phase;
use seam::SessionId;
use sys::socket::{self, Received};
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use super::Worker;
use super::seat::Seat;
use crate::parts::event_loop::At;

/// The event that a task waited for.
enum Event<'w> {
    /// Its descriptor, or the leader.
    Ready { input: Option<AsyncFdReadyGuard<'w, RawFd>> },
    /// Its end.
    Over,
}

impl Worker<'_> {
    /// The life of a connection's task.
    pub(super) async fn serve(&self, id: SessionId, watched: AsyncFd<RawFd>) {
        loop {
            let event = poll_fn(|cx| self.poll_ready(id, &watched, cx)).await;
            let Event::Ready { input } = event else { break };
            match catch_unwind(AssertUnwindSafe(|| self.step(id, input))) {
                Ok(false) => {}
                // Others first.
                Ok(true) => tokio::task::yield_now().await,
                Err(_) => {
                    drop(watched);
                    return self.abandon(id);
                }
            }
        }
        // The reactor forgets the descriptor before it is closed.
        drop(watched);
        let mut event_loop = self.event_loop.borrow_mut();
        drop(event_loop.close(id));
        let is_awaited = !event_loop.admission.was_open() || self.context.phase() > Phase::Ready;
        if is_awaited {
            self.call_leader();
        }
    }

    fn poll_ready<'w>(
        &self,
        id: SessionId,
        watched: &'w AsyncFd<RawFd>,
        cx: &mut Context<'_>,
    ) -> Poll<Event<'w>> {
        let mut event_loop = self.event_loop.borrow_mut();
        let Some(at) = event_loop.at(id) else { return Poll::Ready(Event::Over) };
        let seat = &mut at.connection.x;
        if seat.is_over {
            return Poll::Ready(Event::Over);
        }
        let mut input = None;
        if seat.reads
            && let Poll::Ready(ready) = watched.poll_read_ready(cx)
        {
            // An error says that the runtime ends, and with it this task.
            input = ready.ok();
        }
        if seat.blocked
            && let Poll::Ready(Ok(mut guard)) = watched.poll_write_ready(cx)
        {
            // If the next send finds no room, the next event reports it.
            guard.clear_ready();
            seat.blocked = false;
            seat.has_more = true;
        }
        if input.is_some() || std::mem::take(&mut seat.has_more) {
            return Poll::Ready(Event::Ready { input });
        }
        seat.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// A turn of a session: receives once if there is input, steps and sends; true if others come
    /// first.
    fn step(&self, id: SessionId, input: Option<AsyncFdReadyGuard<'_, RawFd>>) -> bool {
        let event_loop = &mut *self.event_loop.borrow_mut();
        event_loop.begin_turn();
        let most = event_loop.receive_bytes();
        let Some(mut at) = event_loop.at(id) else { return false };
        let mut yields = false;
        let is_over = match input {
            Some(guard) => self.receive(&mut at, guard, most, &mut yields),
            None => false,
        };
        if is_over || !self.flush(&mut at) {
            at.connection.x.is_over = true;
        }
        yields |= at.connection.x.has_more;
        self.carry_out(event_loop);
        event_loop.end_turn();
        let until = event_loop.timeout().map(|timeout| event_loop.now + timeout);
        if until.is_some_and(|until| until < self.until.get()) {
            self.call_leader();
        }
        yields
    }

    /// Receives up to `most` bytes and feeds them; true if the session is over.
    fn receive(
        &self,
        at: &mut At<'_, '_, Seat>,
        mut guard: AsyncFdReadyGuard<'_, RawFd>,
        most: usize,
        yields: &mut bool,
    ) -> bool {
        let At { context, connection, cx, buffers, moved, .. } = at;
        connection.conn.lend(buffers);
        let lingers = connection.linger.is_some();
        let may_receive =
            lingers || (connection.conn.wants().read && connection.may_receive(context, cx.now));
        if !may_receive {
            return false;
        }
        let scratch = &mut *self.scratch.borrow_mut();
        let received = socket::recv_nowait(&connection.fd, &mut scratch[..most]);
        match received {
            Received::Bytes(len) => {
                *yields = len == most;
                **moved += len;
                if len < most {
                    // A short read has emptied the socket; the runtime keeps the peer's end.
                    guard.clear_ready();
                }
            }
            Received::End if lingers => return true,
            Received::End | Received::Later => guard.clear_ready(),
            Received::Broken => {}
        }
        connection.received(context, cx, received, scratch);
        false
    }

    /// Hands out the job, sends until it would block, then notes what the session waits for; false
    /// if it is over.
    pub(super) fn flush(&self, at: &mut At<'_, '_, Seat>) -> bool {
        if at.connection.conn.looks() {
            at.connection.last_look(at.context, &at.cx, &mut self.scratch.borrow_mut());
        }
        at.connection.x.blocked = at.send(self.helpers, at.connection.x.blocked);
        let wants = at.connection.conn.wants();
        let is_over = wants.close && at.connection.linger.is_none();
        if is_over && !at.connection.lingers(at.cx.now, at.context.phase()) {
            return false;
        }
        let may_receive = at.connection.may_receive(at.context, at.cx.now);
        let lingers = at.connection.linger.is_some();
        let seat = &mut at.connection.x;
        seat.reads = (wants.read && may_receive) || lingers;
        seat.has_more = (wants.write && !seat.blocked) || wants.job;
        at.rest(wants.wake);
        true
    }

    /// Ends a session in which the service has panicked; the service is not called for it again.
    fn abandon(&self, id: SessionId) {
        let mut event_loop = self.event_loop.borrow_mut();
        let now = event_loop.now;
        if let Some(mut connection) = event_loop.table.remove(id) {
            self.context.slot().panics.add(1);
            connection.release(self.context, now);
            self.context.closed(now);
        }
        self.call_leader();
    }
}
