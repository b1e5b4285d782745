//! The state machine: heads, bodies, jobs and files in turn, one request after the other.
//!
//! A session is in one of four stages. It waits for a head; it takes a body; it is away, which
//! means that a job of its is out; or it sends a file piece by piece as there is room. Input behind
//! a request that is not answered yet waits in the connection.

use seam::{Cx, Event, Instant, Limits, Out, Peer, Service, Step, Then};
use std::io;
use std::time::Duration;
use wire::http::{Bad, Body, Head, Status, Version, head, reply};

use super::backstage::Backstage;
use super::body::{Incoming, Trouble};
use super::deliver::Sending;
use super::file::{self, Target};
use super::journal::Journal;
use super::kinds;
use super::memo::Memo;
use super::options::Options;
use super::order::{Act, How, Order, Terms, Wish, Words, order};
use super::record::{self, Asked};
use super::say::{Clockface, Said, Speaker};

/// The service.
#[derive(Debug)]
pub struct Web<B> {
    pub(super) options: Options,
    pub(super) backstage: B,
}

/// One connection.
#[derive(Debug)]
pub struct Session<F> {
    peer: Peer,
    pub(super) stage: Stage<F>,
    /// When a session that waits for a head is given up.
    until: Instant,
    /// Part of a head has come.
    begun: bool,
    /// The server drains: the next answer is the last.
    last: bool,
    clock: Clockface,
    /// The request just answered would be answered the same again.
    repeatable: bool,
    memo: Memo,
}

#[derive(Debug)]
pub(super) enum Stage<F> {
    Head,
    Body(Box<(Order, Incoming)>),
    Away(Box<Terms>),
    Sending(Box<Sending<F>>),
}

/// How long a silent connection is listened to when the server drains: its next request may be on
/// the way, and its sender could not know whether it was done. Longer than a way around the world.
const LAST_CALL: Duration = Duration::from_millis(500);

/// What leaves by the door for slow work.
#[derive(Debug)]
pub enum Job<F> {
    /// Look for a file.
    Find(Box<Wish>),
    /// Read a piece of a file: where, and how much.
    Read(F, u64, usize),
    /// Compute.
    Toil(Duration),
    /// Wait.
    Sleep(Duration),
}

/// What comes back.
#[derive(Debug)]
pub struct Outcome<F>(Back<F>);

#[derive(Debug)]
enum Back<F> {
    Found(Box<Wish>, Target<F>),
    Read(F, io::Result<Vec<u8>>),
    Done,
}

/// What comes after a deed.
pub(super) enum After<F> {
    /// The next request.
    Next,
    /// The end of the connection.
    Close,
    /// A job.
    Job(Job<F>),
    /// Room.
    Room,
}

/// The context of a call.
pub(super) type At<'a> = Cx<'a, Journal>;

impl<B: Backstage> Web<B> {
    /// A server with these choices.
    pub fn new(options: Options, backstage: B) -> Web<B> {
        Web { options, backstage }
    }

