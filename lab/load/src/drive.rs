//! The event loop: sockets on one side, the three axes on the other, one thread.
//!
//! ```text
//!   wait -> receive -> script.receive -> record -> next batch -> script.ask -> send
//!   arrive.due -------------------------------------^
//! ```
//!
//! A reply that frees a connection leads to the next batch in the same turn: one send per batch,
//! mostly one receive, one clock read and no allocation. Script, arrival process and stop rule are
//! called through `dyn` once per batch, which costs nanoseconds where the kernel takes
//! microseconds.
//!
//! There is no state "connecting". The first batch is sent at once; until the server's kernel
//! answers, the send blocks and waits for room like any other. A connection in an accept queue is
//! therefore neither an error nor a special case: it is slow, and the times of its requests show
//! it.
//!
//! | file | contents |
//! |---|---|
//! | `drive.rs` | a phase: arrivals, alarms, ready sockets |
//! | [`drive/next.rs`](self) | a connection's next step, by [`Work`] |
//! | `drive/settings.rs` | the settings of a generator, and its reports to an observer |
//! | `drive/io.rs` | connect, send, receive, record, and their faults |
//! | `drive/stress.rs` | topped-up windows, renewed connections, late echoes |
//! | `drive/link.rs` | the state of one connection |
//! | `drive/wire.rs` | its bytes, as they are or over TLS |
//! | `drive/idle.rs` | connections that never send |
//! | `drive/recorder.rs` | the timeline, and snapshots for observers |
//! | `drive/delays.rs` | the generator's own delays |

mod delays;
mod idle;
mod io;
mod link;
mod next;
mod recorder;
mod settings;
mod stress;
mod wire;

pub use delays::Delays;
pub use settings::{IntervalReport, Observer, Parts, Settings};
pub use stress::{ECHO_LATE, LOGIN_LATE, StressCounts, StressOptions};

use crate::Instant;
use crate::arrive::Arrive;
use crate::faults::{FaultKind, Faults};
use crate::script::{Notes, Script};
use crate::stop::{Progress, Stop};
use crate::tally::{Tally, nanos};
use crate::tls::{Handshakes, Layers};
use crate::work::{Pauses, Work};
use idle::Idle;
use link::{Link, State};
use meter::Histogram;
use recorder::Recorder;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use sys::epoll::{Epoll, Events, Interest, Ready};
use sys::{clock, limits};

/// A receive takes at most this many bytes; the next one takes the rest.
const RECEIVE: usize = 256 << 10;
/// At most this many bytes are decrypted at once: four records of TLS.
const SEALED: usize = 64 << 10;
/// The longest wait. A longer sleep means that the machine stalled, and is counted.
const WAIT_MAX: Duration = Duration::from_millis(10);
/// The number of overdue arrivals handled before replies get their turn.
const ARRIVALS: usize = 64;
/// The number of descriptors that this process needs besides its connections, chosen generously.
const SPARE_FILES: u64 = 64;
/// Epoll keys: connections from 0, idle connections from here, the bell at the very end.
const IDLE_KEY: u64 = 1 << 32;
const BELL_KEY: u64 = u64::MAX;

