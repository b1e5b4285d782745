//! How a stream of bytes is cut into messages, and how a reply ends.

use seam::{Cx, Share};
use wire::line::{self, Next};

use crate::messages::{After, Handler, Messages, Prompt, ReplyBuffer, Slow};

/// The front of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<'a> {
    /// A whole message, and the bytes of input that it used, its marks included.
    Message(&'a [u8], usize),
    /// No whole message yet.
    More,
    /// No message, whatever follows: the peer gets this text and the connection closes.
    Bad(&'static str),
}

/// A way to cut a stream into messages, and to mark the end of a reply. [`Lines`],
/// [`FixedFrames`] and [`PrefixedFrames`] are such ways; your own protocol is another.
pub trait Frames: Sized + Sync {
    /// The longest message, in bytes, its marks included.
    fn longest(&self) -> usize;

    /// The message at the front of `input`, which is not empty.
    fn cut<'a>(&self, input: &'a [u8]) -> Cut<'a>;

    /// Marks the reply that begins at `start` in `out`; false if it does not fit into a frame.
    fn finish(&self, out: &mut Vec<u8>, start: usize) -> bool;

    /// Answers each message by a function that shares nothing.
    fn reply<R: Into<After>>(
        self,
        answer: impl Fn(&[u8], &mut ReplyBuffer<'_>) -> R + Send + Sync + 'static,
    ) -> Messages<Self, (), impl Handler<()>> {
        self.reply_with(move |_: &Cx<'_, ()>, message: &[u8], reply: &mut ReplyBuffer<'_>| {
            answer(message, reply)
        })
    }

    /// Answers each message by a function that also gets the context of the call: the time, the
    /// session, the worker, and the state that all workers share.
    fn reply_with<T: Share, R: Into<After>>(
        self,
        answer: impl Fn(&Cx<'_, T>, &[u8], &mut ReplyBuffer<'_>) -> R + Send + Sync + 'static,
    ) -> Messages<Self, T, impl Handler<T>> {
        Messages::new(self, Prompt(answer))
    }

    /// Answers each message by a function that may block: it runs on a helper thread of the
    /// engine, and the connection's later messages wait for it. Other connections do not.
    fn offload<T: Share, R: Into<After>>(
        self,
        answer: impl Fn(&T, &[u8], &mut ReplyBuffer<'_>) -> R + Send + Sync + 'static,
    ) -> Messages<Self, T, impl Handler<T>> {
        Messages::new(self, Slow(answer))
    }
}

/// Lines of up to this many bytes that end with `\n`, or with `\r\n`. A message is a line without
/// its end; a reply gets a `\n`. A last line without its end is not answered, because it may be a
/// part of a longer one. A line of HTTP closes the connection: otherwise a web page could post
/// lines to the port from a browser on its machine.
#[derive(Clone, Copy, Debug)]
pub struct Lines(pub usize);

impl Frames for Lines {
    fn longest(&self) -> usize {
        self.0
    }

    #[inline]
    fn cut<'a>(&self, input: &'a [u8]) -> Cut<'a> {
        match line::next(input, self.0) {
            Next::Line { text, .. } if line::is_http(text) => {
                Cut::Bad("error: expected a line, found a request of HTTP, as browsers send\n")
            }
            Next::Line { text, used } => Cut::Message(text, used),
            Next::More => Cut::More,
            Next::TooLong => Cut::Bad("error: expected a shorter line\n"),
        }
    }

    #[inline]
    fn finish(&self, out: &mut Vec<u8>, _start: usize) -> bool {
        out.push(b'\n');
        true
    }
}

/// Messages and replies of this many bytes, at least 1. A shorter reply is padded with zeros; a
/// longer one is a fault of the service and ends the connection.
#[derive(Clone, Copy, Debug)]
pub struct FixedFrames(pub usize);

impl Frames for FixedFrames {
    fn longest(&self) -> usize {
        self.0
    }

    fn cut<'a>(&self, input: &'a [u8]) -> Cut<'a> {
        input.get(..self.0).map_or(Cut::More, |message| Cut::Message(message, self.0))
    }

    fn finish(&self, out: &mut Vec<u8>, start: usize) -> bool {
        let fits = out.len() - start <= self.0;
        out.resize(start + self.0, 0);
        fits
    }
}

/// Messages of up to this many bytes, and replies, after their length: four bytes, big-endian,
/// which do not count themselves.
#[derive(Clone, Copy, Debug)]
pub struct PrefixedFrames(pub usize);

impl Frames for PrefixedFrames {
    fn longest(&self) -> usize {
        4 + self.0
    }

    fn cut<'a>(&self, input: &'a [u8]) -> Cut<'a> {
        let Some((prefix, rest)) = input.split_first_chunk() else { return Cut::More };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > self.0 {
            return Cut::Bad("");
        }
        rest.get(..len).map_or(Cut::More, |message| Cut::Message(message, 4 + len))
    }

    fn finish(&self, out: &mut Vec<u8>, start: usize) -> bool {
        let Ok(len) = u32::try_from(out.len() - start) else { return false };
        out.splice(start..start, len.to_be_bytes());
        true
    }
}
