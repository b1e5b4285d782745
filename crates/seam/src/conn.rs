//! One connection: a session, the input it has not used, the output it has made. Written once, for
//! every engine; the only caller of [`Service::step`].
//!
//! An engine does four things: lend a buffer and tell what happened ([`Conn::feed`],
//! [`Conn::eof`], [`Conn::deadline`], [`Conn::drain`], [`Conn::done`]); do the job and the writing
//! until it would block; ask [`Conn::wants`] once and change the difference; close when
//! [`Wants::done`] says so. A receive that cannot be stopped at once may still feed: the bytes are
//! carried, and the bound on them is [`crate::Limits::input_max`] plus what one receive can bring.

use crate::{Buffers, Closed, Cx, Event, Instant, Out, Peer, Service, Step, Then};

/// What a connection wants from its engine now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// More input may be fed.
    pub read: bool,
    /// Output is waiting.
    pub write: bool,
    /// A job is waiting to be taken.
    pub job: bool,
    /// When [`Conn::deadline`] is due.
    pub wake: Option<Instant>,
    /// Everything is flushed and has landed: close the descriptor, then call [`Conn::close`].
    pub done: bool,
}

/// Bytes from another session found no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushRefused;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Reading,
    Paused,
    /// A job is out; the session is not stepped until it is back.
    Away,
    Closing,
}

/// Whether something is to be told to the session, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Unsaid,
    Owed,
    Told,
}

/// One connection of service `S`.
pub struct Conn<S: Service> {
    session: S::Session,
    out: Out,
    /// Input that the session has seen and not used, oldest first.
    carry: Vec<u8>,
    wake: Option<Instant>,
    job: Option<S::Job>,
    mode: Mode,
    /// No input is offered until the output is low again.
    full: bool,
    /// [`Event::Room`] is to be told when the output is low.
    room_owed: bool,
    /// The last offer of the carried input brought nothing; more bytes or another event must come.
    stalled: bool,
    drain: Word,
    eof: Word,
    why: Closed,
    input_max: usize,
}

impl<S: Service> Conn<S> {
    /// A peer has come: opens a session for it.
    pub fn open(service: &S, cx: &Cx<'_, S::State>, peer: Peer, buffers: &mut Buffers) -> Conn<S> {
        let limits = service.limits();
        let mut out = Out::new(&limits);
        out.lend(buffers);
        let session = service.open(cx, peer, &mut out);
        let full = out.is_full();
        Conn {
            session,
            out,
            carry: Vec::new(),
            wake: service.patience().map(|patience| cx.now + patience),
            job: None,
            mode: Mode::Reading,
            full,
            room_owed: full,
            stalled: false,
            drain: Word::Unsaid,
            eof: Word::Unsaid,
            why: Closed::Reset,
            input_max: limits.input_max,
        }
    }

    // ---- what happened

    /// Input has come. Bytes for a connection that is closing are dropped.
    #[inline]
    pub fn feed(&mut self, service: &S, cx: &Cx<'_, S::State>, fresh: &[u8]) {
        if self.mode == Mode::Closing || fresh.is_empty() {
            return;
        }
        self.stalled = false;
        if self.carry.is_empty() {
            let used = self.offer(service, cx, fresh);
            if self.mode != Mode::Closing {
                self.carry.extend_from_slice(&fresh[used..]);
            }
        } else {
            self.carry.extend_from_slice(fresh);
        }
        self.go_on(service, cx);
    }

    /// The peer will send no more.
    pub fn eof(&mut self, service: &S, cx: &Cx<'_, S::State>) {
        if self.eof == Word::Unsaid {
            self.eof = Word::Owed;
            self.go_on(service, cx);
        }
    }

    /// The server is shutting down.
    pub fn drain(&mut self, service: &S, cx: &Cx<'_, S::State>) {
        if self.drain == Word::Unsaid {
            self.drain = Word::Owed;
            self.go_on(service, cx);
        }
    }

    /// Tells the session if its deadline has come by `cx.now`; harmless if not.
    pub fn deadline(&mut self, service: &S, cx: &Cx<'_, S::State>) {
        if self.wants().wake.is_some_and(|wake| wake <= cx.now) {
            self.wake = None;
            self.step(service, cx, Event::Deadline);
            self.go_on(service, cx);
        }
    }

    /// The job is back.
    pub fn done(&mut self, service: &S, cx: &Cx<'_, S::State>, outcome: S::Outcome) {
        if self.mode == Mode::Away {
            self.mode = Mode::Reading;
            self.step(service, cx, Event::Done(outcome));
            self.go_on(service, cx);
        }
    }

    /// The oldest `bytes` of the output were sent now.
    #[inline]
    pub fn sent(&mut self, service: &S, cx: &Cx<'_, S::State>, bytes: usize) {
        self.out.advance(bytes);
        self.relieved(service, cx);
    }

    /// `bytes` of what was taken from the output were sent since.
    #[inline]
    pub fn landed(&mut self, service: &S, cx: &Cx<'_, S::State>, bytes: usize) {
        self.out.landed(bytes);
        self.relieved(service, cx);
    }

