//! HTTP/1.1 from the client's side (RFC 9112): keep-alive, pipelining, sized and chunked bodies.
//!
//! Status and length of every reply are checked: the announced length against the bytes received,
//! and both against what the user expects. Bodies are counted, not kept, so a reply may have any
//! size.
//!
//! Very little is parsed. A server answers the same request with the same head until the second of
//! its `Date` changes, so a head that equals the previous one, byte for byte, has the same meaning.
//! One comparison replaces the parser for all but a few replies a second, and is stricter than any
//! parser.

mod body;
mod flow;
mod http2;
mod list;
mod options;

pub use flow::{FlowCounters, FlowScript, Flows, flow_of};
pub use http2::{Http2, http2_request};
pub use list::{har, urls};
pub use options::{Expectation, HttpOptions, REQUESTS_MAX, WebRequest, status_name};

use super::{Replies, ReplyLog, Script, shown, unasked};
use crate::arrive::unit;
use crate::faults::FaultKind;
use crate::parse::Usage;
use crate::report::Check;
use body::Body;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, VecDeque};

/// The longest head that is read (bytes).
const HEAD_MAX: usize = 64 << 10;
const FIELDS_MAX: usize = 128;

/// The script.
pub struct Http {
    options: HttpOptions,
    requests: Vec<Vec<u8>>,
    /// Method and path of each.
    names: Vec<(String, String)>,
    /// The cumulative shares of the requests; the last is 1.
    shares: Vec<f64>,
    /// The last right head for each request.
    memos: Vec<Option<Memo>>,
    sessions: Vec<Session>,
    repeatable: bool,
    done: u64,
    wrong: u64,
    statuses: BTreeMap<u16, u64>,
    wrong_by: BTreeMap<u16, u64>,
}

/// A head, and the reply that it begins.
#[derive(Debug)]
struct Memo {
    head: Vec<u8>,
    reply: Reply,
}

/// The outstanding requests of a connection.
struct Session {
    owed: u32,
    /// The outstanding requests by number, if there are several in the list.
    asked: VecDeque<u16>,
    /// The next one, if they have an order.
    next: usize,
    reply: Reply,
    random: Pcg64Mcg,
}

/// The position within a reply.
#[derive(Clone, Copy, Debug, Default)]
struct Reply {
    /// `None`: in the head.
    body: Option<Body>,
    status: u16,
    /// Its head equals one that was found right before.
    is_known: bool,
    /// Bytes of the head.
    head: usize,
    /// The server will close the connection after it.
    closes: bool,
    /// It says when to try again.
    retries: bool,
    /// Its head or its body is incomplete.
    is_malformed: bool,
    /// The length of the body by the head, where the body has another end.
    announced: Option<u64>,
}

impl Http {
    /// A script for `connections` connections.
    ///
    /// # Errors
    /// The method, a path or a header is invalid in a request.
    pub fn new(options: HttpOptions, connections: usize) -> Result<Self, Usage> {
        let requests = options.render()?;
        let total: f64 = options.requests.iter().map(|it| f64::from(it.weight)).sum();
        let mut sum = 0.0;
        let share = |request: &WebRequest| {
            sum += f64::from(request.weight) / total;
            sum
        };
        let shares = options.requests.iter().map(share).collect();
        let paths = options.requests.iter().map(|request| request.path.clone());
        let names = options.methods().map(str::to_owned).zip(paths).collect();
        let memos = requests.iter().map(|_| None).collect();
        let repeatable = options.is_idempotent();
        let mut http = Self {
            options,
            requests,
            names,
            shares,
            memos,
            sessions: Vec::new(),
            repeatable,
            done: 0,
            wrong: 0,
            statuses: BTreeMap::new(),
            wrong_by: BTreeMap::new(),
        };
        http.reserve(connections);
        Ok(http)
    }

    /// Draws the next request of a connection.
    fn draw(&mut self, at: usize) -> usize {
        let (session, last) = (&mut self.sessions[at], self.requests.len() - 1);
        if self.options.in_order {
            let next = if session.next == last { 0 } else { session.next + 1 };
            std::mem::replace(&mut session.next, next)
        } else {
            let draw = unit(&mut session.random);
            self.shares.partition_point(|&share| share <= draw).min(last)
        }
    }

    /// The number of the request that is answered next on a connection.
    fn path(&self, at: usize) -> u16 {
        self.sessions[at].asked.front().copied().unwrap_or(0)
    }

