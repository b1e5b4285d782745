//! Where the sessions of one process are while no worker attends to them: parked, or called and
//! waiting for a worker.
//!
//! A session is in one place at a time, and whoever takes it out of there is the only one who has
//! it. That is all the exclusion there is: a late event finds its place empty and is forgotten.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory::Buffer;
use seam::{Instant, Service, SessionId};
use sys::epoll::Epoll;
use sys::eventfd::EventFd;
use sys::ready::Interest;

use crate::accept::Arrival;
use crate::limits::WAIT;
use crate::parts::connection;

/// A connection that can be parked.
pub type Connection<S> = connection::Connection<S, Parked>;

/// What parking keeps for each connection, beside what every loop does.
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

/// What a worker is called for.
pub enum Call<S: Service> {
    /// Somebody has come.
    Come(Arrival),
    /// A parked session: something moved (`true`), or its time has come.
    Back(Box<Connection<S>>, bool),
}

/// The sessions of one process.
pub struct ParkedConnections<S: Service> {
    inside: Mutex<Inside<S>>,
    calls: Buffer<Call<S>>,
    /// Watches the parked, the listener and both bells.
    pub epoll: Epoll,
    /// Rung when the listener should look.
    pub bell: EventFd,
    /// Workers that attend to nobody.
    free: AtomicUsize,
    /// The listener waits for a worker to be free.
    starving: AtomicBool,
    /// Sessions that have ended and that the listener has not counted yet.
    gone: AtomicU64,
    closed: AtomicBool,
}

struct Inside<S: Service> {
    slots: Vec<Slot<S>>,
    vacant: Vec<usize>,
    /// No parked session is due before.
    soonest: Instant,
}

struct Slot<S: Service> {
    generation: u32,
    connection: Option<Box<Connection<S>>>,
}

impl<S: Service> ParkedConnections<S> {
    /// A parking for up to `most` sessions.
    pub fn new(most: usize) -> io::Result<ParkedConnections<S>> {
        let inside = Inside { slots: Vec::new(), vacant: Vec::new(), soonest: Instant::NEVER };
        Ok(ParkedConnections {
            inside: Mutex::new(inside),
            calls: Buffer::new(most),
            epoll: Epoll::new()?,
            bell: EventFd::new()?,
            free: AtomicUsize::new(0),
            starving: AtomicBool::new(false),
            gone: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// A panic elsewhere leaves every place whole.
    fn lock(&self) -> MutexGuard<'_, Inside<S>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- workers

    /// Waits up to [`WAIT`] for a call, as a worker that is free meanwhile.
    pub fn answer(&self) -> Option<Call<S>> {
        self.free.fetch_add(1, Ordering::SeqCst);
        if self.starving.swap(false, Ordering::SeqCst) {
            self.bell.ring();
        }
        let call = self.calls.take(WAIT);
        self.free.fetch_sub(1, Ordering::SeqCst);
        call
    }

    /// A name for a new session of the listener in worker slot `shard`.
    pub fn name(&self, shard: usize) -> SessionId {
        let mut inside = self.lock();
        let index = inside.vacant.pop().unwrap_or_else(|| {
            inside.slots.push(Slot { generation: 0, connection: None });
            inside.slots.len() - 1
        });
        let slot = &mut inside.slots[index];
        slot.generation = slot.generation % SessionId::GENERATION_MAX + 1;
        SessionId::new(shard, index as u32, slot.generation)
    }

    /// Parks a session until something moves, or until it is due.
    ///
    /// # Errors
    /// The session, which cannot be watched, and why.
    pub fn park(
        &self,
        connection: Box<Connection<S>>,
        interest: Interest,
    ) -> Result<(), (Box<Connection<S>>, io::Error)> {
        let (index, key, due) =
            (connection.x.id.index() as usize, connection.x.id.bits(), connection.scheduled);
        let was_watched = connection.x.watched;
        let mut inside = self.lock();
        // Once it is watched it may be called, so it must be in its place before; the lock keeps
        // whoever calls it from looking there too early.
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

    /// Calls a worker again to a session that has more to do than a turn allows; gives it back if
    /// nobody else waits.
    pub fn queue(&self, connection: Box<Connection<S>>) -> Option<Box<Connection<S>>> {
        if self.calls.is_empty() {
            return Some(connection);
        }
        match self.calls.try_put(Call::Back(connection, true)) {
            Err(Call::Back(connection, _)) => Some(connection),
            Ok(()) | Err(Call::Come(_)) => None,
        }
    }

    /// A session has ended.
    pub fn leave(&self, id: SessionId) {
        self.lock().vacant.push(id.index() as usize);
        self.gone.fetch_add(1, Ordering::AcqRel);
        self.bell.ring();
    }

    /// Whether nobody calls any more.
    pub fn is_over(&self) -> bool {
        // In this order: who is gone calls nobody.
        self.closed.load(Ordering::Acquire) && self.calls.is_empty()
    }

    // ---- the listener

    /// Whether a worker is free for one more; if not, the bell rings when one is.
    pub fn has_free(&self) -> bool {
        let some = || self.free.load(Ordering::SeqCst) > self.calls.len();
        if some() {
            return true;
        }
        self.starving.store(true, Ordering::SeqCst);
        // One may have become free before it could see that.
        let now = some();
        if now {
            self.starving.store(false, Ordering::SeqCst);
        }
        now
    }

    /// Calls a worker. There is room for every session.
    pub fn call(&self, call: Call<S>) -> Result<(), Call<S>> {
        self.calls.try_put(call)
    }

    /// The parked session of this name, if it is parked.
    pub fn claim(&self, id: SessionId) -> Option<Box<Connection<S>>> {
        let mut inside = self.lock();
        let slot = inside.slots.get_mut(id.index() as usize)?;
        slot.connection.take_if(|connection| connection.x.id == id)
    }

    /// When the first of the parked is due.
    pub fn soonest(&self) -> Instant {
        self.lock().soonest
    }

    /// Takes out the parked that `is_wanted`, and looks when the first of the others is due.
    pub fn sift(
        &self,
        mut is_wanted: impl FnMut(&Connection<S>) -> bool,
    ) -> Vec<Box<Connection<S>>> {
        let mut inside = self.lock();
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

    /// The listener is gone.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Sessions that have ended since the last call.
    pub fn take_gone(&self) -> u64 {
        self.gone.swap(0, Ordering::AcqRel)
    }
}
