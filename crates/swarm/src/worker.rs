//! A worker's life as a state machine: bytes, news and time go in, [`Act`]s come out.
//!
//! Two things change by themselves, so there are two states. The [`Tie`] to the master: away,
//! dialling, knocking (introduced, not yet known), known. And the [`Test`]: ready, spawning,
//! running, stopping, resting. Times and orders are Locust's (`locust/runners.py`, 2.40 to 2.47)
//! except in four places, which are the reason to read on:
//!
//! - A worker of Locust ends itself when its master has been silent for a minute. This one makes
//!   the connection anew, sooner, and tries until its patience ends; what it counted meanwhile is
//!   in the next report. Users without a master are let go after the same minute, for nobody could
//!   stop them.
//! - ZeroMQ's router takes no second connection of a name while it believes in the first. After a
//!   silent loss it may believe for minutes, and says nothing to the newcomer. So who is not
//!   answered under the old name comes back under a new one.
//! - Reports are not answered, but heartbeats are, and in order. A heartbeat goes out behind each
//!   report, and what was reported is kept until its answer comes: over a connection that dies
//!   nothing is lost, and nothing told twice but what was on its way back at that moment.
//! - After `client_stopped` the master has forgotten us, and answers anything but `client_ready`
//!   with `quit`. Orders that cross that gap wait until it is closed.

mod log;
#[cfg(test)]
mod tests;
mod time;

use crate::crew::{Aim, Level, News, Trouble};
use crate::message::{self, Heard, Said, Spawn, Users};
use crate::stats::{Ledger, Slip, Sum};
use log::Log;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// `HEARTBEAT_INTERVAL`.
const BEAT: Duration = Duration::from_secs(1);
/// `WORKER_REPORT_INTERVAL`.
const REPORT: Duration = Duration::from_secs(3);
/// `WORKER_LOG_REPORT_INTERVAL`.
const LOGS: Duration = Duration::from_secs(10);
/// `CONNECT_TIMEOUT`: when an introduction is repeated.
const KNOCK: Duration = Duration::from_secs(5);
/// `MASTER_HEARTBEAT_TIMEOUT`: how long users go on without a master.
const ALONE: Duration = Duration::from_secs(60);
/// A master that knows of a test orders users as soon as we are back; one that has not by then
/// has none for us.
const ADOPTION: Duration = Duration::from_secs(10);
/// Between two tries to connect: the first pause, which also leaves the master time to see that
/// the old connection is gone, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(5));
/// Unanswered introductions over fresh connections before the name is changed.
const TRIES: u32 = 3;
/// What owed replies are given to come in, at least. A master that quits waits half a second for
/// the last report, so then they are given nothing.
const LINGER: Duration = Duration::from_millis(250);
/// How much longer a crew may take to let go than it was told to.
const GRACE: Duration = Duration::from_secs(5);
/// The same when the master quits.
const GRACE_AT_QUIT: Duration = Duration::from_millis(350);

/// What can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What the master shall call us; no two workers may have one name.
    pub name: String,
    /// Make the connection anew when the master says nothing for so long.
    pub silence: Duration,
    /// Give up when no master has known us for so long.
    pub patience: Duration,
}

/// Now, on two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Now {
    /// Since the worker began; never falls.
    pub run: Duration,
    /// Unix seconds, as the master counts.
    pub unix: f64,
}

/// What heartbeats tell of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauge {
    /// Of one core (%), of the busiest thread: an average over cores would hide a thread that
    /// has none left.
    pub cpu: f64,
    /// Resident bytes.
    pub memory: u64,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Connect under this name, then call [`Worker::connected`] or [`Worker::lost`].
    Dial(String),
    /// Close the connection.
    Hangup,
    /// Send this message.
    Send(Vec<u8>),
    /// Tell the crew to have these users.
    Aim(Aim),
    /// Tell the crew to let go, and how long replies may still come in.
    Halt(Duration),
    /// The master knows us, under this name and as this number.
    Known(String, u64),
    /// A test has ended.
    Account(Account),
    /// Write this line where the user looks.
    Say(String),
    /// It is over.
    Exit(Exit),
}

/// A test that has ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Account {
    /// Which one, from 1.
    pub test: u64,
    /// What it came to.
    #[serde(flatten)]
    pub sum: Sum,
}