    /// Parses the head at the front of `rest`; returns the bytes used, `None` if it is incomplete.
    fn head(&mut self, at: usize, rest: &[u8]) -> Result<Option<usize>, String> {
        let path = usize::from(self.path(at));
        if let Some(memo) = &self.memos[path]
            && rest.starts_with(&memo.head)
        {
            self.sessions[at].reply = memo.reply;
            return Ok(Some(memo.head.len()));
        }
        let Some(reply) = parse(rest, self.names[path].0 == "HEAD")? else {
            return if rest.len() < HEAD_MAX { Ok(None) } else { Err(overlong(rest)) };
        };
        if reply.is_interim() {
            return Ok(Some(reply.head));
        }
        if let Some(Body::Sized { left, .. }) = reply.body
            && self.options.wanted.check(reply.status, left).is_ok()
            && let Some(memo) = reply.memo(rest)
        {
            self.memos[path] = Some(memo);
        }
        self.sessions[at].reply = reply;
        Ok(Some(reply.head))
    }

    /// Consumes the available part of the reply at the front; returns the bytes used, and the
    /// body's length once the reply is complete.
    fn reply(&mut self, at: usize, rest: &[u8]) -> Result<(usize, Option<u64>), String> {
        let mut used = 0;
        while self.sessions[at].reply.body.is_none() {
            match self.head(at, &rest[used..])? {
                Some(length) => used += length,
                None => return Ok((used, None)),
            }
        }
        let reply = &mut self.sessions[at].reply;
        let body = reply.body.as_mut().expect("the loop above ends with a body");
        let taken = body.take(&rest[used..])?;
        Ok((used + taken, body.is_whole().then(|| body.seen())))
    }

    /// The reply at the front is complete: judges it and moves to the next.
    fn finish(&mut self, at: usize, length: u64, log: &mut ReplyLog<'_>, replies: &mut Replies) {
        let path = self.path(at);
        let session = &mut self.sessions[at];
        let reply = std::mem::take(&mut session.reply);
        session.asked.pop_front();
        session.owed -= 1;
        self.judge(path, &reply, length, log, replies);
    }

    /// Judges a whole reply with a body of `length` to the request `path`.
    fn judge(
        &mut self,
        path: u16,
        reply: &Reply,
        length: u64,
        log: &mut ReplyLog<'_>,
        replies: &mut Replies,
    ) {
        replies.done += 1;
        replies.over |= reply.closes;
        // An overload, and no fault (RFC 9110, 15.6.4 and 10.2.3).
        let is_refused =
            reply.status == 503 && reply.retries && self.options.wanted.status != Some(503);
        replies.refused += u32::from(is_refused);
        *self.statuses.entry(reply.status).or_default() += 1;
        let judged = match reply.status {
            _ if is_refused => Ok(()),
            _ if let Some(wanted) = reply.announced.filter(|&it| it != length) => {
                Err(format!("expected a body of {wanted} bytes, as announced, found {length}"))
            }
            _ if reply.is_known => self.options.wanted.check_length(length),
            status => self.options.wanted.check(status, length),
        };
        let wrong = judged.is_err();
        replies.malformed += u32::from(reply.is_malformed && !wrong);
        if let Err(why) = judged {
            let (method, path) = &self.names[usize::from(path)];
            log.fault(FaultKind::WrongReply, || format!("{method} {path}: {why}"));
            *self.wrong_by.entry(reply.status).or_default() += 1;
        }
        replies.wrong += u32::from(wrong);
        let whole = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(reply.head);
        log.note(path, whole, wrong || is_refused);
        log.status(reply.status);
    }

    /// The status of a reply that is not HTTP, if such replies are taken.
    fn malformed_status(&self, bytes: &[u8]) -> Option<u16> {
        let status = bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?;
        let status = str::from_utf8(status).ok()?.parse().ok()?;
        self.options.takes_malformed.then_some(status)
    }

    /// The bytes are not HTTP: the reply is wrong, and the start of the next one is unknown.
    fn garbage(&mut self, at: usize, why: &str, log: &mut ReplyLog<'_>, replies: &mut Replies) {
        let path = self.path(at);
        let session = &mut self.sessions[at];
        session.owed -= 1;
        session.asked.pop_front();
        replies.done += 1;
        replies.wrong += 1;
        replies.over = true;
        log.fault(FaultKind::WrongReply, || why.to_owned());
        log.note(path, 0, true);
    }
}

impl Reply {
    /// The memo of its head at the front of `bytes`, if the next reply may equal it.
    fn memo(&self, bytes: &[u8]) -> Option<Memo> {
        let may_return = !self.closes && matches!(self.body, Some(Body::Sized { .. }));
        let reply = Reply { is_known: true, ..*self };
        may_return.then(|| Memo { head: bytes[..self.head].to_vec(), reply })
    }

    /// Whether another one follows to the same request.
    fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// It has a status and nothing else that can be read: it ends with its connection.
    fn malform(&mut self, status: u16, seen: usize) {
        let body = Some(Body::ToEnd { seen: seen as u64 });
        *self = Reply { body, status, closes: true, is_malformed: true, ..Reply::default() };
    }
}

