//! The loop: sockets on one side, the three axes on the other, one thread.
//!
//! ```text
//!   wait -> receive -> script.hear -> record -> arrive.take -> script.ask -> send
//! ```
//!
//! A reply that frees a connection leads to the next batch in the same turn: for each batch one
//! send, mostly one receive, two looks at the clock and no allocation. Script and arrival process
//! are called through `dyn` once a batch, which costs nanoseconds where the kernel takes
//! microseconds.
//!
//! The surprising thing: there is no state "connecting". The first batch is sent at once; until
//! the server's kernel answers, the send would block and waits for room like any other. So a
//! connection that sits in an accept queue is not an error and not special: it is slow, and its
//! requests' times say so.

mod link;

use crate::arrive::{Arrive, Slot};
use crate::faults::{FaultKind, Faults};
use crate::script::Script;
use crate::stop::{Progress, Stop};
use link::{Link, State};
use meter::Histogram;
use seam::Instant;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use sys::epoll::{Epoll, Events, Interest, Ready};
use sys::{clock, limits, socket};

/// The longest reply that is held (bytes).
const REPLY_MAX: usize = 256 << 20;
/// A receive takes at most this much (bytes); more comes with the next.
const RECEIVE: usize = 256 << 10;
/// How often connections are looked through for one to remake or give up.
const SWEEP: Duration = Duration::from_millis(10);
/// Descriptors that this process needs besides its connections, generously.
const SPARE_FILES: u64 = 64;

/// How connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many, at least one.
    pub connections: usize,
    /// Close and remake each after so many requests.
    pub requests_per_connection: Option<u64>,
    /// Give a connection up when requests are outstanding and nothing moved for so long.
    pub timeout: Duration,
    /// How long to wait for the last replies.
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 64,
            requests_per_connection: None,
            timeout: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}

/// What was counted since the last [`Drive::take_tally`].
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Replies.
    pub done: u64,
    /// From sent to done (ns).
    pub service: Histogram,
    /// From due to done (ns).
    pub response: Histogram,
    /// From due to sent (ns).
    pub lateness: Histogram,
}

/// A generator with its connections.
pub struct Drive {
    address: SocketAddr,
    settings: Settings,
    arrive: Box<dyn Arrive>,
    script: Box<dyn Script>,
    links: Vec<Link>,
    epoll: Epoll,
    buffer: Vec<u8>,
    tally: Tally,
    /// Everything that went wrong since the beginning.
    pub faults: Faults,
    /// Requests whose connection ended first, since the beginning.
    pub lost: u64,
    /// Requests that are unanswered now.
    outstanding: u64,
    /// Requests asked in this phase, with those outstanding at its start.
    asked: u64,
    /// Requests answered in this phase.
    done: u64,
    /// Whether idle connections are closed and none is made.
    parting: bool,
}

impl Drive {
    /// A generator for the server at `address`; nothing is connected before the first phase.
    ///
    /// # Errors
    /// If no epoll can be made.
    pub fn new(
        address: SocketAddr,
        settings: Settings,
        arrive: Box<dyn Arrive>,
        script: Box<dyn Script>,
    ) -> io::Result<Self> {
        limits::raise_open_files(settings.connections as u64 + SPARE_FILES)?;
        let links: Vec<Link> = (0..settings.connections).map(|_| Link::default()).collect();
        Ok(Self {
            address,
            settings,
            arrive,
            script,
            links,
            epoll: Epoll::new()?,
            buffer: vec![0; RECEIVE],
            tally: Tally::default(),
            faults: Faults::default(),
            lost: 0,
            outstanding: 0,
            asked: 0,
            done: 0,
            parting: false,
        })
    }

    /// The script, for its audit.
    pub fn script(&self) -> &dyn Script {
        &*self.script
    }

