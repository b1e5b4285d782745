//! Services for the tests of all engines: small, nasty, and with a known answer.
//!
//! [`Probe`] uses every part of the seam on request. Its reply is a pure function of its input,
//! given by [`expected`], which shares only the table of requests with the service. Lines that
//! begin with `#` or `~` are news: they depend on time, on other sessions or on the engine's
//! abilities. [`plain`] strips them before the comparison.
//!
//! A request is a line of at most [`LINE_MAX`] bytes, including its newline:
//!
//! | request | reply | tests |
//! |---|---|---|
//! | `echo TEXT` | `= TEXT` | |
//! | `much N` | N lines at once | back-pressure: far beyond `output_high` |
//! | `flow N` | N lines piece by piece | [`seam::Then::Pause`] and [`Event::Room`] |
//! | `shy N` | N lines | input that is not used while the output is full |
//! | `shared N` | N lines | [`Out::shared`] |
//! | `file N` | N lines of asset 0 | [`Out::file`] |
//! | `wait MS` | `waited` | a pause that [`Event::Deadline`] ends; later input waits |
//! | `nudge MS` | `#nudge` later | a deadline that does not delay input |
//! | `job TEXT` | TEXT reversed | [`seam::Then::Offload`] and [`Event::Outcome`] |
//! | `toil N` | N lines, then `toiled` | a job with much output |
//! | `pause` | `paused` | a pause that ends only when the output falls |
//! | `linger` | `lingers`; at the end also `left` | a session that outlives its end or a drain |
//! | `count` | `#total N` | a number that all workers share |
//! | `ticks` | `#ticks N` | [`Service::tick`] |
//! | `id` | `#id N` | the session's own id |
//! | `tell ID TEXT` | `#told` or `#refused` | [`Cx::push`] of `~TEXT` |
//! | `bye` | `bye` | [`seam::Then::Close`] |
//! | else | `? N`, N its length | |
//!
//! A longer line gets `long` and a close. The end of input gets `end N`, N the bytes after the last
//! newline, and a close. A drain gets `#drain`, and a peer that begins too late `#late`.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use seam::{
    AssetId, Closed, Cx, Event, Instant, Limits, Out, Peer, Service, SessionId, Share, Step,
};

mod plain;
mod small;

pub use plain::{Menu, expected, plain, requests};
pub use small::Echo;

/// The longest request in bytes, including its newline.
pub const LINE_MAX: usize = 256;
/// The maximum number of lines from `shared` and `file`.
pub const SHARED_MAX: usize = 4096;
/// The length of a numbered line in bytes, including its newline.
pub const NUMBERED: usize = 16;

const LINGER: Duration = Duration::from_millis(5);

/// The `at`-th of the lines that `much`, `flow`, `shared` and `file` reply.
pub fn numbered(at: usize) -> [u8; NUMBERED] {
    let mut line = *b"0000000 roundly\n";
    let mut rest = at;
    for digit in line[..7].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    line
}

/// The whole content that the engine needs as asset 0: [`SHARED_MAX`] numbered lines.
pub fn asset() -> Vec<u8> {
    (0..SHARED_MAX).flat_map(numbered).collect()
}

