//! The definition of a service: a state machine over bytes and time.
//!
//! A service has a state, which all workers share, and a session for each connection, which one
//! worker steps at a time. Each call gets the outside world as values ([`Cx`]) and an event
//! ([`Event`]); it appends to an output that the engine owns ([`Out`]) and returns a step
//! ([`Step`]): how many bytes it used, what comes next, and when it wants to be woken. It does no
//! I/O and reads no clock, so a run is determined by its events, and the simulator can play one.
//!
//! Work that would block is a job ([`Then::Offload`]): it leaves the session, runs on a thread of
//! the engine's choice, and comes back as [`Event::Outcome`]. Effects beyond the session's own
//! output go through [`Cx`]: bytes for another session, a bell, a count, a note.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use crate::{Effects, Instant, NoPush, Out, PushRefused, SessionId, Share, WorkerId};

/// A protocol with its state, written once, for every architecture.
///
/// Each method gets the outside world as values ([`Cx`]) and appends to an output that the engine
/// owns ([`Out`]). Only [`Service::work`] may block.
pub trait Service: Sync {
    /// The state that all workers share; the launcher places it.
    type State: Share;
    /// The memory of one connection: plain data.
    type Session: Send + 'static;
    /// The job of [`Then::Offload`]; an empty enum if there is none.
    type Job: Send + 'static;
    /// The result of a job, which comes back as [`Event::Outcome`].
    type Outcome: Send + 'static;

    /// The limits of a connection.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// The time that a new connection may wait before its first step; then it gets
    /// [`Event::Deadline`]. `None`: only the engine's idle limit counts.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Whether the service asks before each request ([`Cx::admit`]) and can refuse it in the words
    /// of its protocol.
    fn refuses(&self) -> bool {
        false
    }

    /// Whether the service keeps state outside of [`Service::State`], such as values that a closure
    /// has captured. Each worker process would change a copy, so engines with worker processes
    /// refuse such a service.
    fn keeps_state(&self) -> bool {
        false
    }

    /// A peer has connected. The service may append a greeting to `out`.
    fn open(&self, cx: &Cx<'_, Self::State>, peer: Peer, out: &mut Out) -> Self::Session;

    /// The session that has just been opened came without the encryption that a layer around the
    /// service offers. By default that changes nothing.
    fn unsealed(&self, session: &mut Self::Session) {
        let _ = session;
    }

    /// Handles an event of the session: appends replies and returns the next step.
    fn step(
        &self,
        cx: &Cx<'_, Self::State>,
        session: &mut Self::Session,
        event: Event<'_, Self::Outcome>,
        out: &mut Out,
    ) -> Step<Self::Job>;

    /// Works on a job: may block, has no access to a session, runs on a
    /// thread of the engine's choice.
    fn work(&self, state: &Self::State, job: Self::Job) -> Self::Outcome;

    /// Appends what another session has pushed to this one ([`Cx::push`]). A service around another
    /// frames or encrypts it, as it does the output of a step.
    ///
    /// # Errors
    /// There is no room for it.
    fn push(
        &self,
        cx: &Cx<'_, Self::State>,
        session: &mut Self::Session,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), PushRefused> {
        let _ = (cx, session);
        out.bytes().extend_from_slice(bytes);
        Ok(())
    }

    /// The session has ended; called exactly once for each [`Service::open`].
    fn close(&self, cx: &Cx<'_, Self::State>, session: Self::Session, why: Closed) {
        let _ = (cx, session, why);
    }

    /// Work that belongs to no session: one worker calls it at its start, and again at the moment
    /// that it returns. `None` ends that.
    fn tick(&self, cx: &Cx<'_, Self::State>) -> Option<Instant> {
        let _ = cx;
        None
    }
}

/// The outside world of one call, as values.
#[derive(Debug)]
pub struct Cx<'a, T> {
    /// The time of this turn; never decreases for a session.
    pub now: Instant,
    /// The session of this step; [`SessionId::NONE`] in a tick.
    pub me: SessionId,
    /// The worker that runs this call.
    pub worker: WorkerId,
    /// The state that all workers share.
    pub state: &'a T,
    effects: &'a Effects,
    unsent: usize,
}