    /// How many requests are unanswered.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// How connections are kept.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Takes what was counted since the last time.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Runs until `stop` says so.
    ///
    /// # Errors
    /// If the epoll fails; faults of connections are counted instead.
    pub fn phase(&mut self, stop: &dyn Stop) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut now = now();
        (self.asked, self.done) = (self.outstanding, 0);
        for at in 0..self.links.len() {
            self.go_on(at, stop, now);
        }
        let mut sweep = now + SWEEP;
        loop {
            let (asked, done, outstanding) = (self.asked, self.done, self.outstanding);
            if stop.over(Progress { now, asked, done, outstanding }) {
                return Ok(());
            }
            let wakes = [stop.wake(), self.arrive.due()];
            let wake = wakes.into_iter().flatten().fold(sweep, Instant::min);
            self.epoll.wait(&mut events, Some(wake.since(now)))?;
            for ready in events.iter() {
                self.turn(ready, stop);
            }
            now = self::now();
            if now >= sweep {
                self.sweep(stop, now);
                sweep = now + SWEEP;
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
        for at in 0..self.links.len() {
            self.drop_link(at, Instant::ZERO);
        }
        std::mem::take(&mut self.outstanding)
    }

    /// One connection is ready for something.
    fn turn(&mut self, ready: Ready, stop: &dyn Stop) {
        let at = ready.key as usize;
        if ready.writable && self.links[at].waits_for_room() {
            self.send(at, now());
        }
        if ready.readable {
            self.receive(at, stop);
        }
    }

    /// Takes what has come and answers with the next batch if all of the last is done.
    fn receive(&mut self, at: usize, stop: &dyn Stop) {
        loop {
            let State::Up(fd) = &self.links[at].state else { return };
            let received = socket::recv(fd, &mut self.buffer);
            let now = now();
            match received {
                Ok(0) => return self.ended(at, stop, now),
                Ok(count) => {
                    let done = self.hear(at, count);
                    self.credit(at, done, now);
                    if self.links[at].held.len() > REPLY_MAX {
                        let held = self.links[at].held.len();
                        return self.fail(at, now, FaultKind::Overlong, || {
                            format!("no end in {held} bytes")
                        });
                    }
                    self.go_on(at, stop, now);
                    if count < RECEIVE {
                        return;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) => return self.fail_io(at, now, &e, "receiving"),
            }
        }
    }

    /// Shows the script what is there; gives back how many requests that answered.
    fn hear(&mut self, at: usize, count: usize) -> u32 {
        let held = &mut self.links[at].held;
        let fresh = &self.buffer[..count];
        if held.is_empty() {
            let heard = self.script.hear(at, fresh, &mut self.faults);
            held.extend_from_slice(&fresh[heard.used..]);
            heard.done
        } else {
            held.extend_from_slice(fresh);
            let heard = self.script.hear(at, held, &mut self.faults);
            held.drain(..heard.used);
            heard.done
        }
    }

    /// Records the times of the `done` oldest requests of a connection.
    fn credit(&mut self, at: usize, done: u32, now: Instant) {
        let link = &mut self.links[at];
        let tally = &mut self.tally;
        let credited = link.credit(done, now, |run, count| {
            tally.service.record(span_ns(run.sent, now), count);
            tally.response.record(span_ns(run.due, now), count);
            tally.lateness.record(span_ns(run.due, run.sent), count);
        });
        tally.done += credited;
        self.done += credited;
        self.outstanding -= credited;
    }

    /// What a connection does next: stay, ask, close, or be made.
    fn go_on(&mut self, at: usize, stop: &dyn Stop, now: Instant) {
        let room = stop.room(self.asked);
        let link = &self.links[at];
        match link.state {
            State::Down { again } => {
                if room > 0 && !self.parting && now >= again {
                    self.connect(at, stop, now);
                }
            }
            State::Up(_) if link.outstanding > 0 => self.ask(at, room, now),
            State::Up(_) => {
                let used_up = self.left_on(at) == 0;
                if used_up || self.parting {
                    self.drop_link(at, now);
                    if used_up && room > 0 && !self.parting {
                        self.connect(at, stop, now);
                    }
                } else {
                    self.ask(at, room, now);
                }
            }
        }
    }

    /// How many more requests this connection may carry.
    fn left_on(&self, at: usize) -> u64 {
        let most = self.settings.requests_per_connection.unwrap_or(u64::MAX);
        most.saturating_sub(self.links[at].asked)
    }

    /// Sends what the arrival process has for this connection, if anything.
    fn ask(&mut self, at: usize, room: u64, now: Instant) {
        let most = room.min(self.left_on(at));
        let link = &mut self.links[at];
        let slot = Slot { outstanding: link.outstanding, idle_since: link.idle_since };
        if most == 0 {
            return;
        }
        let Some(batch) = self.arrive.take(slot, now) else { return };
        let count = u64::from(batch.requests).min(most) as u32;
        self.script.ask(at, count, &mut link.unsent);
        let sent = self::now();
        link.asked(count, batch.due, sent);
        self.outstanding += u64::from(count);
        self.asked += u64::from(count);
        self.send(at, sent);
    }

    /// Sends what waits; asks to be told when the rest has room.
    fn send(&mut self, at: usize, now: Instant) {
        let link = &mut self.links[at];
        let State::Up(fd) = &link.state else { return };
        let waiting = &link.unsent[link.sent..];
        match socket::send(fd, waiting) {
            Ok(count) if count == waiting.len() => {
                link.unsent.clear();
                link.sent = 0;
            }
            Ok(count) => link.sent += count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return self.fail_io(at, now, &e, "sending"),
        }
        let blocked = !link.unsent.is_empty();
        if blocked != link.watching_room {
            link.watching_room = blocked;
            let interest = Interest { write: blocked, ..Interest::READ };
            if let Err(e) = self.epoll.modify(fd, interest, at as u64) {
                self.fail_io(at, now, &e, "watching a connection");
            }
        }
    }

    fn connect(&mut self, at: usize, stop: &dyn Stop, now: Instant) {
        match self.dial(at) {
            Ok(fd) => {
                self.links[at].open(fd, self::now());
                self.script.open(at);
                self.ask(at, stop.room(self.asked), now);
            }
            Err(e) => {
                self.faults.count_io(&e, "connecting");
                self.links[at].back_off(now);
            }
        }
    }

    fn dial(&self, at: usize) -> io::Result<OwnedFd> {
        let fd = socket::connect_nonblocking(self.address)?;
        socket::set_nodelay(&fd, true)?;
        self.epoll.add(&fd, Interest::READ, at as u64)?;
        Ok(fd)
    }

    /// The server closed its side.
    fn ended(&mut self, at: usize, stop: &dyn Stop, now: Instant) {
        let (owed, asked) = (self.links[at].outstanding, self.links[at].asked);
        if owed > 0 {
            return self.fail(at, now, FaultKind::ClosedEarly, || {
                format!("connection {at} was closed with {owed} of {asked} replies owed")
            });
        }
        self.drop_link(at, now);
        self.go_on(at, stop, now);
    }

    fn fail_io(&mut self, at: usize, now: Instant, error: &io::Error, doing: &str) {
        self.faults.count_io(error, doing);
        self.lose(at, now);
    }

    fn fail(&mut self, at: usize, now: Instant, kind: FaultKind, words: impl FnOnce() -> String) {
        self.faults.count(kind, words);
        self.lose(at, now);
    }

    /// Gives a connection up with all that is unanswered on it; it is made again a little later.
    fn lose(&mut self, at: usize, now: Instant) {
        let unanswered = u64::from(self.links[at].outstanding);
        self.lost += unanswered;
        self.outstanding -= unanswered;
        self.drop_link(at, now);
        self.links[at].back_off(now);
    }

    /// Closes a connection; it may be made again at once.
    fn drop_link(&mut self, at: usize, now: Instant) {
        let link = &mut self.links[at];
        if matches!(link.state, State::Up(_)) {
            self.script.close(at);
            link.close(now);
        }
    }

    /// Remakes connections whose pause is over and gives up those that stood still too long.
    fn sweep(&mut self, stop: &dyn Stop, now: Instant) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            let still = now.since(link.moved);
            match link.state {
                State::Down { .. } => self.go_on(at, stop, now),
                State::Up(_) if link.outstanding > 0 && still > self.settings.timeout => {
                    let owed = link.outstanding;
                    self.fail(at, now, FaultKind::Timeout, || {
                        format!("connection {at}: {owed} replies owed, nothing came for {still:?}")
                    });
                }
                _ => {}
            }
        }
    }
}

fn now() -> Instant {
    Instant::from_ns(clock::now_ns())
}

fn span_ns(from: Instant, to: Instant) -> u64 {
    to.ns().saturating_sub(from.ns())
}
