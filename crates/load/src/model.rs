//! The three models of load, as pairs of an arrival process and the work of each arrival.

use crate::arrive::{Arrive, Constant, Crowd, Poisson, Replay};
use crate::parse::Usage;
use crate::work::{Think, Work};
use std::path::PathBuf;
use std::time::Duration;

/// Who asks, when, and how often.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Users who ask again when they are answered. Latencies are service times: those who would
    /// have come while the server was slow did not.
    Closed {
        /// Requests of a user in one write; he waits for all the replies.
        depth: u32,
        /// His pause before the next.
        think: Think,
        /// How many users come each second; `None`: all at once.
        ramp: Option<f64>,
    },
    /// Requests that come when they come, whatever the server does.
    Open {
        /// How many a second.
        rate: f64,
        /// By which process.
        arrivals: Arrivals,
        /// Requests that a connection may have outstanding.
        depth: u32,
    },
    /// Sessions that come when they come; each makes some requests, one batch after the other, on
    /// a connection of its own ("partly open": Schroeder, Wierman, Harchol-Balter, NSDI 2006).
    Sessions {
        /// How many a second.
        rate: f64,
        /// By which process.
        arrivals: Arrivals,
        /// Batches of a session.
        rounds: u64,
        /// Requests in a batch.
        depth: u32,
        /// The pause between two batches.
        think: Think,
    },
}

/// By which process somebody arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent of each other.
    Poisson,
    /// At even distances.
    Constant,
    /// As a file says; the rate is then only a word.
    Replay(PathBuf),
}

impl Model {
    /// What reports call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::Sessions { .. } => "sessions",
        }
    }

    /// Whether arrivals follow a schedule, so that being late means something.
    pub fn is_scheduled(&self) -> bool {
        !matches!(self, Self::Closed { .. })
    }

    /// Requests in one write, or outstanding on a connection.
    pub fn depth(&self) -> u32 {
        match self {
            Self::Closed { depth, .. }
            | Self::Open { depth, .. }
            | Self::Sessions { depth, .. } => *depth,
        }
    }

    /// Arrivals a second, where there is a schedule with a rate.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Open { rate, arrivals, .. } | Self::Sessions { rate, arrivals, .. } => {
                (!matches!(arrivals, Arrivals::Replay(_))).then_some(*rate)
            }
            Self::Closed { .. } => None,
        }
    }

    /// How long it takes until all users of `connections` are there.
    pub fn ramp(&self, connections: usize) -> Duration {
        match self {
            Self::Closed { ramp: Some(rate), .. } => {
                Duration::from_secs_f64(connections as f64 / rate)
            }
            _ => Duration::ZERO,
        }
    }

    /// What each arrival does.
    pub fn work(&self) -> Work {
        match *self {
            Self::Closed { depth, think, .. } => Work::Own { rounds: u64::MAX, depth, think },
            Self::Open { depth, .. } => Work::Shared { depth },
            Self::Sessions { rounds, depth, think, .. } => Work::Own { rounds, depth, think },
        }
    }

    /// The arrivals of the thread numbered `part` of `parts`, which has `users` of the users.
    ///
    /// # Errors
    /// If a trace cannot be read.
    pub fn arrivals(
        &self,
        users: usize,
        seed: u64,
        (part, parts): (usize, usize),
    ) -> Result<Box<dyn Arrive>, Usage> {
        let share = parts as f64;
        let (rate, arrivals) = match self {
            Self::Closed { ramp: None, .. } => return Ok(Box::new(Crowd::at_once(users as u64))),
            Self::Closed { ramp: Some(rate), .. } => {
                return Ok(Box::new(Crowd::ramp(users as u64, rate / share)));
            }
            Self::Open { rate, arrivals, .. } | Self::Sessions { rate, arrivals, .. } => {
                (*rate, arrivals)
            }
        };
        Ok(match arrivals {
            // Poisson processes add up to one; a seed for each part keeps them independent.
            Arrivals::Poisson => {
                Box::new(Poisson::new(rate / share, seed.wrapping_add(part as u64 * 0x9e37_79b9)))
            }
            Arrivals::Constant => Box::new(Constant::new(rate / share, part as f64 / share)),
            Arrivals::Replay(path) => Box::new(Replay::open(path, part as u64, parts as u64)?),
        })
    }
}
