//! Services from plain functions: one call a message.
//!
//! `Messages` adapts a function to the trait `Service`, so it runs on every engine and in the
//! simulator. A step cuts one message after the other from the input (`Frames`), calls the function
//! with a `ReplyBuffer` that appends to the connection's output, and frames the reply in place; it
//! stops when the output is full, and the engine offers the rest of the input again. A function for
//! slow work becomes a job: the message is copied, a helper runs the function, and the reply comes
//! back as an outcome. The session is one moment, that of the timer. A function with captured
//! values is refused by engines with processes, because each process would change a copy.

use core::convert::Infallible;
use core::fmt;
use core::time::Duration;
use std::io::Write;

use seam::{Closed, Cx, Event, Instant, Limits, Out, Peer, Service, Share, Step, Then};

use crate::frames::{Cut, Frames, Lines};

/// A service of lines of up to 8 KiB from a function that appends the answer to `reply`; the line
/// comes without its end, and the answer gets one. [`Frames`] has variants with a shared state and
/// for slow work.
///
/// ```
/// use roundhouse::prelude::*;
///
/// let shout = lines(|line, reply| {
///     reply.put(line.to_ascii_uppercase());
/// });
/// roundhouse::sim::check(&shout, "> hello\n< HELLO\n", 20);
/// ```
pub fn lines<R: Into<After>>(
    answer: impl Fn(&[u8], &mut ReplyBuffer<'_>) -> R + Send + Sync + 'static,
) -> Messages<Lines, (), impl Handler<()>> {
    Lines(8 * 1024).reply(answer)
}

/// The action after an answer. A function that returns `()` sends its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The reply is sent, even if it is empty.
    Send,
    /// Nothing is sent.
    Silence,
    /// The reply is sent, then the connection closes.
    Close,
}

impl From<()> for After {
    fn from((): ()) -> After {
        After::Send
    }
}

/// The place for one reply: values are appended.
#[derive(Debug)]
pub struct ReplyBuffer<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// The connection's timer; only services of messages have one.
    pub(crate) wake: Option<&'a mut Instant>,
}

impl ReplyBuffer<'_> {
    /// Appends bytes or text.
    pub fn put(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.out.extend_from_slice(bytes.as_ref());
        self
    }

    /// Appends the digits of a number.
    #[inline]
    pub fn number(&mut self, number: u64) -> &mut Self {
        wire::decimal::push(self.out, number);
        self
    }

    /// Appends anything that can be displayed.
    pub fn show(&mut self, value: impl fmt::Display) -> &mut Self {
        write!(self.out, "{value}").expect("a Vec takes every byte");
        self
    }

    /// Sets the connection's only timer: [`Messages::on_timer`] is called at this moment, or when
    /// the peer has then taken enough of the output. It stays set whatever messages come;
    /// [`Instant::NEVER`] stops it.
    ///
    /// # Panics
    /// In an answer to a datagram or to a request of HTTP.
    pub fn wake_at(&mut self, moment: Instant) -> &mut Self {
        **self.wake.as_mut().expect("a service of lines or frames has a timer") = moment;
        self
    }

    /// Appends a server-sent event (HTML standard, section 9.2) with this text; each line of it is
    /// a line `data:`. A text that is empty keeps the connection alive.
    pub fn event(&mut self, text: impl AsRef<str>) -> &mut Self {
        let text = text.as_ref();
        if text.is_empty() {
            return self.put(":\n\n");
        }
        for line in text.lines() {
            self.put("data: ").put(line).put("\n");
        }
        self.put("\n")
    }

    /// The last word of a function that sends its reply.
    pub fn sent(&mut self) -> After {
        After::Send
    }
}

