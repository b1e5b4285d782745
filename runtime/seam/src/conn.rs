//! One connection: a session, its unused input, its output. Written once, for every engine; only
//! this file, and a service around another one, calls [`Service::step`].
//!
//! An engine does four things:
//!
//! 1. lend a buffer and deliver the event ([`Conn::feed`], [`Conn::eof`], [`Conn::deadline`],
//!    [`Conn::drain`], [`Conn::outcome`]);
//! 2. hand out the job, and write until a write would block;
//! 3. ask [`Conn::wants`] once, and change only the difference;
//! 4. close when [`Wants::close`] says so.
//!
//! An event is offered in [`Conn::advance`]: carried input first, oldest bytes first, then the
//! one-time events, and each only while the session reads and its output is not full. Input that a
//! step does not use is carried to the next. A full output stops the offers until it is low again;
//! then the session gets [`Event::Room`]. So back-pressure reaches a peer without a word of the
//! service: the engine stops receiving, and the kernel's window closes.
//!
//! When the server stops, an engine announces that ([`Conn::last_call`]). Where [`Wants::look`]
//! then asks for it, the engine receives the input that has arrived, and calls [`Conn::drain`] when
//! no more is there. So a request that the kernel holds is answered, and a connection ends between
//! two requests.
//!
//! A receive that cannot be stopped at once may still feed: the connection keeps the bytes, up to
//! [`crate::Limits::input_max`] plus the size of one receive.

use core::time::Duration;

use crate::{Buffers, Closed, Cx, Event, Instant, Out, Peer, Service, Step, Then};

/// A connection on which bytes moved less than this before a stop may bring one more request: a
/// client that asks, reads and asks again is between two requests.
const PAUSE: Duration = Duration::from_millis(100);
/// The time after the announcement of a stop in which a peer may complete a request.
const COMPLETION: Duration = Duration::from_secs(1);

/// The wishes of a connection to its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The engine may feed more input.
    pub read: bool,
    /// Output waits to be sent.
    pub write: bool,
    /// A job waits to be taken.
    pub job: bool,
    /// The time to call [`Conn::deadline`].
    pub wake: Option<Instant>,
    /// The server stops, and the session is between two requests: before anything is sent, receive,
    /// and call [`Conn::drain`] if nothing is there.
    pub look: bool,
    /// Everything is flushed and has landed: close the descriptor, then call [`Conn::close`].
    pub close: bool,
}

/// There was no room for bytes from another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushRefused;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Reading,
    Paused,
    /// A job is out; the session is not stepped until its outcome is back.
    Away,
    Closing,
}

/// Whether a one-time event has been delivered to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Once {
    NotYet,
    Pending,
    Delivered,
}

/// The announcement of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastCall {
    /// The time until which the connection waits for input.
    until: Instant,
    /// The time until which it waits for the rest of a request.
    cut: Instant,
    /// Input has come since the announcement.
    heard: bool,
    /// `until` is over.
    late: bool,
}

/// One connection: a session of type `T`, whose jobs have type `J`.
///
/// The calls take the service each time, so that a table of connections does not depend on it.
pub struct Conn<T, J> {
    session: T,
    out: Out,
    /// Input that the session has been offered and has not used, oldest first.
    carry: Vec<u8>,
    wake: Option<Instant>,
    job: Option<J>,
    mode: Mode,
    /// No input is offered until the output is low.
    full: bool,
    /// [`Event::Room`] must be delivered when the output is low.
    room_owed: bool,
    /// The last offer of the carried input made no progress; more bytes or another event must come.
    stalled: bool,
    /// When the request that the carried input begins is overdue.
    overdue: Instant,
    last_call: Option<LastCall>,
    drain: Once,
    eof: Once,
    why: Closed,
    /// Bytes of output that [`Conn::abort`] dropped.
    unsent: usize,
    input_max: usize,
}

impl<T, J> Conn<T, J> {
    /// Opens a session for a peer that has connected.
    pub fn open<S: Service<Session = T, Job = J> + ?Sized>(
        service: &S,
        cx: &Cx<'_, S::State>,
        peer: Peer,
        buffers: &mut Buffers,
    ) -> Conn<T, J> {
        Conn::open_within(service, service.limits(), cx, peer, buffers)
    }