/// Why it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The master said so.
    Bidden,
    /// The user said so.
    Interrupted,
    /// No master was there for too long; a sentence that says what to do.
    Alone(String),
}

/// The tie to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    /// No connection; the next is tried `again`, and `pause` later if that fails.
    Away { again: Duration, pause: Duration },
    /// A connection is being made.
    Dialling { pause: Duration },
    /// Introduced; if it is not answered, once more `again`.
    Knocking { again: Duration },
    /// The master knows us.
    Known,
}

/// Where a test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Ready,
    Spawning,
    Running,
    /// The crew was told to let go, and is believed to have done so by `until`.
    Stopping {
        until: Duration,
        then: Then,
    },
    /// The master was told, and has forgotten us; it is told that we are ready by `until`.
    Resting {
        until: Duration,
    },
}

/// What follows when all users are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Rest for so long, be ready again.
    Rest(Duration),
    /// Be ready again and tell nobody: no master asked.
    Forget,
    /// End: `true` if the master must be told.
    Leave(bool),
}

/// A worker; see the module.
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    name: String,
    /// How many names were used up.
    renamed: u32,
    /// Whether a connection had this name.
    name_used: bool,
    /// Whether a connection before this one had it.
    second: bool,
    /// Introductions over fresh connections that were not answered.
    unanswered: u32,
    /// Whether the master has known us over this connection.
    proved: bool,
    tie: Tie,
    test: Test,
    /// Since when no master knows us.
    alone: Option<Duration>,
    /// By when a master that we came back to must have asked for users.
    adoption: Option<Duration>,
    index: u64,
    heard: Duration,
    spawned: f64,
    pending: Option<Box<Spawn>>,
    aims: u32,
    tests: u64,
    users: Users,
    stop_timeout: Duration,
    ledger: Ledger,
    /// Heartbeats over this connection that will be answered, and answers that came.
    beats: (u64, u64),
    /// Reports that no answer has confirmed, with the heartbeat that went out behind each.
    slips: VecDeque<(u64, Slip)>,
    log: Log,
    said: BTreeSet<String>,
    troubles: VecDeque<Trouble>,
    gauge: Gauge,
    beat: Duration,
    report: Duration,
    logs: Duration,
    acts: VecDeque<Act>,
}

impl Worker {
    /// A worker that dials at once.
    pub fn new(settings: Settings, now: Now) -> Self {
        Self {
            name: settings.name.clone(),
            settings,
            renamed: 0,
            name_used: false,
            second: false,
            unanswered: 0,
            proved: false,
            tie: Tie::Away { again: now.run, pause: PAUSE.0 },
            test: Test::Ready,
            alone: Some(now.run),
            adoption: None,
            index: 0,
            heard: now.run,
            spawned: 0.0,
            pending: None,
            aims: 0,
            tests: 0,
            users: Users::new(),
            stop_timeout: Duration::ZERO,
            ledger: Ledger::new(now.unix),
            beats: (0, 0),
            slips: VecDeque::new(),
            log: Log::default(),
            said: BTreeSet::new(),
            troubles: VecDeque::new(),
            gauge: Gauge::default(),
            beat: now.run,
            report: now.run,
            logs: now.run + LOGS,
            acts: VecDeque::new(),
        }
    }

    /// The next thing to do; `None` until something happens or [`Worker::wake`].
    pub fn act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// The connection that was dialled stands.
    pub fn connected(&mut self, now: Now) {
        self.heard = now.run;
        self.proved = false;
        self.second = std::mem::replace(&mut self.name_used, true);
        self.knock(now);
    }

    /// The connection is gone, or could not be made.
    pub fn lost(&mut self, why: &str, now: Now) {
        let pause = match self.tie {
            Tie::Away { .. } => return,
            // A master that is not there yet is the usual thing and worth no line each time.
            Tie::Dialling { pause } => pause,
            Tie::Knocking { .. } | Tie::Known => {
                self.note(
                    Level::Warning,
                    &format!("the connection to the master is gone: {why}"),
                    now,
                );
                PAUSE.0
            }
        };
        self.away(pause, now);
    }

