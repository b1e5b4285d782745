//! Conversations longer than a request and its reply: bodies in pieces, WebSockets.

use seam::{Cx, Event, Out, Share, Step};
use wire::http::reply::CONTINUE;
use wire::http::{Body, Head, head};

use super::message::{HttpResponse, with_request};
use super::{Answer, Http, HttpSession, Next, Refusal, SlowRequest, refusal, too_long};
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

    /// Takes the body of a request from now on.
    pub(super) fn begin_upload(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession<T>,
        (head, bytes): (&Head<'_>, &[u8]),
        (upload, room): (Upload<T>, u64),
        (response, out): (&mut HttpResponse, &mut Out),
    ) -> Result<Next, Refusal> {
        let fields = std::mem::take(&mut response.fields);
        let (rest, wake) = (Rest::of(head.body), cx.now);
        let head_bytes = bytes.to_vec();
        let arriving = Arriving { head: head_bytes, upload, fields, rest, room, fresh: 0, wake };
        if matches!(arriving.rest, Rest::Bytes(0)) {
            let ended = (arriving, Ok(()), true);
            return self.end_upload(cx, session, ended, head.len, (response, out));
        }
        if head.expects {
            out.bytes().extend_from_slice(CONTINUE);
        }
        out.note_kept(arriving.head.len());
        session.upload = Some(Box::new(arriving));
        Ok(Next::Go(head.len))
    }

    /// Passes a piece of a body on.
    pub(super) fn go_on_upload(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession<T>,
        input: &[u8],
        (response, out): (&mut HttpResponse, &mut Out),
    ) -> Result<Next, Refusal> {
        let Some(mut arriving) = session.upload.take() else { return Ok(Next::Wait(0)) };
        let (used, taken) = arriving.take(cx, input).map_err(refusal)?;
        match taken {
            Taken::TooLong => return Err(too_long()),
            Taken::End(taken, is_whole) => {
                let ended = (*arriving, taken, is_whole);
                return self.end_upload(cx, session, ended, used, (response, out));
            }
            Taken::Piece => {}
        }
        let waits = arriving.wake > cx.now;
        if waits || arriving.fresh >= self.body_max {
            arriving.fresh = 0;
            session.until = cx.now.max(arriving.wake) + self.patience;
        }
        session.upload = Some(arriving);
        Ok(if waits || used == 0 { Next::Wait(used) } else { Next::Go(used) })
    }

    /// Replies to a request whose body has come, or is not wanted any more.
    fn end_upload(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession<T>,
        (arriving, taken, is_whole): (Arriving<T>, Result<(), HttpError>, bool),
        used: usize,
        (response, out): (&mut HttpResponse, &mut Out),
    ) -> Result<Next, Refusal> {
        out.note_kept(0);
        let head = head::next(&arriving.head, &head::Limits::default()).map_err(refusal)?;
        let head = head.expect("a head that was whole before its body came");
        response.clear();
        if let Answer::Routes(routes) = &self.answer {
            let ended = (arriving.upload, taken);
            with_request(&head, b"", |request| routes.end_upload(cx, request, ended, response))?;
        }
        response.fields.extend_from_slice(&arriving.fields);
        let mode = (head.version, head.keep_alive && !session.is_last && is_whole);
        Ok(self.reply(cx, session, &head, (response, mode), used, out))
    }

    /// Sends more of a streamed body. The connection reads on when it has ended.
    pub(super) fn go_on(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession<T>,
        used: usize,
        out: &mut Out,
    ) -> Step<SlowRequest> {
        let Some(stream) = &mut session.stream else { return Step::read(used) };
        match stream.fill(cx, out) {
            // A later request waits, and with it the news that the client will send no more.
            Some(wake) if stream.holds_input => Step::pause(used).wake_at(wake),
            Some(wake) => Step::read(used).wake_at(wake),
            None => {
                let keep_alive = stream.keep_alive && !session.is_last;
                (session.stream, session.until) = (None, cx.now + self.patience);
                match keep_alive {
                    true => Step::read(used).wake_at(session.until),
                    false => Step::close(used),
                }
            }
        }
    }

    /// Gives a WebSocket the input that came with its request.
    pub(super) fn go_on_talking(
        &self,
        cx: &Cx<'_, T>,
        session: &mut HttpSession<T>,
        (input, used): (&[u8], usize),
        out: &mut Out,
    ) -> Step<SlowRequest> {
        let Some(socket) = &mut session.socket else { return Step::read(used) };
        let step = socket.step(cx, Event::<()>::Bytes(&input[used..]), out);
        Step { used: used + step.used, ..step }
    }
}
