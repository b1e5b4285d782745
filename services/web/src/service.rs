//! The state machine: heads, bodies, jobs and files, one request at a time.
//!
//! A session is in one of four stages: it waits for a head, receives a body, waits for a job, or
//! sends a file piece by piece. Input after a request that is not yet answered waits in the
//! connection.

use seam::{Closed, Cx, Event, Instant, Limits, Out, Peer, Service, Step, Then};
use std::io;
use std::time::Duration;
use wire::http::{Bad, Body, Head, Status, head, reply};

use super::auth::Attempt;
use super::body::{BodyError, RequestBody};
use super::compress::Cache;
use super::deliver::Transfer;
use super::dispatch::{Action, Content, Dispatch, FileRequest, ReplyContext, ReplyMode, dispatch};
use super::file::{self, SiteFiles, Target};
use super::journal::Journal;
use super::memo::Memo;
use super::mime;
use super::options::Options;
use super::platform::Platform;
use super::record::RequestLine;
use super::respond::{DateCache, Responder};

/// The service.
#[derive(Debug)]
pub struct Web<B> {
    pub(super) options: Options,
    pub(super) platform: B,
    /// The files of the sites after the first.
    others: Vec<B>,
    /// Files compressed on the fly, if the server compresses.
    cache: Option<Cache>,
}

/// One connection.
#[derive(Debug)]
pub struct Session<F> {
    pub(super) peer: Peer,
    pub(super) stage: Stage<F>,
    /// When a session that waits for a head times out.
    pub(super) until: Instant,
    /// Part of a head has arrived.
    pub(super) begun: bool,
    /// Its first line as far as it has arrived, for the access log.
    pub(super) partial: Option<Box<RequestLine>>,
    /// The head begins with HEAD, so its answer has no body.
    pub(super) head_only: bool,
    /// The connection came without the TLS that the server offers.
    is_unsealed: bool,
    /// The server drains: the next reply is the last.
    last: bool,
    clock: DateCache,
    /// The same request would get the same reply.
    repeatable: bool,
    memo: Memo,
}

#[derive(Debug)]
pub(super) enum Stage<F> {
    Head,
    Body(Box<(Dispatch, RequestBody)>),
    Away(Box<ReplyContext>),
    Sending(Box<Transfer<F>>),
}

/// How long an idle connection stays open while the server drains: longer than a round trip around
/// the world. The client's next request may be on the way, and the client could not know whether it
/// was processed.
const LAST_CALL: Duration = Duration::from_millis(500);

/// The time after which a refused client may try again, in seconds: an overload lasts longer than a
/// round trip, and a second is the least that the field can say.
const RETRY_AFTER: &str = "1";

/// How long a browser may rely on the reply to a preflight, in seconds; browsers cap it at two
/// hours or more.
const PREFLIGHT_AGE: &str = "7200";

/// Work that may block.
#[derive(Debug)]
pub enum Job<F> {
    /// Check a password.
    Check(Box<Attempt>),
    /// Look for a file.
    Find(Box<FileRequest>),
    /// Read a piece of a site's file: offset and length.
    Read(u16, F, u64, usize),
    /// Compute.
    Compute(Duration),
    /// Wait.
    Sleep(Duration),
}

/// The result of a job.
#[derive(Debug)]
pub struct Outcome<F>(Back<F>);

#[derive(Debug)]
enum Back<F> {
    Checked(Box<Attempt>, bool),
    Found(Box<FileRequest>, Target<F>),
    Read(F, io::Result<Vec<u8>>),
    Done,
}

/// The next step after an action.
pub(super) enum Next<F> {
    Request,
    Close,
    Job(Job<F>),
    Room,
}

pub(super) type At<'a> = Cx<'a, Journal>;

impl<B: Platform> Web<B> {
    /// A server with these options.
    pub fn new(options: Options, platform: B) -> Web<B> {
        Web::with_sites(options, platform, Vec::new())
    }

