//! The waiting calls of a coroutine, and what it shares with the loop.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::DerefMut;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use memory::{Doing, Phase};
use seam::{Instant, SessionId};
use sys::coroutine::Switch;
use sys::ready::Ready;
use sys::socket::{self, Received};

use crate::context::WorkerContext;
use crate::erased::Value;
use crate::helpers::Helpers;
use crate::limits::{BUFFERS, RECEIVE_BYTES, SEND_BYTES_LONG, TURN_BYTES, WAIT};
use crate::parts::connection::Sent;
use crate::parts::transmit::CallMode;
use crate::parts::turn_length::TurnLength;
use crate::wait::blocking::calls::BlockingCalls;
use crate::wait::blocking::kept::Kept;

/// The event for which a coroutine waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    /// Input, or its time.
    Input,
    /// Room for output, or its time.
    Room,
    Outcome,
    Time,
    /// Its next turn, after others.
    Turn,
}

/// The state that the loop and one coroutine share.
pub(super) struct Seat {
    pub awaits: Cell<Awaits>,
    /// When it is resumed at the latest.
    pub until: Cell<Instant>,
    /// The outcome of its job; `None` within: the job panicked.
    pub outcome: Cell<Option<Option<Value>>>,
    /// There may be more to read.
    readable: Cell<bool>,
    /// The peer's end was reported with its last bytes; no other event will report it.
    ending: Cell<bool>,
    received: Cell<bool>,
    /// Bytes that it has sent in this turn.
    sent: Cell<usize>,
}

impl Seat {
    pub fn new() -> Seat {
        Seat {
            awaits: Cell::new(Awaits::Turn),
            until: Cell::new(Instant::NEVER),
            outcome: Cell::new(None),
            readable: Cell::new(false),
            ending: Cell::new(false),
            received: Cell::new(false),
            sent: Cell::new(0),
        }
    }

    /// Notes an event; returns whether the coroutine waits for it.
    #[inline]
    pub fn note(&self, event: Ready) -> bool {
        let is_input = event.readable || event.hangup || event.error;
        self.readable.set(self.readable.get() || is_input);
        self.ending.set(self.ending.get() || event.hangup || event.error);
        match self.awaits.get() {
            Awaits::Input => self.readable.get(),
            Awaits::Room => event.writable || event.error,
            Awaits::Outcome | Awaits::Time | Awaits::Turn => false,
        }
    }

    /// The coroutine is about to be resumed.
    #[inline]
    pub fn begin_turn(&self) {
        self.received.set(false);
        self.sent.set(0);
    }
}

/// The data that the coroutines of a worker share.
pub(super) struct Worker<'a> {
    pub context: &'a WorkerContext<'a>,
    pub helpers: &'a dyn Helpers,
    /// The time of this turn.
    pub now: Cell<Instant>,
    /// No place is left, and clients wait for one.
    pub is_full: Cell<bool>,
    /// Bytes that were received in this turn.
    moved: Cell<usize>,
    length: RefCell<TurnLength>,
    kept: RefCell<Kept>,
}

