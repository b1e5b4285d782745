//! The settings of a generator.

use crate::arrive::ArrivalProcess;
use crate::script::Script;
use crate::stages::Presence;
use crate::tls::Layers;
use crate::work::Work;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Connections, at least one: users of a closed loop, the pool of an open one, concurrent
    /// sessions.
    pub connections: usize,
    /// Close and reopen each connection after this many requests.
    pub requests_per_connection: Option<u64>,
    /// Give up a connection on which no whole reply to a request arrived for this long.
    pub timeout: Duration,
    /// The longest wait for the last replies, and for any reply to numbered requests.
    pub drain: Duration,
    /// Additional connections that never send a request.
    pub idle: usize,
    /// Arrivals that may be outstanding or queued; further ones are dropped and count as failed.
    pub outstanding_max: usize,
    /// How long to spin before an arrival: waking from sleep takes some 50 us, which would all be
    /// lateness.
    pub spin: Duration,
    /// Without a schedule: how long to poll for replies before sleeping. A sleeping generator has
    /// to be woken by the server's processor, which costs the server microseconds per reply on a
    /// virtual machine; a generator that never sleeps costs a processor.
    pub linger: Duration,
    /// Whether kinds of requests are counted separately, at some cost per reply.
    pub detailed: bool,
    /// Top up windows as replies arrive instead of waiting for a whole batch, and keep the counts
    /// of a stress client.
    pub tops_up: bool,
    /// With [`Settings::tops_up`]: the interval at which each thread closes its oldest connection
    /// and reopens it.
    pub renew: Option<Duration>,
    /// Send a user's requests once its connection is made, and time connecting apart.
    pub connect_apart: bool,
    /// Users that come and go.
    pub guests: Option<Guests>,
    /// End the load at the first failure.
    pub until_failure: bool,
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
            tops_up: false,
            renew: None,
            connect_apart: false,
            guests: None,
            until_failure: false,
        }
    }
}

/// Users that are away for as long as they stay, again and again; at first they are away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guests {
    /// How many of [`Settings::connections`].
    pub count: usize,
    /// How long they stay.
    pub stay: Duration,
}

/// The parts of a generator.
pub struct Parts {
    /// The server, or the nodes that serve the same.
    pub addresses: Vec<SocketAddr>,
    /// The socket in the file system to connect to, in place of the addresses.
    pub unix: Option<PathBuf>,
    /// Local addresses to connect from, round robin; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Encryption; `None`: plain TCP.
    pub tls: Option<Layers>,
    /// The settings of connections.
    pub settings: Settings,
    /// The arrival process of users or requests.
    pub arrive: ArrivalProcess,
    /// Users that are present by stages, if not always.
    pub presence: Option<Presence>,
    /// The work of each arrival.
    pub work: Work,
    /// The script: requests and expected replies.
    pub script: Box<dyn Script>,
    /// The seed of the random pauses.
    pub seed: u64,
    /// Whether arrivals follow a schedule; false for users present from the start.
    pub scheduled: bool,
}