    /// Answers requests until the input holds no whole one, the output is full or a job is out.
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
                    // What clients of old leave behind a body begins nothing.
                    Ok(None) if b"\r\n".starts_with(rest) => break,
                    Ok(None) => {
                        if !std::mem::replace(&mut session.begun, true) {
                            session.until = session.until.min(cx.now + self.options.head_time);
                        }
                        break;
                    }
                    Err(bad) => self.misunderstood(cx, session, bad, out),
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
                After::Next => {}
                After::Close => return Step::close(input.len()),
                other => return self.step(session, used, other),
            }
        }
        self.step(session, used, After::Next)
    }

    /// Answers requests that are the last one once more; says how much of the input they were.
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

    /// A head has come.
    fn begin(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        head: &Head<'_>,
        out: &mut Out,
    ) -> After<B::File> {
        session.begun = false;
        cx.note(|note| *note = format!("{} {} {}", head.method, head.target, words(head.version)));
        let mut order = order(&self.options, head, self.asked(cx, head));
        order.terms.how.keep_alive &= !session.last;
        if head.body == Body::Length(0) {
            return self.act(cx, session, order, &[], out);
        }
        let keep = matches!(order.act, Act::Echo);
        let Some(incoming) = Incoming::new(head.body, keep, self.options.body_max, cx.now) else {
            return self.too_long(cx, session, order, out);
        };
        let refused = matches!(order.act, Act::Dismiss(..) | Act::Refuse(..) | Act::NotAllowed(_));
        if refused && head.expects {
            // The client waits for a word before it sends the body; this is the word.
            order.terms.how.keep_alive = false;
            return self.act(cx, session, order, &[], out);
        }
        if matches!(order.act, Act::Dismiss(..)) {
            return self.act(cx, session, order, &[], out);
        }
        if head.expects {
            out.bytes().extend_from_slice(reply::CONTINUE);
        }
        session.stage = Stage::Body(Box::new((order, incoming)));
        After::Next
    }

    /// Takes what has come of a body; says how much, and what comes after if it is whole.
    fn take(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        mut body: Box<(Order, Incoming)>,
        bytes: &[u8],
        out: &mut Out,
    ) -> (usize, Option<After<B::File>>) {
        match body.1.feed(bytes, cx.now) {
            Ok((used, false)) => {
                session.stage = Stage::Body(body);
                (used, None)
            }
            Ok((used, true)) => {
                let (mut order, incoming) = *body;
                order.terms.how.keep_alive &= !session.last;
                (used, Some(self.act(cx, session, order, &incoming.into_kept(), out)))
            }
            Err(Trouble::TooLong) => (0, Some(self.too_long(cx, session, body.0, out))),
            Err(Trouble::Bad(bad)) => {
                let order = Order { act: dismissal(bad), ..body.0 };
                (0, Some(self.act(cx, session, order, &[], out)))
            }
        }
    }

    fn too_long(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        order: Order,
        out: &mut Out,
    ) -> After<B::File> {
        let act = Act::Dismiss(Status::CONTENT_TOO_LONG, "expected a shorter body");
        self.act(cx, session, Order { act, ..order }, &[], out)
    }

    /// A head that is none: one answer and the end.
    #[cold]
    fn misunderstood(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        bad: Bad,
        out: &mut Out,
    ) -> After<B::File> {
        self.act(cx, session, self.last_word(cx, dismissal(bad)), &[], out)
    }

    /// An order for what no request was understood.
    fn last_word(&self, cx: &At<'_>, act: Act) -> Order {
        let how = How { version: Version::Http11, head_only: false, keep_alive: false };
        let asked = self.options.record.map(|_| Asked { at: cx.now, line: "-".to_owned() });
        Order { act, terms: Terms { how, asked } }
    }

    /// What the log shall know of a request, if there is one.
    fn asked(&self, cx: &At<'_>, head: &Head<'_>) -> Option<Asked> {
        let line = || format!("{} {} {}", head.method, head.target, words(head.version));
        self.options.record.map(|_| Asked { at: cx.now, line: line() })
    }

    /// Does what was ordered, as far as that needs no job.
    fn act(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        Order { act, mut terms }: Order,
        body: &[u8],
        out: &mut Out,
    ) -> After<B::File> {
        terms.how.keep_alive &= !matches!(act, Act::Dismiss(..));
        let mut speaker = self.speaker(cx, session, terms.how);
        let said = match act {
            Act::Say(kind, words) => {
                let fields = [("Content-Type", kind)];
                let said = speaker.words(Status::OK, &fields, words.bytes(), out);
                session.repeatable = matches!(words, Words::Fixed(_)) && terms.how.keep_alive;
                said
            }
            Act::Echo => speaker.words(Status::OK, &[("Content-Type", kinds::UNKNOWN)], body, out),
            Act::Options(allow) => speaker.words(Status::NO_CONTENT, &[("Allow", allow)], b"", out),
            Act::NotAllowed(allow) => {
                let why = "expected one of the methods in Allow";
                speaker.refuse(Status::METHOD, &[("Allow", allow)], why, out)
            }
            Act::Refuse(status, why) | Act::Dismiss(status, why) => {
                speaker.refuse(status, &[], why, out)
            }
            Act::Toil(time) => return away(session, Job::Toil(time), terms),
            Act::Sleep(time) => return away(session, Job::Sleep(time), terms),
            Act::File(wish) => {
                return match file::glance(&self.backstage, &wish, self.options.listing) {
                    Some(target) => self.answer(cx, session, (&wish, target), terms, out),
                    None => away(session, Job::Find(wish), terms),
                };
            }
        };
        self.finish(cx, session, &terms, said)
    }

    /// A request is answered.
    pub(super) fn finish(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        terms: &Terms,
        said: Said,
    ) -> After<B::File> {
        cx.answered(1);
        if let (Some(format), Some(asked)) = (self.options.record, &terms.asked) {
            let mut line = Vec::with_capacity(128);
            let now = (cx.now, self.options.wall_ns(cx.now));
            record::put(format, session.peer, asked, now, (said.code, said.bytes), &mut line);
            cx.state.put(cx.worker, &line);
        }
        session.stage = Stage::Head;
        session.until = cx.now + self.options.keep_alive;
        if terms.how.keep_alive { After::Next } else { After::Close }
    }

    pub(super) fn speaker<'a>(
        &'a self,
        cx: &At<'_>,
        session: &'a mut Session<B::File>,
        how: How,
    ) -> Speaker<'a> {
        Speaker { options: &self.options, clock: &mut session.clock, now: cx.now, how }
    }

    /// The step that `after` comes to.
    fn step(
        &self,
        session: &Session<B::File>,
        used: usize,
        after: After<B::File>,
    ) -> Step<Job<B::File>> {
        let then = match after {
            After::Next if !matches!(session.stage, Stage::Sending(_)) => Then::Read,
            After::Next | After::Room => Then::Pause,
            After::Close => Then::Close,
            After::Job(job) => Then::Offload(job),
        };
        let wake = match &session.stage {
            Stage::Head => Some(session.until),
            Stage::Body(body) => Some(body.1.due(&self.options)),
            Stage::Away(_) | Stage::Sending(_) => None,
        };
        Step { used, then, wake }
    }

    /// A job is back.
    fn back(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        back: Back<B::File>,
        out: &mut Out,
    ) -> After<B::File> {
        match (std::mem::replace(&mut session.stage, Stage::Head), back) {
            (Stage::Away(terms), Back::Found(wish, target)) => {
                self.answer(cx, session, (&wish, target), *terms, out)
            }
            (Stage::Away(terms), Back::Done) => {
                let act = Act::Say(kinds::TEXT, Words::Fixed("done\n"));
                let order = Order { act, terms: *terms };
                self.act(cx, session, order, &[], out)
            }
            (Stage::Sending(mut sending), Back::Read(file, Ok(bytes))) if !bytes.is_empty() => {
                sending.resume(file, &bytes, out);
                self.send(cx, session, sending, out)
            }
            _ => After::Close,
        }
    }

    /// The time of a stage is over.
    fn late(
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
            return self.step(session, 0, After::Next);
        }
        if out.is_full() {
            // It is we who do not read: the peer takes no answers, which the engine watches.
            session.until = cx.now + self.options.head_time;
            return Step { wake: Some(session.until), ..Step::read(0) };
        }
        if matches!(session.stage, Stage::Body(_)) || session.begun {
            let act = Act::Dismiss(Status::TIMEOUT, "expected the rest of the request in time");
            self.act(cx, session, self.last_word(cx, act), &[], out);
        }
        Step::close(0)
    }

    /// The peer sends no more. Who stops in the middle is told so.
    fn end(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        out: &mut Out,
    ) -> Step<Job<B::File>> {
        if matches!(session.stage, Stage::Body(_)) || session.begun {
            let act = Act::Dismiss(Status::BAD_REQUEST, "expected the rest of the request");
            self.act(cx, session, self.last_word(cx, act), &[], out);
        }
        Step::close(0)
    }
}

