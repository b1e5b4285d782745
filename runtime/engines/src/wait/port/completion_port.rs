//! The data that the threads of a port share: the ring, the sessions, the scheduler, the leader's
//! state.
//!
//! A session lies in its [`Strand`]. Each of its events is a *message* in the strand's mailbox. The
//! thread that posts the first message queues a step of the session, and no other thread steps it
//! until that step is over (the three-state machine of [`memory::session::SharedOutbox`], here for
//! steps instead of sends). So a receive and a send that complete at the same time never step a
//! session together, and no thread waits for a session's lock.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use memory::session::SharedOutbox;
use memory::{SharedTable, SlotState};
use seam::{Instant, SessionId, WorkerId};
use sys::process;
use sys::socket::SockRef;
use sys::uring::{Load, Port, Received};

use super::leader::LeaderState;
use super::scheduler::Scheduler;
use crate::common::Common;
use crate::erased::Value;
use crate::fault::Fault;
use crate::parts::connection;
use crate::parts::lock::lock;
use crate::parts::ring::accepting::Incoming;
use crate::parts::ring::flight::Flight;
use crate::shape::SLOTS;

/// A multishot accept may take connections beyond the limit, which are served when a successor
/// takes over.
const SPARE: usize = 1024;

/// An event of a session, to be handled at its next step.
pub(super) enum Message {
    Received {
        input: Received,
        more: bool,
        waiting: bool,
    },
    Sent {
        result: io::Result<usize>,
        load: Option<Load>,
    },
    /// The peer takes output again, or the wait for it is over.
    Writable,
    /// The outcome of its job; `None` if that panicked.
    Outcome(Option<Value>),
    /// Bytes of another session.
    Push(Vec<u8>),
    /// The requested deadline has come.
    Due(Instant),
    /// The session may be overdue.
    Look,
    /// The server is full: the session ends if its client was silent for this long.
    MakeRoom(Duration),
    Drain,
    Force,
}

pub(super) type Connection = connection::Connection<Ops>;

/// A port's record of a connection, besides the record that every loop keeps.
#[derive(Default)]
pub(super) struct Ops {
    pub flight: Flight,
    /// The service panicked in this session, and is not called for it again.
    pub panicked: bool,
}

/// A session and its mailbox; one thread at a time steps it.
pub(super) struct Strand {
    steps: SharedOutbox,
    mailbox: Mutex<Vec<Message>>,
    connection: Mutex<Option<Connection>>,
}

impl Strand {
    /// A strand whose first step the caller will run.
    pub fn new() -> Box<Strand> {
        let strand = Strand {
            steps: SharedOutbox::default(),
            mailbox: Mutex::new(Vec::new()),
            connection: Mutex::new(None),
        };
        let is_ours = strand.steps.queued();
        debug_assert!(is_ours, "no other thread knows of it");
        Box::new(strand)
    }

    /// Posts a message; true if the caller must queue a step.
    #[must_use]
    pub fn post(&self, message: Message) -> bool {
        lock(&self.mailbox).push(message);
        self.steps.queued()
    }

    /// The connection; only the thread that steps it may call this.
    pub fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        lock(&self.connection)
    }

    /// Puts the messages into `inbox`, which must be empty.
    pub fn collect(&self, inbox: &mut Vec<Message>) {
        std::mem::swap(&mut *lock(&self.mailbox), inbox);
    }

    /// Ends the step; true if messages arrived during it and the caller must queue another.
    #[must_use]
    pub fn end_step(&self) -> bool {
        self.steps.drained()
    }
}

/// Work for a thread that has a token.
pub(super) enum WorkItem {
    /// A connection has been admitted.
    Open(Incoming),
    Step(SessionId),
    /// The service's tick is due.
    Tick,
}

pub(super) type Job = (SessionId, Value);

/// A thread's place to sleep.
#[derive(Default)]
struct Sleeper {
    woken: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

/// The state that all threads of a port share.
pub struct CompletionPort {
    pub(super) ring: Port,
    pub(super) table: SharedTable<Box<Strand>>,
    pub(super) scheduler: Mutex<Scheduler<WorkItem, Job>>,
    pub(super) leader: Mutex<LeaderState>,
    /// The time until which the leader sleeps, in nanoseconds; 0 while no thread leads.
    pub(super) until: AtomicU64,
    /// Set by the first leader, which watches the server's stop.
    pub(super) stop_watched: OnceLock<()>,
    /// The slot that names and counts the sessions. It is no thread's own, because any thread may
    /// die.
    pub(super) slot: usize,
    sleepers: Vec<Sleeper>,
}

impl CompletionPort {
    /// The port of a server, before its threads start.
    ///
    /// # Errors
    /// The kernel refuses the ring.
    pub(crate) fn new(common: &Common<'_>) -> Result<CompletionPort, Fault> {
        let (shape, knobs) = (common.shape, &common.shape.knobs);
        let ring = Port::new(&knobs.ring).map_err(Fault::Ring)?;
        // The ring does not wait on a non-blocking descriptor, and our own calls must not wait.
        let polls = common.rings_poll();
        let listener = SockRef::from(&common.listeners.sockets[0]);
        listener.set_nonblocking(polls).map_err(Fault::Wait)?;
        let slot = common.epoch.slot() + SLOTS - 1;
        let me = WorkerId::new(slot, common.epoch.generation() + 1);
        common.board.sit(me, process::this()).set_state(SlotState::Ready);
        let most = common.sessions_max();
        Ok(CompletionPort {
            ring,
            table: SharedTable::new(slot, most + SPARE),
            scheduler: Mutex::new(Scheduler::new(shape.running())),
            leader: Mutex::new(LeaderState::new(common.board, most, polls)),
            until: AtomicU64::new(0),
            stop_watched: OnceLock::new(),
            slot,
            sleepers: (0..shape.workers).map(|_| Sleeper::default()).collect(),
        })
    }

    // ---- sleep

    /// Makes the calling thread number `me`.
    pub(super) fn join(&self, me: usize) {
        *lock(&self.sleepers[me].thread) = Some(thread::current());
        self.sleepers[me].woken.store(false, Ordering::Relaxed);
        lock(&self.scheduler).join();
    }

    /// Sleeps until `me` is woken.
    pub(super) fn sleep(&self, me: usize) {
        while !self.sleepers[me].woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    /// Wakes the thread `sleeper`.
    pub(super) fn wake(&self, sleeper: usize) {
        self.sleepers[sleeper].woken.store(true, Ordering::Release);
        if let Some(thread) = &*lock(&self.sleepers[sleeper].thread) {
            thread.unpark();
        }
    }

    // ---- the leader's sleep

    /// Makes the leader wake by `moment`: the next submission wakes it if it would sleep longer.
    pub(super) fn wake_leader_by(&self, moment: Instant) {
        if moment.ns() < self.until.load(Ordering::Relaxed) {
            self.ring.hub().knock();
        }
    }
}