    /// The same with the files of the sites that [`Options::other_rules`] are for.
    pub fn with_sites(options: Options, platform: B, others: Vec<B>) -> Web<B> {
        assert_eq!(options.other_rules.len(), others.len(), "each site has rules and files");
        let cache = (options.compress_max > 0).then(|| Cache::new(options.compress_max));
        Web { options, platform, others, cache }
    }

    pub(super) fn platform_of(&self, site: u16) -> &B {
        usize::from(site).checked_sub(1).map_or(&self.platform, |at| &self.others[at])
    }

    fn files(&self, site: u16) -> SiteFiles<'_, B> {
        let (options, cache) = (&self.options, self.cache.as_ref());
        SiteFiles { platform: self.platform_of(site), options, cache }
    }

    /// Answers requests until the input has no complete one, the output is full or a job runs.
    fn serve(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        input: &[u8],
        out: &mut Out,
    ) -> Step<Job<B::File>> {
        let mut used = 0;
        while used < input.len() && !out.is_full() {
            used += self.again(cx, session, &input[used..], out);
            let rest = &input[used..];
            if rest.is_empty() || out.is_full() {
                break;
            }
            let after = match std::mem::replace(&mut session.stage, Stage::Head) {
                Stage::Head => match head::next(rest, &self.options.heads) {
                    Ok(Some(head)) => {
                        used += head.len;
                        let from = out.bytes().len();
                        session.repeatable = false;
                        let after = self.begin(cx, session, &head, out);
                        if session.repeatable && self.options.record.is_none() {
                            let second = self.options.second(cx.now);
                            session.memo.keep(&rest[..head.len], &out.bytes()[from..], second);
                        }
                        after
                    }
                    // Old clients leave a CR LF after a body; it does not begin a request.
                    Ok(None) if b"\r\n".starts_with(rest) => break,
                    Ok(None) => {
                        session.head_only = is_head(rest);
                        if !std::mem::replace(&mut session.begun, true) {
                            session.until = session.until.min(cx.now + self.options.head_time);
                        }
                        self.note_partial(cx, session, rest);
                        break;
                    }
                    Err(bad) => {
                        session.head_only = is_head(rest);
                        self.bad_head(cx, session, (bad, rest), out)
                    }
                },
                Stage::Body(body) => match self.take(cx, session, body, rest, out) {
                    (taken, Some(after)) => {
                        used += taken;
                        after
                    }
                    (taken, None) => {
                        used += taken;
                        break;
                    }
                },
                stage @ (Stage::Away(_) | Stage::Sending(_)) => {
                    session.stage = stage;
                    break;
                }
            };
            match after {
                Next::Request => {}
                Next::Close => return Step::close(input.len()),
                other => return self.step(session, used, other),
            }
        }
        self.step(session, used, Next::Request)
    }

    /// Answers repetitions of the last request from the memo; returns how much input they used.
    #[inline]
    fn again(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        input: &[u8],
        out: &mut Out,
    ) -> usize {
        if !matches!(session.stage, Stage::Head) || session.last {
            return 0;
        }
        let second = self.options.second(cx.now);
        let (mut used, mut answered) = (0, 0);
        while let Some((len, answer)) = session.memo.find(&input[used..], second) {
            cx.note(|note| {
                let line = input[used..].split(|byte| *byte == b'\r').find(|line| !line.is_empty());
                *note = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
            });
            out.bytes().extend_from_slice(answer);
            used += len;
            answered += 1;
            if out.is_full() {
                break;
            }
        }
        if used > 0 {
            cx.answered(answered);
            session.begun = false;
            session.until = cx.now + self.options.keep_alive;
        }
        used
    }

    fn begin(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        head: &Head<'_>,
        out: &mut Out,
    ) -> Next<B::File> {
        (session.begun, session.head_only) = (false, head.method == "HEAD");
        cx.note(|note| *note = RequestLine::read(None, cx.now, head).text);
        let client = || layers::trust::client(&self.options.trusted, session.peer, head);
        let request_line = self.options.record.as_ref().map(|format| RequestLine {
            client: client(),
            ..RequestLine::read(Some(format), cx.now, head)
        });
        let mut dispatch = dispatch(&self.options, head, session.is_unsealed, request_line);
        dispatch.context.mode.keep_alive &= !session.last;
        if dispatch.act.is_costly() && !cx.admit() {
            dispatch.act = Action::Overloaded;
        }
        if head.body == Body::Length(0) {
            return self.act(cx, session, dispatch, &[], out);
        }
        let keep = matches!(&dispatch.act, Action::Echo | Action::Guarded(_));
        let incoming = RequestBody::new(head.body, keep, self.options.body_max, cx.now);
        let refused = matches!(
            dispatch.act,
            Action::Dismiss(..)
                | Action::Refuse(..)
                | Action::Overloaded
                | Action::Unauthorized(_)
                | Action::NotAllowed(_)
                | Action::Redirect(..)
        );
        if refused && (head.expects || incoming.is_none()) {
            // The client waits for an answer before it sends the body; or the body is too long to
            // be skipped, and the refused method is the better reason.
            dispatch.context.mode.keep_alive = false;
            return self.act(cx, session, dispatch, &[], out);
        }
        if matches!(dispatch.act, Action::Dismiss(..)) {
            return self.act(cx, session, dispatch, &[], out);
        }
        let Some(incoming) = incoming else {
            return self.too_long(cx, session, dispatch, out);
        };
        if head.expects {
            out.bytes().extend_from_slice(reply::CONTINUE);
        }
        session.stage = Stage::Body(Box::new((dispatch, incoming)));
        Next::Request
    }

    /// Takes bytes of a body; returns how many, and what follows if it is complete.
    fn take(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        mut body: Box<(Dispatch, RequestBody)>,
        bytes: &[u8],
        out: &mut Out,
    ) -> (usize, Option<Next<B::File>>) {
        match body.1.feed(bytes, cx.now) {
            Ok((used, false)) => {
                out.note_kept(body.1.kept_len());
                session.stage = Stage::Body(body);
                (used, None)
            }
            Ok((used, true)) => {
                let (mut dispatch, incoming) = *body;
                dispatch.context.mode.keep_alive &= !session.last;
                out.note_kept(0);
                (used, Some(self.act(cx, session, dispatch, &incoming.into_kept(), out)))
            }
            Err(BodyError::TooLong) => (0, Some(self.too_long(cx, session, body.0, out))),
            Err(BodyError::Bad(bad)) => {
                let dispatch = Dispatch { act: dismissal(bad), ..body.0 };
                (0, Some(self.act(cx, session, dispatch, &[], out)))
            }
        }
    }

    fn too_long(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        dispatch: Dispatch,
        out: &mut Out,
    ) -> Next<B::File> {
        let act = Action::Dismiss(Status::CONTENT_TOO_LONG, "expected a shorter body");
        self.act(cx, session, Dispatch { act, ..dispatch }, &[], out)
    }

    /// Answers a malformed head with one reply and closes.
    #[cold]
    fn bad_head(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        (bad, input): (Bad, &[u8]),
        out: &mut Out,
    ) -> Next<B::File> {
        let request_line = self.options.record.as_ref().map(|_| RequestLine::raw(cx.now, input));
        self.last_word(cx, session, dismissal(bad), request_line, out)
    }

    /// Carries out the action, or starts its job.
    pub(super) fn act(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        Dispatch { act, mut context }: Dispatch,
        body: &[u8],
        out: &mut Out,
    ) -> Next<B::File> {
        context.mode.keep_alive &= !matches!(act, Action::Dismiss(..));
        let mut responder = self.responder(cx, session, context.mode);
        let summary = match act {
            Action::Say(kind, words) => {
                let fields = [("Content-Type", kind)];
                let summary = responder.text(Status::OK, &fields, words.bytes(), out);
                session.repeatable = matches!(words, Content::Fixed(_)) && context.mode.keep_alive;
                summary
            }
            Action::Echo => {
                responder.text(Status::OK, &[("Content-Type", mime::UNKNOWN)], body, out)
            }
            Action::Options(allow, headers) => {
                let headers = headers.as_deref().unwrap_or("*");
                let fields = [
                    ("Allow", allow),
                    ("Access-Control-Allow-Methods", allow),
                    ("Access-Control-Allow-Headers", headers),
                    ("Access-Control-Max-Age", PREFLIGHT_AGE),
                ];
                let count = if context.mode.chosen.preflight { fields.len() } else { 1 };
                responder.text(Status::NO_CONTENT, &fields[..count], b"", out)
            }
            Action::Redirect(status, place) => {
                let why = "the page has another address";
                responder.refuse(status, &[("Location", &place)], why, out)
            }
            Action::NotAllowed(allow) => {
                let why = "expected one of the methods in Allow";
                responder.refuse(Status::METHOD, &[("Allow", allow)], why, out)
            }
            Action::Overloaded => {
                let why = "the server is overloaded: try again later";
                responder.refuse(Status::UNAVAILABLE, &[("Retry-After", RETRY_AFTER)], why, out)
            }
            Action::Refuse(status, why) | Action::Dismiss(status, why) => {
                responder.refuse(status, &[], why, out)
            }
            Action::Unauthorized(guard) => self.options.guards[guard].refuse(&mut responder, out),
            Action::Guarded(attempt) => {
                return self.guard(cx, session, attempt, context, body, out);
            }
            Action::Compute(time) => return away(session, Job::Compute(time), context),
            Action::Sleep(time) => return away(session, Job::Sleep(time), context),
            Action::File(request) => {
                return match file::try_find(&self.files(request.site), &request, cx.now) {
                    Some(target) => self.answer(cx, session, (&request, target), context, out),
                    None => away(session, Job::Find(request), context),
                };
            }
        };
        self.finish(cx, session, context, summary, out)
    }

    pub(super) fn responder<'a>(
        &'a self,
        cx: &At<'_>,
        session: &'a mut Session<B::File>,
        mode: ReplyMode,
    ) -> Responder<'a> {
        Responder { options: &self.options, clock: &mut session.clock, now: cx.now, mode }
    }

    pub(super) fn step(
        &self,
        session: &Session<B::File>,
        used: usize,
        after: Next<B::File>,
    ) -> Step<Job<B::File>> {
        let then = match after {
            Next::Request if !matches!(session.stage, Stage::Sending(_)) => Then::Read,
            Next::Request | Next::Room => Then::Pause,
            Next::Close => Then::Close,
            Next::Job(job) => Then::Offload(job),
        };
        let wake = match &session.stage {
            Stage::Head => Some(session.until),
            Stage::Body(body) => Some(body.1.due(&self.options)),
            Stage::Away(_) | Stage::Sending(_) => None,
        };
        Step { used, then, wake }
    }

    fn back(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        back: Back<B::File>,
        out: &mut Out,
    ) -> Next<B::File> {
        match (std::mem::replace(&mut session.stage, Stage::Head), back) {
            (Stage::Away(context), Back::Found(request, target)) => {
                self.answer(cx, session, (&request, target), *context, out)
            }
            (Stage::Away(context), Back::Checked(attempt, is_right)) => {
                let (act, body) = attempt.answer(is_right);
                self.act(cx, session, Dispatch { act, context: *context }, &body, out)
            }
            (Stage::Away(context), Back::Done) => {
                let act = Action::Say(mime::TEXT, Content::Fixed("done\n"));
                let dispatch = Dispatch { act, context: *context };
                self.act(cx, session, dispatch, &[], out)
            }
            (Stage::Sending(mut sending), Back::Read(file, Ok(bytes))) if !bytes.is_empty() => {
                sending.resume(file, &bytes, out);
                self.send(cx, session, sending, out)
            }
            (stage, _) => {
                // A file that cannot be read: its transfer ends with the connection.
                session.stage = stage;
                Next::Close
            }
        }
    }
}

