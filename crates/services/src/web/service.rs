//! The state machine: heads, bodies, jobs and files in turn, one request after the other.
//!
//! A session is in one of four stages. It waits for a head; it takes a body; it is away, which
//! means that a job of its is out; or it sends a file piece by piece as there is room. Input behind
//! a request that is not answered yet waits in the connection.

use seam::{Cx, Event, Instant, Limits, Out, Peer, Service, Step, Then};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use wire::http::{Bad, Body, Head, Status, Version, head, reply};

use super::backstage::{Backstage, Missing};
use super::body::{Incoming, Trouble};
use super::file::{self, Piece, Target};
use super::journal::Journal;
use super::kinds;
use super::listing::encoded;
use super::options::Options;
use super::order::{Act, How, Order, Terms, Wish, Words, order};
use super::record::{self, Asked};
use super::say::{Clockface, Said, Speaker};

/// How much of a file is read at once, in bytes.
const PIECE: usize = 64 * 1024;

/// The service.
#[derive(Debug)]
pub struct Web<B> {
    options: Options,
    backstage: B,
}

/// One connection.
#[derive(Debug)]
pub struct Session<F> {
    peer: Peer,
    stage: Stage<F>,
    /// When a session that waits for a head is given up.
    until: Instant,
    /// Part of a head has come.
    begun: bool,
    /// The house drains: the next answer is the last.
    last: bool,
    clock: Clockface,
}

#[derive(Debug)]
enum Stage<F> {
    Head,
    Body(Box<(Order, Incoming)>),
    Away(Box<Terms>),
    Sending(Box<Sending<F>>),
}

/// A file on its way out. The file is away while a job reads it.
#[derive(Debug)]
struct Sending<F> {
    file: Option<F>,
    pieces: VecDeque<Piece>,
    terms: Terms,
    said: Said,
}

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
enum After<F> {
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
type At<'a> = Cx<'a, Journal>;

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
            let rest = &input[used..];
            let after = match std::mem::replace(&mut session.stage, Stage::Head) {
                Stage::Head => match head::next(rest, &self.options.heads) {
                    Ok(Some(head)) => {
                        used += head.len;
                        self.begin(cx, session, &head, out)
                    }
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

    /// A head has come.
    fn begin(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        head: &Head<'_>,
        out: &mut Out,
    ) -> After<B::File> {
        session.begun = false;
        cx.note(|note| *note = format!("{} {}", head.method, head.target));
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
        let version = if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
        let line = || format!("{} {} {version}", head.method, head.target);
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
                speaker.words(Status::OK, &[("Content-Type", kind)], words.bytes(), out)
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

    /// Answers with what a path leads to.
    fn answer(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        (wish, target): (&Wish, Target<B::File>),
        terms: Terms,
        out: &mut Out,
    ) -> After<B::File> {
        let mut speaker = self.speaker(cx, session, terms.how);
        let said = match target {
            Target::File(file, meta, coding, kind) => {
                let now = self.options.wall_ns(cx.now) / 1_000_000_000;
                let plan = file::plan(wish, meta, coding, kind, now);
                let fields: Vec<(&str, &str)> =
                    plan.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
                if plan.status.0 >= 400 {
                    let why = "the conditions of the request do not hold for this file";
                    speaker.refuse(plan.status, &fields, why, out)
                } else {
                    let said = speaker.head(plan.status, &fields, plan.len, out);
                    let pieces = if said.bytes > 0 { plan.pieces } else { VecDeque::new() };
                    let sending = Sending { file: Some(file), pieces, terms, said };
                    return self.send(cx, session, Box::new(sending), out);
                }
            }
            Target::Folder => {
                let mut place = format!("{}/", encoded(&wish.path));
                // Two slashes in front would name another host.
                place.replace_range(..place.len() - place.trim_start_matches('/').len(), "/");
                if !wish.query.is_empty() {
                    place = format!("{place}?{}", wish.query);
                }
                speaker.refuse(Status::MOVED, &[("Location", &place)], "a folder ends in /", out)
            }
            Target::Listing(page) => {
                speaker.words(Status::OK, &[("Content-Type", kinds::HTML)], &page, out)
            }
            Target::Missing(missing) => {
                let (status, why) = match missing {
                    Missing::Absent => (Status::NOT_FOUND, "there is no such page"),
                    Missing::Forbidden => (Status::FORBIDDEN, "this may not be read"),
                    Missing::Exhausted => (Status::UNAVAILABLE, "too many files are open"),
                    Missing::Broken => (Status::INTERNAL, "the file cannot be read"),
                };
                let later = [("Retry-After", "1")];
                let more = if status == Status::UNAVAILABLE { &later[..] } else { &[] };
                speaker.refuse(status, more, why, out)
            }
        };
        self.finish(cx, session, &terms, said)
    }

    /// Sends a file until the output is full, or a piece has to be waited for.
    fn send(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        mut sending: Box<Sending<B::File>>,
        out: &mut Out,
    ) -> After<B::File> {
        while let Some(piece) = sending.pieces.front_mut() {
            if out.is_full() {
                session.stage = Stage::Sending(sending);
                return After::Room;
            }
            let range = match piece {
                Piece::Text(text) => {
                    out.bytes().append(text);
                    sending.pieces.pop_front();
                    continue;
                }
                Piece::Bytes(range) => range,
            };
            let Some(file) = &sending.file else { return After::Close };
            let len = (range.end - range.start).min(PIECE as u64) as usize;
            match self.backstage.read_now(file, range.start, len, out.bytes()) {
                // Its length was promised; only the end of the connection can tell.
                Some(Ok(0) | Err(_)) => return After::Close,
                Some(Ok(read)) => advance(&mut sending.pieces, read),
                None => {
                    let from = range.start;
                    let Some(file) = sending.file.take() else { return After::Close };
                    session.stage = Stage::Sending(sending);
                    return After::Job(Job::Read(file, from, len));
                }
            }
        }
        self.finish(cx, session, &sending.terms, sending.said)
    }

    /// A request is answered.
    fn finish(
        &self,
        cx: &At<'_>,
        session: &mut Session<B::File>,
        terms: &Terms,
        said: Said,
    ) -> After<B::File> {
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

    fn speaker<'a>(
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
                sending.file = Some(file);
                advance(&mut sending.pieces, bytes.len());
                out.bytes().extend_from_slice(&bytes);
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

/// Forgets what was sent of the first piece.
fn advance(pieces: &mut VecDeque<Piece>, sent: usize) {
    if let Some(Piece::Bytes(range)) = pieces.front_mut() {
        range.start += sent as u64;
        if range.start >= range.end {
            pieces.pop_front();
        }
    }
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
        let clock = Clockface::new();
        Session { peer, stage: Stage::Head, until, begun: false, last: false, clock }
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
            Event::Done(Outcome(back)) => {
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
                let idle = matches!(session.stage, Stage::Head) && !session.begun;
                if idle { Step::close(0) } else { self.step(session, 0, After::Next) }
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
