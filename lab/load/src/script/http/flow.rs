//! Flows: users who send requests in steps, with values from earlier replies.
//!
//! A flow is compiled once ([`Flows::read`]): each step is a method, templates of path, head and
//! body, and what its reply must have. A user has a place in a flow, the values that its steps have
//! taken, and a jar of cookies; a user sends one request at a time. Buffers are reused, so a step
//! without takes allocates nothing, and the head of a reply that equals the last one, byte for
//! byte, is not parsed again, as in [`super::Http`].
//!
//! Each step is a kind of request. A broken expectation is an error of its step, and the iteration
//! goes on. A value that cannot be taken ends it, because later steps need it, and so does the lost
//! reply to a request that must not be repeated. The body of a reply is kept only if its step reads
//! it, up to `BODY_MAX`. An iteration draws its flow by weight, the next row of its data and a new
//! random number. A user that the driver announces by [`Script::enter`] has a new jar: in a
//! closed loop each connection is one user, with `--sessions` each iteration.

mod data;
mod file;
mod har;
mod jar;
mod reply;
mod template;

pub use har::flow_of;

use super::{Body, HEAD_MAX, Memo, Reply, overlong, parse_fields};
use crate::arrive::unit;
use crate::faults::FaultKind;
use crate::model::Model;
use crate::parse::{Scheme, Target, Usage};
use crate::report::Check;
use crate::run::unix_ms;
use crate::script::{Replies, ReplyLog, Script, shown, unasked};
use crate::work::Think;
use jar::Jar;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use reply::{Received, Take, Wanted, field, json};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use template::{Template, Values};

/// The longest body from which a step takes or checks something (bytes).
const BODY_MAX: usize = 1 << 20;
/// The numbers of `${random}` are below this.
const RANDOM_MAX: f64 = 1e9;
/// Keeps the draws of two users apart: 2^64 divided by the golden ratio.
const DRAWS: u64 = 0x9e37_79b9_7f4a_7c15;

/// The flows of a file, compiled.
#[derive(Debug, Default)]
pub struct Flows {
    list: Vec<Flow>,
    /// The steps of all flows; their places are the kinds of requests.
    steps: Vec<Step>,
    /// The origin before each path ([`Target::prefix`]).
    prefix: String,
    /// The most values that the steps of a flow take.
    takes_max: usize,
    source: String,
}

#[derive(Debug)]
struct Flow {
    /// The sum of the weights of this and the flows before it.
    weights: u64,
    kinds: Range<usize>,
    rows: Vec<Arc<[String]>>,
}

#[derive(Debug)]
struct Step {
    name: String,
    /// With a blank.
    method: Vec<u8>,
    is_head: bool,
    is_idempotent: bool,
    path: Template,
    head: Template,
    body: Template,
    /// The body's length differs from request to request.
    sizes_body: bool,
    /// The step names its cookies itself.
    has_cookies: bool,
    reads_json: bool,
    reads_body: bool,
    reads_head: bool,
    wanted: Wanted,
    takes: Vec<Take>,
    think: Option<Think>,
}

/// Counters that all threads share: rows of data that were handed out, by flow, then users.
pub type FlowCounters = Arc<[AtomicU64]>;

/// The script.
pub struct FlowScript {
    flows: Arc<Flows>,
    counters: FlowCounters,
    is_tls: bool,
    seed: u64,
    users: Vec<User>,
    /// The last right head of each step that reads no head.
    memos: Vec<Option<Memo>>,
    /// Room for a body, or for an expected text.
    text: Vec<u8>,
    statuses: BTreeMap<u16, u64>,
    done: u64,
    /// By kind.
    wrong: Vec<u64>,
}

struct User {
    values: Values,
    draws: Pcg64Mcg,
    flow: usize,
    /// The next step, or the one without its reply.
    kind: usize,
    /// The next request begins an iteration.
    is_fresh: bool,
    owes: bool,
    think: Option<Think>,
    jar: Jar,
    /// The path of the last request.
    asked: Vec<u8>,
    reply: Reply,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// Equal sources are compiled to equal flows.
impl PartialEq for Flows {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Flows {
    /// The number of steps.
    pub fn kinds(&self) -> usize {
        self.steps.len()
    }

    /// Method and name of each kind.
    pub(crate) fn names(&self) -> impl Iterator<Item = (String, &str)> {
        let method = |step: &Step| String::from_utf8_lossy(&step.method).trim().to_owned();
        self.steps.iter().map(move |step| (method(step), &step.name[..]))
    }

    /// Counters for a run.
    pub fn counters(&self) -> FlowCounters {
        (0..=self.list.len()).map(|_| AtomicU64::new(0)).collect()
    }