impl<'a> Worker<'a> {
    pub fn new(context: &'a WorkerContext<'a>, helpers: &'a dyn Helpers) -> Worker<'a> {
        let mut kept = Kept::sparing(BUFFERS);
        kept.scratch.resize(RECEIVE_BYTES, 0);
        Worker {
            context,
            helpers,
            now: Cell::new(context.now()),
            is_full: Cell::new(false),
            moved: Cell::new(0),
            length: RefCell::default(),
            kept: RefCell::new(kept),
        }
    }

    /// A turn of the loop begins; returns its time.
    pub fn begin_turn(&self) -> Instant {
        let now = self.context.now();
        self.now.set(now);
        self.moved.set(0);
        self.length.take();
        now
    }

    /// Whether this turn has moved so much that the rest can wait.
    pub fn is_long(&self) -> bool {
        self.moved.get() >= TURN_BYTES
    }

    /// The bytes that the next receive may take.
    fn receive_bytes(&self) -> usize {
        let (mut moved, began) = (self.moved.get(), self.now.get());
        let mut length = self.length.borrow_mut();
        let most = length.receive_bytes(&mut moved, began, || self.context.now());
        self.moved.set(moved);
        most
    }
}

pub(super) struct CoroutineCalls<'c, 'a> {
    pub worker: &'c Worker<'a>,
    pub switch: &'c Switch<'c>,
    pub seat: Rc<Seat>,
}

impl CoroutineCalls<'_, '_> {
    /// Lets others run until the event has come, or `time` is over.
    #[inline]
    fn wait(&self, awaits: Awaits, time: Duration) {
        self.seat.until.set(self.worker.now.get() + time);
        self.seat.awaits.set(awaits);
        self.switch.wait();
    }
}

impl BlockingCalls for CoroutineCalls<'_, '_> {
    const SEND: CallMode = CallMode::Nonblocking;
    // The loop resumes all coroutines periodically.
    const LONGEST: Duration = Duration::from_secs(24 * 3600);
    const IS_SHARED: bool = true;

    #[inline]
    fn kept(&mut self) -> impl DerefMut<Target = Kept> {
        self.worker.kept.borrow_mut()
    }

    #[inline]
    fn now(&self, _context: &WorkerContext<'_>) -> Instant {
        self.worker.now.get()
    }

    #[inline]
    fn resumed(&self, _context: &WorkerContext<'_>) -> Instant {
        self.worker.now.get()
    }

    #[inline]
    fn rest(&self, _context: &WorkerContext<'_>, _doing: Doing) {}

    fn is_awaited(&self, _context: &WorkerContext<'_>) -> bool {
        self.worker.is_full.get()
    }

    fn receive(&mut self, fd: &OwnedFd, timeout: Option<Duration>) -> io::Result<Received> {
        let (worker, seat) = (self.worker, &*self.seat);
        let is_due = seat.readable.get() && !seat.received.get();
        if !is_due {
            let awaits = if seat.readable.get() { Awaits::Turn } else { Awaits::Input };
            self.wait(awaits, timeout.unwrap_or(WAIT));
            // The turn's view of the server's memory is old.
            if !seat.readable.get() || worker.context.board.is_short() {
                return Ok(Received::Later);
            }
        }
        seat.received.set(true);
        let most = worker.receive_bytes();
        let received = socket::recv_nowait(fd, &mut worker.kept.borrow_mut().scratch[..most]);
        match received {
            Received::Bytes(len) => {
                // A short read has emptied the socket (epoll(7), on stream sockets).
                seat.readable.set(len == most || seat.ending.get());
                worker.moved.set(worker.moved.get() + len);
            }
            Received::End | Received::Later => seat.readable.set(false),
            Received::Broken => {}
        }
        Ok(received)
    }

    fn sleep(&mut self, time: Duration) {
        self.wait(Awaits::Time, time);
    }

    fn await_room(&mut self, sent: Sent) {
        match sent {
            Sent::Later => self.wait(Awaits::Room, WAIT),
            Sent::Bytes(len) => {
                self.seat.sent.set(self.seat.sent.get() + len);
                if self.seat.sent.get() >= SEND_BYTES_LONG {
                    self.wait(Awaits::Turn, Duration::ZERO);
                }
            }
            Sent::Broken => {}
        }
    }

    /// Gives the job to a helper, so that the others are served meanwhile.
    fn work(&mut self, context: &WorkerContext<'_>, id: SessionId, job: Value) -> Option<Value> {
        self.worker.helpers.submit(id, job);
        while context.phase() < Phase::Forced {
            self.wait(Awaits::Outcome, Self::LONGEST);
            if let Some(outcome) = self.seat.outcome.take() {
                return outcome;
            }
        }
        None
    }
}
