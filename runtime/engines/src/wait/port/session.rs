//! A step of a session: its messages in order, then its job, its send, and its next interest.

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use memory::Refusal;
use seam::{Closed, Conn, SessionId};
use sys::uring::Received;

use super::completion_port::{Connection, Message, Ops, Strand, WorkItem};
use super::thread::PortThread;
use crate::parts::lock::lock;
use crate::parts::ring::accepting::{Incoming, peer_of};
use crate::parts::ring::flight::ReceiveChange;

impl PortThread<'_, '_> {
    /// Posts a message to a session, and queues a step if none is queued.
    pub(super) fn post(&mut self, id: SessionId, message: Message) {
        match self.port.table.acquire(id) {
            Some(strand) => {
                if strand.post(message) {
                    self.new_items.push(WorkItem::Step(id));
                }
            }
            None => self.drop_message(message),
        }
    }

    /// Drops a message whose session is gone.
    fn drop_message(&mut self, message: Message) {
        match message {
            Message::Received { input: Received::Bytes(buffer), .. } => self.read.push(buffer),
            Message::Push(_) => self.context.slot().pushes_dropped.add(1),
            _ => {}
        }
    }

    /// Opens the session of a connection, and steps it.
    pub(super) fn open(&mut self, incoming: Incoming) {
        let port = self.port;
        let peer = peer_of(&incoming);
        let Ok(id) = port.table.open(Strand::new()) else {
            self.context.slot().refuse(Refusal::Exhausted);
            lock(&port.leader).inside -= 1;
            return;
        };
        let Some(strand) = port.table.acquire(id) else { return };
        let opened = catch_unwind(AssertUnwindSafe(|| {
            Conn::open(self.context.service, &self.cx(id), peer, &mut self.buffers)
        }));
        let Ok(conn) = opened else {
            // No other thread has seen the session, except one that posts to all.
            port.table.close(id);
            self.context.slot().panics.add(1);
            lock(&port.leader).inside -= 1;
            return;
        };
        *strand.connection() = Some(Connection::new(conn, incoming.0, self.now, Ops::default()));
        let (drained, forced) = self.count_open();
        // The session was on its way when the others were told; a second message does no harm.
        for (is_owed, message) in [(drained, Message::Drain), (forced, Message::Force)] {
            if is_owed {
                let is_first = strand.post(message);
                debug_assert!(!is_first, "this step is ours");
            }
        }
        self.handle_all(id, &strand);
    }

    pub(super) fn step(&mut self, id: SessionId) {
        if let Some(strand) = self.port.table.acquire(id) {
            self.handle_all(id, &strand);
        }
    }

    /// Handles the messages and settles the session. Messages that arrive during the step wait for
    /// another step, which is queued after those of other sessions.
    fn handle_all(&mut self, id: SessionId, strand: &Strand) {
        let mut held = strand.connection();
        let Some(connection) = held.as_mut() else { return };
        let mut inbox = std::mem::take(&mut self.inbox);
        strand.collect(&mut inbox);
        for message in inbox.drain(..) {
            let handled = catch_unwind(AssertUnwindSafe(|| self.handle(id, connection, message)));
            if handled.is_err() {
                self.panicked(id, connection);
            }
        }
        self.inbox = inbox;
        let settled = catch_unwind(AssertUnwindSafe(|| self.settle(id, connection)));
        let stays = settled.unwrap_or_else(|_| {
            self.panicked(id, connection);
            self.settle(id, connection)
        });
        if stays {
            drop(held);
            if strand.end_step() {
                self.new_items.push(WorkItem::Step(id));
            }
        } else if let Some(connection) = held.take() {
            drop(held);
            self.finish(id, connection);
            strand.collect(&mut self.inbox);
            let mut late = std::mem::take(&mut self.inbox);
            late.drain(..).for_each(|message| self.drop_message(message));
            self.inbox = late;
        }
    }

    /// Ends a session in which the service panicked; the service is not called for it again.
    pub(super) fn panicked(&mut self, id: SessionId, connection: &mut Connection) {
        self.context.slot().panics.add(1);
        connection.x.panicked = true;
        connection.conn.abort(Closed::Reset);
        let lost = connection.conn.out().flying();
        if lost > 0 && !connection.x.flight.sending {
            // This output was taken and not sent, so no completion would report it.
            connection.conn.landed(self.context.service, &self.cx(id), lost);
        }
        self.cut(connection);
    }

    /// Hands out the job, starts the send, then compares what the session wants with what is armed,
    /// and changes the difference. False if the session is over.
    fn settle(&mut self, id: SessionId, connection: &mut Connection) -> bool {
        if connection.conn.looks() {
            if let Some(armed) = connection.x.flight.stop() {
                self.port.ring.hub().cancel(armed);
            }
            if connection.x.flight.armed.is_some() {
                return true;
            }
            connection.last_look(self.context, &self.cx(id), &mut self.scratch);
        }
        self.send(id, connection);
        if let Some(job) = connection.conn.take_job() {
            self.jobs.push((id, job));
        }
        let wants = connection.conn.wants();
        if wants.close && !connection.x.flight.sending && !self.part(connection) {
            return false;
        }
        connection.conn.reclaim(&mut self.buffers);
        let may_receive = connection.may_receive(self.context, self.now);
        let reads =
            (wants.read && may_receive) || (connection.linger.is_some() && !connection.ended);
        let Connection { x: Ops { flight, .. }, fd, .. } = &mut *connection;
        match flight.change(reads) {
            Some(ReceiveChange::Arm { how, waiting }) => {
                let armed = self.port.ring.hub().receive(fd.as_fd(), id.bits(), how, waiting);
                flight.armed = Some(armed);
            }
            Some(ReceiveChange::Stop(armed)) => self.port.ring.hub().cancel(armed),
            None => {}
        }
        if let Some(wake) = wants.wake.filter(|wake| *wake < connection.scheduled) {
            lock(&self.port.leader).deadlines.ask(id, Some(wake), &mut connection.scheduled);
            self.port.wake_leader_by(wake);
        }
        true
    }
}