    /// Appends bytes of another session, without stepping this one.
    ///
    /// # Errors
    /// [`PushRefused`] if this connection is closing or its output is full.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), PushRefused> {
        if self.mode == Mode::Closing || self.out.is_full() {
            return Err(PushRefused);
        }
        self.out.bytes().extend_from_slice(bytes);
        self.note_output();
        Ok(())
    }

    // ---- what the engine does with it

    /// The output, for sending.
    #[inline]
    pub fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    /// Why the connection ends; to be asked when it does.
    pub fn why(&self) -> Closed {
        self.why
    }

    /// The job to be worked on, once; its outcome comes back by [`Conn::done`].
    pub fn take_job(&mut self) -> Option<S::Job> {
        self.job.take()
    }

    /// What the engine should do next; to be asked after the sending.
    #[inline]
    pub fn wants(&self) -> Wants {
        let closing = self.mode == Mode::Closing;
        let reading = matches!(self.mode, Mode::Reading | Mode::Away);
        Wants {
            read: reading
                && !self.full
                && self.eof == Word::Unsaid
                && self.carry.len() < self.input_max,
            write: self.out.waiting() > 0,
            job: self.job.is_some(),
            wake: if closing || self.mode == Mode::Away { None } else { self.wake },
            done: closing && self.out.is_empty(),
        }
    }

    /// The engine ends the connection: what is in the output is flushed first.
    pub fn shut(&mut self, why: Closed) {
        if self.mode != Mode::Closing {
            self.mode = Mode::Closing;
            self.why = why;
            self.job = None;
            self.carry.clear();
        }
    }

    /// The connection is gone: what nobody has taken of the output is dropped.
    pub fn abort(&mut self, why: Closed) {
        self.mode = Mode::Closing;
        self.why = why;
        self.job = None;
        self.carry.clear();
        self.out.discard();
    }

    /// Ends the session. The engine must have seen [`Wants::done`], which also comes after
    /// [`Conn::abort`] once nothing is in flight any more.
    pub fn close(self, service: &S, cx: &Cx<'_, S::State>) {
        debug_assert!(self.out.is_empty(), "closed with output that was neither sent nor dropped");
        service.close(cx, self.session, self.why);
    }

    /// Makes sure that the session appends to a warm buffer.
    #[inline]
    pub fn lend(&mut self, buffers: &mut Buffers) {
        self.out.lend(buffers);
    }

    /// Takes back what an idle session does not need.
    #[inline]
    pub fn reclaim(&mut self, buffers: &mut Buffers) {
        self.out.reclaim(buffers);
        if self.carry.is_empty() && self.carry.capacity() > 0 {
            buffers.put(core::mem::take(&mut self.carry));
        }
    }

    // ---- how it goes on

    /// Offers carried input, then tells what is owed, until nothing more can be done now.
    #[inline]
    fn go_on(&mut self, service: &S, cx: &Cx<'_, S::State>) {
        loop {
            self.offer_carry(service, cx);
            if self.mode != Mode::Reading || self.full {
                return;
            }
            if self.drain == Word::Owed {
                self.drain = Word::Told;
                self.step(service, cx, Event::Drain);
            } else if self.eof == Word::Owed {
                self.eof = Word::Told;
                self.step(service, cx, Event::Eof);
            } else {
                return;
            }
        }
    }

    fn offer_carry(&mut self, service: &S, cx: &Cx<'_, S::State>) {
        if self.carry.is_empty() || self.stalled {
            return;
        }
        let mut carry = core::mem::take(&mut self.carry);
        let used = self.offer(service, cx, &carry);
        carry.drain(..used);
        if self.mode != Mode::Closing {
            self.carry = carry;
        }
    }

    /// Offers `input` while the session makes progress; returns how much of it was used.
    #[inline]
    fn offer(&mut self, service: &S, cx: &Cx<'_, S::State>, input: &[u8]) -> usize {
        let mut used = 0;
        while self.mode == Mode::Reading && !self.full && used < input.len() {
            let rest = &input[used..];
            let step = self.step(service, cx, Event::Bytes(rest));
            assert!(step <= rest.len(), "a step used more input than it was offered");
            used += step;
            if step == 0 && self.mode == Mode::Reading && !self.full {
                self.stalled = true;
                if rest.len() >= self.input_max {
                    self.shut(Closed::Overlong);
                }
                break;
            }
        }
        used
    }

    /// Calls the session once and does what it says; returns how much input it used.
    #[inline]
    fn step(&mut self, service: &S, cx: &Cx<'_, S::State>, event: Event<'_, S::Outcome>) -> usize {
        let fresh_word = !matches!(event, Event::Bytes(_));
        let Step { used, then, wake } = service.step(cx, &mut self.session, event, &mut self.out);
        self.wake = wake;
        if fresh_word {
            self.stalled = false;
        }
        match then {
            Then::Read => self.mode = Mode::Reading,
            Then::Pause => self.mode = Mode::Paused,
            Then::Close => self.shut(Closed::Service),
            Then::Offload(job) => {
                self.mode = Mode::Away;
                self.job = Some(job);
            }
        }
        self.note_output();
        if self.mode == Mode::Paused && !self.room_owed && self.wake.is_none() {
            // Neither room nor a deadline would ever end this pause.
            self.mode = Mode::Reading;
        }
        used
    }

    #[inline]
    fn note_output(&mut self) {
        if self.out.is_full() {
            (self.full, self.room_owed) = (true, true);
        } else if self.mode == Mode::Paused && !self.out.is_low() {
            self.room_owed = true;
        }
    }

    /// Goes on if the output has become low.
    #[inline]
    fn relieved(&mut self, service: &S, cx: &Cx<'_, S::State>) {
        if !self.room_owed || !self.out.is_low() {
            return;
        }
        (self.full, self.room_owed) = (false, false);
        if matches!(self.mode, Mode::Reading | Mode::Paused) {
            self.step(service, cx, Event::Room);
            self.go_on(service, cx);
        }
    }
}