    /// Checks that users of this model can go through a flow on `target`.
    ///
    /// # Errors
    /// They cannot, with the way out.
    pub fn check(model: &Model, target: &Target) -> Result<(), Usage> {
        let why = match model {
            _ if target.scheme != Scheme::Http => {
                "expected http:// or https:// with --flow, found another target"
            }
            Model::Open { .. } => {
                "expected --flow with users who wait for replies, found --open; say --sessions \
                 RATE for iterations a second"
            }
            _ if model.depth() != 1 => {
                "expected one request at a time with --flow, found --depth; use more users (-c)"
            }
            _ if target.http2 => "expected HTTP/1.1 with --flow, found --http2; leave --http2 out",
            _ if target.path != "/" => {
                "expected a target without a path with --flow, because each step has a path; \
                 leave it out"
            }
            _ => return Ok(()),
        };
        Err(Usage(why.to_owned()))
    }

    fn draw(&self, draws: &mut Pcg64Mcg) -> usize {
        let total = self.list.last().map_or(0, |flow| flow.weights);
        let draw = unit(draws) * total as f64;
        self.list.partition_point(|flow| flow.weights as f64 <= draw).min(self.list.len() - 1)
    }
}

impl Step {
    /// The body as JSON, if this step reads it so.
    fn read(&self, received: &Received<'_>) -> Result<Option<Value>, String> {
        match field(received.head, "content-encoding").filter(|_| self.reads_body) {
            Some(coding) if !coding.eq_ignore_ascii_case(b"identity") => Err(format!(
                "expected a body without Content-Encoding, because this step reads it, found {}; \
                 leave its field Accept-Encoding out",
                shown(coding)
            )),
            _ if received.body.len() > BODY_MAX => Err(format!(
                "expected a body of at most {BODY_MAX} bytes, because this step reads it, found \
                 more"
            )),
            _ if self.reads_json => json(received.body).map(Some),
            _ => Ok(None),
        }
    }

    /// Judges a reply and takes its values; also whether all values were there. `text` is room.
    fn judge(
        &self,
        mut received: Received<'_>,
        values: &mut Values,
        text: &mut Vec<u8>,
    ) -> (Result<(), String>, bool) {
        let mut judged = self.wanted.check_status(received.status);
        let json = match self.read(&received) {
            Ok(json) => json,
            Err(why) => {
                (judged, received.body) = (judged.and(Err(why)), b"");
                None
            }
        };
        if judged.is_ok() {
            judged = self.wanted.check(&received, json.as_ref(), values, text);
        }
        let mut has_all = true;
        for take in &self.takes {
            let taken = take.take(&received, json.as_ref(), &mut values.taken[take.slot]);
            has_all &= taken.is_ok();
            judged = judged.and(taken);
        }
        (judged, has_all)
    }
}

impl FlowScript {
    /// A script for `connections` users.
    pub fn new(
        flows: Arc<Flows>,
        counters: FlowCounters,
        connections: usize,
        is_tls: bool,
        seed: u64,
    ) -> Self {
        let kinds = flows.steps.len();
        let mut script = Self {
            flows,
            counters,
            is_tls,
            seed,
            users: Vec::new(),
            memos: (0..kinds).map(|_| None).collect(),
            text: Vec::new(),
            statuses: BTreeMap::new(),
            done: 0,
            wrong: vec![0; kinds],
        };
        script.reserve(connections);
        script
    }

    fn begin(&mut self, at: usize) {
        let user = &mut self.users[at];
        user.flow = self.flows.draw(&mut user.draws);
        let flow = &self.flows.list[user.flow];
        if !flow.rows.is_empty() {
            let row = self.counters[user.flow].fetch_add(1, Relaxed) as usize;
            user.values.row = Arc::clone(&flow.rows[row % flow.rows.len()]);
        }
        user.values.random = (unit(&mut user.draws) * RANDOM_MAX) as u64;
        user.values.iteration += 1;
        (user.kind, user.is_fresh) = (flow.kinds.start, false);
    }

