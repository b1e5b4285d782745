//! The sessions of one process that no worker serves at the moment: parked, or queued for a worker.
//!
//! A session is in one place at a time, and the thread that takes it out is its only owner. No
//! other exclusion is needed: a late event finds an empty slot and is dropped.
//!
//! A parked session lies in a slot under one lock, and the epoll watches its descriptor once
//! (`EPOLLONESHOT`), by its id. A queued one lies in a bounded buffer with room for all sessions,
//! so queueing never fails. The number of idle workers and the listener's hunger for one are
//! atomics next to the lock, because both sides look at them on each connection.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use memory::Buffer;
use seam::{Instant, SessionId};
use sys::epoll::Epoll;
use sys::eventfd::EventFd;
use sys::ready::Interest;

use crate::accept::source::Arrival;
use crate::limits::WAIT;
use crate::parts::connection;
use crate::parts::lock::lock;

/// A connection that can be parked.
pub type Connection = connection::Connection<Parked>;

/// A connection that moves between threads without a copy of its state.
pub type BoxedConnection = Box<Connection>;

/// The record of a parked connection besides the record that every loop keeps.
pub struct Parked {
    pub id: SessionId,
    /// The last send would have blocked.
    pub blocked: bool,
    /// The session has been told that the server drains.
    pub drained: bool,
    /// The epoll knows its descriptor.
    watched: bool,
}

impl Parked {
    pub fn new(id: SessionId) -> Parked {
        Parked { id, blocked: false, drained: false, watched: false }
    }
}

/// An item in the workers' queue.
pub enum ParkedWork {
    /// A new connection.
    New(Arrival),
    /// A parked connection that is ready (`true`) or due.
    Parked(Box<Connection>, bool),
}

/// The sessions of one process.
pub struct ParkedConnections {
    inside: Mutex<Inside>,
    queue: Buffer<ParkedWork>,
    /// Watches the parked connections, the listener and both bells.
    pub epoll: Epoll,
    /// Rung when the listener should check the shared state.
    pub bell: EventFd,
    /// Workers that wait for work.
    idle: AtomicUsize,
    /// The listener waits for an idle worker.
    starving: AtomicBool,
    /// Sessions that have ended and that the listener has not counted yet.
    ended: AtomicU64,
    closed: AtomicBool,
}

struct Inside {
    slots: Vec<Slot>,
    vacant: Vec<usize>,
    /// A lower bound for the time at which the first parked session is due.
    soonest: Instant,
}

struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