    /// The same within other limits: a service around another may host many of its sessions.
    pub fn open_within<S: Service<Session = T, Job = J> + ?Sized>(
        service: &S,
        limits: crate::Limits,
        cx: &Cx<'_, S::State>,
        peer: Peer,
        buffers: &mut Buffers,
    ) -> Conn<T, J> {
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
            overdue: Instant::NEVER,
            last_call: None,
            drain: Once::NotYet,
            eof: Once::NotYet,
            why: Closed::Reset,
            unsent: 0,
            input_max: limits.input_max,
        }
    }

    // ---- events

    /// Feeds input. Bytes for a closing connection are dropped.
    #[inline]
    pub fn feed<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
        fresh: &[u8],
    ) {
        if self.mode == Mode::Closing || fresh.is_empty() {
            return;
        }
        self.stalled = false;
        if let Some(last) = &mut self.last_call {
            (last.heard, last.until, last.late) = (true, last.cut, last.cut <= cx.now);
        }
        if self.carry.is_empty() {
            let used = self.offer(service, cx, fresh);
            if self.mode != Mode::Closing && used < fresh.len() {
                self.carry.extend_from_slice(&fresh[used..]);
                self.overdue = cx.request_ends();
            }
        } else {
            self.carry.extend_from_slice(fresh);
        }
        self.advance(service, cx);
    }

    /// The peer will send no more.
    pub fn eof<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
    ) {
        if self.eof == Once::NotYet {
            self.eof = Once::Pending;
            self.advance(service, cx);
        }
    }

    /// The server will shut down. A connection whose last byte moved at `active` gets a moment for
    /// its next request, and a request that has begun gets the time to become whole. Then
    /// [`Wants::look`] asks for the drain. Calls after the first have no effect.
    pub fn last_call(&mut self, now: Instant, active: Instant) {
        if self.last_call.is_none() {
            let cut = now + COMPLETION;
            let until = if self.carry.is_empty() { active + PAUSE } else { cut };
            let late = until <= now;
            self.last_call = Some(LastCall { until, cut, heard: false, late });
        }
    }

    /// Whether a peer has had its time after the last call: input that comes now is too late.
    pub fn is_past_call(&self, now: Instant) -> bool {
        self.last_call.is_some_and(|last| last.cut <= now)
    }

    /// The server is shutting down, and no input is left in the kernel.
    pub fn drain<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
    ) {
        if self.drain == Once::NotYet {
            self.drain = Once::Pending;
            self.advance(service, cx);
        }
    }

    /// Delivers the session's deadline if it has passed by `cx.now`; harmless if not. Ends the
    /// connection if a request is overdue.
    pub fn deadline<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
    ) {
        if let Some(last) = &mut self.last_call {
            last.late |= last.until <= cx.now;
        }
        if self.session_wake().is_some_and(|wake| wake <= cx.now) {
            if self.wake.take().is_none() {
                return self.shut(Closed::Idle);
            }
            self.step(service, cx, Event::Deadline);
            self.advance(service, cx);
        }
    }

    /// The job's outcome is back.
    pub fn outcome<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
        outcome: S::Outcome,
    ) {
        if self.mode == Mode::Away {
            self.mode = Mode::Reading;
            self.step(service, cx, Event::Outcome(outcome));
            self.advance(service, cx);
        }
    }

    /// The oldest `bytes` of the output were sent.
    #[inline]
    pub fn sent<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
        bytes: usize,
    ) {
        self.out.advance(bytes);
        self.relieved(service, cx);
    }

    /// `bytes` of the output taken earlier were sent.
    #[inline]
    pub fn landed<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
        bytes: usize,
    ) {
        self.out.landed(bytes);
        self.relieved(service, cx);
    }

    /// Appends bytes from another session, without stepping this one.
    ///
    /// # Errors
    /// [`PushRefused`] if this connection is closing or its output is full.
    pub fn push<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
        bytes: &[u8],
    ) -> Result<(), PushRefused> {
        if self.mode == Mode::Closing || self.out.is_full() {
            return Err(PushRefused);
        }
        service.push(cx, &mut self.session, bytes, &mut self.out)?;
        self.note_output();
        Ok(())
    }

    // ---- the engine's side

    /// The output, for sending.
    #[inline]
    pub fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    /// The reason that the connection ends; valid once it ends.
    pub fn why(&self) -> Closed {
        self.why
    }

    /// Bytes of memory that the connection holds for its peer, in both directions.
    #[inline]
    pub fn held(&self) -> usize {
        self.out.held() + self.carry.len()
    }

    /// Whether the session is over; its output may still be on the way.
    pub fn is_closing(&self) -> bool {
        self.mode == Mode::Closing
    }

    /// The next job to work on, handed out once; its result returns by [`Conn::outcome`].
    pub fn take_job(&mut self) -> Option<J> {
        self.job.take()
    }

    /// The next actions of the engine; call it after sending.
    #[inline]
    pub fn wants(&self) -> Wants {
        let closing = self.mode == Mode::Closing;
        let reading = matches!(self.mode, Mode::Reading | Mode::Away);
        let last = self.last_call.filter(|_| !closing && self.drain == Once::NotYet);
        let until = last.filter(|last| !last.late).map_or(Instant::NEVER, |last| last.until);
        let wake = self.session_wake().unwrap_or(Instant::NEVER).min(until);
        Wants {
            read: reading
                && !self.full
                && self.eof == Once::NotYet
                && self.carry.len() < self.input_max,
            write: self.out.waiting() > 0,
            job: self.job.is_some(),
            wake: (wake != Instant::NEVER).then_some(wake),
            look: self.mode == Mode::Reading
                && !self.full
                && last.is_some_and(|last| last.late || (last.heard && self.carry.is_empty())),
            close: closing && self.out.is_empty(),
        }
    }

    /// Whether [`Wants::look`] is set; quicker than asking for all wishes.
    #[inline]
    pub fn looks(&self) -> bool {
        self.last_call.is_some() && self.wants().look
    }

    /// The session's own deadline, while it can be delivered, or that of an unfinished request.
    #[inline]
    fn session_wake(&self) -> Option<Instant> {
        match self.mode {
            Mode::Closing | Mode::Away => None,
            Mode::Reading if self.stalled && self.wake.is_none() => {
                Some(self.overdue).filter(|moment| *moment != Instant::NEVER)
            }
            Mode::Reading | Mode::Paused => self.wake,
        }
    }

    /// The engine ends the connection, after flushing the output.
    pub fn shut(&mut self, why: Closed) {
        if self.mode != Mode::Closing {
            self.mode = Mode::Closing;
            self.why = why;
            self.job = None;
            self.carry.clear();
        }
    }

    /// The connection is gone: output that is not in flight is dropped.
    pub fn abort(&mut self, why: Closed) {
        self.mode = Mode::Closing;
        self.why = why;
        self.job = None;
        self.carry.clear();
        self.unsent += self.out.waiting();
        self.out.discard();
    }

    /// Ends the session. The engine must have seen [`Wants::close`], which also comes after
    /// [`Conn::abort`] once nothing is in flight.
    pub fn close<S: Service<Session = T, Job = J> + ?Sized>(
        self,
        service: &S,
        cx: &Cx<'_, S::State>,
    ) {
        debug_assert!(self.out.is_empty(), "closed with output that was neither sent nor dropped");
        service.close(&cx.dropping(self.unsent), self.session, self.why);
    }

    /// Lends the session a warm buffer to append to.
    #[inline]
    pub fn lend(&mut self, buffers: &mut Buffers) {
        self.out.lend(buffers);
    }

    /// Lends the session a spare buffer of this thread, for a service around another one.
    #[inline]
    pub fn lend_spare(&mut self) {
        Buffers::of_thread(|buffers| self.lend(buffers));
    }

    /// Takes back for this thread what [`Conn::lend_spare`] has lent.
    #[inline]
    pub fn reclaim_spare(&mut self) {
        Buffers::of_thread(|buffers| self.reclaim(buffers));
    }

    /// Takes back the buffers that an idle session does not need.
    #[inline]
    pub fn reclaim(&mut self, buffers: &mut Buffers) {
        self.out.reclaim(buffers);
        if self.carry.is_empty() && self.carry.capacity() > 0 {
            buffers.put(core::mem::take(&mut self.carry));
        }
    }

    // ---- progress

    /// Offers carried input, then delivers pending events, until no progress is possible.
    #[inline]
    fn advance<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
    ) {
        loop {
            self.offer_carry(service, cx);
            if self.mode != Mode::Reading || self.full {
                return;
            }
            if self.drain == Once::Pending {
                self.drain = Once::Delivered;
                self.step(service, cx, Event::Drain);
            } else if self.eof == Once::Pending {
                self.eof = Once::Delivered;
                self.step(service, cx, Event::Eof);
            } else {
                return;
            }
        }
    }

    fn offer_carry<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
    ) {
        if self.carry.is_empty() || self.stalled {
            return;
        }
        let mut carry = core::mem::take(&mut self.carry);
        let used = self.offer(service, cx, &carry);
        carry.drain(..used);
        if used > 0 {
            self.overdue = cx.request_ends();
        }
        if self.mode != Mode::Closing {
            self.carry = carry;
        }
    }

    /// Offers `input` while the session makes progress; returns the number of bytes used.
    #[inline]
    fn offer<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
        input: &[u8],
    ) -> usize {
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

    /// Steps the session once and follows its answer; returns the number of input bytes used.
    #[inline]
    fn step<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
        event: Event<'_, S::Outcome>,
    ) -> usize {
        let is_event = !matches!(event, Event::Bytes(_));
        let Step { used, then, wake } = service.step(cx, &mut self.session, event, &mut self.out);
        self.wake = wake;
        if is_event {
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
            // Neither room nor a deadline would end this pause.
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

    /// Continues if the output is low again.
    #[inline]
    fn relieved<S: Service<Session = T, Job = J> + ?Sized>(
        &mut self,
        service: &S,
        cx: &Cx<'_, S::State>,
    ) {
        if !self.room_owed || !self.out.is_low() {
            return;
        }
        (self.full, self.room_owed) = (false, false);
        if matches!(self.mode, Mode::Reading | Mode::Paused) {
            self.step(service, cx, Event::Room);
            self.advance(service, cx);
        }
    }
}

#[cfg(test)]
mod tests;
