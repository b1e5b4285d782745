//! The seam between the protocol and whatever makes the requests.
//!
//! The protocol knows users by class and number; a [`Crew`] makes requests for them and tells
//! what came of it in [`Batch`]es. Both sides go on by themselves: an order returns at once, and
//! what the crew has done comes back as [`News`] when it has done it. So the protocol's state
//! machine can be tested without a socket, and a generator without a master.

use crate::message::{Options, Users};
use std::time::Duration;

/// What users shall be there.
#[derive(Clone, Debug, PartialEq)]
pub struct Aim {
    /// How many of each class; a class that is not named keeps what it has.
    pub users: Users,
    /// The target, if the master has one for all classes.
    pub host: Option<String>,
    /// The master's options.
    pub options: Options,
    /// How long users may finish what they have begun.
    pub stop_timeout: Duration,
    /// Whether a test begins: what was there before is forgotten.
    pub fresh: bool,
    /// Which worker of the swarm we are, from 0: workers with one seed must not ask the same.
    pub index: u64,
}

/// What makes the requests.
pub trait Crew {
    /// Have these users. Answered by [`News::Settled`], or first by [`News::Trouble`].
    fn aim(&mut self, aim: Aim);

    /// Let go of all users; replies that are owed may come in for `patience`. Answered by a last
    /// [`News::Batch`] of each class and [`News::Halted`].
    fn halt(&mut self, patience: Duration);
}

/// What a crew tells.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// These users are there.
    Settled(Users),
    /// No users are there, and every batch was told.
    Halted,
    /// What happened to the users of a class since its last batch.
    Batch(Box<Batch>),
    /// Something that keeps users from doing what was asked of them.
    Trouble(Trouble),
    /// A line for the log.
    Log(Level, String),
}

/// How grave a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// The numbers deserve a doubt.
    Warning,
}

/// What keeps users from doing what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What was expected, what was found, what to do.
    pub what: String,
    /// Where: of the same place a master counts how often.
    pub place: String,
}

/// What happened to the users of one class in a short time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The class.
    pub class: String,
    /// One row for each kind of request.
    pub rows: Vec<Row>,
    /// What went wrong.
    pub faults: Vec<Fault>,
    /// How the generator fared.
    pub health: Health,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The protocol and its verb, such as `STOCK` or `GET`.
    pub method: String,
    /// What was asked.
    pub name: String,
    /// Requests that came to an end, good or bad.
    pub done: u64,
    /// Those among them that failed.
    pub failed: u64,
    /// Response times, from the intended moment: for each (ns) how often. Failures without a reply
    /// have none.
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
    /// What went wrong; the same words for the same kind.
    pub error: String,
    /// How often.
    pub count: u64,
}

/// Whether the generator was what limited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// How arrivals are made, in a word.
    pub model: String,
    /// `ok`, or why the numbers say more about the generator than about the server.
    pub verdict: String,
    /// Users now.
    pub users: u64,
    /// Requests a second that ought to have been sent; 0 in a closed loop.
    pub offered: f64,
    /// The time this batch covers.
    pub span: Duration,
    /// Processor time that the class's thread used meanwhile.
    pub busy: Duration,
    /// From sent to done: for each (ns) how often.
    pub service: Times,
    /// From intended to sent: for each (ns) how often.
    pub lateness: Times,
    /// From intended to noticed, the generator's own delay: for each (ns) how often.
    pub tardiness: Times,
    /// Arrivals that found no room.
    pub dropped: u64,
    /// Requests that were given up unanswered.
    pub unanswered: u64,
    /// Requests that are out now.
    pub outstanding: u64,
}

/// Times in nanoseconds and how often each was seen, with no time twice.
pub type Times = Vec<(u64, u64)>;
