//! A worker as a state machine: bytes, events and time go in, [`Action`]s come out.
//!
//! Two things change independently, so there are two states. The `Connection` to the master is
//! away, dialling, introduced (not yet known) or known. The `Test` is ready, spawning, running,
//! stopping or resting. Timing and order follow Locust (`locust/runners.py`, 2.40 to 2.47) except
//! in four points:
//!
//! - A Locust worker ends when its master has been silent for a minute. This one reconnects,
//!   sooner, and keeps trying until its patience ends; its counts of that time are in the next
//!   report. Users without a master are dismissed after the same minute, because no master could
//!   stop them.
//! - ZeroMQ's router refuses a second connection of a name while it considers the first alive.
//!   After a silent loss that may last minutes, without any message to the new connection. A worker
//!   that is not answered under its old name therefore returns under a new one.
//! - Reports are not answered, but heartbeats are, in order. A heartbeat follows each report, and
//!   the report is kept until the heartbeat's answer arrives. So nothing is lost with a broken
//!   connection, and only a report whose confirmation was on its way is sent twice.
//! - After `client_stopped` the master has forgotten the worker, and answers anything but
//!   `client_ready` with `quit`. Commands that arrive in that gap wait until it is closed.

mod log;
#[cfg(test)]
mod tests;
mod time;

use crate::crew::{CrewEvent, Level, Problem, UserTargets};
use crate::message::{self, MasterMessage, Spawn, Users, WorkerMessage};
use crate::stats::{StatsLog, StatsReport, Sum};
use log::Log;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// `HEARTBEAT_INTERVAL`.
const BEAT: Duration = Duration::from_secs(1);
/// `WORKER_REPORT_INTERVAL`.
const REPORT: Duration = Duration::from_secs(3);
/// `WORKER_LOG_REPORT_INTERVAL`.
const LOGS: Duration = Duration::from_secs(10);
/// `CONNECT_TIMEOUT`: the time after which an introduction is repeated.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// `MASTER_HEARTBEAT_TIMEOUT`: the time that users continue without a master.
const ALONE: Duration = Duration::from_secs(60);
/// A master with a running test orders users as soon as the worker is back. After this long it has
/// no users for this worker.
const ADOPTION: Duration = Duration::from_secs(10);
/// The first and the longest pause between connection attempts. The first also lets the master
/// notice that the old connection is gone.
const PAUSE: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(5));
/// The number of unanswered introductions over new connections after which the name is changed.
const TRIES: u32 = 3;
/// The minimum time for outstanding replies. A quitting master waits half a second for the last
/// report, so then they get none.
const LINGER: Duration = Duration::from_millis(250);
/// The additional time in which a crew must dismiss users.
const GRACE: Duration = Duration::from_secs(5);
/// The additional time when the master quits.
const GRACE_AT_QUIT: Duration = Duration::from_millis(350);

/// The settings of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name for the master; it must be unique in the swarm.
    pub name: String,
    /// Reconnect when the master has been silent for this long.
    pub silence: Duration,
    /// Give up when no master has known this worker for this long.
    pub patience: Duration,
}

/// The current time on two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Now {
    /// Since the worker began; never decreases.
    pub run: Duration,
    /// Unix seconds, as used by the master.
    pub unix: f64,
}

/// The resource usage reported in heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// CPU use of the busiest thread (% of one core): an average over cores would hide a saturated
    /// thread.
    pub cpu: f64,
    /// Resident bytes.
    pub memory: u64,
}

/// An action for the caller; actions are carried out in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Connect under this name, then call [`Worker::connected`] or [`Worker::lost`].
    Dial(String),
    /// Close the connection.
    Hangup,
    /// Send this message.
    Send(Vec<u8>),
    /// Tell the crew which users to have.
    UserTargets(UserTargets),
    /// Tell the crew to dismiss users, and for how long replies may still arrive.
    Halt(Duration),
    /// The master knows this worker, under this name and index.
    Known(String, u64),
    /// A test has ended.
    TestSummary(TestSummary),
    /// Show this line to the user.
    Say(String),
    /// The worker ends.
    Exit(Exit),
}

/// A test that has ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TestSummary {
    /// The number of the test, from 1.
    pub test: u64,
    /// Its sums.
    #[serde(flatten)]
    pub sum: Sum,
}