/// A generator with its connections.
pub struct Driver {
    /// The server, or the nodes that serve the same.
    addresses: Vec<SocketAddr>,
    sources: Vec<IpAddr>,
    /// The number of connections made so far; it chooses the next source address.
    dialled: usize,
    tls: Option<Layers>,
    settings: Settings,
    arrive: Box<dyn Arrive>,
    /// Whether arrivals follow a schedule; their lateness is counted only if they do.
    scheduled: bool,
    work: Work,
    pauses: Pauses,
    script: Box<dyn Script>,
    links: Vec<Link>,
    /// With shared work: the connections with room. With own work: the slots without a user.
    free: VecDeque<u32>,
    /// Due times of arrivals that found no connection.
    waiting: VecDeque<Instant>,
    alarms: BinaryHeap<Reverse<(Instant, u32)>>,
    idle: Idle,
    epoll: Epoll,
    bell: bool,
    buffer: Vec<u8>,
    /// Room for received bytes before TLS opens them; empty without TLS.
    sealed: Vec<u8>,
    notes: Notes,
    tally: Tally,
    /// Earlier intervals of the same tally.
    earlier: Option<Tally>,
    /// When a reply came last in this phase, or its beginning.
    answered: Instant,
    observer: Option<Observer>,
    recorder: Recorder,
    interval_start: Instant,
    /// When a descriptor was ready for the last time.
    stirred: Instant,
    /// Requests due before this moment are not measured.
    epoch: Instant,
    started: bool,
    /// The generator's own delays in this phase.
    pub delays: Delays,
    /// All faults since the start of the run.
    pub faults: Faults,
    /// Requests lost because their connection ended first, since the start of the run.
    pub lost: u64,
    /// Requests sent again because the server had closed the connection.
    pub repeated: u64,
    /// The handshakes of TLS since the start of the run; `None` if there was none.
    pub handshakes: Option<Handshakes>,
    /// The counts of a stress client.
    pub stress_counts: StressCounts,
    round: stress::Round,
    /// While it is set, no requests are sent.
    hold: Option<Arc<AtomicBool>>,
    /// Requests that are unanswered now.
    outstanding: u64,
    /// Connections that are up.
    up: usize,
    /// Requests sent in this phase, plus those outstanding at its start.
    asked: u64,
    /// Requests answered in this phase.
    done: u64,
    /// Whether idle connections are closed and no new ones are made, so that a server can be
    /// drained.
    parting: bool,
}

impl Driver {
    /// A generator; nothing is connected before the first phase.
    ///
    /// # Errors
    /// No epoll can be made, or this process may not open enough descriptors: the error states the
    /// limit and the remedy.
    pub fn new(parts: Parts) -> std::io::Result<Self> {
        let Parts { addresses, sources, tls, settings, arrive, work, script, seed, scheduled } =
            parts;
        enough_files(settings.connections + settings.idle)?;
        let mut drive = Self {
            addresses,
            sources,
            dialled: 0,
            sealed: vec![0; if tls.is_some() { SEALED } else { 0 }],
            tls,
            settings,
            arrive,
            scheduled,
            work,
            pauses: Pauses::new(work, seed),
            script,
            links: Vec::new(),
            free: VecDeque::new(),
            waiting: VecDeque::new(),
            alarms: BinaryHeap::new(),
            idle: Idle::default(),
            epoll: Epoll::new()?,
            bell: false,
            buffer: vec![0; RECEIVE],
            notes: Notes::default(),
            tally: Tally::default(),
            earlier: None,
            answered: Instant::ZERO,
            observer: None,
            recorder: Recorder::default(),
            interval_start: Instant::ZERO,
            stirred: Instant::ZERO,
            epoch: Instant::ZERO,
            started: false,
            delays: Delays::default(),
            faults: Faults::default(),
            lost: 0,
            repeated: 0,
            handshakes: None,
            stress_counts: StressCounts::default(),
            round: stress::Round::default(),
            hold: None,
            outstanding: 0,
            up: 0,
            asked: 0,
            done: 0,
            parting: false,
        };
        drive.grow(settings.connections);
        Ok(drive)
    }

    /// Makes slots for this many connections, if there are fewer.
    pub fn grow(&mut self, connections: usize) {
        let made = self.links.len();
        self.script.reserve(connections);
        self.links.extend((made..connections).map(|_| Link::default()));
        if self.work.is_own() {
            self.free.extend((made..connections).map(|at| at as u32));
        }
        self.settings.connections = self.links.len();
    }

    /// The script, for its audit.
    pub fn script(&self) -> &dyn Script {
        &*self.script
    }