/// The function of a service of messages. The service is compiled for it, without a pointer.
pub trait Handler<T>: Send + Sync + 'static {
    /// A message on its way to a helper thread; a type without values if none goes there.
    type Job: Send + 'static;

    /// Answers a message, or makes a job of it.
    ///
    /// # Errors
    /// The job, for a helper thread.
    fn call(
        &self,
        cx: &Cx<'_, T>,
        message: &[u8],
        reply: &mut ReplyBuffer<'_>,
    ) -> Result<After, Self::Job>;

    /// Answers a message on a helper thread.
    fn work(&self, state: &T, job: Self::Job, reply: &mut ReplyBuffer<'_>) -> After;
}

/// Answers at once.
pub(crate) struct Prompt<F>(pub F);

impl<T, F, R: Into<After>> Handler<T> for Prompt<F>
where
    F: Fn(&Cx<'_, T>, &[u8], &mut ReplyBuffer<'_>) -> R + Send + Sync + 'static,
{
    type Job = Infallible;

    #[inline]
    fn call(
        &self,
        cx: &Cx<'_, T>,
        message: &[u8],
        reply: &mut ReplyBuffer<'_>,
    ) -> Result<After, Infallible> {
        Ok((self.0)(cx, message, reply).into())
    }

    fn work(&self, _: &T, job: Infallible, _: &mut ReplyBuffer<'_>) -> After {
        match job {}
    }
}

/// Answers on a helper thread.
pub(crate) struct Slow<F>(pub F);

