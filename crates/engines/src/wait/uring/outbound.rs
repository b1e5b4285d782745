//! What leaves on the ring: one send a session at a time, of everything that waits. Where a call is
//! tried first, the ring has what it did not take. Files always go by a call first, `sendfile(2)`:
//! the ring could only splice them, which the kernel leaves to threads of its own. When the peer
//! takes no more of a file, the ring waits until it does. (To send the next piece by the ring
//! instead took 2.5 times the CPU for a file of 10 MiB.)

use std::io;
use std::os::fd::AsFd;

use seam::{Buffers, Closed, Out, Part, Service, SessionId};
use sys::socket;
use sys::uring::{Chunk, Load};

use super::Loop;
use super::tactics::SendBy;
use crate::parts::event_loop::At;
use crate::parts::transmit::{Wait, transmit};

/// Pieces of output that one send takes.
const PIECES: usize = 64;
/// How many turns' bytes of files of one session may leave in one: they cost no copy.
const TURNS: usize = 4;

impl<S: Service> Loop<'_, S> {
    pub(super) fn sent(&mut self, id: SessionId, result: io::Result<usize>, load: Option<Load>) {
        let cx = self.event_loop.cx(id);
        let now = self.event_loop.now;
        let context = self.event_loop.context;
        let Some(place) = self.event_loop.table.lookup(id) else {
            debug_assert!(false, "a send outlived its session");
            return;
        };
        place.conn.lend(&mut self.event_loop.buffers);
        if let Ok(len) = result {
            place.sent(len, now);
            context.slot().bytes_out.add(len as u64);
            place.conn.landed(context.service, &cx, len);
        } else {
            place.conn.abort(Closed::Reset);
        }
        if let Some(load) = load {
            place.x.flying = false;
            // What a failed send did not carry is lost with the connection.
            let lost = place.conn.out().flying();
            if lost > 0 {
                place.conn.landed(context.service, &cx, lost);
            }
            reuse(load, &mut self.event_loop.buffers);
        }
        self.touch(id);
    }

    /// Sends everything that waits, if nothing is in flight.
    pub(super) fn send(&mut self, id: SessionId) {
        let Some(place) = self.event_loop.table.lookup(id) else { return };
        if place.x.flying || place.x.again || place.conn.out().waiting() == 0 {
            return;
        }
        if self.tactics.send == SendBy::Call && !place.conn.out().has_file() {
            self.send_now(id);
        }
        // What has left may have made room for a file.
        if self.event_loop.table.lookup(id).is_some_and(|place| place.conn.out().has_file()) {
            return self.send_files(id);
        }
        self.launch(id);
    }

    /// Goes on with those who have more of a file to send, as many as fit a turn.
    pub(super) fn go_on(&mut self) {
        while !self.event_loop.is_long()
            && let Some(id) = self.again.pop_front()
        {
            if let Some(place) = self.event_loop.table.lookup(id) {
                place.x.again = false;
                self.settle(id);
            }
        }
    }

    /// Sends files, and what lies before them, as far as the peer takes it and at most some turns'
    /// share; in a long turn nothing, for who asks for little shall not wait for those who ask for
    /// much.
    fn send_files(&mut self, id: SessionId) {
        let (context, is_long) = (self.event_loop.context, self.event_loop.is_long());
        let Some(At { place, cx, moved, .. }) = self.event_loop.at(id) else { return };
        let mut share = if is_long { 0 } else { context.knobs.turn_bytes * TURNS };
        while share > 0 && place.conn.out().has_file() {
            match transmit(context.assets, &place.fd, place.conn.out(), Wait::Not) {
                Ok(len) => {
                    share = share.saturating_sub(len);
                    *moved += len;
                    place.sent(len, cx.now);
                    context.slot().bytes_out.add(len as u64);
                    place.conn.sent(context.service, &cx, len);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    place.x.flying = true;
                    self.ring.watch_writable(place.fd.as_fd(), id.bits());
                    return;
                }
                Err(_) => place.conn.abort(Closed::Reset),
            }
        }
        if place.conn.out().has_file() {
            place.x.again = true;
            self.again.push_back(id);
            return;
        }
        self.launch(id);
    }

    /// The peer takes output again, or the wait for that is over.
    pub(super) fn writable(&mut self, id: SessionId) {
        if let Some(place) = self.event_loop.table.lookup(id) {
            place.x.flying = false;
            self.touch(id);
        }
    }

    /// One `send(2)` of what lies in one piece.
    fn send_now(&mut self, id: SessionId) {
        let context = self.event_loop.context;
        let Some(At { place, cx, .. }) = self.event_loop.at(id) else { return };
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

    /// One send on the ring of everything that waits.
    fn launch(&mut self, id: SessionId) {
        let Some(place) = self.event_loop.table.lookup(id) else { return };
        let Some(load) = load(place.conn.out()) else { return };
        place.x.flying = true;
        self.ring.send(place.fd.as_fd(), id.bits(), load);
    }
}

/// Takes what waits to be sent; there are no files before it.
pub(in crate::wait) fn load(out: &mut Out) -> Option<Load> {
    let mut chunks = Vec::new();
    let mut first = None;
    while chunks.len() < PIECES {
        let chunk = match out.take() {
            Some(Part::Bytes(bytes)) => Chunk::Owned(bytes),
            Some(Part::Shared(bytes, range)) => Chunk::Shared(bytes, range),
            Some(Part::File(..)) => unreachable!("files go by calls"),
            None => break,
        };
        // A single piece, the common case, needs no list.
        match first.take() {
            None if chunks.is_empty() => first = Some(chunk),
            None => chunks.push(chunk),
            Some(earlier) => chunks.extend([earlier, chunk]),
        }
    }
    match first {
        Some(chunk) => Some(Load::One(chunk)),
        None if chunks.is_empty() => None,
        None => Some(Load::Rope(chunks)),
    }
}

/// Puts the buffers of a landed send back among the spare ones.
pub(in crate::wait) fn reuse(load: Load, buffers: &mut Buffers) {
    let mut put = |chunk| {
        if let Chunk::Owned(bytes) = chunk {
            buffers.put(bytes);
        }
    };
    match load {
        Load::One(chunk) => put(chunk),
        Load::Rope(chunks) => chunks.into_iter().for_each(put),
    }
}