/// A version as it was sent.
fn words(version: Version) -> &'static str {
    if version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" }
}

/// Sends a job out.
fn away<F>(session: &mut Session<F>, job: Job<F>, terms: Terms) -> After<F> {
    session.stage = Stage::Away(Box::new(terms));
    After::Job(job)
}

/// The answer to what is not understood.
fn dismissal(bad: Bad) -> Act {
    Act::Dismiss(bad.status(), bad.why())
}

impl<B: Backstage> Service for Web<B> {
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

    fn open(&self, cx: &At<'_>, peer: Peer, _out: &mut Out) -> Session<B::File> {
        let until = cx.now + self.options.head_time;
        let (begun, last, repeatable) = (false, false, false);
        let (clock, memo) = (Clockface::new(), Memo::default());
        Session { peer, stage: Stage::Head, until, begun, last, clock, repeatable, memo }
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
                    self.step(session, 0, After::Next)
                }
            },
            Event::Deadline => self.late(cx, session, out),
            Event::Eof => self.end(cx, session, out),
            Event::Drain => {
                session.last = true;
                if matches!(session.stage, Stage::Head) && !session.begun {
                    session.until = session.until.min(cx.now + LAST_CALL);
                }
                self.step(session, 0, After::Next)
            }
        }
    }

    fn work(&self, _journal: &Journal, job: Job<B::File>) -> Outcome<B::File> {
        Outcome(match job {
            Job::Find(wish) => {
                let target = file::find(&self.backstage, &wish, self.options.listing);
                Back::Found(wish, target)
            }
            Job::Read(file, from, len) => {
                let mut bytes = Vec::with_capacity(len);
                let read = self.backstage.read(&file, from, len, &mut bytes);
                Back::Read(file, read.map(|_| bytes))
            }
            Job::Toil(time) => {
                self.backstage.toil(time);
                Back::Done
            }
            Job::Sleep(time) => {
                self.backstage.sleep(time);
                Back::Done
            }
        })
    }
}
