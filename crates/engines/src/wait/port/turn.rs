//! A session's turn: its letters in their order, then its job, its send, and what it wants next.

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use memory::Refusal;
use seam::{Closed, Conn, Peer, Service, SessionId};
use sys::socket;
use sys::uring::Receive;

use super::Hand;
use super::completion_port::{Berth, Connection, Errand, Mail, lock};
use super::door::Comer;

impl<S: Service> Hand<'_, '_, S> {
    /// A peer has come: gives it a session, and its first turn.
    pub(super) fn open(&mut self, (fd, peer): Comer) {
        let completion_port = self.completion_port;
        // A multishot accept does not tell the address; a peer that is gone has none.
        let peer = peer.or_else(|| socket::peer_addr(&fd).ok()).map_or(Peer::Local, Peer::Net);
        let Ok(id) = completion_port.table.open(Berth::taken()) else {
            self.context.slot().refuse(Refusal::Exhausted);
            lock(&completion_port.watch).inside -= 1;
            return;
        };
        let Some(berth) = completion_port.table.acquire(id) else { return };
        let opened = catch_unwind(AssertUnwindSafe(|| {
            Conn::open(self.context.service, &self.cx(id), peer, &mut self.buffers)
        }));
        let Ok(conn) = opened else {
            // Nobody has seen the session but who asked everyone to look at it.
            let _ = completion_port.table.close(id);
            self.context.slot().panics.add(1);
            lock(&completion_port.watch).inside -= 1;
            return;
        };
        *berth.place() = Some(Connection::new(conn, fd, self.now));
        let (drained, forced) = self.count_in();
        // It was on its way when the others were told; a second word does no harm.
        for (is_owed, letter) in [(drained, Mail::Drain), (forced, Mail::Force)] {
            if is_owed {
                let is_first = berth.entry(letter);
                debug_assert!(!is_first, "this turn is ours");
            }
        }
        self.go_on(id, &berth);
    }

    /// A session that has mail.
    pub(super) fn turn(&mut self, id: SessionId) {
        if let Some(berth) = self.completion_port.table.acquire(id) {
            self.go_on(id, &berth);
        }
    }

    /// Reads the mail and settles what came of it. Letters that come meanwhile wait for another
    /// turn, behind those of others.
    fn go_on(&mut self, id: SessionId, berth: &Berth<S>) {
        let mut held = berth.place();
        let Some(place) = held.as_mut() else { return };
        let mut inbox = std::mem::take(&mut self.inbox);
        berth.collect(&mut inbox);
        for letter in inbox.drain(..) {
            let read = catch_unwind(AssertUnwindSafe(|| self.read(id, place, letter)));
            if read.is_err() {
                self.wreck(id, place);
            }
        }
        self.inbox = inbox;
        let settled = catch_unwind(AssertUnwindSafe(|| self.settle(id, place)));
        let stays = settled.unwrap_or_else(|_| {
            self.wreck(id, place);
            self.settle(id, place)
        });
        if stays {
            drop(held);
            if berth.leave() {
                self.brought.push(Errand::Turn(id));
            }
        } else if let Some(place) = held.take() {
            drop(held);
            self.finish(id, place);
            berth.collect(&mut self.inbox);
            let mut late = std::mem::take(&mut self.inbox);
            late.drain(..).for_each(|letter| self.return_to_sender(letter));
            self.inbox = late;
        }
    }

    /// The service panicked: the session ends, and the service is not called for it again.
    pub(super) fn wreck(&mut self, id: SessionId, place: &mut Connection<S>) {
        self.context.slot().panics.add(1);
        place.wrecked = true;
        place.conn.abort(Closed::Reset);
        let lost = place.conn.out().flying();
        if lost > 0 && !place.flying {
            // It was taken and is not on its way: nobody would tell that it has landed.
            place.conn.landed(self.context.service, &self.cx(id), lost);
        }
        self.cut(place);
    }

    /// Hands out the job, starts the send, then asks what is wanted and changes the difference.
    /// False if the session is over.
    fn settle(&mut self, id: SessionId, place: &mut Connection<S>) -> bool {
        self.send(id, place);
        if let Some(job) = place.conn.take_job() {
            self.jobs.push((id, job));
        }
        let wants = place.conn.wants();
        if wants.done && !place.flying && !self.part(place) {
            return false;
        }
        place.conn.reclaim(&mut self.buffers);
        let reads = wants.read || (place.linger.is_some() && !place.ended);
        let usual = self.completion_port.tactics.receive();
        match place.armed {
            None if reads => {
                let how = if place.alone > 0 { Receive::Own } else { usual };
                place.alone = place.alone.saturating_sub(1);
                let mut hub = self.completion_port.ring.hub();
                let fd = place.fd.as_fd();
                place.armed = Some(hub.receive(fd, id.bits(), how, place.waiting));
            }
            // One buffer more does no harm: a receive of one is stopped only to part.
            Some(armed)
                if !reads && !place.stopping && (wants.done || usual == Receive::Multishot) =>
            {
                place.stopping = true;
                self.completion_port.ring.hub().cancel(armed);
            }
            _ => {}
        }
        if let Some(wake) = wants.wake.filter(|wake| *wake < place.scheduled) {
            lock(&self.completion_port.watch).deadlines.ask(id, Some(wake), &mut place.scheduled);
            self.completion_port.hurry(wake);
        }
        true
    }
}
