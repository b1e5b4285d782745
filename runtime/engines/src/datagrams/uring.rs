//! A ring: one receive that delivers into provided buffers until it is cancelled, and a sendmsg(2)
//! for each train. A turn is one io_uring_enter(2), which submits the replies of the turn before.
//!
//! One block of replies is in flight at a time. A send that finds the send buffer full waits in the
//! kernel; meanwhile received buffers wait here, until the ring has none left and the kernel's
//! receive buffer fills.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use memory::{Doing, Phase, SlotState};
use seam::Replies;
use sys::udp::{Batch, Mail};
use sys::uring::{
    Armed, Completion, DATAGRAM_OVERHEAD, Filled, Raw, Received, Setup, Unsent, Uring,
};

use super::exchange::{Exchange, Flushed, fill, is_of_network};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::{LETTER_ROOM, LETTERS};

const TOKEN_SOCKET: u64 = 1;
const TOKEN_STOP: u64 = 2;

struct Loop<'a> {
    exchange: Exchange<'a>,
    ring: Uring,
    /// The receive, until its last completion.
    armed: Option<Armed>,
    /// Received, and not delivered yet.
    inbox: VecDeque<Filled>,
    /// The replies in flight; the ring has their bytes.
    sending: Replies,
    is_sending: bool,
}

/// Serves until the server drains.
pub fn serve(context: &WorkerContext<'_>) -> Result<(), Fault> {
    let setup = context.knobs.ring;
    // A buffer takes the longest train.
    let ring = context.knobs.tactics.ring(&Setup {
        buffers: setup.buffers.clamp(1, LETTERS as u16),
        buffer_len: setup.buffer_len.max(LETTER_ROOM as u32 + DATAGRAM_OVERHEAD),
        ..setup
    });
    let ring = ring.map_err(Fault::Ring)?;
    // A ring does not wait for a non-blocking descriptor.
    let exchange = Exchange::new(context, false, true).map_err(Fault::Wait)?;
    let sending = Replies::new(exchange.replies.limits());
    let (armed, inbox, is_sending) = (None, VecDeque::new(), false);
    Loop { exchange, ring, armed, inbox, sending, is_sending }.run().map_err(Fault::Wait)
}

impl Loop<'_> {
    fn run(&mut self) -> io::Result<()> {
        let context = self.exchange.context;
        self.ring.watch(context.stop.as_fd(), TOKEN_STOP);
        self.armed = Some(self.ring.receive_datagrams(&self.exchange.socket, TOKEN_SOCKET));
        context.ready();
        let (mut batch, mut is_told) = (Vec::<Raw>::new(), false);
        loop {
            context.rest(if self.is_sending { Doing::Writing } else { Doing::Waiting });
            let is_behind = !self.inbox.is_empty() && !self.exchange.replies.is_high();
            let timeout = if is_behind { Duration::ZERO } else { self.exchange.timeout() };
            self.ring.wait(Some(timeout), &mut batch)?;
            self.exchange.begin_turn();
            for raw in batch.drain(..) {
                let completion = self.ring.completion(&raw);
                self.complete(completion)?;
            }
            self.deliver();
            self.send();
            self.exchange.end_turn();
            let phase = context.phase();
            match phase {
                Phase::Starting | Phase::Ready => {
                    if self.armed.is_none() && self.inbox.is_empty() {
                        let socket = &self.exchange.socket;
                        self.armed = Some(self.ring.receive_datagrams(socket, TOKEN_SOCKET));
                    }
                    continue;
                }
                Phase::Leaving | Phase::Draining => {}
                Phase::Forced | Phase::Done => return Ok(()),
            }
            if let Some(armed) = self.armed.filter(|_| !is_told) {
                is_told = true;
                context.slot().set_state(SlotState::Draining);
                self.ring.cancel(armed);
            }
            if self.armed.is_none() && self.inbox.is_empty() && !self.is_sending {
                return if phase == Phase::Draining { self.drain() } else { Ok(()) };
            }
        }
    }

    fn complete(&mut self, completion: Completion) -> io::Result<()> {
        match completion {
            Completion::Received { input, more, .. } => {
                if !more {
                    self.armed = None;
                }
                match input {
                    Received::Bytes(filled) => self.inbox.push_back(filled),
                    Received::NoBuffers => self.exchange.context.slot().enobufs.add(1),
                    Received::Failed(error) if !is_of_network(&error) => return Err(error),
                    Received::Failed(_) | Received::Cancelled | Received::Eof => {}
                }
            }
            Completion::SentDatagrams { bytes, unsent } => self.sent(bytes, &unsent),
            _ => {}
        }
        Ok(())
    }

    /// Delivers what was received, while there is room for replies.
    fn deliver(&mut self) {
        while !self.exchange.replies.is_high()
            && let Some(filled) = self.inbox.pop_front()
        {
            if let Some(letter) = self.ring.letter(&filled) {
                self.exchange.deliver(&letter);
            }
            self.ring.give_back(filled);
        }
    }

    /// Sends what waits, if nothing is in flight.
    fn send(&mut self) {
        if self.is_sending || self.exchange.replies.is_empty() {
            return;
        }
        self.is_sending = true;
        // Nothing in flight: the other block is empty.
        std::mem::swap(&mut self.exchange.replies, &mut self.sending);
        let (bytes, trains) = (self.sending.take_bytes(), self.sending.trains());
        let socket = &self.exchange.socket;
        self.ring.send_datagrams(socket, bytes, |filling, bytes| fill(filling, trains, bytes));
    }

    /// All have left, but for these.
    fn sent(&mut self, bytes: Vec<u8>, unsent: &[Unsent]) {
        self.is_sending = false;
        let mut flushed = Flushed { bytes: bytes.len() as u64, ..Flushed::default() };
        self.sending.put_back(bytes);
        let socket = &self.exchange.socket;
        for Unsent { index, .. } in unsent {
            let train = &self.sending.trains()[*index];
            flushed.bytes -= train.range().len() as u64;
            match train.count {
                1 => flushed.unsent += 1,
                _ => flushed.send_each(&self.sending, train, |to, bytes: &_| {
                    socket.send_to(bytes, to, false)
                }),
            }
        }
        self.sending.leave(self.sending.trains().len());
        self.exchange.count(&flushed);
    }

    /// Answers by calls what the socket still holds.
    fn drain(&mut self) -> io::Result<()> {
        let (mut mail, mut batch) = (Mail::new(LETTERS, LETTER_ROOM), Batch::default());
        let context = self.exchange.context;
        let mut is_empty = false;
        while !is_empty && context.phase() < Phase::Forced {
            self.exchange.begin_turn();
            let count = match mail.fetch(&self.exchange.socket) {
                Ok(count) => count,
                Err(error) if is_of_network(&error) => continue,
                Err(_) => 0,
            };
            is_empty = count == 0;
            for letter in (0..count).filter_map(|at| mail.letter(at)) {
                self.exchange.deliver(&letter);
                while self.exchange.replies.is_high()
                    && !self.exchange.flush(&mut batch)
                    && context.phase() < Phase::Forced
                {}
            }
            while !self.exchange.flush(&mut batch) && context.phase() < Phase::Forced {}
            self.exchange.end_turn();
        }
        Ok(())
    }
}