impl Script for Http {
    fn reserve(&mut self, connections: usize) {
        let seed = self.options.seed;
        let session = |at: usize| Session {
            owed: 0,
            asked: VecDeque::new(),
            next: 0,
            reply: Reply::default(),
            random: Pcg64Mcg::seed_from_u64(seed ^ (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        };
        let made = self.sessions.len();
        self.sessions.extend((made..connections).map(session));
    }

    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>) {
        self.sessions[at].owed += count;
        if let [only] = &self.requests[..] {
            (0..count).for_each(|_| out.extend_from_slice(only));
            return;
        }
        for _ in 0..count {
            let path = self.draw(at);
            out.extend_from_slice(&self.requests[path]);
            self.sessions[at].asked.push_back(path as u16);
        }
    }

    fn receive(&mut self, at: usize, bytes: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let mut replies = Replies::default();
        while self.sessions[at].owed > 0 && !replies.over {
            match self.reply(at, &bytes[replies.used..]) {
                Ok((used, whole)) => {
                    replies.used += used;
                    match whole {
                        Some(length) => self.finish(at, length, log, &mut replies),
                        None => break,
                    }
                }
                Err(why) => {
                    let rest = &bytes[replies.used..];
                    replies.used = bytes.len();
                    match self.malformed_status(rest) {
                        Some(status) => self.sessions[at].reply.malform(status, rest.len()),
                        None => self.garbage(at, &why, log, &mut replies),
                    }
                }
            }
        }
        self.done += u64::from(replies.done - replies.refused);
        self.wrong += u64::from(replies.wrong);
        if self.sessions[at].owed == 0 && !replies.over && replies.used < bytes.len() {
            replies.used += unasked(&bytes[replies.used..], log);
        }
        replies
    }

    fn ended(&mut self, at: usize, rest: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let mut replies = Replies::default();
        if self.sessions[at].owed > 0
            && self.sessions[at].reply.body.is_none()
            && let Some(status) = self.malformed_status(rest)
        {
            self.sessions[at].reply.malform(status, rest.len());
        }
        let reply = &mut self.sessions[at].reply;
        if self.options.takes_malformed
            && let Some(body @ (Body::Sized { .. } | Body::Chunked { .. })) = &reply.body
        {
            let seen = body.seen();
            (reply.body, reply.is_malformed) = (Some(Body::ToEnd { seen }), true);
        }
        if let Some(Body::ToEnd { seen }) = self.sessions[at].reply.body {
            self.finish(at, seen, log, &mut replies);
            self.done += 1;
            self.wrong += u64::from(replies.wrong);
            replies.over = true;
        }
        replies
    }

    fn close(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        session.owed = 0;
        // Unanswered requests that may be repeated are the next ones again.
        if let Some(&first) = session.asked.front().filter(|_| self.repeatable) {
            session.next = usize::from(first);
        }
        session.asked.clear();
        session.reply = Reply::default();
    }

    fn may_repeat(&self, _at: usize) -> bool {
        self.repeatable
    }

    fn kinds(&self) -> Vec<String> {
        let name = |(method, path): &(String, String)| match *method == self.options.method {
            true => path.clone(),
            false => format!("{method} {path}"),
        };
        self.names.iter().map(name).collect()
    }

    fn statuses(&self) -> BTreeMap<u16, u64> {
        self.statuses.clone()
    }

    fn totals(&self) -> Vec<u64> {
        let wrong = self.wrong_by.iter().flat_map(|(&status, &count)| [status.into(), count]);
        [self.done, self.wrong].into_iter().chain(wrong).collect()
    }

    fn verdict(&self, _reply: &[u8], others: &[Vec<u64>]) -> Check {
        let sum = |at: usize| others.iter().map(|sums| sums[at]).sum::<u64>();
        let (done, wrong) = (self.done + sum(0), self.wrong + sum(1));
        let wanted = self.options.wanted;
        let mut bad: BTreeMap<u64, u64> = BTreeMap::new();
        for sums in others.iter().chain([&self.totals()]) {
            for pair in sums[2..].as_chunks::<2>().0 {
                *bad.entry(pair[0]).or_default() += pair[1];
            }
        }
        bad.retain(|&status, _| !wanted.is_status(status as u16));
        let each = bad.iter().map(|(&status, count)| {
            let status = status_name(status as u16);
            format!("{count} of {done} replies were {status}")
        });
        let mut faults: Vec<String> = each.collect();
        let rest = wrong.saturating_sub(bad.values().sum());
        if rest > 0 {
            faults.push(format!("{rest} of {done} replies had another length or form"));
        }
        Check {
            kind: "http".to_owned(),
            ok: wrong == 0,
            detail: match wrong {
                0 => format!("{done} of {done} replies have {wanted}"),
                _ => format!("{}; expected {wanted}", faults.join(", ")),
            },
        }
    }
}

/// Parses the head at the front; `None` if it is incomplete.
fn parse(bytes: &[u8], no_body: bool) -> Result<Option<Reply>, String> {
    parse_fields(bytes, no_body, |_, _| {})
}

/// The same; `each` gets the name and the value of each field.
fn parse_fields(
    bytes: &[u8],
    no_body: bool,
    mut each: impl FnMut(&str, &[u8]),
) -> Result<Option<Reply>, String> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let head = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) if is_http2(bytes) => return Err(NOT_HTTP2.to_owned()),
        Err(_) if bytes.starts_with(&[21, 3]) => return Err(NOT_TLS.to_owned()),
        Err(why) => {
            return Err(format!("expected a reply of HTTP/1, found {} ({why})", shown(bytes)));
        }
    };
    let status = response.code.unwrap_or(0);
    let mut closes = response.version == Some(0);
    let (mut sized, mut chunked, mut coded, mut retries) = (None, false, false, false);
    for field in response.headers.iter() {
        each(field.name, field.value);
        let has = |word: &str| tokens(field.value).any(|it| it.eq_ignore_ascii_case(word));
        if field.name.eq_ignore_ascii_case("content-length") {
            let value = str::from_utf8(field.value).ok().and_then(|text| text.trim().parse().ok());
            if value.is_none() || sized.is_some_and(|known| Some(known) != value) {
                return Err(format!("expected one content-length, found {}", shown(field.value)));
            }
            sized = value;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            coded = true;
            chunked =
                tokens(field.value).last().is_some_and(|it| it.eq_ignore_ascii_case("chunked"));
        } else if field.name.eq_ignore_ascii_case("connection") {
            closes = has("close") || (closes && !has("keep-alive"));
        }
        retries |= field.name.eq_ignore_ascii_case("retry-after");
    }
    // The order of RFC 9112 section 6.3.
    let body = match (status, sized) {
        _ if no_body || status < 200 || status == 204 || status == 304 => Body::empty(),
        _ if chunked => Body::chunked(),
        (_, Some(left)) if !coded => Body::Sized { left, seen: 0 },
        _ => Body::ToEnd { seen: 0 },
    };
    let closes = closes || matches!(body, Body::ToEnd { .. });
    Ok(Some(Reply { body: Some(body), status, head, closes, retries, ..Reply::default() }))
}

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeReply {
    /// Its status.
    pub status: u16,
    /// Where its head begins, behind interim replies (1xx), and where it ends.
    pub head: (usize, usize),
    /// Its end.
    pub end: usize,
    /// The server closes the connection after it.
    pub closes: bool,
}