    /// Parses the head at the front of `rest`; returns the bytes used, `None` if it is incomplete.
    fn head(&mut self, at: usize, rest: &[u8]) -> Result<Option<usize>, String> {
        let user = &mut self.users[at];
        let step = &self.flows.steps[user.kind];
        if let Some(memo) = &self.memos[user.kind]
            && rest.starts_with(&memo.head)
        {
            user.reply = memo.reply;
            return Ok(Some(memo.head.len()));
        }
        let mut is_read = step.reads_head;
        let User { jar, asked, .. } = user;
        let each = |name: &str, value: &[u8]| {
            let is_cookie = name.eq_ignore_ascii_case("set-cookie");
            is_read |= is_cookie || name.eq_ignore_ascii_case("content-encoding");
            if is_cookie {
                jar.set(value, path_of(asked), unix_seconds);
            }
        };
        let Some(reply) = parse_fields(rest, step.is_head, each)? else {
            return if rest.len() < HEAD_MAX { Ok(None) } else { Err(overlong(rest)) };
        };
        if reply.is_interim() {
            return Ok(Some(reply.head));
        }
        if is_read {
            user.head.extend_from_slice(&rest[..reply.head]);
        } else if step.wanted.is_status(reply.status) {
            self.memos[user.kind] = reply.memo(rest);
        }
        user.reply = reply;
        Ok(Some(reply.head))
    }

    /// Consumes the available part of the reply; returns the bytes used, and the body's length once
    /// the reply is complete.
    fn reply(&mut self, at: usize, rest: &[u8]) -> Result<(usize, Option<u64>), String> {
        let mut used = 0;
        while self.users[at].reply.body.is_none() {
            match self.head(at, &rest[used..])? {
                Some(length) => used += length,
                None => return Ok((used, None)),
            }
        }
        let user = &mut self.users[at];
        let is_read = self.flows.steps[user.kind].reads_body;
        let kept = &mut user.body;
        let keep = |piece: &[u8]| {
            // One byte beyond the limit shows that there are more.
            let room = if is_read { BODY_MAX + 1 - kept.len() } else { 0 };
            kept.extend_from_slice(&piece[..room.min(piece.len())]);
        };
        let body = user.reply.body.as_mut().expect("the loop above ends with a body");
        let taken = body.take_to(&rest[used..], keep)?;
        Ok((used + taken, body.is_whole().then(|| body.seen())))
    }

    /// The reply is complete: judges it, takes its values, and moves to the next step.
    fn finish(&mut self, at: usize, length: u64, log: &mut ReplyLog<'_>, replies: &mut Replies) {
        let user = &mut self.users[at];
        let (kind, step) = (user.kind, &self.flows.steps[user.kind]);
        let reply = std::mem::take(&mut user.reply);
        let status = reply.status;
        // An overload, and no fault (RFC 9110, 15.6.4 and 10.2.3).
        let is_refused = status == 503 && reply.retries && !step.wanted.is_status(503);
        let User { values, jar, head, body, .. } = user;
        let received = Received { status, head, body, jar };
        let (judged, has_all) = match is_refused {
            true => (Ok(()), step.takes.is_empty()),
            false => step.judge(received, values, &mut self.text),
        };
        (user.owes, user.think) = (false, step.think);
        user.head.clear();
        user.body.clear();
        user.kind += 1;
        user.is_fresh = !has_all || user.kind == self.flows.list[user.flow].kinds.end;
        replies.done += 1;
        replies.over |= reply.closes;
        replies.refused += u32::from(is_refused);
        *self.statuses.entry(status).or_default() += 1;
        let whole = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(reply.head);
        self.count(kind, judged, is_refused, whole, log, replies);
        log.status(status);
    }

    /// Counts a reply of `whole` bytes, and its fault.
    fn count(
        &mut self,
        kind: usize,
        judged: Result<(), String>,
        is_refused: bool,
        whole: usize,
        log: &mut ReplyLog<'_>,
        replies: &mut Replies,
    ) {
        let is_wrong = judged.is_err();
        if let Err(why) = judged {
            let name = &self.flows.steps[kind].name;
            log.fault(FaultKind::WrongReply, || format!("{name}: {why}"));
        }
        self.done += u64::from(!is_refused);
        self.wrong[kind] += u64::from(is_wrong);
        replies.wrong += u32::from(is_wrong);
        log.note(kind as u16, whole, is_wrong || is_refused);
    }
}

impl Script for FlowScript {
    fn reserve(&mut self, connections: usize) {
        let user = |at: usize| User {
            values: Values { taken: vec![Vec::new(); self.flows.takes_max], ..Values::default() },
            draws: Pcg64Mcg::seed_from_u64(self.seed ^ (at as u64).wrapping_mul(DRAWS)),
            flow: 0,
            kind: 0,
            is_fresh: true,
            owes: false,
            think: None,
            jar: Jar::default(),
            asked: Vec::new(),
            reply: Reply::default(),
            head: Vec::new(),
            body: Vec::new(),
        };
        self.users.extend((self.users.len()..connections).map(user));
    }

