//! The event loop: sockets on one side, the three axes on the other, one thread.
//!
//! ```text
//!   wait -> receive -> script.receive -> record -> next batch -> script.ask -> send
//!   arrive.due -------------------------------------^
//! ```
//!
//! A reply that frees a connection leads to the next batch in the same turn: one send per batch,
//! mostly one receive, one clock read and no allocation. The script is called through `dyn` once
//! per batch, which costs nanoseconds where the kernel takes microseconds.
//!
//! There is no state "connecting". The first batch is sent at once; until the server's kernel
//! answers, the send blocks and waits for room like any other. A connection in an accept queue is
//! therefore neither an error nor a special case: it is slow, and the times of its requests show
//! it.

mod connect;
mod delays;
mod idle;
mod io;
mod link;
mod next;
mod recorder;
mod settings;
mod state;
mod windows;
mod wire;

pub use delays::Delays;
pub use settings::{Guests, Parts, Settings};
pub use state::{Counts, FirstFailure};
pub use windows::StressCounts;

use crate::Instant;
use crate::faults::FaultKind;
use crate::script::Script;
use crate::stop::Stop;
use crate::tally::{Tally, nanos};
use idle::Idle;
use link::{Link, State};
use meter::Histogram;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use state::{Arrivals, Course, Net, Record};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
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
const EVENTS: usize = 256;
/// The number of descriptors that this process needs besides its connections, chosen generously.
const SPARE_FILES: u64 = 64;
/// Epoll keys: connections from 0, idle connections from here.
const IDLE_KEY: u64 = 1 << 32;

/// A generator with its connections.
pub struct Driver {
    settings: Settings,
    script: Box<dyn Script>,
    links: Vec<Link>,
    net: Net,
    arrivals: Arrivals,
    run: Course,
    record: Record,
    /// Counts since the start of the run.
    pub counts: Counts,
}

impl Driver {
    /// A generator; nothing is connected before the first phase.
    ///
    /// # Errors
    /// No epoll can be made, or this process may not open enough descriptors: the error states the
    /// limit and the remedy.
    pub fn new(parts: Parts) -> std::io::Result<Self> {
        let Parts { addresses, unix, sources, tls, settings, .. } = parts;
        let Parts { arrive, presence, work, script, seed, scheduled, .. } = parts;
        // A client that is to run out of descriptors does so in the run.
        if !settings.until_failure {
            enough_files(settings.connections + settings.idle)?;
        }
        let mut drive = Self {
            settings,
            script,
            links: Vec::new(),
            net: Net {
                addresses,
                unix,
                sources,
                dialled: 0,
                sealed: vec![0; if tls.is_some() { SEALED } else { 0 }],
                tls,
                epoll: Epoll::new()?,
                idle: Idle::default(),
                buffer: vec![0; RECEIVE],
                up: 0,
            },
            arrivals: Arrivals {
                arrive,
                scheduled,
                started: None,
                presence,
                work,
                think: work.think(),
                random: Pcg64Mcg::seed_from_u64(seed ^ 0x0074_6869_6e6b),
                free: VecDeque::new(),
                waiting: VecDeque::new(),
                alarms: BinaryHeap::new(),
            },
            run: Course::default(),
            record: Record::default(),
            counts: Counts::default(),
        };
        drive.grow(settings.connections);
        Ok(drive)
    }

    /// Makes slots for this many connections, if there are fewer.
    fn grow(&mut self, connections: usize) {
        let made = self.links.len();
        self.script.reserve(connections);
        self.links.extend((made..connections).map(|_| Link::default()));
        if self.arrivals.work.is_own() {
            self.arrivals.free.extend((made..connections).map(|at| at as u32));
        }
        self.settings.connections = self.links.len();
    }

    /// The script, for its audit.
    pub fn script(&self) -> &dyn Script {
        &*self.script
    }

    /// The number of requests that are unanswered, or wait for a connection.
    pub fn outstanding(&self) -> u64 {
        self.run.outstanding + self.arrivals.waiting.len() as u64
    }

    /// The settings of connections.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Idle connections: how many are up, and how many the server has closed.
    pub fn idle(&self) -> (usize, u64) {
        (self.net.idle.up(), self.net.idle.closed)
    }

    /// Users or sessions that are present.
    fn users(&self) -> usize {
        self.links.iter().filter(|link| link.rounds > 0).count()
    }

    /// Starts the arrival process at `start`, which may lie slightly in the past. Without this call
    /// it starts with the first phase.
    pub fn start_at(&mut self, start: Instant) {
        self.arrivals.started = Some(start);
        self.arrivals.arrive.start(start);
    }