/// The first final reply in `bytes`, once all of it is there. `is_head`: HEAD was asked.
/// `is_closed`: nothing follows.
pub fn whole_reply(bytes: &[u8], is_head: bool, is_closed: bool) -> Option<WholeReply> {
    let mut start = 0;
    loop {
        let reply = parse(&bytes[start..], is_head).ok().flatten()?;
        let behind = start + reply.head;
        if reply.is_interim() {
            start = behind;
            continue;
        }
        let Reply { status, closes, .. } = reply;
        let mut body = reply.body?;
        let end = behind + body.take(&bytes[behind..]).ok()?;
        let is_whole = body.is_whole() || (is_closed && matches!(body, Body::ToEnd { .. }));
        let head = (start, behind);
        return is_whole.then_some(WholeReply { status, head, end, closes });
    }
}

/// The words for a server that speaks HTTP/2 only.
const NOT_HTTP2: &str = "expected a reply of HTTP/1.1, found a frame of HTTP/2; say --http2";
/// The words for a server that wants TLS.
const NOT_TLS: &str =
    "expected a reply of HTTP/1.1, found an alert of TLS; the port wants https://";

/// Whether the bytes begin with a frame of settings (type 4 on stream 0), as each connection of
/// HTTP/2 does (RFC 9113 section 3.4).
fn is_http2(bytes: &[u8]) -> bool {
    bytes.len() >= 9 && bytes[0] == 0 && bytes[3] == 4 && bytes[5..9] == [0; 4]
}

/// The members of a list such as `gzip, chunked`.
fn tokens(value: &[u8]) -> impl Iterator<Item = &str> {
    str::from_utf8(value).unwrap_or_default().split(',').map(str::trim)
}

fn overlong(head: &[u8]) -> String {
    format!("expected a head of at most {HEAD_MAX} bytes, found no end of {}", shown(head))
}

#[cfg(test)]
mod tests;
