//! What the threads of a port have in common: the ring, the sessions, the shift, the clock.
//!
//! A session lies at its [`Berth`]. Whatever happens to it is *mail*; who brings the first letter
//! sees to it that somebody turns the session, and nobody else does until that turn is over (the
//! three-state machine of [`memory::session::SharedOutbox`], here for turns instead of sends). So a
//! receive and a send that complete at the same time never step a session together, and nobody
//! waits for a session's lock.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use memory::session::SharedOutbox;
use memory::{SharedTable, SlotState};
use seam::{Conn, Instant, Service, SessionId, WorkerId};
use sys::uring::{Armed, Load, Port, Received};
use sys::{process, socket};

use super::door::Comer;
use super::shift::Shift;
use super::watch::Watch;
use crate::fault::Fault;
use crate::parts::pace::Pace;
use crate::server::Common;
use crate::shape::SLOTS;
use crate::wait::uring::tactics::Tactics;

/// Those whom a multishot accept takes beyond the limit are served when another server takes over.
const SPARE: usize = 1024;

/// What happened to a session while nobody turned it.
pub(super) enum Mail<O> {
    Received {
        input: Received,
        more: bool,
        waiting: bool,
    },
    Sent {
        result: io::Result<usize>,
        load: Option<Load>,
    },
    /// The peer takes output again, or the wait for that is over.
    Writable,
    /// Its job is back; `None` if that panicked.
    Done(Option<O>),
    /// Bytes of another session.
    Push(Vec<u8>),
    /// The deadline that was asked for has come.
    Due(Instant),
    /// It may have overstayed.
    Look,
    /// The server drains.
    Drain,
    /// The server is forced.
    Force,
}

/// A session and what is in flight for it.
pub(super) struct Connection<S: Service> {
    pub conn: Conn<S>,
    pub fd: OwnedFd,
    /// When bytes last moved, in either direction.
    pub active: Instant,
    /// The entry that counts among the deadlines.
    pub scheduled: Instant,
    /// How the peer takes its output.
    pub pace: Pace,
    /// The last reply is out; until then the peer may still send before it is cut off.
    pub linger: Option<Instant>,
    /// The receive that holds the socket.
    pub armed: Option<Armed>,
    /// It has been asked to stop.
    pub stopping: bool,
    /// A send is in flight, or the wait for a peer that takes no more of a file.
    pub flying: bool,
    /// Input is known to be there already.
    pub waiting: bool,
    /// How many receives it still makes into buffers of its own, having found the ring empty.
    pub alone: u8,
    /// The peer has stopped sending.
    pub ended: bool,
    /// The service panicked in it, and is not called for it again.
    pub wrecked: bool,
}

impl<S: Service> Connection<S> {
    /// The session of a peer that has come at `now`.
    pub fn new(conn: Conn<S>, fd: OwnedFd, now: Instant) -> Connection<S> {
        Connection {
            conn,
            fd,
            active: now,
            scheduled: Instant::NEVER,
            pace: Pace::new(),
            linger: None,
            armed: None,
            stopping: false,
            flying: false,
            waiting: false,
            alone: 0,
            ended: false,
            wrecked: false,
        }
    }

    /// The kernel was given `bytes` of the output at `now`.
    pub fn sent(&mut self, bytes: usize, now: Instant) {
        self.active = now;
        self.pace.give(&self.fd, bytes);
    }
}

/// Where a session lies.
pub(super) struct Berth<S: Service> {
    turns: SharedOutbox,
    mail: Mutex<Vec<Mail<S::Outcome>>>,
    place: Mutex<Option<Connection<S>>>,
}

impl<S: Service> Berth<S> {
    /// A berth whose first turn is the caller's.
    pub fn taken() -> Box<Berth<S>> {
        let berth = Berth {
            turns: SharedOutbox::default(),
            mail: Mutex::new(Vec::new()),
            place: Mutex::new(None),
        };
        let is_ours = berth.turns.queued();
        debug_assert!(is_ours, "nobody else knows of it");
        Box::new(berth)
    }

    /// Leaves a letter; true if the caller must see to a turn.
    #[must_use]
    pub fn entry(&self, letter: Mail<S::Outcome>) -> bool {
        lock(&self.mail).push(letter);
        self.turns.queued()
    }