    /// Measures only requests due from `epoch` on; earlier ones are just counted.
    pub fn measure_from(&mut self, epoch: Instant) {
        self.run.epoch = epoch;
        self.counts.delays = Delays::default();
    }

    /// Takes the counts since the last call.
    pub fn take_tally(&mut self) -> Tally {
        self.record.tally.settle();
        std::mem::take(&mut self.record.tally)
    }

    /// A lower bound (ns) for the time of each measured request that is unanswered now.
    pub fn censored(&self) -> Histogram {
        let now = now();
        let mut least = Histogram::new();
        let mut note = |due: Instant, count: u32| {
            if due >= self.run.epoch {
                least.record(nanos(due, now), u64::from(count));
            }
        };
        self.arrivals.waiting.iter().for_each(|&due| note(due, 1));
        self.links.iter().flat_map(Link::runs).for_each(|run| note(run.due, run.left));
        least
    }

    /// Runs until the `stop` rule is satisfied.
    ///
    /// # Errors
    /// The epoll fails. Connection faults are counted instead.
    pub fn phase(&mut self, stop: &Stop) -> std::io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut now = self.begin(stop, &mut events)?;
        let mut sweep = now + self.sweep_gap();
        loop {
            let arrived = self.admit(stop, now);
            self.ring(stop, now);
            self.check_windows(stop, now);
            if self.record.recorder.is_due(now) {
                self.snapshot(now);
            }
            self.note_failure(now);
            let is_over = || stop.is_over(now, self.run.asked, self.outstanding());
            if arrived < ARRIVALS && (is_over() || self.is_given_up(now)) {
                return Ok(());
            }
            if now >= stop.limit() {
                self.leave_arrivals(stop, now);
                return Ok(());
            }
            let (sleep, spins) = self.sleep(stop, sweep, now);
            self.net.epoll.wait(&mut events, Some(sleep))?;
            let woken = self::now();
            self.counts.delays.woke(now, sleep, woken, spins && arrived == 0 && events.is_empty());
            for ready in events.iter() {
                self.turn(ready, stop);
            }
            now = woken;
            if !events.is_empty() {
                now = self::now();
                // The handling of the last event took time, too.
                self.counts.delays.worked(now);
                self.run.stirred = now;
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
        self.run.parting = parting;
    }

    /// Closes every connection and returns the number of unanswered requests.
    pub fn close(&mut self) -> u64 {
        let unanswered = self.outstanding();
        for at in 0..self.links.len() {
            self.write_lost(at, FaultKind::Timeout);
            self.drop_link(at, Instant::ZERO);
            self.links[at].take_runs();
        }
        self.record.recorder.rows = None;
        self.net.idle.close();
        self.arrivals.waiting.clear();
        self.run.outstanding = 0;
        self.script.finish();
        self.last_snapshot();
        unanswered
    }

    /// Starts a phase: leaves connections that the server has closed since the last one, and makes
    /// or wakes the others.
    fn begin(&mut self, stop: &Stop, events: &mut Events) -> std::io::Result<Instant> {
        let now = now();
        (self.run.asked, self.run.answered) = (self.outstanding(), now);
        if self.arrivals.started.is_none() {
            self.start_at(now);
        }
        if self.net.idle.is_unmade() {
            let Net { addresses, unix, sources, dialled, tls, epoll, idle, .. } = &mut self.net;
            let (place, tls) = ((addresses[0], unix.as_deref()), tls.as_ref());
            let dial = |epoll: &Epoll, key| {
                io::dial(place, sources, dialled, tls, epoll, (key, Interest::READ))
            };
            idle.open(self.settings.idle, epoll, dial, &mut self.counts.faults);
        }
        for at in 0..self.links.len() {
            // A user without an outstanding request did not wait between two phases.
            let link = &mut self.links[at];
            if link.rounds == u64::MAX && link.outstanding == 0 {
                link.due = link.due.max(now);
            }
        }
        // Work of this phase begins with the replies that are here already.
        self.counts.delays.begin(now);
        for _ in 0..=self.links.len() / EVENTS {
            self.net.epoll.wait(events, Some(Duration::ZERO))?;
            events.iter().for_each(|ready| self.turn(ready, stop));
        }
        (0..self.links.len()).for_each(|at| self.go_on(at, stop, now));
        Ok(now)
    }

    /// Handles the arrivals due by now; returns how many there were.
    fn admit(&mut self, stop: &Stop, mut now: Instant) -> usize {
        for count in 0..ARRIVALS {
            let due = self.arrivals.arrive.due().filter(|&due| due <= now && stop.admits(due));
            let Some(due) = due else { return count };
            if !self.arrivals.work.is_own() && stop.room(self.run.asked) == 0 {
                return count;
            }
            self.arrivals.arrive.advance();
            self.record.tally.arrived += 1;
            if self.arrivals.scheduled && due >= self.run.epoch {
                self.record.tally.tardiness.record(nanos(due, now), 1);
                self.record.recorder.noticed(nanos(due, now));
            }
            self.arrival(due, stop, now);
            now = self::now();
        }
        ARRIVALS
    }

    /// Notes how far the generator is behind the arrivals that it leaves out.
    fn leave_arrivals(&mut self, stop: &Stop, now: Instant) {
        let due = self.arrivals.arrive.due().filter(|&due| stop.admits(due));
        let behind_ns = due.map_or(0, |due| nanos(due, now));
        self.counts.behind_ns = self.counts.behind_ns.max(behind_ns);
    }

    /// Handles connections whose alarm is due.
    fn ring(&mut self, stop: &Stop, now: Instant) {
        while let Some(&Reverse((moment, at))) = self.arrivals.alarms.peek() {
            if moment > now {
                return;
            }
            self.arrivals.alarms.pop();
            let at = at as usize;
            if self.links[at].alarm == Some(moment) {
                self.links[at].alarm = None;
                self.go_on(at, stop, now);
            }
        }
    }

    /// The time to sleep, and whether to spin because an arrival is near.
    fn sleep(&self, stop: &Stop, sweep: Instant, now: Instant) -> (Duration, bool) {
        if !self.arrivals.scheduled && now < self.run.stirred + self.settings.linger {
            return (Duration::ZERO, true);
        }
        let mut wake = sweep.min(now + WAIT_MAX).min(stop.end);
        if let Some(&Reverse((moment, _))) = self.arrivals.alarms.peek() {
            wake = wake.min(moment);
        }
        if let Some(moment) = self.windows_due() {
            wake = wake.min(moment);
        }
        let open = self.arrivals.work.is_own() || stop.room(self.run.asked) > 0;
        let Some(due) = self.arrivals.arrive.due().filter(|&due| open && stop.admits(due)) else {
            return (wake.since(now), false);
        };
        let spin = if self.arrivals.scheduled { self.settings.spin } else { Duration::ZERO };
        let before = Instant::from_ns(due.ns().saturating_sub(spin.as_nanos() as u64));
        match before <= now {
            true => (Duration::ZERO, due > now),
            false => (wake.min(before).since(now), false),
        }
    }

    /// Notes the first failure with its circumstances.
    fn note_failure(&mut self, now: Instant) {
        let Some(fault) = self.counts.faults.list.first() else { return };
        if self.counts.first_failure.is_some() {
            return;
        }
        let start = self.arrivals.started.unwrap_or(now);
        self.counts.first_failure = Some(FirstFailure {
            at_ms: now.since(start).as_secs_f64() * 1e3,
            after_requests: self.counts.answered,
            users: self.users(),
            kind: fault.kind,
            words: fault.example.clone(),
        });
    }

    /// Whether the load ends at its first failure, and that has come.
    pub fn has_failed(&self) -> bool {
        self.settings.until_failure && self.counts.first_failure.is_some()
    }

    /// Whether numbered requests have waited in vain for as long as the last ones may, or the load
    /// ends at its first failure.
    fn is_given_up(&self, now: Instant) -> bool {
        if self.has_failed() && !self.run.parting {
            return true;
        }
        let silent = now.since(self.run.answered);
        self.script.is_numbered() && self.run.outstanding > 0 && silent > self.settings.drain
    }

    fn turn(&mut self, ready: Ready, stop: &Stop) {
        if ready.key >= IDLE_KEY {
            let (buffer, sealed) = (&mut self.net.buffer, &mut self.net.sealed);
            self.net.idle.ready(ready.key, &self.net.epoll, buffer, sealed);
            return;
        }
        let at = ready.key as usize;
        if ready.writable && self.links[at].dialled.is_some() {
            self.connected(at, stop, now());
        } else if ready.writable && self.links[at].watching_room {
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

    /// Gives up connections on which no whole reply arrived for too long.
    fn sweep(&mut self, now: Instant) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            let still = match link.dialled {
                Some(_) => now.since(link.moved),
                None => link.waits(now),
            };
            if !link.is_up() || still <= self.settings.timeout {
                continue;
            }
            if link.dialled.is_some() {
                self.dial_again(at, now);
            } else if link.outstanding > 0 {
                let (owed, silent) = (link.outstanding, link.is_silent());
                let still = stats::words::time(still.as_nanos() as f64);
                self.fail(at, now, FaultKind::Timeout, || match silent {
                    true => format!("no reply in {still}, {owed} missing on connection {at}"),
                    false => {
                        format!("no whole reply in {still}, {owed} missing on connection {at}")
                    }
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