impl<'a, T> Cx<'a, T> {
    /// The context of one call.
    pub fn new(
        now: Instant,
        me: SessionId,
        worker: WorkerId,
        state: &'a T,
        effects: &'a Effects,
    ) -> Cx<'a, T> {
        Cx { now, me, worker, state, effects, unsent: 0 }
    }

    /// The same context with another state.
    #[inline]
    pub fn on<U>(&self, state: &'a U) -> Cx<'a, U> {
        let Cx { now, me, worker, effects, unsent, .. } = *self;
        Cx { now, me, worker, state, effects, unsent }
    }

    /// The same context for the end of a session whose last `bytes` of output are dropped.
    pub(crate) fn dropping(&self, bytes: usize) -> Cx<'a, T> {
        Cx { unsent: self.unsent + bytes, ..*self }
    }

    /// In [`Service::close`]: the bytes of output that the connection did not take any more.
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// Requests that `bytes` be appended to the output of session `to`, without stepping it. The
    /// engine drops and counts bytes for a session that is gone or whose output is full.
    ///
    /// # Errors
    /// [`NoPush`] if the engine cannot carry bytes between sessions.
    pub fn push(&self, to: SessionId, bytes: &[u8]) -> Result<(), NoPush> {
        self.effects.push(to, bytes)
    }

    /// Rings the streaming workers' bell after this turn: an order in the state has changed
    /// ([`crate::PacedSource::rung`]). Without a streaming worker the bell has no effect.
    pub fn ring(&self) {
        self.effects.ring();
    }

    /// Counts requests, as the protocol defines them, as answered; the scoreboard shows the count
    /// next to bytes and connections. It costs one addition in the worker's own memory.
    #[inline]
    pub fn answered(&self, count: u64) {
        self.effects.answered(count);
    }

    /// Whether the request that begins now may be executed. If not, the server is overloaded,
    /// the request is counted as refused, and the service answers it with its protocol's refusal,
    /// which must cost much less than the request. A service that asks says so
    /// ([`Service::refuses`]).
    #[inline]
    pub fn admit(&self) -> bool {
        self.effects.admit()
    }

    /// When a request that begins or goes on now is overdue.
    pub(crate) fn request_ends(&self) -> Instant {
        self.effects.request_time().map_or(Instant::NEVER, |time| self.now + time)
    }

    /// Writes a line for `--verbose`; `write` runs only if that is on.
    pub fn note(&self, write: impl FnOnce(&mut String)) {
        self.effects.note(write);
    }

    /// Writes a line that the operator needs also without `--verbose`. A client must not be able to
    /// repeat it without end.
    pub fn warn(&self, write: impl FnOnce(&mut String)) {
        self.effects.warn(write);
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An Internet address and port.
    Net(SocketAddr),
    /// This machine, without an address: a socket pair or a simulation.
    Local,
}

/// An event of a session.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a, O> {
    /// All input not yet used, oldest first; never empty. The step returns how many bytes it used,
    /// and is offered the rest again: at once if it made progress, else together with later input.
    Bytes(&'a [u8]),
    /// The output fell to [`Limits::output_low`] after it was full, or after [`Then::Pause`].
    Room,
    /// The last requested [`Step::wake`] has come.
    Deadline,
    /// The peer will send no more; delivered once, after all its input was offered.
    Eof,
    /// The server is shutting down: finish and close. Delivered once, after all input was offered.
    Drain,
    /// The result of the job of [`Then::Offload`].
    Outcome(O),
}

/// The result of a step, and its wishes.
#[derive(Debug, PartialEq, Eq)]
pub struct Step<J> {
    /// The number of bytes of [`Event::Bytes`] used; 0 for every other event.
    pub used: usize,
    /// The continuation.
    pub then: Then<J>,
    /// The session's only deadline from here on; `None` removes an earlier one.
    pub wake: Option<Instant>,
}

impl<J> Step<J> {
    /// `used` bytes were used; offer more.
    pub fn read(used: usize) -> Step<J> {
        Step { used, then: Then::Read, wake: None }
    }

    /// `used` bytes were used; offer no more until [`Event::Room`] or [`Event::Deadline`].
    pub fn pause(used: usize) -> Step<J> {
        Step { used, then: Then::Pause, wake: None }
    }

    /// `used` bytes were used; flush the output, then close.
    pub fn close(used: usize) -> Step<J> {
        Step { used, then: Then::Close, wake: None }
    }