/// The reason why a worker ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The master told it to.
    ByMaster,
    /// The user interrupted it.
    Interrupted,
    /// No master answered for too long; the text says what to do.
    Alone(String),
}

/// The state of the connection to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// Not connected; the next attempt is at `again`, and `pause` later if that fails.
    Away { again: Duration, pause: Duration },
    /// A connection is being made.
    Dialling { pause: Duration },
    /// Introduced; without an answer the introduction is repeated at `again`.
    Introduced { again: Duration },
    /// The master knows this worker.
    Known,
}

/// The state of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Ready,
    Spawning,
    Running,
    /// The crew was told to dismiss users, and is assumed to have done so by `until`.
    Stopping {
        until: Duration,
        then: Then,
    },
    /// The master was told that users are gone and has forgotten the worker; the worker sends
    /// `ready` at `until`.
    Resting {
        until: Duration,
    },
}

/// The next step once all users are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Rest for this long, then be ready again.
    Rest(Duration),
    /// Be ready again without telling a master, because none asked for the stop.
    Forget,
    /// End; `true` if the master must be told.
    Leave(bool),
}

/// A worker; see the module.
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    name: String,
    /// The number of names that were used up.
    renamed: u32,
    /// Whether a connection has used this name.
    name_used: bool,
    /// Whether this is not the first connection under this name.
    second: bool,
    /// Introductions over new connections that were not answered.
    unanswered: u32,
    /// Whether the master has answered over this connection.
    proved: bool,
    connection: Connection,
    test: Test,
    /// Since when no master knows this worker.
    alone: Option<Duration>,
    /// By when a master must order users after a reconnection.
    adoption: Option<Duration>,
    index: u64,
    heard: Duration,
    spawned: f64,
    pending: Option<Box<Spawn>>,
    pending_targets: u32,
    tests: u64,
    users: Users,
    stop_timeout: Duration,
    stats: StatsLog,
    /// Heartbeats sent over this connection, and answers received.
    beats: (u64, u64),
    /// Unconfirmed reports, each with the number of the heartbeat sent after it.
    unconfirmed: VecDeque<(u64, StatsReport)>,
    log: Log,
    said: BTreeSet<String>,
    problems: VecDeque<Problem>,
    usage: ProcessUsage,
    beat: Duration,
    report: Duration,
    logs: Duration,
    actions: VecDeque<Action>,
}

impl Worker {
    /// A worker that connects at once.
    pub fn new(settings: Settings, now: Now) -> Self {
        Self {
            name: settings.name.clone(),
            settings,
            renamed: 0,
            name_used: false,
            second: false,
            unanswered: 0,
            proved: false,
            connection: Connection::Away { again: now.run, pause: PAUSE.0 },
            test: Test::Ready,
            alone: Some(now.run),
            adoption: None,
            index: 0,
            heard: now.run,
            spawned: 0.0,
            pending: None,
            pending_targets: 0,
            tests: 0,
            users: Users::new(),
            stop_timeout: Duration::ZERO,
            stats: StatsLog::new(now.unix),
            beats: (0, 0),
            unconfirmed: VecDeque::new(),
            log: Log::default(),
            said: BTreeSet::new(),
            problems: VecDeque::new(),
            usage: ProcessUsage::default(),
            beat: now.run,
            report: now.run,
            logs: now.run + LOGS,
            actions: VecDeque::new(),
        }
    }

    /// The next action; `None` until an event or [`Worker::wake`].
    pub fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Handles an established connection.
    pub fn connected(&mut self, now: Now) {
        self.heard = now.run;
        self.proved = false;
        self.second = std::mem::replace(&mut self.name_used, true);
        self.introduce(now);
    }