/// A parsed request; the only table of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    Echo(&'a [u8]),
    Much(usize),
    Flow(usize),
    Shy(usize),
    Shared(usize),
    File(usize),
    Wait(u64),
    Nudge(u64),
    Job(&'a [u8]),
    Toil(usize),
    Pause,
    Linger,
    Count,
    Ticks,
    Id,
    Tell(SessionId, &'a [u8]),
    Bye,
    Unknown(usize),
}

impl<'a> Request<'a> {
    /// Reads `line`, which has no newline.
    pub(crate) fn parse(line: &'a [u8]) -> Request<'a> {
        let (word, rest) = cut(line);
        let known = match word {
            b"echo" => Some(Request::Echo(rest)),
            b"much" => number(rest, 1 << 20).map(|n| Request::Much(n as usize)),
            b"flow" => number(rest, 1 << 20).map(|n| Request::Flow(n as usize)),
            b"shy" => number(rest, 1 << 20).map(|n| Request::Shy(n as usize)),
            b"shared" => number(rest, SHARED_MAX as u64).map(|n| Request::Shared(n as usize)),
            b"file" => number(rest, SHARED_MAX as u64).map(|n| Request::File(n as usize)),
            b"wait" => number(rest, 60_000).map(Request::Wait),
            b"nudge" => number(rest, 60_000).map(Request::Nudge),
            b"job" => Some(Request::Job(rest)),
            b"toil" => number(rest, 1 << 20).map(|n| Request::Toil(n as usize)),
            b"pause" => Some(Request::Pause),
            b"linger" => Some(Request::Linger),
            b"count" => Some(Request::Count),
            b"ticks" => Some(Request::Ticks),
            b"id" => Some(Request::Id),
            b"tell" => {
                let (id, text) = cut(rest);
                let id = number(id, (1 << 60) - 1);
                id.map(|id| Request::Tell(SessionId::from_bits(id), text))
            }
            b"bye" => Some(Request::Bye),
            _ => None,
        };
        known.unwrap_or(Request::Unknown(line.len()))
    }
}

/// The first word, and the text after the blank that follows it.
fn cut(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|&byte| byte == b' ') {
        Some(blank) => (&line[..blank], &line[blank + 1..]),
        None => (line, &[]),
    }
}

/// A decimal number of at most `max`.
fn number(text: &[u8], max: u64) -> Option<u64> {
    let text = core::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|number| *number <= max)
}

/// The state that all workers of a [`Probe`] share.
#[derive(Debug, Default)]
pub struct World {
    /// Sessions opened.
    pub opened: AtomicU64,
    /// Sessions closed.
    pub closed: AtomicU64,
    /// `count` requests served.
    pub total: AtomicU64,
    /// Ticks of the world.
    pub ticks: AtomicU64,
}

// SAFETY: four atomics: zero is a valid value, there is no pointer and no destructor.
unsafe impl Share for World {}

/// The nasty service.
#[derive(Clone)]
pub struct Probe {
    /// The limits of each connection; `input_max` is at least [`LINE_MAX`].
    pub limits: Limits,
    /// Handles one request a step instead of all that have arrived.
    pub one_by_one: bool,
    /// How long a peer may take to begin.
    pub patience: Option<Duration>,
    /// The time between two ticks; `None`: no ticks.
    pub tick: Option<Duration>,
    /// The bytes that `shared` replies with, from their start: those of [`asset`].
    pub lines: Arc<[u8]>,
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("limits", &self.limits)
            .field("one_by_one", &self.one_by_one)
            .field("patience", &self.patience)
            .field("tick", &self.tick)
            .finish_non_exhaustive()
    }
}

impl Default for Probe {
    fn default() -> Probe {
        let limits = Limits {
            input_max: 16 * 1024,
            output_high: 64 * 1024,
            output_low: 16 * 1024,
            sessions_max: 4096,
        };
        Probe { limits, one_by_one: false, patience: None, tick: None, lines: asset().into() }
    }
}

impl Probe {
    /// A probe with limits so narrow that a handful of requests reaches all of them.
    pub fn narrow() -> Probe {
        let limits =
            Limits { input_max: LINE_MAX, output_high: 96, output_low: 40, sessions_max: 64 };
        Probe { limits, ..Probe::default() }
    }
}

/// A session's unfinished request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Nothing,
    /// Lines from the first number up to the second.
    Flow(usize, usize),
    Wait(Instant),
}

/// One connection of a [`Probe`].
#[derive(Debug, Default)]
pub struct Talk {
    begun: bool,
    doing: Doing,
    nudge: Option<Instant>,
    /// The number of lines written for a `shy` request.
    shown: usize,
    /// Input that was offered and not used, in bytes.
    tail: usize,
    /// It stays open for a while after an end or a drain.
    lingers: bool,
    /// When it closes, whatever events come before.
    leave: Option<Instant>,
}

impl Talk {
    /// The earliest moment that it waits for.
    fn wake(&self) -> Option<Instant> {
        let wait = match self.doing {
            Doing::Wait(until) => Some(until),
            Doing::Nothing | Doing::Flow(..) => None,
        };
        [wait, self.nudge, self.leave].into_iter().flatten().min()
    }

