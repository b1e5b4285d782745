//! Packets in, the same packets out.
//!
//! A step takes all whole packets at once: it checks each length field and copies the batch. Part
//! of a packet stays with the connection until the rest arrives.

use core::convert::Infallible;

use seam::{Closed, Cx, Event, Instant, Limits, Out, Peer, Service, Step};

use super::packet::{LENGTH, LOGIN, PACKET, front, packet};
use super::register::{CloseReason, Register};
use crate::roster::PULSE;

/// The options of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// An operator may end sessions: each session has a seat in the roster and checks it four times
    /// a second.
    pub operated: bool,
    /// The limits of a connection.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        let limits = Limits {
            // A packet is ten bytes; more input waits for room in the output.
            input_max: 64 * 1024,
            // The library's send ring, so that a window of 200 packets never fills it.
            output_high: 64_000,
            output_low: 16_000,
            sessions_max: 65_536,
        };
        Options { operated: false, limits }
    }
}

/// The service; its state is a [`Register`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo {
    options: Options,
}

/// One connection's memory.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Its seat, if an operator may call it.
    seat: Option<u32>,
    /// When it checks its seat again.
    pulse: Instant,
    /// The last step left part of a packet.
    is_cut: bool,
}

impl Echo {
    /// The service with these options.
    #[must_use]
    pub fn new(options: Options) -> Echo {
        Echo { options }
    }

    fn echo(
        &self,
        cx: &Cx<'_, Register>,
        session: &mut Session,
        input: &[u8],
        out: &mut Out,
    ) -> Step<Infallible> {
        let room = self.options.limits.output_high.saturating_sub(out.len());
        let found = front(input, room.div_ceil(PACKET).max(1));
        out.bytes().extend_from_slice(&input[..found.whole]);
        session.is_cut = found.whole < input.len();
        if let Some(length) = found.bad_length {
            cx.state.count(CloseReason::BadLength);
            cx.note(|note| {
                *note = format!("{}: expected the length {LENGTH}, found {length}", cx.me);
            });
            return Step::close(input.len());
        }
        self.look(cx, session, found.whole)
    }

    /// Continues, unless the operator has marked the session to be closed.
    #[inline]
    fn look(&self, cx: &Cx<'_, Register>, session: &mut Session, used: usize) -> Step<Infallible> {
        let Some(seat) = session.seat else { return Step::read(used) };
        if cx.state.roster().is_called(seat, cx.me) {
            cx.state.count(CloseReason::Dismissed);
            cx.note(|note| *note = format!("{}: disconnected by the operator", cx.me));
            return Step::close(used);
        }
        if session.pulse <= cx.now {
            session.pulse = cx.now + PULSE;
        }
        Step::read(used).wake_at(session.pulse)
    }
}

impl Service for Echo {
    type State = Register;
    type Session = Session;
    type Job = Infallible;
    type Outcome = Infallible;

    fn limits(&self) -> Limits {
        self.options.limits
    }

    fn patience(&self) -> Option<core::time::Duration> {
        self.options.operated.then_some(PULSE)
    }

    fn open(&self, cx: &Cx<'_, Register>, peer: Peer, out: &mut Out) -> Session {
        cx.note(|note| {
            *note = match peer {
                Peer::Net(at) => format!("{}: connected from {at}", cx.me),
                Peer::Local => format!("{}: connected", cx.me),
            };
        });
        out.bytes().extend_from_slice(&packet(LOGIN));
        let seat = if self.options.operated { cx.state.roster().enter(cx.me) } else { None };
        Session { seat, pulse: cx.now + PULSE, is_cut: false }
    }

    fn step(
        &self,
        cx: &Cx<'_, Register>,
        session: &mut Session,
        event: Event<'_, Infallible>,
        out: &mut Out,
    ) -> Step<Infallible> {
        match event {
            Event::Bytes(input) => self.echo(cx, session, input, out),
            Event::Room | Event::Deadline => self.look(cx, session, 0),
            Event::Eof => {
                if session.is_cut {
                    cx.state.count(CloseReason::CutShort);
                }
                Step::close(0)
            }
            Event::Drain => Step::close(0),
            Event::Outcome(never) => match never {},
        }
    }

    fn work(&self, _state: &Register, job: Infallible) -> Infallible {
        match job {}
    }

    fn close(&self, cx: &Cx<'_, Register>, session: Session, _why: Closed) {
        if let Some(seat) = session.seat {
            cx.state.roster().leave(seat, cx.me);
        }
    }
}
