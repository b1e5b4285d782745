//! A wrapper around a service that observes the engine from inside.
//!
//! All observations stay with the session, so watching needs no agreement between workers; only the
//! names of the workers inside a session lie in one table. Each process has a separate table:
//! there the hook must report, because no caller reads the list.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Law, Violation};
use seam::{
    Closed, Cx, Event, Instant, Limits, Out, Peer, PushRefused, Service, SessionId, Step, Then,
    WorkerId,
};

/// The maximum number of bytes of one session that an engine may feed in one turn,
/// [`Limits::input_max`] not counted: four times the largest sensible receive buffer (64 KiB).
pub const TURN_BYTES_MAX: usize = 256 * 1024;

/// Bytes of unused input that are kept to recognise them when they are offered again. The bound
/// exists because a service that takes one message a step leaves nearly all input each time.
const TAIL_KEPT: usize = 1024;

/// A service that behaves like `S` and reports each breach of a law that it sees.
#[derive(Debug)]
pub struct Watched<S> {
    inner: S,
    ledger: Arc<Ledger>,
}

impl<S: Service> Watched<S> {
    /// Watches `inner`; calls `on_violation` for each breach, in the worker that saw it (see
    /// [`super::panicking`] and [`super::listing`]).
    pub fn new(inner: S, on_violation: fn(&Violation)) -> Watched<S> {
        let ledger = Ledger {
            on_violation,
            violations: Mutex::default(),
            inside: Mutex::default(),
            tick: Mutex::default(),
        };
        Watched { inner, ledger: Arc::new(ledger) }
    }

    /// All breaches seen by this process, oldest first.
    pub fn violations(&self) -> Vec<Violation> {
        lock(&self.ledger.violations).clone()
    }

    /// The number of open sessions in this process.
    pub fn open_now(&self) -> usize {
        lock(&self.ledger.inside).len()
    }
}

/// The observations of a watched service.
#[derive(Debug)]
pub struct Ledger {
    on_violation: fn(&Violation),
    violations: Mutex<Vec<Violation>>,
    /// The open sessions, and the worker inside each.
    inside: Mutex<HashMap<SessionId, Option<WorkerId>>>,
    tick: Mutex<Tick>,
}

/// The record of [`Service::tick`].
#[derive(Debug, Default)]
struct Tick {
    /// The worker that ticked last, and the tick that it asked for. A
    /// successor ticks at its own start.
    due: Option<(WorkerId, Instant)>,
    inside: Option<WorkerId>,
}

impl Ledger {
    fn report(&self, law: Law, detail: String) {
        let violation = Violation { law, detail };
        lock(&self.violations).push(violation.clone());
        (self.on_violation)(&violation);
    }

    fn opened(&self, me: SessionId, worker: WorkerId) {
        if lock(&self.inside).insert(me, Some(worker)).is_some() {
            let detail = format!("session {me}: opened by worker {worker} while it was open");
            self.report(Law::Exclusion, detail);
        }
    }

    fn entered(&self, me: SessionId, worker: WorkerId) {
        let before = lock(&self.inside).get_mut(&me).map(|inside| inside.replace(worker));
        match before {
            Some(None) => {}
            Some(Some(other)) => {
                let detail =
                    format!("session {me}: worker {worker} came in while {other} was inside");
                self.report(Law::Exclusion, detail);
            }
            None => self.report(Law::Closing, format!("session {me}: called while not open")),
        }
    }

    fn left(&self, me: SessionId) {
        if let Some(inside) = lock(&self.inside).get_mut(&me) {
            *inside = None;
        }
    }
}

/// Locks even after a panic: the content is valid after every single change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks a worker as inside a session during the visit, even if it panics.
struct Visit<'a> {
    ledger: &'a Ledger,
    me: SessionId,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.ledger.left(self.me);
    }
}

/// A session of the watched service, and its record.
#[derive(Debug)]
pub struct Seen<T> {
    /// Empty once `close` was called.
    inner: Option<T>,
    ledger: Arc<Ledger>,
    record: Record,
}

impl<T> Drop for Seen<T> {
    fn drop(&mut self) {
        if self.inner.is_some() && !std::thread::panicking() {
            let me = self.record.me;
            lock(&self.ledger.inside).remove(&me);
            self.ledger.report(Law::Closing, format!("session {me}: dropped without `close`"));
        }
    }
}

