//! The three load models, as pairs of an arrival process and the work of each arrival.

use crate::arrive::ArrivalProcess;
use crate::work::{Think, Work};
use std::time::Duration;

/// The load model: the source, the times and the number of requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Users that send again once they are answered. Latencies are service times: while the server
    /// is slow, users wait instead of sending.
    Closed {
        /// Requests of a user in one write; the user waits for all replies.
        depth: u32,
        /// The user's pause before the next batch.
        think: Think,
        /// Users arriving per second; `None`: all at once.
        ramp: Option<f64>,
    },
    /// Requests that arrive on a schedule, whatever the server does.
    Open {
        /// Requests a second.
        rate: f64,
        /// The arrival process.
        arrivals: Arrivals,
        /// Requests that a connection may have outstanding.
        depth: u32,
    },
    /// Sessions that arrive on a schedule; each sends some requests, batch after batch, on a
    /// connection of its own ("partly open": Schroeder, Wierman, Harchol-Balter, NSDI 2006).
    Sessions {
        /// Sessions a second.
        rate: f64,
        /// The arrival process.
        arrivals: Arrivals,
        /// Batches of a session.
        rounds: u64,
        /// Requests in a batch.
        depth: u32,
        /// The pause between two batches.
        think: Think,
    },
}

/// An arrival process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Independent of each other.
    Poisson,
    /// Evenly spaced.
    Constant,
}

impl Model {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::Sessions { .. } => "sessions",
        }
    }

    /// Whether arrivals follow a schedule, so that lateness is defined.
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

    /// Arrivals a second, for a schedule with a rate.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Open { rate, .. } | Self::Sessions { rate, .. } => Some(*rate),
            Self::Closed { .. } => None,
        }
    }

    /// The arrival process of a schedule.
    pub fn process(&self) -> Option<Arrivals> {
        match self {
            Self::Open { arrivals, .. } | Self::Sessions { arrivals, .. } => Some(*arrivals),
            Self::Closed { .. } => None,
        }
    }

    /// The time until all users of `connections` have arrived.
    pub fn ramp(&self, connections: usize) -> Duration {
        match self {
            Self::Closed { ramp: Some(rate), .. } => {
                Duration::from_secs_f64(connections as f64 / rate)
            }
            _ => Duration::ZERO,
        }
    }

    /// The work of each arrival.
    pub fn work(&self) -> Work {
        match *self {
            Self::Closed { depth, think, .. } => Work::Own { rounds: u64::MAX, depth, think },
            Self::Open { depth, .. } => Work::Shared { depth },
            Self::Sessions { rounds, depth, think, .. } => Work::Own { rounds, depth, think },
        }
    }

    /// The arrivals of thread `of.0` of `of.1`, which has `users` of the users.
    pub fn arrivals(&self, users: usize, seed: u64, of: (usize, usize)) -> ArrivalProcess {
        match *self {
            Self::Closed { ramp, .. } => {
                ArrivalProcess::users(users as u64, ramp.map(|rate| rate / of.1 as f64))
            }
            Self::Open { rate, arrivals, .. } | Self::Sessions { rate, arrivals, .. } => {
                ArrivalProcess::at_rate(rate, arrivals, seed, of)
            }
        }
    }
}