    /// `used` bytes were used; offer nothing until the outcome of `job` is back.
    pub fn offload(used: usize, job: J) -> Step<J> {
        Step { used, then: Then::Offload(job), wake: None }
    }

    /// The same step with a deadline.
    pub fn wake_at(self, wake: Instant) -> Step<J> {
        Step { wake: Some(wake), ..self }
    }
}

/// The continuation after a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Then<J> {
    /// Offer more input.
    Read,
    /// Offer no input until the step for [`Event::Room`] or [`Event::Deadline`] returns another
    /// value. For rate limits and for bodies made piece by piece; back-pressure does not need it.
    Pause,
    /// Flush, then close; the session is not stepped again.
    Close,
    /// Work on this job and return its [`Event::Outcome`]; later input waits.
    Offload(J),
}

/// The limits of one connection, in bytes, and of the server, in connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A step that uses no byte of this much input ends the connection ([`Closed::Overlong`]).
    pub input_max: usize,
    /// With this much unsent output, the engine offers no input.
    pub output_high: usize,
    /// The engine offers input again when the unsent output has fallen to this.
    pub output_low: usize,
    /// The maximum number of connections at once in the whole server.
    pub sessions_max: usize,
}

impl Default for Limits {
    /// 64 KiB of input, which is one receive of the engines; four times as much output; 65,536
    /// connections.
    fn default() -> Limits {
        Limits {
            input_max: 64 * 1024,
            output_high: 256 * 1024,
            output_low: 64 * 1024,
            sessions_max: 1 << 16,
        }
    }
}

impl Limits {
    /// These limits with at most `most` bytes of output, for a layer that holds output too.
    #[must_use]
    pub fn within_output(self, most: usize) -> Limits {
        Limits {
            output_high: self.output_high.min(most),
            output_low: self.output_low.min(most / 4),
            ..self
        }
    }
}

/// The reason that a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// The service returned [`Then::Close`].
    Service,
    /// The peer reset the connection or it failed.
    Reset,
    /// No bytes moved for the engine's idle limit.
    Idle,
    /// The peer took no output for the engine's write-stall limit.
    Stalled,
    /// The server's memory for connections was used up, and this one was of least use.
    Shed,
    /// A message exceeded [`Limits::input_max`].
    Overlong,
    /// The server drained and the deadline passed, or it was stopped twice.
    Forced,
}

/// A borrowed or shared service is a service: a test can watch it and keep it, and a service around
/// it can hold it.
macro_rules! pass_on {
    ($holder:ty: $($bound:tt)+) => {
        impl<S: $($bound)+> Service for $holder {
            type State = S::State;
            type Session = S::Session;
            type Job = S::Job;
            type Outcome = S::Outcome;

            fn limits(&self) -> Limits {
                (**self).limits()
            }

            fn patience(&self) -> Option<Duration> {
                (**self).patience()
            }

            fn refuses(&self) -> bool {
                (**self).refuses()
            }

            fn keeps_state(&self) -> bool {
                (**self).keeps_state()
            }

            fn open(&self, cx: &Cx<'_, S::State>, peer: Peer, out: &mut Out) -> S::Session {
                (**self).open(cx, peer, out)
            }

            #[inline]
            fn step(
                &self,
                cx: &Cx<'_, S::State>,
                session: &mut S::Session,
                event: Event<'_, S::Outcome>,
                out: &mut Out,
            ) -> Step<S::Job> {
                (**self).step(cx, session, event, out)
            }

            fn work(&self, state: &S::State, job: S::Job) -> S::Outcome {
                (**self).work(state, job)
            }

            fn push(
                &self,
                cx: &Cx<'_, S::State>,
                session: &mut S::Session,
                bytes: &[u8],
                out: &mut Out,
            ) -> Result<(), PushRefused> {
                (**self).push(cx, session, bytes, out)
            }

            fn unsealed(&self, session: &mut S::Session) {
                (**self).unsealed(session);
            }

            fn close(&self, cx: &Cx<'_, S::State>, session: S::Session, why: Closed) {
                (**self).close(cx, session, why);
            }

            fn tick(&self, cx: &Cx<'_, S::State>) -> Option<Instant> {
                (**self).tick(cx)
            }
        }
    };
}

pass_on!(&S: Service + ?Sized);
pass_on!(Arc<S>: Service + Send);