#[derive(Debug)]
struct Record {
    me: SessionId,
    now: Instant,
    wake: Option<Instant>,
    /// The number of input bytes offered and not used.
    tail_len: usize,
    /// The first of those bytes, at most [`TAIL_KEPT`].
    tail: Vec<u8>,
    full: bool,
    paused: bool,
    away: bool,
    eof: bool,
    drain: bool,
    said_close: bool,
    overlong: bool,
    /// Bytes used at `now`.
    turn_used: usize,
}

impl Record {
    fn new(me: SessionId, now: Instant, patience: Option<Duration>, out: &Out) -> Record {
        Record {
            me,
            now,
            wake: patience.map(|patience| now + patience),
            tail_len: 0,
            tail: Vec::new(),
            full: out.is_full(),
            paused: false,
            away: false,
            eof: false,
            drain: false,
            said_close: false,
            overlong: false,
            turn_used: 0,
        }
    }

    /// Judges the arrival of `event` now; returns each law broken and how.
    fn before<O>(&mut self, now: Instant, event: &Event<'_, O>, out: &Out) -> Vec<(Law, String)> {
        let mut broken = self.moment(now);
        let mut breach = |law: Law, how: String| broken.push((law, how));
        if self.said_close {
            breach(Law::Closing, "stepped after it said `Close`".into());
        }
        if self.overlong {
            breach(Law::Progress, "stepped after it used nothing of `input_max` bytes".into());
        }
        if self.away != matches!(event, Event::Outcome(_)) {
            let how =
                if self.away { "stepped while its job is out" } else { "`Done` without a job" };
            breach(Law::Order, how.into());
        }
        match event {
            Event::Bytes(input) => self.bytes(input, out, &mut breach),
            Event::Room if !out.is_low() => {
                breach(Law::BackPressure, format!("`Room` with {} bytes unsent", out.len()));
            }
            Event::Room => self.full = false,
            Event::Deadline => match self.wake {
                None => breach(Law::Time, "`Deadline` that was not asked for".into()),
                Some(wake) if wake > now => {
                    breach(Law::Time, format!("`Deadline` {:?} early", wake - now));
                }
                Some(_) => {}
            },
            Event::Eof => {
                if core::mem::replace(&mut self.eof, true) {
                    breach(Law::Order, "`Eof` twice".into());
                }
            }
            Event::Drain => {
                if core::mem::replace(&mut self.drain, true) {
                    breach(Law::Order, "`Drain` twice".into());
                }
            }
            // Room is not reported while a job is out, so only the visible state counts from here.
            Event::Outcome(_) => (self.away, self.full) = (false, out.is_full()),
        }
        broken
    }

    fn moment(&mut self, now: Instant) -> Vec<(Law, String)> {
        let mut broken = Vec::new();
        if now < self.now {
            broken.push((Law::Time, format!("`now` went back by {:?}", self.now - now)));
        }
        if now != self.now {
            self.turn_used = 0;
        }
        self.now = now;
        broken
    }

    fn bytes(&mut self, input: &[u8], out: &Out, breach: &mut impl FnMut(Law, String)) {
        if input.is_empty() {
            breach(Law::Progress, "offered no byte".into());
        }
        if out.is_full() {
            breach(Law::BackPressure, format!("offered input with {} bytes unsent", out.len()));
        } else if self.full {
            breach(Law::BackPressure, "offered input before `Room`".into());
        }
        if self.paused {
            breach(Law::BackPressure, "offered input during its pause".into());
        }
        let left = self.tail_len;
        if input.len() < left || !input.starts_with(&self.tail) {
            breach(Law::Order, format!("{left} bytes that it left were not offered first"));
        }
        if self.eof && input.len() > left {
            breach(Law::Order, "input after `Eof`".into());
        }
    }

    /// Judges the step's result; `offered` is the input that it could use, if that was its event.
    fn after<J>(
        &mut self,
        step: &Step<J>,
        offered: Option<&[u8]>,
        out: &Out,
        limits: &Limits,
    ) -> Vec<(Law, String)> {
        let mut broken = Vec::new();
        let len = offered.map_or(0, <[u8]>::len);
        if step.used > len {
            broken.push((Law::Progress, format!("used {} of {len} bytes", step.used)));
        }
        let pause = matches!(step.then, Then::Pause);
        self.wake = step.wake;
        // A pause that neither room nor a deadline would end does not count.
        self.paused = pause && (step.wake.is_some() || !out.is_low());
        self.away = matches!(step.then, Then::Offload(_));
        self.said_close = matches!(step.then, Then::Close);
        self.full |= out.is_full();
        if let Some(input) = offered {
            let left = &input[step.used.min(len)..];
            self.tail_len = left.len();
            self.tail.clear();
            self.tail.extend_from_slice(&left[..left.len().min(TAIL_KEPT)]);
            let reading = !self.paused && !self.away && !self.said_close && !out.is_full();
            self.overlong = step.used == 0 && len >= limits.input_max && reading;
            self.turn_used += step.used;
            if self.turn_used > TURN_BYTES_MAX + limits.input_max {
                let how = format!("{} bytes of it were fed in one turn", self.turn_used);
                broken.push((Law::BoundedTurn, how));
                self.turn_used = 0;
            }
        }
        broken
    }

