//! The body of a request that a route takes piece by piece, so that it may be longer than memory.
//!
//! The connection is the back-pressure: a piece is offered when the one before was taken, and a
//! function that says [`Flow::At`] stops the input until then. The time limit of a whole request
//! counts for each [`crate::Http::body_max`] bytes, so a long upload may take long and a slow one
//! may not.

use std::panic::{AssertUnwindSafe, catch_unwind};

use seam::{Cx, Instant};
use wire::http::{Bad, Body, Chunked};

use crate::call::Call;
use crate::http::HttpResponse;
use crate::reply::{HttpError, IntoReply};
use crate::stream::Flow;

/// The taker of a request's body.
pub struct Upload<T>(pub(crate) Box<dyn Take<T>>);

/// The function of a route for the pieces of a body, and for its end.
pub(crate) trait Take<T>: Send {
    fn take(&mut self, cx: &Cx<'_, T>, piece: &[u8]) -> Result<Flow, HttpError>;
    fn end(self: Box<Self>, cx: &Cx<'_, T>, call: &Call<'_>, response: &mut HttpResponse);
}

struct Fold<A, F, G>(A, F, G);

impl<T, A, R, F, G> Take<T> for Fold<A, F, G>
where
    A: Send,
    R: IntoReply,
    F: FnMut(&Cx<'_, T>, &mut A, &[u8]) -> Result<Flow, HttpError> + Send,
    G: FnOnce(&Cx<'_, T>, A) -> R + Send,
{
    fn take(&mut self, cx: &Cx<'_, T>, piece: &[u8]) -> Result<Flow, HttpError> {
        (self.1)(cx, &mut self.0, piece)
    }

    fn end(self: Box<Self>, cx: &Cx<'_, T>, call: &Call<'_>, response: &mut HttpResponse) {
        let Fold(value, _, end) = *self;
        end(cx, value).put(call, response);
    }
}

impl<T> Upload<T> {
    /// Adds each piece to a value by `add`, and makes the reply of it by `end`. `add` gets pieces
    /// as the network cuts them. It returns [`Flow::More`]; or [`Flow::At`], and the next piece
    /// comes at that moment; or [`Flow::End`], and the rest is not wanted.
    pub fn fold<A: Send + 'static, R: IntoReply + 'static>(
        value: A,
        add: impl FnMut(&Cx<'_, T>, &mut A, &[u8]) -> Result<Flow, HttpError> + Send + 'static,
        end: impl FnOnce(&Cx<'_, T>, A) -> R + Send + 'static,
    ) -> Upload<T> {
        Upload(Box::new(Fold(value, add, end)))
    }
}

/// The part of a body that has not come.
#[derive(Debug)]
pub(crate) enum Rest {
    Bytes(u64),
    Chunks(Chunked),
}

impl Rest {
    pub(crate) fn of(body: Body) -> Rest {
        match body {
            Body::Length(len) => Rest::Bytes(len),
            Body::Chunked => Rest::Chunks(Chunked::new()),
        }
    }

    /// The next piece of the body in `input`, how many bytes it used, and whether it is the last.
    pub(crate) fn next<'a>(&mut self, input: &'a [u8]) -> Result<(&'a [u8], usize, bool), Bad> {
        match self {
            Rest::Bytes(left) => {
                let len = (input.len() as u64).min(*left) as usize;
                *left -= len as u64;
                Ok((&input[..len], len, *left == 0))
            }
            Rest::Chunks(chunks) => {
                let piece = chunks.next(input)?;
                Ok((piece.data, piece.used, piece.end))
            }
        }
    }
}

/// An upload on its way.
pub(crate) struct Arriving<T> {
    /// The head of its request.
    pub head: Vec<u8>,
    pub upload: Upload<T>,
    /// Fields that layers have added to the reply.
    pub fields: Vec<u8>,
    pub rest: Rest,
    /// The bytes that the body may still have.
    pub room: u64,
    /// The bytes that have come since the time for the request was renewed.
    pub fresh: usize,
    /// No piece is wanted before this moment.
    pub wake: Instant,
}

/// The fate of a piece.
pub(crate) enum Taken {
    /// The body goes on.
    Piece,
    /// The body is longer than the route allows.
    TooLong,
    /// The function wants no more, or the body is whole if the flag says so.
    End(Result<(), HttpError>, bool),
}

impl<T> Arriving<T> {
    /// Takes a piece of the body from `input`, and returns how many bytes it used.
    pub(crate) fn take(&mut self, cx: &Cx<'_, T>, input: &[u8]) -> Result<(usize, Taken), Bad> {
        let (data, used, is_whole) = self.rest.next(input)?;
        let Some(room) = self.room.checked_sub(data.len() as u64) else {
            return Ok((used, Taken::TooLong));
        };
        (self.room, self.fresh) = (room, self.fresh + data.len());
        let mut taken = if is_whole { Taken::End(Ok(()), true) } else { Taken::Piece };
        if !data.is_empty() {
            let take = AssertUnwindSafe(|| self.upload.0.take(cx, data));
            match catch_unwind(take) {
                Ok(Ok(Flow::More)) => {}
                Ok(Ok(Flow::At(moment))) => self.wake = moment,
                Ok(Ok(Flow::End)) => taken = Taken::End(Ok(()), is_whole),
                Ok(Err(error)) => taken = Taken::End(Err(error), is_whole),
                Err(_) => {
                    engines::eprintln!("the function of an upload panicked: 500");
                    taken = Taken::End(Err(HttpError::new(500, "internal error")), is_whole);
                }
            }
        }
        Ok((used, taken))
    }
}
