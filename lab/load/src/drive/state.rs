//! The parts of a generator: what changes together stands together.
//!
//! The loop of a driver borrows these parts one by one, so that a method on a link can change the
//! counts while it holds the link. `Net` holds sockets, `Arrivals` the requests that are not sent
//! yet, `Course` the phase (warm-up, window, drain), `Record` the interval of the report, and
//! `Counts` the whole run. `Course::outstanding` equals the sum over the links at every turn, so a
//! phase knows when its last reply has come.

use super::Delays;
use super::idle::Idle;
use super::recorder::Recorder;
use super::windows::{Round, StressCounts};
use crate::Instant;
use crate::arrive::ArrivalProcess;
use crate::faults::{FaultKind, Faults};
use crate::script::{Note, Notes};
use crate::stages::Presence;
use crate::tally::{Span, Tally};
use crate::tls::{Handshakes, Layers};
use crate::work::{Think, Work};
use meter::Histogram;
use rand_pcg::Pcg64Mcg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use sys::epoll::Epoll;

/// How connections are made and waited for.
pub(super) struct Net {
    /// The server, or the nodes that serve the same.
    pub addresses: Vec<SocketAddr>,
    pub unix: Option<PathBuf>,
    pub sources: Vec<IpAddr>,
    /// The number of connections made so far; it chooses the next source address.
    pub dialled: usize,
    pub tls: Option<Layers>,
    pub epoll: Epoll,
    pub idle: Idle,
    pub buffer: Vec<u8>,
    /// Room for received bytes before TLS opens them; empty without TLS.
    pub sealed: Vec<u8>,
    /// Connections that are up.
    pub up: usize,
}

/// The arrivals, and those that wait for a connection.
pub(super) struct Arrivals {
    pub arrive: ArrivalProcess,
    /// Whether arrivals follow a schedule; their lateness is counted only if they do.
    pub scheduled: bool,
    /// When arrivals began, if they have.
    pub started: Option<Instant>,
    /// Users that are present by stages, if not always.
    pub presence: Option<Presence>,
    pub work: Work,
    pub think: Think,
    /// Draws the pauses of this thread's users.
    pub random: Pcg64Mcg,
    /// With shared work: the connections with room. With own work: the slots without a user.
    pub free: VecDeque<u32>,
    /// Due times of arrivals that found no connection.
    pub waiting: VecDeque<Instant>,
    pub alarms: BinaryHeap<Reverse<(Instant, u32)>>,
}

/// Where a phase stands.
#[derive(Default)]
pub(super) struct Course {
    /// Requests due before this moment are not measured.
    pub epoch: Instant,
    /// When a reply came last in this phase, or its beginning.
    pub answered: Instant,
    /// When a descriptor was ready for the last time.
    pub stirred: Instant,
    /// Requests sent in this phase, plus those outstanding at its start.
    pub asked: u64,
    /// Requests that are unanswered now.
    pub outstanding: u64,
    pub round: Round,
    /// Whether idle connections are closed and no new ones are made, so that a server can be
    /// drained.
    pub parting: bool,
    /// While it is set, no requests are sent.
    pub hold: Option<Arc<AtomicBool>>,
}

#[derive(Default)]
pub(super) struct Record {
    pub tally: Tally,
    pub notes: Notes,
    pub recorder: Recorder,
}

impl Record {
    /// Writes a row for the reply noted at `place`, and counts it by its kind if that is `detail`ed
    /// (whether it is measured).
    pub fn note(&mut self, note: Note, place: usize, span: Span, detail: Option<bool>) {
        if let Some(measured) = detail {
            self.tally.detail(note, span, measured);
        }
        let Some(rows) = &self.recorder.rows else { return };
        let faults = &self.notes.faults;
        let fault = faults.binary_search_by_key(&place, |fault| fault.0).ok();
        rows.replied(note, span, fault.map(|at| faults[at].1));
    }
}

/// Counts since the start of a run.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// All faults.
    pub faults: Faults,
    /// The first of them with its circumstances.
    pub first_failure: Option<FirstFailure>,
    /// Requests answered.
    pub answered: u64,
    /// Requests lost because their connection ended first.
    pub lost: u64,
    /// Requests sent again because the server had closed the connection.
    pub repeated: u64,
    /// Connections tried again because the server's kernel had not answered in time.
    pub retries: u64,
    /// The times of connecting (ns), if they are taken apart.
    pub connect: Histogram,
    /// The handshakes of TLS; `None` if there was none.
    pub handshakes: Option<Handshakes>,
    /// The counts of a stress client.
    pub stress: StressCounts,
    /// How far the generator was behind its schedule when a phase ended without its last arrivals
    /// (ns).
    pub behind_ns: u64,
    /// The generator's own delays in this phase.
    pub delays: Delays,
}

/// The first failure and its circumstances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FirstFailure {
    /// Its time, from the start of the load.
    pub at_ms: f64,
    /// Requests answered before it.
    pub after_requests: u64,
    /// Users that were there.
    pub users: usize,
    /// Its kind.
    pub kind: FaultKind,
    /// Its description.
    pub words: String,
}

impl Counts {
    /// Adds the counts of another thread, delays left out: they are those of a phase.
    pub(crate) fn merge(&mut self, other: &Counts) {
        self.faults.merge(&other.faults);
        if let Some(theirs) = &other.first_failure
            && self.first_failure.as_ref().is_none_or(|mine| theirs.at_ms < mine.at_ms)
        {
            self.first_failure = Some(theirs.clone());
        }
        self.answered += other.answered;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.retries += other.retries;
        self.connect.merge(&other.connect);
        if let Some(handshakes) = &other.handshakes {
            self.handshakes.get_or_insert_default().merge(handshakes);
        }
        self.behind_ns = self.behind_ns.max(other.behind_ns);
        self.stress.merge(&other.stress);
    }
}