    /// The number of requests that are unanswered, or wait for a connection.
    pub fn outstanding(&self) -> u64 {
        self.outstanding + self.waiting.len() as u64
    }

    /// The settings of connections.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Connections that are up, including those that the server's kernel has not answered yet.
    pub fn connections(&self) -> usize {
        self.up
    }

    /// Idle connections: how many are up, and how many the server has closed.
    pub fn idle(&self) -> (usize, u64) {
        (self.idle.up(), self.idle.closed)
    }

    /// Users or sessions that are present.
    pub fn users(&self) -> usize {
        self.links.iter().filter(|link| link.rounds > 0).count()
    }

    /// From now on calls `observer` after every [`Settings::interval`].
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// Wakes from waiting when `bell` is signalled; it stays readable until its owner clears it.
    ///
    /// # Errors
    /// Those of the epoll.
    pub fn listen_to(&mut self, bell: &sys::eventfd::EventFd) -> std::io::Result<()> {
        self.bell = true;
        self.epoll.add(bell.as_fd(), Interest::READ, BELL_KEY)
    }

    /// Replaces the arrival process by one that begins now. Present users stay.
    pub fn set_arrivals(&mut self, mut arrive: Box<dyn Arrive>) {
        arrive.start(now());
        self.arrive = arrive;
        self.started = true;
    }

    /// Dismisses users until at most `users` are left, highest slots first. A user leaves once its
    /// requests are answered.
    pub fn send_home(&mut self, users: usize) {
        let mut surplus = self.users().saturating_sub(users);
        let now = now();
        for at in (0..self.links.len()).rev() {
            if surplus == 0 {
                break;
            }
            if self.links[at].rounds > 0 {
                surplus -= 1;
                self.links[at].rounds = 0;
                if self.links[at].outstanding == 0 {
                    self.leave(at, now);
                }
            }
        }
    }

    /// Starts the arrival process at `start`, which may lie slightly in the past. Without this call
    /// it starts with the first phase.
    pub fn start_at(&mut self, start: Instant) {
        self.started = true;
        self.arrive.start(start);
        self.interval_start = start;
    }

    /// Measures only requests due from `epoch` on; earlier ones are just counted.
    pub fn measure_from(&mut self, epoch: Instant) {
        self.epoch = epoch;
        self.delays = Delays::default();
    }

    /// Takes the counts since the last call; this ends the current interval.
    pub fn take_tally(&mut self) -> Tally {
        self.tally.settle();
        // An empty interval before a phase is not reported.
        match self.tally.arrived + self.tally.done + self.tally.wrong + self.tally.failed {
            0 => self.interval_start = now(),
            _ => self.report_interval(now()),
        }
        let mut tally = std::mem::take(&mut self.tally);
        if let Some(earlier) = self.earlier.take() {
            tally.merge(&earlier);
        }
        tally
    }

    /// A lower bound (ns) for the time of each measured request that is unanswered now.
    pub fn censored(&self) -> Histogram {
        let now = now();
        let mut least = Histogram::new();
        let mut note = |due: Instant, count: u32| {
            if due >= self.epoch {
                least.record(nanos(due, now), u64::from(count));
            }
        };
        self.waiting.iter().for_each(|&due| note(due, 1));
        self.links.iter().flat_map(Link::runs).for_each(|run| note(run.due, run.left));
        least
    }