    /// The end of a step that used `used` bytes.
    fn rest(&self, used: usize) -> Step<Vec<u8>> {
        let step = match self.doing {
            Doing::Nothing => Step::read(used),
            Doing::Flow(..) | Doing::Wait(_) => Step::pause(used),
        };
        Step { wake: self.wake(), ..step }
    }

    /// Continues a flow until the output is full.
    fn flow(&mut self, out: &mut Out) {
        let Doing::Flow(mut at, end) = self.doing else { return };
        while at < end && !out.is_full() {
            out.bytes().extend_from_slice(&numbered(at));
            at += 1;
        }
        self.doing = if at < end { Doing::Flow(at, end) } else { Doing::Nothing };
    }

    /// Writes until the output is full; returns true once all `lines` are written.
    fn shy(&mut self, lines: usize, out: &mut Out) -> bool {
        while self.shown < lines && !out.is_full() {
            out.bytes().extend_from_slice(&numbered(self.shown));
            self.shown += 1;
        }
        let done = self.shown == lines;
        if done {
            self.shown = 0;
        }
        done
    }

    /// Answers an end or a drain: closes, at once or later.
    fn leave(&mut self, now: Instant) -> Step<Vec<u8>> {
        if !self.lingers {
            return Step::close(0);
        }
        self.leave.get_or_insert(now + LINGER);
        self.rest(0)
    }

    /// Reports what is due; returns true if the session must close.
    fn deadline(&mut self, now: Instant, out: &mut Out) -> bool {
        if self.nudge.is_some_and(|nudge| nudge <= now) {
            self.nudge = None;
            out.bytes().extend_from_slice(b"#nudge\n");
        }
        if matches!(self.doing, Doing::Wait(until) if until <= now) {
            self.doing = Doing::Nothing;
            out.bytes().extend_from_slice(b"waited\n");
        }
        let leaves = self.leave.is_some_and(|leave| leave <= now);
        if leaves {
            out.bytes().extend_from_slice(b"left\n");
        }
        leaves
    }
}

/// The consequence of a request beyond its reply.
enum Next {
    More,
    Stop,
    Pause,
    Close,
    Job(Vec<u8>),
}

impl Probe {
    fn read(
        &self,
        cx: &Cx<'_, World>,
        talk: &mut Talk,
        input: &[u8],
        out: &mut Out,
    ) -> Step<Vec<u8>> {
        let mut used = 0;
        while used < input.len() {
            let rest = &input[used..];
            let seen = &rest[..rest.len().min(LINE_MAX)];
            let Some(len) = seen.iter().position(|&byte| byte == b'\n') else {
                if rest.len() >= LINE_MAX {
                    out.bytes().extend_from_slice(b"long\n");
                    return Step::close(used);
                }
                break;
            };
            let request = Request::parse(&rest[..len]);
            if let Request::Shy(lines) = request
                && !talk.shy(lines, out)
            {
                break;
            }
            used += len + 1;
            talk.tail = input.len() - used;
            match self.answer(cx, talk, request, out) {
                Next::More if self.one_by_one || out.is_full() => break,
                Next::More => {}
                Next::Stop => break,
                Next::Pause => return Step { wake: talk.wake(), ..Step::pause(used) },
                Next::Close => return Step::close(used),
                Next::Job(job) => {
                    return Step { wake: talk.wake(), ..Step::offload(used, job) };
                }
            }
        }
        talk.tail = input.len() - used;
        talk.rest(used)
    }