    fn closed(&mut self, now: Instant, why: Closed) -> Vec<(Law, String)> {
        let mut broken = self.moment(now);
        if why == Closed::Service && !self.said_close {
            broken.push((Law::Closing, "closed in its name though it did not say `Close`".into()));
        }
        if why == Closed::Overlong && !self.overlong {
            broken.push((Law::Progress, "closed as overlong though it made progress".into()));
        }
        broken
    }
}

impl<S: Service> Watched<S> {
    fn visit(&self, me: SessionId, worker: WorkerId) -> Visit<'_> {
        self.ledger.entered(me, worker);
        Visit { ledger: &self.ledger, me }
    }

    fn report(&self, me: SessionId, broken: Vec<(Law, String)>) {
        for (law, how) in broken {
            self.ledger.report(law, format!("session {me}: {how}"));
        }
    }
}

impl<S: Service> Service for Watched<S> {
    type State = S::State;
    type Session = Seen<S::Session>;
    type Job = S::Job;
    type Outcome = S::Outcome;

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn patience(&self) -> Option<Duration> {
        self.inner.patience()
    }

    fn open(&self, cx: &Cx<'_, S::State>, peer: Peer, out: &mut Out) -> Seen<S::Session> {
        self.ledger.opened(cx.me, cx.worker);
        let visit = Visit { ledger: &self.ledger, me: cx.me };
        let inner = Some(self.inner.open(cx, peer, out));
        drop(visit);
        let record = Record::new(cx.me, cx.now, self.inner.patience(), out);
        Seen { inner, ledger: Arc::clone(&self.ledger), record }
    }

    fn step(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Seen<S::Session>,
        event: Event<'_, S::Outcome>,
        out: &mut Out,
    ) -> Step<S::Job> {
        let _visit = self.visit(cx.me, cx.worker);
        self.report(cx.me, session.record.before(cx.now, &event, out));
        let offered = match event {
            Event::Bytes(input) => Some(input),
            _ => None,
        };
        let inner = session.inner.as_mut().expect("only `close` empties a session, and it owns it");
        let step = self.inner.step(cx, inner, event, out);
        let limits = self.inner.limits();
        self.report(cx.me, session.record.after(&step, offered, out, &limits));
        step
    }

    fn push(
        &self,
        cx: &Cx<'_, S::State>,
        session: &mut Seen<S::Session>,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), PushRefused> {
        let inner = session.inner.as_mut().ok_or(PushRefused)?;
        self.inner.push(cx, inner, bytes, out)
    }

    fn work(&self, state: &S::State, job: S::Job) -> S::Outcome {
        self.inner.work(state, job)
    }

    fn close(&self, cx: &Cx<'_, S::State>, mut session: Seen<S::Session>, why: Closed) {
        let visit = self.visit(cx.me, cx.worker);
        self.report(cx.me, session.record.closed(cx.now, why));
        if let Some(inner) = session.inner.take() {
            self.inner.close(cx, inner, why);
        }
        drop(visit);
        lock(&self.ledger.inside).remove(&cx.me);
    }

    fn tick(&self, cx: &Cx<'_, S::State>) -> Option<Instant> {
        let (due, other) = {
            let mut tick = lock(&self.ledger.tick);
            (tick.due.take(), tick.inside.replace(cx.worker))
        };
        if let Some((_, due)) = due.filter(|(who, due)| *who == cx.worker && *due > cx.now) {
            self.ledger.report(Law::Time, format!("tick {:?} early", due - cx.now));
        }
        if let Some(other) = other {
            let worker = cx.worker;
            let detail = format!("tick: worker {worker} came in while {other} was inside");
            self.ledger.report(Law::Exclusion, detail);
        }
        let due = self.inner.tick(cx);
        *lock(&self.ledger.tick) = Tick { due: due.map(|due| (cx.worker, due)), inside: None };
        due
    }
}