    /// Runs until the `stop` rule is satisfied.
    ///
    /// # Errors
    /// The epoll fails. Connection faults are counted instead.
    pub fn phase(&mut self, stop: &dyn Stop) -> std::io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut now = self.begin(stop);
        let mut sweep = now + self.sweep_gap();
        loop {
            let arrived = self.admit(stop, now);
            self.ring(stop, now);
            self.check_stress(stop, now);
            self.end_interval(now, stop);
            if arrived < ARRIVALS && (stop.over(self.progress(now)) || self.is_given_up(now)) {
                return Ok(());
            }
            let (sleep, spins) = self.sleep(stop, sweep, now);
            self.epoll.wait(&mut events, Some(sleep))?;
            let woken = self::now();
            self.delays.woke(now, sleep, woken, spins && arrived == 0 && events.is_empty());
            for ready in events.iter() {
                self.turn(ready, stop);
            }
            now = woken;
            if !events.is_empty() {
                now = self::now();
                // The handling of the last event took time, too.
                self.delays.worked(now);
                self.stirred = now;
            }
            if now >= sweep {
                self.sweep(now);
                sweep = now + self.sweep_gap();
            }
        }
    }

    /// Sets whether idle connections are closed and no new ones are made. A server that serves one
    /// client at a time can only be drained this way.
    pub fn part(&mut self, parting: bool) {
        self.parting = parting;
    }

    /// Closes every connection and returns the number of unanswered requests.
    pub fn close(&mut self) -> u64 {
        let unanswered = self.outstanding();
        for at in 0..self.links.len() {
            self.drop_link(at, Instant::ZERO);
            self.links[at].take_runs();
        }
        self.idle.close();
        self.waiting.clear();
        self.outstanding = 0;
        self.script.finish();
        unanswered
    }

    /// Starts a phase: makes or wakes connections.
    fn begin(&mut self, stop: &dyn Stop) -> Instant {
        let now = now();
        (self.asked, self.done, self.answered) = (self.outstanding(), 0, now);
        if !self.started {
            self.start_at(now);
        }
        if self.idle.is_unmade() {
            let (idle, at, tls) = (self.settings.idle, &mut self.dialled, self.tls.as_ref());
            let dial = |epoll: &Epoll, key| {
                io::dial(self.addresses[0], &self.sources, at, tls, epoll, key)
            };
            self.idle.open(idle, &self.epoll, dial, &mut self.faults);
        }
        for at in 0..self.links.len() {
            // A user without an outstanding request did not wait between two phases.
            let link = &mut self.links[at];
            if link.rounds == u64::MAX && link.outstanding == 0 {
                link.due = link.due.max(now);
            }
            self.go_on(at, stop, now);
        }
        self.delays.begin(now);
        now
    }

    /// Handles the arrivals due by now; returns how many there were.
    fn admit(&mut self, stop: &dyn Stop, mut now: Instant) -> usize {
        for count in 0..ARRIVALS {
            let due = self.arrive.due().filter(|&due| due <= now && stop.admits(due));
            let Some(due) = due else { return count };
            if !self.work.is_own() && stop.room(self.asked) == 0 {
                return count;
            }
            self.arrive.advance();
            self.tally.arrived += 1;
            if self.scheduled && due >= self.epoch {
                self.tally.tardiness.record(nanos(due, now), 1);
                self.recorder.noticed(nanos(due, now));
            }
            self.arrival(due, stop, now);
            now = self::now();
        }
        ARRIVALS
    }

    /// Handles connections whose alarm is due.
    fn ring(&mut self, stop: &dyn Stop, now: Instant) {
        while let Some(&Reverse((moment, at))) = self.alarms.peek() {
            if moment > now {
                return;
            }
            self.alarms.pop();
            let at = at as usize;
            if self.links[at].alarm == Some(moment) {
                self.links[at].alarm = None;
                self.go_on(at, stop, now);
            }
        }
    }

    /// The time to sleep, and whether to spin because an arrival is near.
    fn sleep(&self, stop: &dyn Stop, sweep: Instant, now: Instant) -> (Duration, bool) {
        if !self.scheduled && now < self.stirred + self.settings.linger {
            return (Duration::ZERO, true);
        }
        let mut wake = sweep.min(now + WAIT_MAX);
        if let Some(moment) = stop.wake() {
            wake = wake.min(moment);
        }
        if let Some(&Reverse((moment, _))) = self.alarms.peek() {
            wake = wake.min(moment);
        }
        if let Some(moment) = self.stress_due() {
            wake = wake.min(moment);
        }
        let open = self.work.is_own() || stop.room(self.asked) > 0;
        let Some(due) = self.arrive.due().filter(|&due| open && stop.admits(due)) else {
            return (wake.since(now), false);
        };
        let spin = if self.scheduled { self.settings.spin } else { Duration::ZERO };
        let before = Instant::from_ns(due.ns().saturating_sub(spin.as_nanos() as u64));
        match before <= now {
            true => (Duration::ZERO, due > now),
            false => (wake.min(before).since(now), false),
        }
    }

    /// Whether numbered requests have waited in vain for as long as the last ones may.
    fn is_given_up(&self, now: Instant) -> bool {
        let silent = now.since(self.answered);
        self.script.is_numbered() && self.outstanding > 0 && silent > self.settings.drain
    }

    fn progress(&self, now: Instant) -> Progress {
        let (asked, done, outstanding) = (self.asked, self.done, self.outstanding());
        Progress { now, asked, done, outstanding }
    }

    /// Ends the current interval when it is over and reports it to the observer.
    fn end_interval(&mut self, now: Instant, stop: &dyn Stop) {
        if self.recorder.is_due(now) {
            self.snapshot(now);
        }
        let observed = self.observer.is_some() || stop.looks();
        if !observed || now < self.interval_start + self.settings.interval {
            return;
        }
        self.tally.settle();
        stop.look(&self.tally, now.since(self.interval_start));
        self.report_interval(now);
        self.earlier.get_or_insert_default().merge(&self.tally);
        self.tally.clear();
    }

    /// Reports the interval that ends now to the observer.
    fn report_interval(&mut self, now: Instant) {
        let outstanding = self.outstanding();
        if let Some(observer) = &mut self.observer {
            observer(IntervalReport {
                start: self.interval_start,
                end: now,
                measured: self.epoch > Instant::ZERO,
                tally: &self.tally,
                outstanding,
                connections: self.up,
                faults: &self.faults,
                delays: &self.delays,
            });
        }
        self.interval_start = now;
    }

    /// Handles one ready descriptor.
    fn turn(&mut self, ready: Ready, stop: &dyn Stop) {
        if ready.key >= IDLE_KEY {
            if ready.key != BELL_KEY {
                let (buffer, sealed) = (&mut self.buffer, &mut self.sealed);
                self.idle.ready(ready.key, &self.epoll, buffer, sealed);
            }
            return;
        }
        let at = ready.key as usize;
        if ready.writable && self.links[at].watching_room {
            self.send(at, now());
        }
        if ready.readable {
            self.receive(at, stop);
        }
    }

    /// The pause between two searches for stuck connections.
    fn sweep_gap(&self) -> Duration {
        (self.settings.timeout / 8).clamp(WAIT_MAX, Duration::from_secs(1))
    }

    /// Gives up connections that made no progress for too long.
    fn sweep(&mut self, now: Instant) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            let still = now.since(link.moved);
            if link.outstanding > 0 && link.is_up() && still > self.settings.timeout {
                let owed = link.outstanding;
                self.fail(at, now, FaultKind::Timeout, || {
                    format!("connection {at}: {owed} replies missing, no bytes for {still:?}")
                });
            }
        }
    }
}

/// Raises the descriptor limit for this many connections.
pub(crate) fn enough_files(connections: usize) -> std::io::Result<()> {
    let wanted = connections as u64 + SPARE_FILES;
    let limit = limits::raise_open_files(wanted)?;
    if limit >= wanted {
        return Ok(());
    }
    Err(std::io::Error::other(format!(
        "expected room for {connections} connections, found a limit of {limit} open files; raise \
         it (`ulimit -Hn {wanted}` as root, or LimitNOFILE of the unit) or use fewer connections"
    )))
}

fn now() -> Instant {
    Instant::from_ns(clock::now_ns())
}