    fn answer(
        &self,
        cx: &Cx<'_, World>,
        talk: &mut Talk,
        request: Request<'_>,
        out: &mut Out,
    ) -> Next {
        let after = |ms| cx.now + Duration::from_millis(ms);
        match request {
            Request::Echo(text) => out.bytes().extend_from_slice(&[b"= ", text, b"\n"].concat()),
            Request::Much(lines) => out.bytes().extend((0..lines).flat_map(numbered)),
            Request::Flow(lines) => {
                talk.doing = Doing::Flow(0, lines);
                talk.flow(out);
                if talk.doing != Doing::Nothing {
                    return Next::Stop;
                }
            }
            Request::Shy(_) => {}
            Request::Shared(lines) => out.shared(Arc::clone(&self.lines), 0..lines * NUMBERED),
            Request::File(lines) => out.file(AssetId(0), 0..(lines * NUMBERED) as u64),
            Request::Wait(ms) => {
                talk.doing = Doing::Wait(after(ms));
                return Next::Stop;
            }
            Request::Nudge(ms) => talk.nudge = Some(after(ms)),
            Request::Job(text) => return Next::Job(text.to_vec()),
            Request::Toil(lines) => {
                out.bytes().extend((0..lines).flat_map(numbered));
                return Next::Job(b"deliot".to_vec());
            }
            Request::Pause => {
                out.bytes().extend_from_slice(b"paused\n");
                return Next::Pause;
            }
            Request::Linger => {
                talk.lingers = true;
                out.bytes().extend_from_slice(b"lingers\n");
            }
            Request::Count => say(out, format_args!("#total {}", add(&cx.state.total))),
            Request::Ticks => {
                say(out, format_args!("#ticks {}", cx.state.ticks.load(Relaxed)));
            }
            Request::Id => say(out, format_args!("#id {}", cx.me.bits())),
            Request::Tell(to, text) => {
                let told = cx.push(to, &[b"~", text, b"\n"].concat());
                let told = if told.is_ok() { "#told" } else { "#refused" };
                say(out, format_args!("{told}"));
            }
            Request::Bye => {
                out.bytes().extend_from_slice(b"bye\n");
                return Next::Close;
            }
            Request::Unknown(len) => say(out, format_args!("? {len}")),
        }
        Next::More
    }
}

fn add(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Relaxed) + 1
}

fn say(out: &mut Out, line: fmt::Arguments<'_>) {
    out.bytes().extend_from_slice(format!("{line}\n").as_bytes());
}

impl Service for Probe {
    type State = World;
    type Session = Talk;
    type Job = Vec<u8>;
    type Outcome = Vec<u8>;

    fn limits(&self) -> Limits {
        self.limits
    }

    fn patience(&self) -> Option<Duration> {
        self.patience
    }

    fn open(&self, cx: &Cx<'_, World>, peer: Peer, _out: &mut Out) -> Talk {
        add(&cx.state.opened);
        cx.note(|note| note.push_str(&format!("{} opened for {peer:?}", cx.me)));
        Talk::default()
    }

    fn step(
        &self,
        cx: &Cx<'_, World>,
        talk: &mut Talk,
        event: Event<'_, Vec<u8>>,
        out: &mut Out,
    ) -> Step<Vec<u8>> {
        let begun = core::mem::replace(&mut talk.begun, true);
        match event {
            Event::Bytes(input) => return self.read(cx, talk, input, out),
            Event::Room => talk.flow(out),
            Event::Deadline if !begun => {
                out.bytes().extend_from_slice(b"#late\n");
                return Step::close(0);
            }
            Event::Deadline => {
                if talk.deadline(cx.now, out) {
                    return Step::close(0);
                }
            }
            Event::Eof => {
                say(out, format_args!("end {}", talk.tail));
                return talk.leave(cx.now);
            }
            Event::Drain => {
                out.bytes().extend_from_slice(b"#drain\n");
                return talk.leave(cx.now);
            }
            Event::Outcome(mut text) => {
                text.push(b'\n');
                out.bytes().append(&mut text);
            }
        }
        talk.rest(0)
    }

    fn work(&self, _state: &World, mut job: Vec<u8>) -> Vec<u8> {
        job.reverse();
        job
    }

    fn close(&self, cx: &Cx<'_, World>, _talk: Talk, why: Closed) {
        add(&cx.state.closed);
        cx.note(|note| note.push_str(&format!("{} closed: {why:?}", cx.me)));
    }

    fn tick(&self, cx: &Cx<'_, World>) -> Option<Instant> {
        add(&cx.state.ticks);
        self.tick.map(|tick| cx.now + tick)
    }
}
