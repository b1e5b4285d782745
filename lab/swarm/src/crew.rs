//! The interface between the protocol and the request generator.
//!
//! The protocol knows users by class and number; a [`Crew`] makes their requests and reports the
//! results in [`Batch`]es. Both run independently: a command returns at once, and its completion is
//! reported as a [`CrewEvent`]. So the protocol's state machine can be tested without a socket, and
//! a generator without a master.

use crate::message::{Options, Users};
use std::time::Duration;

/// The users that a crew should have.
#[derive(Clone, Debug, PartialEq)]
pub struct UserTargets {
    /// The number of users of each class; unnamed classes stay as they are.
    pub users: Users,
    /// The target, if the master has one for all classes.
    pub host: Option<String>,
    /// The master's options.
    pub options: Options,
    /// The time that users may take to finish.
    pub stop_timeout: Duration,
    /// Whether this begins a new test.
    pub fresh: bool,
    /// This worker's index in the swarm, from 0: workers with the same seed must send different
    /// requests.
    pub index: u64,
}

/// Makes the requests.
pub trait Crew {
    /// Sets the users. Answered by [`CrewEvent::Settled`], possibly preceded by
    /// [`CrewEvent::Problem`].
    fn set_targets(&mut self, targets: UserTargets);

    /// Dismisses all users; outstanding replies may arrive for `patience`. Answered by a last
    /// [`CrewEvent::Batch`] of each class, and by [`CrewEvent::Halted`].
    fn halt(&mut self, patience: Duration);
}

/// A report of a crew.
#[derive(Clone, Debug, PartialEq)]
pub enum CrewEvent {
    /// These users are present.
    Settled(Users),
    /// There are no users, and every batch was reported.
    Halted,
    /// The results of a class's users since its last batch.
    Batch(Box<Batch>),
    /// A problem keeps users from working as asked.
    Problem(Problem),
    /// A line for the log.
    Log(Level, String),
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// The numbers may be unreliable.
    Warning,
}

/// A problem that keeps users from working as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The expected value, the actual value, and the remedy, as text.
    pub what: String,
    /// The place: the master counts problems by place.
    pub place: String,
}

/// The results of one class's users in a short time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The class.
    pub class: String,
    /// One row for each kind of request.
    pub rows: Vec<Row>,
    /// Their faults.
    pub faults: Vec<Fault>,
    /// The state of the generator.
    pub health: Health,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The protocol and its verb, such as `STOCK` or `GET`.
    pub method: String,
    /// The name of the request.
    pub name: String,
    /// Requests that ended, successfully or not.
    pub done: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Response times, measured from the intended moment: time (ns) and count. Failures without a
    /// reply have none.
    pub times: Times,
    /// Bytes of replies.
    pub bytes: u64,
}

/// Failures of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The row's method.
    pub method: String,
    /// The row's name.
    pub name: String,
    /// The error; equal text for equal kinds.
    pub error: String,
    /// The number of occurrences.
    pub count: u64,
}

/// Whether the generator was the limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// The load model in a word.
    pub model: String,
    /// `ok`, or why the numbers describe the generator rather than the server.
    pub verdict: String,
    /// Current users.
    pub users: u64,
    /// Requests a second that should have been sent; 0 in a closed loop.
    pub offered: f64,
    /// The time this batch covers.
    pub span: Duration,
    /// CPU time of the class's thread in this time.
    pub busy: Duration,
    /// From sent to done: time (ns) and count.
    pub service: Times,
    /// From intended to sent: time (ns) and count.
    pub lateness: Times,
    /// From intended to noticed, the generator's own delay: time (ns) and count.
    pub tardiness: Times,
    /// Arrivals that were dropped for lack of room.
    pub dropped: u64,
    /// Requests given up without an answer.
    pub unanswered: u64,
    /// Requests currently outstanding.
    pub outstanding: u64,
}

/// Times in nanoseconds with their counts, each time once.
pub type Times = Vec<(u64, u64)>;