    /// A message has come.
    pub fn hear(&mut self, bytes: &[u8], now: Now) {
        self.heard = now.run;
        match message::decode(bytes) {
            Ok(Heard::Ack { index }) => self.known(index, now),
            Ok(Heard::Spawn(spawn)) => self.spawn(spawn, now),
            Ok(Heard::Stop) => self.stop(now),
            Ok(Heard::Quit) => self.quit(now),
            Ok(Heard::Reconnect) => {
                self.note(Level::Warning, "the master could not read us: connecting anew", now);
                self.acts.push_back(Act::Hangup);
                self.away(PAUSE.0, now);
            }
            Ok(Heard::Heartbeat) => self.confirmed(),
            Ok(Heard::SpawningComplete | Heard::Other(_)) => {}
            Err(malformed) => self.note(Level::Warning, &malformed.to_string(), now),
        }
    }

    /// The crew has something to tell.
    pub fn news(&mut self, news: News, now: Now) {
        match news {
            News::Batch(batch) => self.ledger.add(&batch, now.unix),
            News::Settled(users) => self.settled(users),
            News::Halted => self.halted(now),
            News::Log(level, line) => self.note(level, &line, now),
            News::Trouble(trouble) => {
                if self.said.insert(format!("{}\n{}", trouble.what, trouble.place)) {
                    self.note(Level::Warning, &trouble.what, now);
                    self.troubles.push_back(trouble);
                    self.unburden();
                }
            }
        }
    }

    /// The user wants it to end.
    pub fn interrupt(&mut self, now: Now) {
        self.leave(LINGER, GRACE, true, now);
    }
}

impl Worker {
    fn has_users(&self) -> bool {
        matches!(self.test, Test::Spawning | Test::Running)
    }

    fn say(&mut self, said: &Said) {
        self.acts.push_back(Act::Send(message::encode(&self.name, said)));
    }

    fn note(&mut self, level: Level, line: &str, now: Now) {
        let line = self.log.push(&self.name, level, line, now.unix);
        self.acts.push_back(Act::Say(line));
    }

    fn away(&mut self, pause: Duration, now: Now) {
        self.take_back();
        self.alone.get_or_insert(now.run);
        self.adoption = None;
        self.tie = Tie::Away { again: now.run + pause, pause: (pause * 2).min(PAUSE.1) };
    }

    fn knock(&mut self, now: Now) {
        self.say(&Said::ClientReady);
        self.tie = Tie::Knocking { again: now.run + KNOCK };
    }

    fn known(&mut self, index: Option<u64>, now: Now) {
        if !matches!(self.tie, Tie::Knocking { .. }) {
            return;
        }
        self.tie = Tie::Known;
        self.proved = true;
        self.unanswered = 0;
        self.index = index.unwrap_or(self.index);
        let absent = self.alone.take();
        if absent.is_some() {
            // A master that was started anew may run on another clock.
            self.spawned = 0.0;
            self.adoption = self.has_users().then_some(now.run + ADOPTION);
            self.acts.push_back(Act::Known(self.name.clone(), self.index));
            let line = format!("known to the master as worker {}", self.index);
            self.note(Level::Info, &line, now);
        }
        (self.beat, self.report) = (now.run, now.run);
        self.unburden();
    }

    fn spawn(&mut self, spawn: Box<Spawn>, now: Now) {
        if matches!(self.test, Test::Stopping { .. } | Test::Resting { .. }) {
            self.pending = Some(spawn);
            return;
        }
        self.say(&Said::Spawning);
        if spawn.timestamp <= self.spawned {
            let line = "an order to have users came late: a newer one was there before it";
            return self.note(Level::Info, line, now);
        }
        let fresh = self.test == Test::Ready;
        if fresh {
            self.tests += 1;
            self.ledger = Ledger::new(now.unix);
            self.slips.clear();
            self.said.clear();
        }
        self.spawned = spawn.timestamp;
        self.stop_timeout = spawn.stop_timeout;
        self.adoption = None;
        self.aims += 1;
        self.test = Test::Spawning;
        let Spawn { users, host, options, stop_timeout, .. } = *spawn;
        let index = self.index;
        let aim = Aim { users, host, options, stop_timeout, fresh, index };
        self.acts.push_back(Act::Aim(aim));
    }

    fn settled(&mut self, users: Users) {
        self.aims = self.aims.saturating_sub(1);
        if !self.has_users() {
            return;
        }
        self.ledger.users(users.values().sum());
        self.users = users;
        if self.aims == 0 {
            self.test = Test::Running;
        }
        if self.tie == Tie::Known {
            self.say(&Said::SpawningComplete(self.users.clone()));
        }
    }