    /// The session; only whose turn it is may look.
    pub fn place(&self) -> MutexGuard<'_, Option<Connection<S>>> {
        lock(&self.place)
    }

    /// Puts the letters into `inbox`, which must be empty.
    pub fn collect(&self, inbox: &mut Vec<Mail<S::Outcome>>) {
        std::mem::swap(&mut *lock(&self.mail), inbox);
    }

    /// The turn is over; true if letters came meanwhile and the caller must see to another.
    #[must_use]
    pub fn leave(&self) -> bool {
        self.turns.drained()
    }
}

/// What is to be done by somebody who has a token.
pub(super) enum Errand {
    /// Somebody has come.
    Come(Comer),
    /// A session has mail.
    Turn(SessionId),
    /// The world wants to tick.
    Tick,
}

/// A job and whose it is.
pub(super) type Job<S> = (SessionId, <S as Service>::Job);

/// Where a thread rests.
#[derive(Default)]
struct Cot {
    called: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

/// What all threads of a port see.
pub struct CompletionPort<S: Service> {
    pub(super) ring: Port,
    pub(super) tactics: Tactics,
    pub(super) table: SharedTable<Box<Berth<S>>>,
    pub(super) shift: Mutex<Shift<Errand, Job<S>>>,
    pub(super) watch: Mutex<Watch>,
    /// Until when the leader sleeps, in nanoseconds; 0 while nobody does.
    pub(super) until: AtomicU64,
    /// The stop of the server is watched from the first leader on.
    pub(super) watched: OnceLock<()>,
    /// The slot by which sessions are named and where they are counted: any thread may die.
    pub(super) slot: usize,
    cots: Vec<Cot>,
}

impl<S: Service> CompletionPort<S> {
    /// The port of a server, before its threads come.
    ///
    /// # Errors
    /// The kernel refuses the ring.
    pub(crate) fn new(common: &Common<'_, S>) -> Result<CompletionPort<S>, Fault> {
        let (shape, knobs) = (common.shape, &common.shape.knobs);
        let tactics = knobs.tactics;
        let ring = tactics.port(&knobs.ring).map_err(Fault::Ring)?;
        // The ring does not wait on a descriptor that says it must not, and a call of ours must
        // not wait.
        let waits = tactics.acceptance().is_some();
        let listener = common.listeners.sockets[0].as_fd();
        socket::set_nonblocking(listener, !waits).map_err(Fault::Wait)?;
        let slot = common.epoch.slot() + SLOTS - 1;
        let me = WorkerId::new(slot, common.epoch.generation() + 1);
        common.board.sit(me, process::this()).set_state(SlotState::Ready);
        let most = common.sessions_max();
        Ok(CompletionPort {
            ring,
            tactics,
            table: SharedTable::new(slot, most + SPARE),
            shift: Mutex::new(Shift::new(shape.running())),
            watch: Mutex::new(Watch::new(common.board, most, tactics)),
            until: AtomicU64::new(0),
            watched: OnceLock::new(),
            slot,
            cots: (0..shape.workers).map(|_| Cot::default()).collect(),
        })
    }

    // ---- rest

    /// The thread that calls this sits at `me` from now on.
    pub(super) fn sit(&self, me: usize) {
        *lock(&self.cots[me].thread) = Some(thread::current());
        self.cots[me].called.store(false, Ordering::Relaxed);
        lock(&self.shift).sit();
    }

    /// Sleeps until `me` is called.
    pub(super) fn rest(&self, me: usize) {
        while !self.cots[me].called.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    /// Wakes the thread that rests at `whom`.
    pub(super) fn wake(&self, whom: usize) {
        self.cots[whom].called.store(true, Ordering::Release);
        if let Some(thread) = &*lock(&self.cots[whom].thread) {
            thread.unpark();
        }
    }

    // ---- the leader's sleep

    /// Something is due at `moment`: wakes the leader if he would sleep for longer. The wish leaves
    /// with the next that is submitted.
    pub(super) fn hurry(&self, moment: Instant) {
        if moment.ns() < self.until.load(Ordering::Relaxed) {
            self.ring.hub().knock();
        }
    }
}

/// A panic elsewhere leaves what is locked whole, or marked as wrecked.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