impl<T, F, R: Into<After>> Handler<T> for Slow<F>
where
    F: Fn(&T, &[u8], &mut ReplyBuffer<'_>) -> R + Send + Sync + 'static,
{
    type Job = Vec<u8>;

    fn call(&self, _: &Cx<'_, T>, job: &[u8], _: &mut ReplyBuffer<'_>) -> Result<After, Vec<u8>> {
        Err(job.to_vec())
    }

    fn work(&self, state: &T, job: Vec<u8>, reply: &mut ReplyBuffer<'_>) -> After {
        (self.0)(state, &job, reply).into()
    }
}

/// A function that is called for a connection, without a message.
type Hook<T> = fn(&Cx<'_, T>, &mut ReplyBuffer<'_>) -> After;

/// A service of messages, one call each; [`Frames`] makes it.
pub struct Messages<C, T, H> {
    frames: C,
    handler: H,
    keeps_state: bool,
    /// The limits of a connection; `input_max` must exceed the longest message.
    pub limits: Limits,
    /// Greets each connection with a message.
    pub on_open: Option<Hook<T>>,
    /// Called when a connection's timer has come ([`ReplyBuffer::wake_at`]); its message is sent as
    /// the answer to one is.
    pub on_timer: Option<Hook<T>>,
    /// Called once for each connection that has ended.
    pub on_close: Option<fn(&Cx<'_, T>)>,
}

impl<C: Frames, T: Share, H: Handler<T>> Messages<C, T, H> {
    pub(crate) fn new(frames: C, handler: H) -> Messages<C, T, H> {
        // A whole message, and what comes with it in one receive.
        let input_max = 2 * (frames.longest() + 1);
        assert!(input_max > 2, "expected frames of at least one byte");
        let limits = Limits { input_max, ..Limits::default() };
        // A function without captures has no size.
        let keeps_state = size_of::<H>() > 0;
        let (on_open, on_timer, on_close) = (None, None, None);
        Messages { frames, handler, keeps_state, limits, on_open, on_timer, on_close }
    }

    /// The values that the function has captured never change, so that each worker process may have
    /// a copy of them. Without this word such a service is refused by engines with worker processes
    /// ([`Service::keeps_state`]).
    #[must_use]
    pub fn constant(self) -> Self {
        Messages { keeps_state: false, ..self }
    }

    /// Lets `write` append one message; false if the connection must close.
    #[inline]
    fn append(
        &self,
        out: &mut Vec<u8>,
        wake: &mut Instant,
        write: impl FnOnce(&mut ReplyBuffer<'_>) -> After,
    ) -> bool {
        let start = out.len();
        let after = write(&mut ReplyBuffer { out, wake: Some(wake) });
        let fits = after != After::Silence && self.frames.finish(out, start);
        if !fits {
            out.truncate(start);
        }
        after == After::Silence || (fits && after == After::Send)
    }

    #[inline]
    fn answer(
        &self,
        cx: &Cx<'_, T>,
        wake: &mut Instant,
        input: &[u8],
        out: &mut Out,
    ) -> Step<H::Job> {
        let mut used = 0;
        while used < input.len() && !out.is_full() {
            let (message, len) = match self.frames.cut(&input[used..]) {
                Cut::Message(message, len) => (message, len),
                Cut::More => break,
                Cut::Bad(why) => {
                    out.bytes().extend_from_slice(why.as_bytes());
                    return Step::close(input.len());
                }
            };
            assert!(len > 0, "expected `Frames::cut` to use input for a message");
            used += len;
            cx.answered(1);
            let mut job = None;
            let goes_on = self.append(out.bytes(), wake, |reply| {
                let called = self.handler.call(cx, message, reply);
                called.unwrap_or_else(|slow| {
                    job = Some(slow);
                    After::Silence
                })
            });
            if let Some(job) = job {
                return Step::offload(used, job);
            }
            if !goes_on {
                return Step::close(used);
            }
        }
        Step::read(used)
    }
}

impl<C: Frames, T: Share, H: Handler<T>> Service for Messages<C, T, H> {
    type State = T;
    /// The moment of the timer.
    type Session = Instant;
    type Job = H::Job;
    /// A framed reply, whether the connection stays open, and the moment of the timer if it is set.
    type Outcome = (Vec<u8>, bool, Option<Instant>);

    fn limits(&self) -> Limits {
        self.limits
    }

    fn patience(&self) -> Option<Duration> {
        // A timer that `on_open` has set is known from the first step on.
        self.on_timer.is_some().then_some(Duration::ZERO)
    }

    fn keeps_state(&self) -> bool {
        self.keeps_state
    }

    fn open(&self, cx: &Cx<'_, T>, _peer: Peer, out: &mut Out) -> Instant {
        let mut wake = Instant::NEVER;
        if let Some(greet) = self.on_open {
            self.append(out.bytes(), &mut wake, |reply| greet(cx, reply));
        }
        wake
    }

    fn step(
        &self,
        cx: &Cx<'_, T>,
        wake: &mut Instant,
        event: Event<'_, Self::Outcome>,
        out: &mut Out,
    ) -> Step<H::Job> {
        let mut step = match event {
            Event::Bytes(input) => self.answer(cx, wake, input, out),
            Event::Room | Event::Deadline => Step::read(0),
            Event::Eof | Event::Drain => return Step::close(0),
            Event::Outcome((reply, goes_on, timer)) => {
                out.bytes().extend_from_slice(&reply);
                *wake = timer.unwrap_or(*wake);
                if goes_on { Step::read(0) } else { Step::close(0) }
            }
        };
        let Some(timer) = self.on_timer.filter(|_| *wake != Instant::NEVER) else { return step };
        // With a full output the timer waits for `Event::Room`.
        if !out.is_full() {
            if *wake <= cx.now && matches!(step.then, Then::Read) {
                *wake = Instant::NEVER;
                if !self.append(out.bytes(), wake, |reply| timer(cx, reply)) {
                    step.then = Then::Close;
                }
            }
            step.wake = Some(*wake).filter(|wake| *wake != Instant::NEVER);
        }
        step
    }

    fn work(&self, state: &T, job: H::Job) -> Self::Outcome {
        let (mut out, unset) = (Vec::new(), Instant::from_ns(0));
        let mut wake = unset;
        let work = |reply: &mut ReplyBuffer<'_>| self.handler.work(state, job, reply);
        let goes_on = self.append(&mut out, &mut wake, work);
        (out, goes_on, Some(wake).filter(|wake| *wake != unset))
    }

    fn close(&self, cx: &Cx<'_, T>, _timer: Instant, _why: Closed) {
        if let Some(leave) = self.on_close {
            leave(cx);
        }
    }
}