    fn stop(&mut self, now: Now) {
        let then = Then::Rest(self.stop_timeout);
        match self.test {
            Test::Ready => self.gone(then, now),
            Test::Spawning | Test::Running => {
                self.halt(self.stop_timeout.max(LINGER), GRACE, then, now);
            }
            Test::Stopping { until, then: Then::Forget } => {
                self.test = Test::Stopping { until, then };
            }
            Test::Stopping { .. } | Test::Resting { .. } => {}
        }
    }

    /// The master ends: it waits half a second for what we have.
    fn quit(&mut self, now: Now) {
        self.note(Level::Info, "the master has ended the swarm", now);
        self.leave(Duration::ZERO, GRACE_AT_QUIT, false, now);
    }

    fn leave(&mut self, patience: Duration, grace: Duration, tell: bool, now: Now) {
        match self.test {
            Test::Ready | Test::Resting { .. } => self.gone(Then::Leave(tell), now),
            Test::Spawning | Test::Running | Test::Stopping { .. } => {
                // What is known by now is safe, whatever becomes of the rest.
                self.tell(now);
                self.halt(patience, grace, Then::Leave(tell), now);
            }
        }
    }

    fn halt(&mut self, patience: Duration, grace: Duration, then: Then, now: Now) {
        self.test = Test::Stopping { until: now.run + patience + grace, then };
        self.acts.push_back(Act::Halt(patience));
    }

    fn halted(&mut self, now: Now) {
        self.aims = 0;
        if let Test::Stopping { then, .. } = self.test {
            self.users.values_mut().for_each(|count| *count = 0);
            self.acts.push_back(Act::Account(Account { test: self.tests, sum: self.ledger.sum() }));
            self.tell(now);
            self.gone(then, now);
        }
    }

    /// All users are gone.
    fn gone(&mut self, then: Then, now: Now) {
        self.users.clear();
        match then {
            Then::Rest(span) => {
                if self.tie == Tie::Known {
                    self.say(&Said::ClientStopped);
                }
                self.test = Test::Resting { until: now.run + span };
            }
            Then::Forget => self.ready(now),
            Then::Leave(tell) => {
                self.test = Test::Ready;
                if tell && self.tie == Tie::Known {
                    self.say(&Said::Quit);
                }
                let exit = if tell { Exit::Interrupted } else { Exit::Bidden };
                self.acts.push_back(Act::Exit(exit));
            }
        }
    }

    /// Ready for the next test, which may have been ordered already.
    fn ready(&mut self, now: Now) {
        self.test = Test::Ready;
        if let Some(spawn) = self.pending.take() {
            self.spawn(spawn, now);
        }
    }

    /// Reports what has happened, if anybody listens.
    fn tell(&mut self, now: Now) {
        if self.tie == Tie::Known && !matches!(self.test, Test::Resting { .. }) {
            let slip = self.ledger.take(now.unix);
            self.say(&Said::Stats(slip.value(&self.users)));
            self.beat(now);
            self.slips.push_back((self.beats.0, slip));
        }
    }

    /// The next heartbeat is due a second later. One while resting would not be answered.
    fn beat(&mut self, now: Now) {
        let state = match self.test {
            Test::Ready => "ready",
            Test::Resting { .. } => return,
            Test::Spawning => "spawning",
            Test::Running | Test::Stopping { .. } => "running",
        };
        self.beat = now.run + BEAT;
        self.beats.0 += 1;
        let Gauge { cpu, memory } = self.gauge;
        self.say(&Said::Heartbeat { state, cpu, memory });
    }

    /// A heartbeat was answered: every report before it was heard.
    fn confirmed(&mut self) {
        self.beats.1 += 1;
        while self.slips.front().is_some_and(|(beat, _)| *beat <= self.beats.1) {
            self.slips.pop_front();
        }
    }

    /// What was reported over a connection that is gone, and perhaps not heard, is to be told.
    fn take_back(&mut self) {
        self.beats = (0, 0);
        while let Some((_, slip)) = self.slips.pop_back() {
            self.ledger.restore(slip);
        }
    }

    /// Tells troubles that could not be told before.
    fn unburden(&mut self) {
        while self.tie == Tie::Known
            && let Some(Trouble { what, place }) = self.troubles.pop_front()
        {
            self.say(&Said::Exception { msg: what, traceback: place });
        }
    }
}
