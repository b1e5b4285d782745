//! Calls for many datagrams: a turn is one recvmmsg(2), the calls of the service, and one
//! sendmmsg(2); epoll_wait(2) only when a receive did not fill its room.

use std::io;
use std::ops::Range;

use memory::{Doing, Phase, SlotState};
use seam::Datagrams;
use sys::epoll::{Epoll, Events};
use sys::ready::Interest;
use sys::udp::{Batch, Mail};

use super::exchange::{Exchange, is_of_network};
use crate::context::WorkerContext;
use crate::fault::Fault;
use crate::limits::{LETTER_ROOM, LETTERS};

const KEY_SOCKET: u64 = 1;
const KEY_STOP: u64 = 2;

struct Loop<'a> {
    exchange: Exchange<'a>,
    epoll: Epoll,
    batch: Batch,
    mail: Mail,
    /// Letters of the last receive that wait until there is room to send.
    letters: Range<usize>,
    /// The socket may have more, so the next turn does not wait.
    is_behind: bool,
    /// The send buffer is full, and the loop waits for room instead of input.
    is_full: bool,
}

/// Serves until the server drains.
pub fn serve(
    context: &WorkerContext<'_>,
    service: &dyn Datagrams<State = ()>,
) -> Result<(), Fault> {
    let live = || {
        let exchange = Exchange::new(context, service)?;
        let (epoll, batch) = (Epoll::new()?, Batch::default());
        let mail = Mail::new(LETTERS, LETTER_ROOM);
        let (letters, is_behind, is_full) = (0..0, false, false);
        Loop { exchange, epoll, batch, mail, letters, is_behind, is_full }.run()
    };
    live().map_err(Fault::Wait)
}

impl Loop<'_> {
    fn run(&mut self) -> io::Result<()> {
        let context = self.exchange.context;
        self.epoll.add(&self.exchange.socket, Interest::READ, KEY_SOCKET)?;
        self.epoll.add(context.stop, Interest::READ, KEY_STOP)?;
        let mut events = Events::with_capacity(2);
        context.ready();
        loop {
            let was_full = self.is_full;
            if !self.is_behind {
                context.rest(if was_full { Doing::Writing } else { Doing::Waiting });
                if let Err(error) = self.epoll.wait(&mut events, Some(self.exchange.timeout())) {
                    context.endure(error)?;
                }
                if events.iter().any(|event| event.key == KEY_STOP) {
                    // It stays readable.
                    self.epoll.remove(context.stop)?;
                    context.slot().set_state(SlotState::Draining);
                }
            }
            self.exchange.begin_turn();
            let phase = context.phase();
            if phase >= Phase::Forced {
                return Ok(());
            }
            if self.flush() {
                self.receive(phase != Phase::Leaving)?;
            }
            self.exchange.end_turn();
            if phase > Phase::Ready && !self.is_behind && !self.is_full {
                return Ok(());
            }
            if self.is_full != was_full {
                let interest = if self.is_full { Interest::WRITE } else { Interest::READ };
                self.epoll.modify(&self.exchange.socket, interest, KEY_SOCKET)?;
            }
        }
    }

    /// Delivers what waits here, or else, with `may_receive`, what one call receives.
    fn receive(&mut self, may_receive: bool) -> io::Result<()> {
        self.is_behind = false;
        if self.letters.is_empty() && may_receive {
            match self.mail.fetch(&self.exchange.socket) {
                Ok(count) => self.letters = 0..count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if is_of_network(&error) => self.is_behind = true,
                Err(error) => self.exchange.context.endure(error)?,
            }
            self.is_behind |= self.letters.len() == LETTERS;
        } else {
            self.is_behind = may_receive;
        }
        while let Some(at) = self.letters.next() {
            if let Some(letter) = self.mail.letter(at) {
                self.exchange.deliver(&letter);
            }
            if self.exchange.replies.is_high() && !self.flush() {
                break;
            }
        }
        self.is_behind |= !self.letters.is_empty();
        self.is_behind &= self.flush();
        Ok(())
    }

    /// Sends what waits; false if the send buffer is full.
    fn flush(&mut self) -> bool {
        self.is_full = !self.exchange.flush(&mut self.batch);
        !self.is_full
    }
}
