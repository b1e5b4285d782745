//! The loop: sockets on one side, the three axes on the other, one thread.
//!
//! ```text
//!   wait -> receive -> script.hear -> record -> next batch -> script.ask -> send
//!   arrive.due ----------------------------------^
//! ```
//!
//! A reply that frees a connection leads to the next batch in the same turn: for each batch one
//! send, mostly one receive, one look at the clock and no allocation. Script, arrival process and
//! stop rule are called through `dyn` once a batch, which costs nanoseconds where the kernel takes
//! microseconds.
//!
//! The surprising thing: there is no state "connecting". The first batch is sent at once; until
//! the server's kernel answers, the send would block and waits for room like any other. So a
//! connection that sits in an accept queue is not an error and not special: it is slow, and its
//! requests' times say so.
//!
//! | file | what |
//! |---|---|
//! | `drive.rs` | a phase: who arrives, who is woken, what is ready |
//! | [`drive/next.rs`](self) | what a connection does next, by [`Work`] |
//! | `drive/settings.rs` | what a generator is made of, and who is told what it counts |
//! | `drive/io.rs` | connect, send, receive, record, and what goes wrong there |
//! | `drive/stress.rs` | windows that are topped up, connections made anew, what is late |
//! | `drive/link.rs` | one connection's memory |
//! | `drive/idle.rs` | connections that never ask |
//! | `drive/track.rs` | the time line, and beats for those who look on |
//! | `drive/pulse.rs` | the generator's own delays |

mod idle;
mod io;
mod link;
mod next;
mod pulse;
mod settings;
mod stress;
mod track;

pub use pulse::Pulse;
pub use settings::{Observer, Parts, Settings, Stretch};
pub use stress::{ECHO_LATE, LOGIN_LATE, Strain, Stress};

use crate::arrive::Arrive;
use crate::faults::{FaultKind, Faults};
use crate::script::{Notes, Script};
use crate::stop::{Progress, Stop};
use crate::tally::{Tally, nanos};
use crate::work::{Pauses, Work};
use idle::Idle;
use link::{Link, State};
use meter::Histogram;
use seam::Instant;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use sys::epoll::{Epoll, Events, Interest, Ready};
use sys::{clock, limits};
use track::Track;

/// A receive takes at most this much (bytes); more comes with the next.
const RECEIVE: usize = 256 << 10;
/// The longest wait: what is slept beyond it is the machine's doing, and noticed.
const PULSE: Duration = Duration::from_millis(10);
/// Overdue arrivals that are dealt with before replies get their turn again.
const ARRIVALS: usize = 64;
/// Descriptors that this process needs besides its connections, generously.
const SPARE_FILES: u64 = 64;
/// Keys of the epoll: connections from 0, idle connections from here, the bell at the very end.
const IDLE_KEY: u64 = 1 << 32;
const BELL_KEY: u64 = u64::MAX;

/// A generator with its connections.
pub struct Drive {
    address: SocketAddr,
    sources: Vec<IpAddr>,
    /// Connections made so far; it chooses the next source.
    dialled: usize,
    settings: Settings,
    arrive: Box<dyn Arrive>,
    /// Whether arrivals follow a schedule, so that it is worth counting how late they are noticed.
    scheduled: bool,
    work: Work,
    pauses: Pauses,
    script: Box<dyn Script>,
    links: Vec<Link>,
    /// Shared work: connections with room. Own work: places without a user.
    free: VecDeque<u32>,
    /// Arrivals that found no connection, by the moment at which they were due.
    waiting: VecDeque<Instant>,
    alarms: BinaryHeap<Reverse<(Instant, u32)>>,
    idle: Idle,
    epoll: Epoll,
    bell: bool,
    buffer: Vec<u8>,
    notes: Notes,
    tally: Tally,
    /// Earlier stretches of the same tally.
    earlier: Option<Tally>,
    observer: Option<Observer>,
    track: Track,
    stretch_start: Instant,
    /// When something was last ready.
    stirred: Instant,
    /// Requests that were due before this moment are not measured.
    epoch: Instant,
    started: bool,
    /// The generator's own delays in this phase.
    pub pulse: Pulse,
    /// Everything that went wrong since the beginning.
    pub faults: Faults,
    /// Requests whose connection ended first, since the beginning.
    pub lost: u64,
    /// Requests that were asked once more, because the server had ended the connection.
    pub repeated: u64,
    /// What a stress client counts.
    pub strain: Strain,
    round: stress::Round,
    /// While it is set, nothing is sent.
    hold: Option<Arc<AtomicBool>>,
    /// Requests that are unanswered now.
    outstanding: u64,
    /// Connections that are up.
    up: usize,
    /// Requests asked in this phase, with those outstanding at its start.
    asked: u64,
    /// Requests answered in this phase.
    done: u64,
    /// Whether idle connections are closed and none is made.
    parting: bool,
}

