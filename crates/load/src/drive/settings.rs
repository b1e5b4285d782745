//! What a generator is made of, and what it tells an observer.

use super::{Pulse, Stress};
use crate::arrive::Arrive;
use crate::faults::Faults;
use crate::script::Script;
use crate::tally::Tally;
use crate::work::Work;
use seam::Instant;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How connections are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many, at least one: users of a closed loop, the pool of an open one, sessions at a time.
    pub connections: usize,
    /// Close and remake each after so many requests.
    pub requests_per_connection: Option<u64>,
    /// Give a connection up when requests are outstanding and nothing moved for so long.
    pub timeout: Duration,
    /// How long to wait for the last replies.
    pub drain: Duration,
    /// Connections beside these that are made and never ask.
    pub idle: usize,
    /// Arrivals that may be outstanding or waiting at a time; one that comes when so many are is
    /// dropped, and counts as failed.
    pub outstanding_max: usize,
    /// Wait for an arrival actively in the last moments before it: waking from sleep takes some
    /// 50 us, which would all be lateness.
    pub spin: Duration,
    /// Where there is no schedule: look for replies so long before sleeping. A generator that
    /// sleeps has to be woken by the server's processor, which on a virtual machine costs the
    /// server microseconds a reply; one that never sleeps costs a processor.
    pub linger: Duration,
    /// Whether kinds of requests are counted apart, at some cost for each reply.
    pub detailed: bool,
    /// Windows are topped up as replies come, instead of waiting for all of a batch, and what a
    /// stress client counts is counted.
    pub stress: Option<Stress>,
    /// How often [`Drive::observe`](super::Drive::observe)'s function is called.
    pub interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 64,
            requests_per_connection: None,
            timeout: Duration::from_secs(30),
            drain: Duration::from_secs(5),
            idle: 0,
            outstanding_max: 10_000,
            spin: Duration::from_micros(60),
            linger: Duration::ZERO,
            detailed: false,
            stress: None,
            interval: Duration::from_secs(1),
        }
    }
}

/// A stretch of time, as [`Drive::observe`](super::Drive::observe)'s function sees it.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Whether it is measured: it is part of the window or of the drain behind it.
    pub measured: bool,
    /// What was counted in it.
    pub tally: &'a Tally,
    /// Requests unanswered at its end, those included that wait for a connection.
    pub outstanding: u64,
    /// Connections at its end, idle ones left out.
    pub connections: usize,
    /// What went wrong since the beginning.
    pub faults: &'a Faults,
    /// The generator's own delays since the beginning of the phase.
    pub pulse: &'a Pulse,
}

/// Who is told of every stretch of time.
pub type Observer = Box<dyn FnMut(Stretch<'_>) + Send>;

/// What a generator is made of.
pub struct Parts {
    /// The server.
    pub address: SocketAddr,
    /// Addresses of this machine to connect from, in turns; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Connections and their keeping.
    pub settings: Settings,
    /// When somebody arrives.
    pub arrive: Box<dyn Arrive>,
    /// What he does.
    pub work: Work,
    /// What he says.
    pub script: Box<dyn Script>,
    /// What pauses are drawn from.
    pub seed: u64,
    /// Whether arrivals follow a schedule in time; false for users that are there from the start.
    pub scheduled: bool,
}