/// Whether the first line, perhaps incomplete, asks for HEAD.
fn is_head(input: &[u8]) -> bool {
    input.trim_ascii_start().starts_with(b"HEAD ")
}

pub(super) fn away<F>(session: &mut Session<F>, job: Job<F>, context: ReplyContext) -> Next<F> {
    session.stage = Stage::Away(Box::new(context));
    Next::Job(job)
}

/// The answer to a malformed request.
fn dismissal(bad: Bad) -> Action {
    Action::Dismiss(bad.status(), bad.why())
}

impl<B: Platform> Service for Web<B> {
    type State = Journal;
    type Session = Session<B::File>;
    type Job = Job<B::File>;
    type Outcome = Outcome<B::File>;

    fn limits(&self) -> Limits {
        self.options.limits
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.options.head_time)
    }

    fn refuses(&self) -> bool {
        true
    }

    fn open(&self, cx: &At<'_>, peer: Peer, _out: &mut Out) -> Session<B::File> {
        let until = cx.now + self.options.head_time;
        let (begun, head_only, is_unsealed, last, repeatable) = (false, false, false, false, false);
        Session {
            peer,
            stage: Stage::Head,
            until,
            begun,
            partial: None,
            head_only,
            is_unsealed,
            last,
            clock: DateCache::new(),
            repeatable,
            memo: Memo::default(),
        }
    }

    fn unsealed(&self, session: &mut Session<B::File>) {
        session.is_unsealed = true;
    }

    fn step(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        event: Event<'_, Outcome<B::File>>,
        out: &mut Out,
    ) -> Step<Job<B::File>> {
        match event {
            Event::Bytes(input) => self.serve(cx, session, input, out),
            Event::Outcome(Outcome(back)) => {
                let after = self.back(cx, session, back, out);
                self.step(session, 0, after)
            }
            Event::Room => match std::mem::replace(&mut session.stage, Stage::Head) {
                Stage::Sending(sending) => {
                    let after = self.send(cx, session, sending, out);
                    self.step(session, 0, after)
                }
                stage => {
                    session.stage = stage;
                    self.step(session, 0, Next::Request)
                }
            },
            Event::Deadline => self.late(cx, session, out),
            Event::Eof => self.end(cx, session, out),
            Event::Drain => {
                session.last = true;
                if matches!(session.stage, Stage::Head) && !session.begun {
                    session.until = session.until.min(cx.now + LAST_CALL);
                }
                self.step(session, 0, Next::Request)
            }
        }
    }

    fn close(&self, cx: &At<'_>, session: Session<B::File>, why: Closed) {
        self.record_end(cx, session, why);
    }

    fn work(&self, _journal: &Journal, job: Job<B::File>) -> Outcome<B::File> {
        Outcome(match job {
            Job::Check(attempt) => {
                let is_right = self.options.guards[attempt.guard].check(&attempt);
                Back::Checked(attempt, is_right)
            }
            Job::Find(request) => {
                let target = file::find(&self.files(request.site), &request);
                Back::Found(request, target)
            }
            Job::Read(site, file, from, len) => {
                let mut bytes = Vec::with_capacity(len);
                let read = self.platform_of(site).read(&file, from, len, &mut bytes);
                Back::Read(file, read.map(|_| bytes))
            }
            Job::Compute(time) => {
                self.platform.compute(time);
                Back::Done
            }
            Job::Sleep(time) => {
                self.platform.sleep(time);
                Back::Done
            }
        })
    }
}