impl Drive {
    /// A generator; nothing is connected before the first phase.
    ///
    /// # Errors
    /// If no epoll can be made, or this process may not open enough descriptors: the error says
    /// how many it may, and what to do.
    pub fn new(parts: Parts) -> std::io::Result<Self> {
        let Parts { address, sources, settings, arrive, work, script, seed, scheduled } = parts;
        enough_files(settings.connections + settings.idle)?;
        let mut drive = Self {
            address,
            sources,
            dialled: 0,
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
            observer: None,
            track: Track::default(),
            stretch_start: Instant::ZERO,
            stirred: Instant::ZERO,
            epoch: Instant::ZERO,
            started: false,
            pulse: Pulse::default(),
            faults: Faults::default(),
            lost: 0,
            repeated: 0,
            strain: Strain::default(),
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

    /// Makes places for so many connections, if there are fewer.
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

    /// How many requests are unanswered, or wait for a connection.
    pub fn outstanding(&self) -> u64 {
        self.outstanding + self.waiting.len() as u64
    }

    /// How connections are kept.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// How many connections are up; one that the server's kernel has not answered yet counts.
    pub fn connections(&self) -> usize {
        self.up
    }

    /// Idle connections: how many are up, and how many the server has closed.
    pub fn idle(&self) -> (usize, u64) {
        (self.idle.up(), self.idle.closed)
    }

    /// Users or sessions that are here.
    pub fn users(&self) -> usize {
        self.links.iter().filter(|link| link.rounds > 0).count()
    }

    /// From now on `observer` is told of every stretch of [`Settings::interval`].
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// Wakes from waiting whenever `bell` rings; it stays readable until its owner clears it.
    ///
    /// # Errors
    /// Those of the epoll.
    pub fn listen_to(&mut self, bell: &sys::eventfd::EventFd) -> std::io::Result<()> {
        self.bell = true;
        self.epoll.add(bell.as_fd(), Interest::READ, BELL_KEY)
    }

    /// Replaces the arrival process by one that begins now. Who is here stays.
    pub fn set_arrivals(&mut self, mut arrive: Box<dyn Arrive>) {
        arrive.start(now());
        self.arrive = arrive;
        self.started = true;
    }

    /// Lets users go until at most `users` are here, those on the last places first. They leave
    /// when their requests are answered.
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

    /// Lets the arrival process begin at `start`, which may be a little past. Without this it
    /// begins with the first phase.
    pub fn start_at(&mut self, start: Instant) {
        self.started = true;
        self.arrive.start(start);
        self.stretch_start = start;
    }

    /// Requests that are due from `epoch` on are measured; those due before are only counted.
    pub fn measure_from(&mut self, epoch: Instant) {
        self.epoch = epoch;
        self.pulse = Pulse::default();
    }

    /// Takes what was counted since the last time; a stretch of time ends with that.
    pub fn take_tally(&mut self) -> Tally {
        self.tally.settle();
        // Nobody need be told of the nothing that comes before a phase.
        match self.tally.arrived + self.tally.done + self.tally.wrong + self.tally.failed {
            0 => self.stretch_start = now(),
            _ => self.tell(now()),
        }
        let mut tally = std::mem::take(&mut self.tally);
        if let Some(earlier) = self.earlier.take() {
            tally.merge(&earlier);
        }
        tally
    }

    /// What is unanswered and measured, as the least that its times can be (ns), if it ended now.
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

    /// Runs until `stop` says so.
    ///
    /// # Errors
    /// If the epoll fails; faults of connections are counted instead.
    pub fn phase(&mut self, stop: &dyn Stop) -> std::io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut now = self.begin(stop);
        let mut sweep = now + self.sweep_gap();
        loop {
            let arrived = self.admit(stop, now);
            self.ring(stop, now);
            self.strain(stop, now);
            self.note_stretch(now, stop);
            if arrived < ARRIVALS && stop.over(self.progress(now)) {
                return Ok(());
            }
            let (sleep, spins) = self.sleep(stop, sweep, now);
            self.epoll.wait(&mut events, Some(sleep))?;
            let woken = self::now();
            self.pulse.woke(now, sleep, woken, spins && arrived == 0 && events.is_empty());
            for ready in events.iter() {
                self.turn(ready, stop);
            }
            now = woken;
            if !events.is_empty() {
                now = self::now();
                // What the last of them was answered with took its time too.
                self.pulse.worked(now);
                self.stirred = now;
            }
            if now >= sweep {
                self.sweep(now);
                sweep = now + self.sweep_gap();
            }
        }
    }

    /// From now on idle connections are closed and none is made (`true`), or not (`false`). A
    /// server that serves one client at a time can only be drained so.
    pub fn part(&mut self, parting: bool) {
        self.parting = parting;
    }

    /// Closes every connection and says how many requests were unanswered on them.
    pub fn close(&mut self) -> u64 {
        let unanswered = self.outstanding();
        for at in 0..self.links.len() {
            self.drop_link(at, Instant::ZERO);
        }
        self.idle.close();
        self.waiting.clear();
        self.outstanding = 0;
        unanswered
    }

    /// The start of a phase: connections are made or woken.
    fn begin(&mut self, stop: &dyn Stop) -> Instant {
        let now = now();
        (self.asked, self.done) = (self.outstanding(), 0);
        if !self.started {
            self.start_at(now);
        }
        if self.idle.is_unmade() {
            let (idle, at) = (self.settings.idle, &mut self.dialled);
            let dial = |epoll: &Epoll, key| io::dial(self.address, &self.sources, at, epoll, key);
            self.idle.open(idle, &self.epoll, dial, &mut self.faults);
        }
        for at in 0..self.links.len() {
            // Nobody was kept waiting between two phases but those who were asked already.
            let link = &mut self.links[at];
            if link.rounds == u64::MAX && link.outstanding == 0 {
                link.due = link.due.max(now);
            }
            self.go_on(at, stop, now);
        }
        self.pulse.begin(now);
        now
    }

    /// Deals with those who have arrived by now; says how many.
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
                self.track.noticed(nanos(due, now));
            }
            self.arrival(due, stop, now);
            now = self::now();
        }
        ARRIVALS
    }

    /// Looks at the connections whose moment has come.
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

    /// How long to sleep, and whether that is spinning because an arrival is near.
    fn sleep(&self, stop: &dyn Stop, sweep: Instant, now: Instant) -> (Duration, bool) {
        if !self.scheduled && now < self.stirred + self.settings.linger {
            return (Duration::ZERO, true);
        }
        let mut wake = sweep.min(now + PULSE);
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

    fn progress(&self, now: Instant) -> Progress {
        let (asked, done, outstanding) = (self.asked, self.done, self.outstanding());
        Progress { now, asked, done, outstanding }
    }

    /// Ends a stretch of time when it is over, and tells whoever wants to know.
    fn note_stretch(&mut self, now: Instant, stop: &dyn Stop) {
        if self.track.is_due(now) {
            self.beat(now);
        }
        let observed = self.observer.is_some() || stop.looks();
        if !observed || now < self.stretch_start + self.settings.interval {
            return;
        }
        self.tally.settle();
        stop.look(&self.tally, now.since(self.stretch_start));
        self.tell(now);
        self.earlier.get_or_insert_default().merge(&self.tally);
        self.tally.clear();
    }

    /// Tells the observer of the stretch that ends now.
    fn tell(&mut self, now: Instant) {
        let outstanding = self.outstanding();
        if let Some(observer) = &mut self.observer {
            observer(Stretch {
                start: self.stretch_start,
                end: now,
                measured: self.epoch > Instant::ZERO,
                tally: &self.tally,
                outstanding,
                connections: self.up,
                faults: &self.faults,
                pulse: &self.pulse,
            });
        }
        self.stretch_start = now;
    }

    /// Something is ready.
    fn turn(&mut self, ready: Ready, stop: &dyn Stop) {
        if ready.key >= IDLE_KEY {
            if ready.key != BELL_KEY {
                self.idle.ready((ready.key - IDLE_KEY) as usize, &mut self.buffer);
            }
            return;
        }
        let at = ready.key as usize;
        if ready.writable && self.links[at].waits_for_room() {
            self.send(at, now());
        }
        if ready.readable {
            self.receive(at, stop);
        }
    }

    /// How often connections are looked through for one that stands still.
    fn sweep_gap(&self) -> Duration {
        (self.settings.timeout / 8).clamp(PULSE, Duration::from_secs(1))
    }

    /// Gives up connections that stood still too long.
    fn sweep(&mut self, now: Instant) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            let still = now.since(link.moved);
            if link.outstanding > 0 && link.is_up() && still > self.settings.timeout {
                let owed = link.outstanding;
                self.fail(at, now, FaultKind::Timeout, || {
                    format!("connection {at}: {owed} replies owed, nothing came for {still:?}")
                });
            }
        }
    }
}

/// Raises the limit of descriptors for so many connections.
fn enough_files(connections: usize) -> std::io::Result<()> {
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