    /// Handles a connection that was closed or could not be made.
    pub fn lost(&mut self, why: &str, now: Now) {
        let pause = match self.connection {
            Connection::Away { .. } => return,
            // A missing master is common and not worth a line each time.
            Connection::Dialling { pause } => pause,
            Connection::Introduced { .. } | Connection::Known => {
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

    /// Handles a message.
    pub fn hear(&mut self, bytes: &[u8], now: Now) {
        self.heard = now.run;
        match message::decode(bytes) {
            Ok(MasterMessage::Ack { index }) => self.known(index, now),
            Ok(MasterMessage::Spawn(spawn)) => self.spawn(spawn, now),
            Ok(MasterMessage::Stop) => self.stop(now),
            Ok(MasterMessage::Quit) => self.quit(now),
            Ok(MasterMessage::Reconnect) => {
                self.note(
                    Level::Warning,
                    "the master could not decode a message: reconnecting",
                    now,
                );
                self.actions.push_back(Action::Hangup);
                self.away(PAUSE.0, now);
            }
            Ok(MasterMessage::Heartbeat) => self.confirmed(),
            Ok(MasterMessage::SpawningComplete | MasterMessage::Other(_)) => {}
            Err(malformed) => self.note(Level::Warning, &malformed.to_string(), now),
        }
    }

    /// Handles an event of the crew.
    pub fn news(&mut self, news: CrewEvent, now: Now) {
        match news {
            CrewEvent::Batch(batch) => self.stats.add(&batch, now.unix),
            CrewEvent::Settled(users) => self.settled(users),
            CrewEvent::Halted => self.halted(now),
            CrewEvent::Log(level, line) => self.note(level, &line, now),
            CrewEvent::Problem(problem) => {
                if self.said.insert(format!("{}\n{}", problem.what, problem.place)) {
                    self.note(Level::Warning, &problem.what, now);
                    self.problems.push_back(problem);
                    self.unburden();
                }
            }
        }
    }

    /// Handles an interruption by the user.
    pub fn interrupt(&mut self, now: Now) {
        self.leave(LINGER, GRACE, true, now);
    }
}

impl Worker {
    fn has_users(&self) -> bool {
        matches!(self.test, Test::Spawning | Test::Running)
    }

    fn say(&mut self, said: &WorkerMessage) {
        self.actions.push_back(Action::Send(message::encode(&self.name, said)));
    }

    fn note(&mut self, level: Level, line: &str, now: Now) {
        let line = self.log.push(&self.name, level, line, now.unix);
        self.actions.push_back(Action::Say(line));
    }

    fn away(&mut self, pause: Duration, now: Now) {
        self.take_back();
        self.alone.get_or_insert(now.run);
        self.adoption = None;
        self.connection =
            Connection::Away { again: now.run + pause, pause: (pause * 2).min(PAUSE.1) };
    }

    fn introduce(&mut self, now: Now) {
        self.say(&WorkerMessage::ClientReady);
        self.connection = Connection::Introduced { again: now.run + INTRODUCTION };
    }

    fn known(&mut self, index: Option<u64>, now: Now) {
        if !matches!(self.connection, Connection::Introduced { .. }) {
            return;
        }
        self.connection = Connection::Known;
        self.proved = true;
        self.unanswered = 0;
        self.index = index.unwrap_or(self.index);
        let absent = self.alone.take();
        if absent.is_some() {
            // A restarted master may have another clock.
            self.spawned = 0.0;
            self.adoption = self.has_users().then_some(now.run + ADOPTION);
            self.actions.push_back(Action::Known(self.name.clone(), self.index));
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
        self.say(&WorkerMessage::Spawning);
        if spawn.timestamp <= self.spawned {
            let line = "ignoring an outdated order for users";
            return self.note(Level::Info, line, now);
        }
        let fresh = self.test == Test::Ready;
        if fresh {
            self.tests += 1;
            self.stats = StatsLog::new(now.unix);
            self.unconfirmed.clear();
            self.said.clear();
        }
        self.spawned = spawn.timestamp;
        self.stop_timeout = spawn.stop_timeout;
        self.adoption = None;
        self.pending_targets += 1;
        self.test = Test::Spawning;
        let Spawn { users, host, options, stop_timeout, .. } = *spawn;
        let index = self.index;
        let targets = UserTargets { users, host, options, stop_timeout, fresh, index };
        self.actions.push_back(Action::UserTargets(targets));
    }

    fn settled(&mut self, users: Users) {
        self.pending_targets = self.pending_targets.saturating_sub(1);
        if !self.has_users() {
            return;
        }
        self.stats.users(users.values().sum());
        self.users = users;
        if self.pending_targets == 0 {
            self.test = Test::Running;
        }
        if self.connection == Connection::Known {
            self.say(&WorkerMessage::SpawningComplete(self.users.clone()));
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

    /// Handles the end of the master, which waits half a second for the last report.
    fn quit(&mut self, now: Now) {
        self.note(Level::Info, "the master has ended the swarm", now);
        self.leave(Duration::ZERO, GRACE_AT_QUIT, false, now);
    }

    fn leave(&mut self, patience: Duration, grace: Duration, tell: bool, now: Now) {
        match self.test {
            Test::Ready | Test::Resting { .. } => self.gone(Then::Leave(tell), now),
            Test::Spawning | Test::Running | Test::Stopping { .. } => {
                // The known results are sent first, so that they are safe whatever happens to the
                // rest.
                self.tell(now);
                self.halt(patience, grace, Then::Leave(tell), now);
            }
        }
    }

    fn halt(&mut self, patience: Duration, grace: Duration, then: Then, now: Now) {
        self.test = Test::Stopping { until: now.run + patience + grace, then };
        self.actions.push_back(Action::Halt(patience));
    }

    fn halted(&mut self, now: Now) {
        self.pending_targets = 0;
        if let Test::Stopping { then, .. } = self.test {
            self.users.values_mut().for_each(|count| *count = 0);
            self.actions.push_back(Action::TestSummary(TestSummary {
                test: self.tests,
                sum: self.stats.sum(),
            }));
            self.tell(now);
            self.gone(then, now);
        }
    }

    /// Handles the state in which all users are gone.
    fn gone(&mut self, then: Then, now: Now) {
        self.users.clear();
        match then {
            Then::Rest(span) => {
                if self.connection == Connection::Known {
                    self.say(&WorkerMessage::ClientStopped);
                }
                self.test = Test::Resting { until: now.run + span };
            }
            Then::Forget => self.ready(now),
            Then::Leave(tell) => {
                self.test = Test::Ready;
                if tell && self.connection == Connection::Known {
                    self.say(&WorkerMessage::Quit);
                }
                let exit = if tell { Exit::Interrupted } else { Exit::ByMaster };
                self.actions.push_back(Action::Exit(exit));
            }
        }
    }

    /// Becomes ready for the next test, which may already be ordered.
    fn ready(&mut self, now: Now) {
        self.test = Test::Ready;
        if let Some(spawn) = self.pending.take() {
            self.spawn(spawn, now);
        }
    }

    /// Sends a report, if the master listens.
    fn tell(&mut self, now: Now) {
        if self.connection == Connection::Known && !matches!(self.test, Test::Resting { .. }) {
            let report = self.stats.take(now.unix);
            self.say(&WorkerMessage::Stats(report.value(&self.users)));
            self.beat(now);
            self.unconfirmed.push_back((self.beats.0, report));
        }
    }

    /// The next heartbeat is due a second later. One sent while resting would not be answered.
    fn beat(&mut self, now: Now) {
        let state = match self.test {
            Test::Ready => "ready",
            Test::Resting { .. } => return,
            Test::Spawning => "spawning",
            Test::Running | Test::Stopping { .. } => "running",
        };
        self.beat = now.run + BEAT;
        self.beats.0 += 1;
        let ProcessUsage { cpu, memory } = self.usage;
        self.say(&WorkerMessage::Heartbeat { state, cpu, memory });
    }

    /// Handles the answer to a heartbeat: every report before it has arrived.
    fn confirmed(&mut self) {
        self.beats.1 += 1;
        while self.unconfirmed.front().is_some_and(|(beat, _)| *beat <= self.beats.1) {
            self.unconfirmed.pop_front();
        }
    }

    /// Restores reports that may have been lost with the connection.
    fn take_back(&mut self) {
        self.beats = (0, 0);
        while let Some((_, report)) = self.unconfirmed.pop_back() {
            self.stats.restore(report);
        }
    }

    /// Sends pending problems.
    fn unburden(&mut self) {
        while self.connection == Connection::Known
            && let Some(Problem { what, place }) = self.problems.pop_front()
        {
            self.say(&WorkerMessage::Exception { msg: what, traceback: place });
        }
    }
}
