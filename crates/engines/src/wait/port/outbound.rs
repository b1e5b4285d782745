//! What leaves: one send a session at a time, of everything that waits; files by calls, as in
//! `uring`.

use std::io;
use std::os::fd::AsFd;

use seam::{Closed, Service, SessionId};
use sys::socket;

use super::Hand;
use super::completion_port::Connection;
use crate::parts::transmit::{Wait, transmit};
use crate::wait::uring::outbound::load;
use crate::wait::uring::tactics::SendBy;

/// How many turns' bytes of files may leave in one: they cost no copy, and to go on takes a way
/// round the ring.
const TURNS: usize = 16;

impl<S: Service> Hand<'_, '_, S> {
    /// Sends everything that waits, if nothing is in flight.
    pub(super) fn send(&mut self, id: SessionId, place: &mut Connection<S>) {
        if place.flying || place.conn.out().waiting() == 0 {
            return;
        }
        if self.completion_port.tactics.send == SendBy::Call && !place.conn.out().has_file() {
            self.send_now(id, place);
        }
        // What has left may have made room for a file.
        if place.conn.out().has_file() {
            return self.send_files(id, place);
        }
        self.launch(id, place);
    }

    /// One send on the ring of everything that waits.
    fn launch(&mut self, id: SessionId, place: &mut Connection<S>) {
        if let Some(load) = load(place.conn.out()) {
            place.flying = true;
            self.completion_port.ring.hub().send(place.fd.as_fd(), id.bits(), load);
        }
    }

    /// Sends files, and what lies before them, as far as the peer takes it and at most some turns'
    /// share.
    fn send_files(&mut self, id: SessionId, place: &mut Connection<S>) {
        let (context, cx) = (self.context, self.cx(id));
        let mut share = context.knobs.turn_bytes * TURNS;
        while share > 0 && place.conn.out().has_file() {
            match transmit(context.assets, &place.fd, place.conn.out(), Wait::Not) {
                Ok(len) => {
                    share = share.saturating_sub(len);
                    place.sent(len, cx.now);
                    context.slot().bytes_out.add(len as u64);
                    place.conn.sent(context.service, &cx, len);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => place.conn.abort(Closed::Reset),
            }
        }
        if place.conn.out().has_file() {
            // Where the peer would take more, this lets the other sessions have their turn.
            place.flying = true;
            self.completion_port.ring.hub().watch_writable(place.fd.as_fd(), id.bits());
            return;
        }
        self.launch(id, place);
    }

    /// One `send(2)` of what lies in one piece.
    fn send_now(&mut self, id: SessionId, place: &mut Connection<S>) {
        let (context, cx) = (self.context, self.cx(id));
        let Some(bytes) = place.conn.out().single() else { return };
        match socket::send_nowait(&place.fd, bytes) {
            Ok(len) => {
                place.sent(len, cx.now);
                context.slot().bytes_out.add(len as u64);
                place.conn.sent(context.service, &cx, len);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => place.conn.abort(Closed::Reset),
        }
    }
}