impl ParkedConnections {
    /// Room for up to `most` parked sessions.
    pub fn new(most: usize) -> io::Result<ParkedConnections> {
        let inside = Inside { slots: Vec::new(), vacant: Vec::new(), soonest: Instant::NEVER };
        Ok(ParkedConnections {
            inside: Mutex::new(inside),
            queue: Buffer::new(most),
            epoll: Epoll::new()?,
            bell: EventFd::new()?,
            idle: AtomicUsize::new(0),
            starving: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    // ---- workers

    /// Waits up to [`WAIT`] for work, as an idle worker.
    pub fn next_ready(&self) -> Option<ParkedWork> {
        self.idle.fetch_add(1, Ordering::SeqCst);
        if self.starving.swap(false, Ordering::SeqCst) {
            self.bell.ring();
        }
        let ready = self.queue.take(WAIT);
        self.idle.fetch_sub(1, Ordering::SeqCst);
        ready
    }

    /// Leads for threads that will serve what it finds: `count` are idle until `lead` returns.
    pub fn as_idle<T>(&self, count: usize, lead: impl FnOnce() -> T) -> T {
        self.idle.fetch_add(count, Ordering::SeqCst);
        let led = lead();
        self.idle.fetch_sub(count, Ordering::SeqCst);
        led
    }

    /// The number of connections that are queued.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Work that is queued.
    pub fn take_queued(&self) -> Option<ParkedWork> {
        self.queue.try_take()
    }

    /// An id for a new session of the listener in worker slot `shard`.
    pub fn name(&self, shard: usize) -> SessionId {
        let mut inside = lock(&self.inside);
        let index = inside.vacant.pop().unwrap_or_else(|| {
            inside.slots.push(Slot { generation: 0, connection: None });
            inside.slots.len() - 1
        });
        let slot = &mut inside.slots[index];
        slot.generation = slot.generation % SessionId::GENERATION_MAX + 1;
        SessionId::new(shard, index as u32, slot.generation)
    }

    /// Parks a session until it is ready, or until it is due.
    ///
    /// # Errors
    /// The session, if it cannot be watched, and the reason.
    pub fn park(
        &self,
        connection: Box<Connection>,
        interest: Interest,
    ) -> Result<(), (Box<Connection>, io::Error)> {
        let (index, key, due) =
            (connection.x.id.index() as usize, connection.x.id.bits(), connection.scheduled);
        let was_watched = connection.x.watched;
        let mut inside = lock(&self.inside);
        // A watched session may become ready at once, so it must be in its slot before; the lock
        // keeps the listener from looking there too early.
        let connection = inside.slots[index].connection.insert(connection);
        connection.x.watched = true;
        let watched = match was_watched {
            true => self.epoll.modify(&connection.fd, interest, key),
            false => self.epoll.add(&connection.fd, interest, key),
        };
        if let Err(error) = watched {
            return match inside.slots[index].connection.take() {
                Some(connection) => Err((connection, error)),
                None => Ok(()),
            };
        }
        let sooner = due < inside.soonest;
        inside.soonest = inside.soonest.min(due);
        drop(inside);
        if sooner {
            self.bell.ring();
        }
        Ok(())
    }

    /// Queues a session again that has more to do than a turn allows; returns it if the queue is
    /// empty, so that the caller continues.
    pub fn requeue(&self, connection: Box<Connection>) -> Option<Box<Connection>> {
        if self.queue.is_empty() {
            return Some(connection);
        }
        match self.queue.try_put(ParkedWork::Parked(connection, true)) {
            Err(ParkedWork::Parked(connection, _)) => Some(connection),
            Ok(()) | Err(ParkedWork::New(_)) => None,
        }
    }

    /// Counts a session that has ended.
    pub fn end(&self, id: SessionId) {
        lock(&self.inside).vacant.push(id.index() as usize);
        self.ended.fetch_add(1, Ordering::AcqRel);
        self.bell.ring();
    }

    /// Whether no more work will come.
    pub fn is_over(&self) -> bool {
        // The order matters: a listener that is gone queues nothing.
        self.closed.load(Ordering::Acquire) && self.queue.is_empty()
    }

    // ---- the listener

    /// Whether a worker is idle; if not, the bell rings when one is.
    pub fn has_idle(&self) -> bool {
        let some = || self.idle.load(Ordering::SeqCst) > self.queue.len();
        if some() {
            return true;
        }
        self.starving.store(true, Ordering::SeqCst);
        // A worker may have become idle before it saw the flag.
        let now = some();
        if now {
            self.starving.store(false, Ordering::SeqCst);
        }
        now
    }

    /// Queues work. There is room for every session.
    pub fn put(&self, ready: ParkedWork) -> Result<(), ParkedWork> {
        self.queue.try_put(ready)
    }

    /// Takes out the session of this id, if it is parked.
    pub fn claim(&self, id: SessionId) -> Option<Box<Connection>> {
        let mut inside = lock(&self.inside);
        let slot = inside.slots.get_mut(id.index() as usize)?;
        slot.connection.take_if(|connection| connection.x.id == id)
    }

    /// A lower bound for the time at which the first parked session is due.
    pub fn soonest(&self) -> Instant {
        lock(&self.inside).soonest
    }

    /// Takes out the parked sessions for which `is_wanted` holds, and notes when the first of the
    /// others is due.
    pub fn take_where(
        &self,
        mut is_wanted: impl FnMut(&Connection) -> bool,
    ) -> Vec<BoxedConnection> {
        let mut inside = lock(&self.inside);
        let mut taken = Vec::new();
        let mut soonest = Instant::NEVER;
        for slot in &mut inside.slots {
            match slot.connection.take_if(|connection| is_wanted(connection)) {
                Some(connection) => taken.push(connection),
                None => {
                    soonest =
                        soonest.min(slot.connection.as_ref().map_or(soonest, |it| it.scheduled))
                }
            }
        }
        inside.soonest = soonest;
        taken
    }

    /// Tells the workers that the listener is gone.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// The number of sessions that have ended since the last call.
    pub fn take_ended(&self) -> u64 {
        self.ended.swap(0, Ordering::AcqRel)
    }
}
