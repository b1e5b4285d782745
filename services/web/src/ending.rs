//! The end of a request and its line in the access log.
//!
//! A request has one line however it ends: answered, refused before it was understood, given up by
//! its client, or cut off with its connection. The line of an answer is written once the connection
//! has taken the reply but for a rest that fits the kernel's buffer. So its bytes are those that
//! were sent, and its time is the client's, not the time of appending.

use seam::{Closed, Out, Step};
use wire::http::{Status, Version};

use super::deliver::Transfer;
use super::dispatch::{Action, Dispatch, ReplyContext, ReplyMode};
use super::platform::Platform;
use super::record::{self, End, RequestLine};
use super::respond::Summary;
use super::service::{At, Job, Next, Session, Stage, Web};

/// With at most this much output that is not sent yet, in bytes, a reply counts as sent: the socket
/// buffer of the kernel takes as much.
const SENT_BUT_FOR: usize = 32 * 1024;
/// The status of a request whose client left before the answer; nginx introduced it.
const CLIENT_LEFT: u16 = 499;

impl<B: Platform> Web<B> {
    /// The deadline of a stage has passed.
    pub(super) fn late(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        out: &mut Out,
    ) -> Step<Job<B::File>> {
        let is_late = match &session.stage {
            Stage::Head => session.until <= cx.now,
            Stage::Body(body) => body.1.due(&self.options) <= cx.now,
            Stage::Away(_) | Stage::Sending(_) => false,
        };
        if !is_late {
            return self.step(session, 0, Next::Request);
        }
        if out.is_full() {
            // The client does not read its replies; the engine's own limit handles that.
            session.until = cx.now + self.options.head_time;
            return Step { wake: Some(session.until), ..Step::read(0) };
        }
        if matches!(session.stage, Stage::Body(_)) || session.begun {
            let act = Action::Dismiss(Status::TIMEOUT, "expected the rest of the request in time");
            self.cut_off(cx, session, act, out);
        }
        Step::close(0)
    }

    /// The client sends no more. A client that stops inside a request gets an error reply.
    pub(super) fn end(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        out: &mut Out,
    ) -> Step<Job<B::File>> {
        if matches!(session.stage, Stage::Body(_)) || session.begun {
            let act = Action::Dismiss(Status::BAD_REQUEST, "expected the rest of the request");
            self.cut_off(cx, session, act, out);
        }
        Step::close(0)
    }

    /// The reply is appended: the request is over as soon as it is sent.
    pub(super) fn finish(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        context: ReplyContext,
        summary: Summary,
        out: &Out,
    ) -> Next<B::File> {
        let enough = SENT_BUT_FOR.max(self.options.limits.output_low);
        if context.request_line.is_some() && out.len() > enough {
            session.stage = Stage::Sending(Box::new(Transfer::appended(context, summary)));
            return Next::Room;
        }
        cx.answered(1);
        self.record(cx, session, context.request_line.as_ref(), summary);
        session.stage = Stage::Head;
        (session.begun, session.partial) = (false, None);
        session.until = cx.now + self.options.keep_alive;
        if context.mode.keep_alive { Next::Request } else { Next::Close }
    }

    /// Keeps the first line of an incomplete head.
    pub(super) fn note_partial(&self, cx: &At<'_>, session: &mut Session<B::File>, input: &[u8]) {
        if self.options.record.is_some() {
            let at = session.partial.as_ref().map_or(cx.now, |partial| partial.at);
            session.partial = Some(Box::new(RequestLine::raw(at, input)));
        }
    }

    /// Sends a final reply to a request that was not understood.
    pub(super) fn last_word(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        act: Action,
        request_line: Option<RequestLine>,
        out: &mut Out,
    ) -> Next<B::File> {
        let chosen = self.options.rules.choose(b"", None);
        let (version, head_only) = (Version::Http11, session.head_only);
        let mode = ReplyMode { version, head_only, keep_alive: false, chosen };
        let dispatch = Dispatch { act, context: ReplyContext { mode, request_line } };
        self.act(cx, session, dispatch, &[], out)
    }

    /// Sends a final reply to a request of which only a part has arrived.
    pub(super) fn cut_off(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        act: Action,
        out: &mut Out,
    ) {
        let partial = session.partial.take().map(|line| *line);
        let request_line = match &mut session.stage {
            Stage::Body(body) => body.0.context.request_line.take(),
            _ => partial,
        };
        self.last_word(cx, session, act, request_line, out);
    }

    /// Records a request that ends with its connection.
    pub(super) fn record_end(&self, cx: &At<'_>, mut session: Session<B::File>, why: Closed) {
        if self.options.record.is_none() {
            return;
        }
        let unanswered = Summary { code: unanswered(why), bytes: 0 };
        let (line, summary) = match std::mem::replace(&mut session.stage, Stage::Head) {
            Stage::Sending(transfer) => {
                let (context, summary) = transfer.cut(cx.unsent());
                (context.request_line, summary)
            }
            Stage::Body(body) => (body.0.context.request_line, unanswered),
            Stage::Away(context) => (context.request_line, unanswered),
            Stage::Head => (session.partial.take().map(|line| *line), unanswered),
        };
        self.record(cx, &session, line.as_ref(), summary);
    }

    /// Appends a line to the access log, if there is one.
    fn record(
        &self,
        cx: &At<'_>,
        session: &Session<B::File>,
        request_line: Option<&RequestLine>,
        summary: Summary,
    ) {
        let (Some(format), Some(request_line)) = (&self.options.record, request_line) else {
            return;
        };
        let now = self.platform.now(cx.now);
        let mut line = Vec::with_capacity(128);
        let (wall_ns, Summary { code: status, bytes }) = (self.options.wall_ns(now), summary);
        let end = End { at: now, wall_ns, status, bytes };
        record::put(format, session.peer, request_line, end, &mut line);
        cx.state.put(cx.worker, &line);
    }
}

/// The status of a request that got no answer.
fn unanswered(why: Closed) -> u16 {
    match why {
        Closed::Reset | Closed::Service => CLIENT_LEFT,
        Closed::Idle | Closed::Stalled => 408,
        Closed::Overlong => 431,
        Closed::Shed | Closed::Forced => 503,
    }
}
