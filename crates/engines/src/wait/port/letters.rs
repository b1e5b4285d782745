//! What a letter does to its session.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use seam::{Closed, Instant, Service, SessionId};
use sys::uring::{Load, Received};

use super::Hand;
use super::completion_port::{Connection, Mail};
use crate::parts::pace::Taking;
use crate::wait::uring::outbound::reuse;

/// Receives into a buffer of its own that a session makes after it has found the ring empty.
const ALONE: u8 = 64;

impl<S: Service> Hand<'_, '_, S> {
    pub(super) fn read(
        &mut self,
        id: SessionId,
        place: &mut Connection<S>,
        letter: Mail<S::Outcome>,
    ) {
        let (service, cx) = (self.context.service, self.cx(id));
        match letter {
            Mail::Received { input, more, waiting } => {
                place.waiting = waiting;
                if !more {
                    (place.armed, place.stopping) = (None, false);
                }
                self.received(id, place, input);
            }
            Mail::Sent { result, load } => self.sent(id, place, result, load),
            Mail::Writable => place.flying = false,
            Mail::Done(Some(outcome)) => {
                place.conn.lend(&mut self.buffers);
                place.conn.done(service, &cx, outcome);
            }
            Mail::Done(None) => place.conn.abort(Closed::Reset),
            Mail::Push(bytes) => {
                if place.conn.push(&bytes).is_err() {
                    self.context.slot().pushes_dropped.add(1);
                }
            }
            Mail::Due(entry) => {
                if place.scheduled == entry {
                    place.scheduled = Instant::NEVER;
                    place.conn.lend(&mut self.buffers);
                    place.conn.deadline(service, &cx);
                }
            }
            Mail::Look => self.look(place),
            Mail::Drain => {
                place.conn.lend(&mut self.buffers);
                place.conn.drain(service, &cx);
            }
            Mail::Force => {
                place.conn.abort(Closed::Forced);
                self.cut(place);
            }
        }
    }

    fn received(&mut self, id: SessionId, place: &mut Connection<S>, input: Received) {
        let (context, cx) = (self.context, self.cx(id));
        match input {
            Received::Bytes(buffer) => {
                place.conn.lend(&mut self.buffers);
                place.active = self.now;
                let bytes = self.completion_port.ring.bytes(&buffer);
                context.slot().bytes_in.add(bytes.len() as u64);
                let fed = catch_unwind(AssertUnwindSafe(|| {
                    place.conn.feed(context.service, &cx, bytes);
                }));
                // Also of a wreck: a buffer that is not given back is lost for ever.
                self.read.push(buffer);
                if fed.is_err() {
                    self.wreck(id, place);
                }
            }
            Received::Eof => {
                place.ended = true;
                place.conn.lend(&mut self.buffers);
                place.conn.eof(context.service, &cx);
            }
            Received::NoBuffers => {
                // What found no buffer is still there.
                (place.alone, place.waiting) = (ALONE, true);
                context.slot().enobufs.add(1);
            }
            // We asked for it, or whoever armed it has ended; then it is armed again.
            Received::Cancelled => {}
            Received::Failed(_) => {
                place.ended = true;
                place.conn.abort(Closed::Reset);
            }
        }
    }

    fn sent(
        &mut self,
        id: SessionId,
        place: &mut Connection<S>,
        result: io::Result<usize>,
        load: Option<Load>,
    ) {
        let (context, cx) = (self.context, self.cx(id));
        place.conn.lend(&mut self.buffers);
        if let Ok(len) = result {
            place.sent(len, self.now);
            context.slot().bytes_out.add(len as u64);
            place.conn.landed(context.service, &cx, len);
        } else {
            place.conn.abort(Closed::Reset);
        }
        if let Some(load) = load {
            place.flying = false;
            // What a failed send did not carry is lost with the connection.
            let lost = place.conn.out().flying();
            if lost > 0 {
                place.conn.landed(context.service, &cx, lost);
            }
            reuse(load, &mut self.buffers);
        }
    }

    /// Ends a session that overstays.
    fn look(&mut self, place: &mut Connection<S>) {
        let context = self.context;
        let is_owed = !place.conn.out().is_empty();
        let mut slow = false;
        if is_owed {
            match place.pace.look(&place.fd, self.now, context.knobs) {
                Taking::Some => place.active = self.now,
                Taking::Nothing => {}
                Taking::TooLittle => slow = true,
            }
        } else {
            place.pace.rest();
        }
        let still = self.now.since(place.active);
        if place.linger.is_some_and(|until| until <= self.now) {
            // It may still read what the kernel holds for it; we listen no longer.
            place.ended = true;
            self.cut(place);
        } else if slow || (is_owed && still >= context.write_stall()) {
            place.conn.abort(Closed::Stalled);
            self.cut(place);
        } else if still >= context.idle() {
            place.conn.shut(Closed::Idle);
        }
    }
}
