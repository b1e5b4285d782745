//! Conversations longer than a request and its reply: bodies in pieces, WebSockets.

use seam::{Event, Share, Step};
use wire::http::reply::CONTINUE;
use wire::http::{Body, Head, head};

use super::message::{HttpResponse, with_request};
use super::{Answer, Http, Next, Refusal, SlowRequest, Turn, refusal, too_long};
use crate::reply::HttpError;
use crate::upload::{Arriving, Rest, Taken, Upload};

/// A request whose body is collected.
#[derive(Debug)]
pub(super) struct Pending {
    pub head: Vec<u8>,
    pub body: Vec<u8>,
    pub rest: Rest,
}

impl Pending {
    /// Takes bytes of the body; returns how many, and whether it is whole.
    pub fn take(&mut self, input: &[u8], body_max: usize) -> Result<(usize, bool), Refusal> {
        let mut used = 0;
        loop {
            let (data, len, is_whole) = self.rest.next(&input[used..]).map_err(refusal)?;
            used += len;
            self.body.extend_from_slice(data);
            if self.body.len() > body_max {
                return Err(too_long());
            }
            if is_whole || len == 0 {
                return Ok((used, is_whole));
            }
        }
    }
}

impl<T: Share> Http<T> {
    /// The longest body of a request whose route takes it piece by piece.
    pub(super) fn upload_room(&self, head: &Head<'_>) -> Option<u64> {
        let Answer::Routes(routes) = &self.answer else { return None };
        let room = (routes.takes_uploads && head.body != Body::Length(0))
            .then(|| with_request(head, b"", |request| routes.upload_room(&request)));
        room?.ok()?
    }
}

impl<T: Share> Turn<'_, '_, T> {
    /// Takes the body of a request from now on.
    pub(super) fn begin_upload(
        &mut self,
        (head, bytes): (&Head<'_>, &[u8]),
        (upload, room): (Upload<T>, u64),
        response: &mut HttpResponse,
    ) -> Result<Next, Refusal> {
        let fields = std::mem::take(&mut response.fields);
        let (rest, wake) = (Rest::of(head.body), self.cx.now);
        let head_bytes = bytes.to_vec();
        let arriving = Arriving { head: head_bytes, upload, fields, rest, room, fresh: 0, wake };
        if matches!(arriving.rest, Rest::Bytes(0)) {
            return self.end_upload((arriving, Ok(()), true), head.len, response);
        }
        if head.expects {
            self.out.bytes().extend_from_slice(CONTINUE);
        }
        self.out.note_kept(arriving.head.len());
        self.session.upload = Some(Box::new(arriving));
        Ok(Next::Go(head.len))
    }

    /// Passes a piece of a body on.
    pub(super) fn go_on_upload(
        &mut self,
        input: &[u8],
        response: &mut HttpResponse,
    ) -> Result<Next, Refusal> {
        let Turn { http, cx, session, .. } = self;
        let Some(mut arriving) = session.upload.take() else { return Ok(Next::Wait(0)) };
        let (used, taken) = arriving.take(cx, input).map_err(refusal)?;
        match taken {
            Taken::TooLong => return Err(too_long()),
            Taken::End(taken, is_whole) => {
                return self.end_upload((*arriving, taken, is_whole), used, response);
            }
            Taken::Piece => {}
        }
        let waits = arriving.wake > cx.now;
        if waits || arriving.fresh >= http.body_max {
            arriving.fresh = 0;
            session.until = cx.now.max(arriving.wake) + http.patience;
        }
        session.upload = Some(arriving);
        Ok(if waits || used == 0 { Next::Wait(used) } else { Next::Go(used) })
    }

    /// Replies to a request whose body has come, or is not wanted any more.
    fn end_upload(
        &mut self,
        (arriving, taken, is_whole): (Arriving<T>, Result<(), HttpError>, bool),
        used: usize,
        response: &mut HttpResponse,
    ) -> Result<Next, Refusal> {
        self.out.note_kept(0);
        let head = head::next(&arriving.head, &head::Limits::default()).map_err(refusal)?;
        let head = head.expect("a head that was whole before its body came");
        response.clear();
        if let Answer::Routes(routes) = &self.http.answer {
            let ended = (arriving.upload, taken);
            with_request(&head, b"", |request| {
                routes.end_upload(self.cx, request, ended, response)
            })?;
        }
        response.fields.extend_from_slice(&arriving.fields);
        let mode = (head.version, head.keep_alive && !self.session.is_last && is_whole);
        Ok(self.reply(&head, (response, mode), used))
    }

    /// Sends more of a streamed body. The connection reads on when it has ended.
    pub(super) fn go_on(&mut self, used: usize) -> Step<SlowRequest> {
        let Turn { http, cx, session, out } = self;
        let Some(stream) = &mut session.stream else { return Step::read(used) };
        match stream.fill(cx, out) {
            // A later request waits, and with it the news that the client will send no more.
            Some(wake) if stream.holds_input => Step::pause(used).wake_at(wake),
            Some(wake) => Step::read(used).wake_at(wake),
            None => {
                let keep_alive = stream.keep_alive && !session.is_last;
                (session.stream, session.until) = (None, cx.now + http.patience);
                match keep_alive {
                    true => Step::read(used).wake_at(session.until),
                    false => Step::close(used),
                }
            }
        }
    }

    /// Gives a WebSocket the input that came with its request.
    pub(super) fn go_on_talking(&mut self, input: &[u8], used: usize) -> Step<SlowRequest> {
        let Some(socket) = &mut self.session.socket else { return Step::read(used) };
        let step = socket.step(self.cx, Event::<()>::Bytes(&input[used..]), self.out);
        Step { used: used + step.used, ..step }
    }
}