    fn enter(&mut self, at: usize) {
        let user = &mut self.users[at];
        user.values.user = 1 + self.counters[self.flows.list.len()].fetch_add(1, Relaxed);
        (user.values.iteration, user.is_fresh) = (0, true);
        user.jar.clear();
    }

    fn ask(&mut self, at: usize, count: u32, out: &mut Vec<u8>) {
        assert_eq!(count, 1, "a user of a flow has one request at a time");
        if self.users[at].is_fresh {
            self.begin(at);
        }
        let user = &mut self.users[at];
        let (step, values) = (&self.flows.steps[user.kind], &user.values);
        user.asked.clear();
        step.path.put(values, &mut user.asked);
        let path = path_of(&user.asked);
        out.extend_from_slice(&step.method);
        out.extend_from_slice(self.flows.prefix.as_bytes());
        if !path.starts_with(b"/") && step.path.begins_open() {
            out.push(b'/');
        }
        out.extend_from_slice(path);
        step.head.put(values, out);
        if !step.has_cookies {
            user.jar.put(path, self.is_tls, unix_seconds, out);
        }
        self.text.clear();
        step.body.put(values, &mut self.text);
        if step.sizes_body {
            let _ = write!(out, "Content-Length: {}\r\n", self.text.len());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.text);
        user.owes = true;
    }

    fn receive(&mut self, at: usize, bytes: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let mut replies = Replies::default();
        if self.users[at].owes {
            match self.reply(at, bytes) {
                Ok((used, whole)) => {
                    replies.used = used;
                    if let Some(length) = whole {
                        self.finish(at, length, log, &mut replies);
                    }
                }
                Err(why) => {
                    let kind = self.users[at].kind;
                    (replies.used, replies.done, replies.over) = (bytes.len(), 1, true);
                    self.close(at);
                    self.count(kind, Err(why), false, 0, log, &mut replies);
                }
            }
        }
        if !self.users[at].owes && !replies.over && replies.used < bytes.len() {
            replies.used += unasked(&bytes[replies.used..], log);
        }
        replies
    }

    fn ended(&mut self, at: usize, _rest: &[u8], log: &mut ReplyLog<'_>) -> Replies {
        let mut replies = Replies::default();
        if let Some(Body::ToEnd { seen }) = self.users[at].reply.body {
            self.finish(at, seen, log, &mut replies);
            replies.over = true;
        }
        replies
    }

    fn pause(&mut self, at: usize) -> Option<Duration> {
        let user = &mut self.users[at];
        user.think.map(|think| think.draw(&mut user.draws))
    }

    fn is_through(&self, at: usize) -> bool {
        self.users[at].is_fresh
    }

    fn may_repeat(&self, at: usize) -> bool {
        self.users[at].owes && self.flows.steps[self.users[at].kind].is_idempotent
    }

    fn close(&mut self, at: usize) {
        let user = &mut self.users[at];
        // Later steps may need the lost reply; a harmless request is sent again.
        user.is_fresh |= user.owes && !self.flows.steps[user.kind].is_idempotent;
        user.owes = false;
        user.reply = Reply::default();
        user.head.clear();
        user.body.clear();
    }

    fn kinds(&self) -> Vec<String> {
        self.flows.steps.iter().map(|step| step.name.clone()).collect()
    }

    fn statuses(&self) -> BTreeMap<u16, u64> {
        self.statuses.clone()
    }

    fn totals(&self) -> Vec<u64> {
        [self.done].into_iter().chain(self.wrong.iter().copied()).collect()
    }

    fn verdict(&self, _reply: &[u8], others: &[Vec<u64>]) -> Check {
        let mut sums = self.totals();
        for more in others {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        let (done, wrong) = (sums[0], &sums[1..]);
        let all: u64 = wrong.iter().sum();
        let each = self.flows.steps.iter().zip(wrong).filter(|(_, count)| **count > 0);
        let each: Vec<String> =
            each.map(|(step, count)| format!("{} {count}", step.name)).collect();
        Check {
            kind: "flow".to_owned(),
            ok: all == 0,
            detail: match all {
                0 => format!("{done} of {done} replies are as their steps expect"),
                _ => format!("{all} of {done} replies are not as expected: {}", each.join(", ")),
            },
        }
    }
}

/// The path of an address, such as a taken Location: without its origin.
fn path_of(place: &[u8]) -> &[u8] {
    if place.starts_with(b"/") {
        return place;
    }
    let Some(at) = memchr::memmem::find(place, b"://") else { return place };
    let rest = &place[at + 3..];
    memchr::memchr(b'/', rest).map_or(b"/", |at| &rest[at..])
}

fn unix_seconds() -> u64 {
    unix_ms() / 1000
}

#[cfg(test)]
mod tests;
