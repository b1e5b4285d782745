//! Services from plain functions: one call a message.

use core::fmt;
use std::io::Write;

use seam::{Closed, Cx, Event, Limits, Out, Peer, Service, Share, Step};

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
) -> Messages<Lines, ()> {
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
}

impl ReplyBuffer<'_> {
    /// Appends bytes or text.
    pub fn put(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.out.extend_from_slice(bytes.as_ref());
        self
    }

    /// Appends the digits of a number.
    pub fn number(&mut self, number: u64) -> &mut Self {
        wire::decimal::push(self.out, number);
        self
    }

    /// Appends anything that can be displayed.
    pub fn show(&mut self, value: impl fmt::Display) -> &mut Self {
        write!(self.out, "{value}").expect("a Vec takes every byte");
        self
    }

    /// The last word of a function that sends its reply.
    pub fn sent(&mut self) -> After {
        After::Send
    }
}

type Now<T> = Box<dyn Fn(&Cx<'_, T>, &[u8], &mut ReplyBuffer<'_>) -> After + Send + Sync>;
type Slow<T> = Box<dyn Fn(&T, &[u8], &mut ReplyBuffer<'_>) -> After + Send + Sync>;
/// A function that is called for a connection, without a message.
type Hook<T> = fn(&Cx<'_, T>, &mut ReplyBuffer<'_>) -> After;

/// A service of messages, one call each; [`Frames`] makes it.
pub struct Messages<C, T> {
    frames: C,
    now: Option<Now<T>>,
    slow: Option<Slow<T>>,
    /// The limits of a connection; `input_max` must exceed the longest message.
    pub limits: Limits,
    /// Greets each connection with a message.
    pub on_open: Option<Hook<T>>,
    /// Called once for each connection that has ended.
    pub on_close: Option<fn(&Cx<'_, T>)>,
}

impl<C: Frames, T: Share> Messages<C, T> {
    pub(crate) fn new(frames: C, now: Option<Now<T>>, slow: Option<Slow<T>>) -> Messages<C, T> {
        // A whole message, and what comes with it in one receive.
        let input_max = 2 * (frames.longest() + 1);
        assert!(input_max > 2, "expected frames of at least one byte");
        let limits = Limits { input_max, ..Limits::default() };
        Messages { frames, now, slow, limits, on_open: None, on_close: None }
    }

    /// Lets `write` append one message; false if the connection must close.
    fn append(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut ReplyBuffer<'_>) -> After) -> bool {
        let start = out.len();
        let after = write(&mut ReplyBuffer { out });
        let fits = after != After::Silence && self.frames.finish(out, start);
        if !fits {
            out.truncate(start);
        }
        after == After::Silence || (fits && after == After::Send)
    }

    fn answer(&self, cx: &Cx<'_, T>, input: &[u8], out: &mut Out) -> Step<Vec<u8>> {
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
            let Some(now) = &self.now else { return Step::offload(used, message.to_vec()) };
            if !self.append(out.bytes(), |reply| now(cx, message, reply)) {
                return Step::close(used);
            }
        }
        Step::read(used)
    }
}

impl<C: Frames, T: Share> Service for Messages<C, T> {
    type State = T;
    type Session = ();
    type Job = Vec<u8>;
    /// A framed reply, and whether the connection stays open.
    type Outcome = (Vec<u8>, bool);

    fn limits(&self) -> Limits {
        self.limits
    }

    fn open(&self, cx: &Cx<'_, T>, _peer: Peer, out: &mut Out) {
        if let Some(greet) = self.on_open {
            self.append(out.bytes(), |reply| greet(cx, reply));
        }
    }

    fn step(
        &self,
        cx: &Cx<'_, T>,
        _session: &mut (),
        event: Event<'_, (Vec<u8>, bool)>,
        out: &mut Out,
    ) -> Step<Vec<u8>> {
        match event {
            Event::Bytes(input) => self.answer(cx, input, out),
            Event::Room | Event::Deadline => Step::read(0),
            Event::Eof | Event::Drain => Step::close(0),
            Event::Outcome((reply, goes_on)) => {
                out.bytes().extend_from_slice(&reply);
                if goes_on { Step::read(0) } else { Step::close(0) }
            }
        }
    }

    fn work(&self, state: &T, message: Vec<u8>) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let work = |reply: &mut ReplyBuffer<'_>| match &self.slow {
            Some(slow) => slow(state, &message, reply),
            None => After::Silence,
        };
        let goes_on = self.append(&mut out, work);
        (out, goes_on)
    }

    fn close(&self, cx: &Cx<'_, T>, _session: (), _why: Closed) {
        if let Some(leave) = self.on_close {
            leave(cx);
        }
    }
}
