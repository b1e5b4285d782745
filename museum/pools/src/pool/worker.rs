//! One worker's side of a shared pool: two magazines, and batches on their way home.

use std::mem::{ManuallyDrop, forget};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use super::depot::{Magazine, ROUNDS};
use super::shared::{GUARDED, Home, POISONED, SLOT, Shared, Slot};
use super::{Fault, Full, Lent, NONE, guard};
use memory::Padded;

impl<T> Shared<T> {
    /// Takes a worker slot to lend from, until it is dropped; `None` if all are taken.
    #[must_use]
    pub fn worker(&self) -> Option<Worker<'_, T>> {
        // Acquire: we see the counts of the former worker in that worker slot.
        let free = |worker_slot: &&Padded<Slot>| !worker_slot.taken.swap(true, Ordering::AcqRel);
        let mut all = self.worker_slots.iter().enumerate();
        let (number, worker_slot) = all.find(|(_, worker_slot)| free(worker_slot))?;
        let none = || Batch { first: NONE, last: NONE, count: 0 };
        let batches = if self.home == Home::Lender { self.worker_slots.len() } else { 0 };
        // There is always one; it may change its kind between the two attempts.
        let held = || loop {
            let empty = self.depot.take_empty();
            if let Some(magazine) = empty.or_else(|| self.depot.take_filled()) {
                break magazine;
            }
            std::hint::spin_loop();
        };
        let (loaded, spare) = (held(), held());
        Some(Worker {
            pool: self,
            worker_slot,
            number: number as u32,
            loaded,
            spare,
            waiting: 0,
            is_plain: self.watch.is_none() && self.home == Home::Depot,
            countdown: self.sampling.load(Ordering::Relaxed),
            batches: (0..batches).map(|_| none()).collect(),
        })
    }
}

/// Slots on their way to the worker that lent them: a chain by [`Meta::link`].
struct Batch {
    first: u32,
    last: u32,
    count: usize,
}

/// One worker's access to a [`Shared`] pool.
pub struct Worker<'p, T> {
    pool: &'p Shared<T>,
    worker_slot: &'p Slot,
    number: u32,
    /// The magazine in use, and the spare one, which is full or empty.
    loaded: &'p Magazine,
    spare: &'p Magazine,
    /// Whether a slot from a magazine needs no check and no lender's name.
    is_plain: bool,
    /// The number of slots in all batches, at most one less than [`Worker::BATCH`].
    waiting: usize,
    /// Objects until the next that is guarded.
    countdown: u32,
    batches: Box<[Batch]>,
}

impl<'p, T> Worker<'p, T> {
    /// The number of slots exchanged at a time, with the depot or with the lending worker.
    pub const BATCH: usize = ROUNDS;

    /// Puts `value` into a free slot.
    ///
    /// # Errors
    /// The value, if this worker finds no free slot.
    #[inline(always)]
    #[track_caller]
    pub fn lend(&mut self, value: T) -> Result<Lent<'p, T>, Full<T>> {
        // The slot is found before the value is touched, so that every path copies the value once.
        let found = match self.loaded.unload() {
            Some(index) if self.is_plain => Some(index),
            found => self.find_slot(found, Location::caller()),
        };
        let Some(index) = found else { return Err(Full(value)) };
        count(&self.worker_slot.lent);
        self.pool.arena.show(index);
        let lent = Lent { index, pool: self.pool };
        // SAFETY: the slot came out of a magazine or a chain, so only
        // we hold it, and it holds no T.
        unsafe { lent.place().write(value) };
        Ok(lent)
    }

    /// Takes the value out of `lent`, whichever worker lent it, and frees its slot. Damage around
    /// it is reported as a fault; the value is returned unchanged.
    #[inline(always)]
    pub fn take(&mut self, lent: Lent<'p, T>) -> T {
        // SAFETY: `lent` is the only way to the value and is forgotten by the next line.
        let value = unsafe { lent.place().read() };
        self.end(lent);
        value
    }

    /// Drops the object in place; faster than dropping `lent`, which has no worker at hand.
    #[inline]
    pub fn discard(&mut self, lent: Lent<'p, T>) {
        let lent = ManuallyDrop::new(lent);
        // SAFETY: the slot holds a T that is not reached after this: `lent` is not dropped, even if
        // the value's drop panics.
        unsafe { lent.place().drop_in_place() };
        self.end(ManuallyDrop::into_inner(lent));
    }

    /// Frees the slot of an object that was moved out or dropped.
    #[inline]
    fn end(&mut self, lent: Lent<'p, T>) {
        let (pool, index) = (lent.pool, lent.index);
        forget(lent);
        if !std::ptr::eq(pool, self.pool) {
            return self.send_home(pool, index);
        }
        count(&self.worker_slot.returned);
        if pool.end(index) {
            self.keep(index);
        }
    }

    /// An object of another pool with the same lifetime finds its way home by itself.
    #[cold]
    #[inline(never)]
    fn send_home(&self, pool: &Shared<T>, index: u32) {
        self.pool.tell(Fault::WrongPool { index }, NONE);
        pool.strayed.fetch_add(1, Ordering::Relaxed);
        if pool.end(index) {
            pool.stray(index);
        }
    }

    /// Returns a sound and signed slot: `found`, or another.
    #[cold]
    #[inline(never)]
    fn find_slot(&mut self, found: Option<u32>, by: &'static Location<'static>) -> Option<u32> {
        let found = found.or_else(|| self.refill()).and_then(|index| {
            if self.pool.watch.is_some() {
                return self.admit(index, by);
            }
            self.pool.meta(index).lender.store(self.number, Ordering::Relaxed);
            Some(index)
        });
        if found.is_none() {
            count(&self.worker_slot.refused);
        }
        found
    }

    /// Sends home the slots that wait for a full batch; a worker should call it before it sleeps.
    /// Dropping the worker does so too.
    pub fn flush(&mut self) {
        for owner in 0..self.batches.len() {
            self.send(owner);
        }
        self.waiting = 0;
    }

    /// Keeps a free slot, or sends it to the worker that lent it.
    #[inline]
    fn keep(&mut self, index: u32) {
        let pool = self.pool;
        if pool.home == Home::Lender {
            let lender = pool.meta(index).lender.load(Ordering::Relaxed) & SLOT;
            if lender != self.number {
                return self.batch(index, lender as usize);
            }
        }
        if !self.loaded.load(index) {
            self.exchange(index);
        }
    }

    /// Makes room for a free slot: the loaded magazine is full.
    #[cold]
    #[inline(never)]
    fn exchange(&mut self, index: u32) {
        let pool = self.pool;
        let depot = &pool.depot;
        std::mem::swap(&mut self.loaded, &mut self.spare);
        if self.loaded.load(index) {
            return;
        }
        // A depot without an empty magazine has half-full ones that former workers left.
        let Some(empty) = depot.take_empty() else { return pool.stray(index) };
        depot.give(self.loaded);
        self.loaded = empty;
        let loaded = empty.load(index);
        debug_assert!(loaded, "an empty magazine has room");
    }

    /// Finds free slots: the loaded magazine is empty.
    #[cold]
    fn refill(&mut self) -> Option<u32> {
        let pool = self.pool;
        let depot = &pool.depot;
        std::mem::swap(&mut self.loaded, &mut self.spare);
        if let Some(index) = self.loaded.unload() {
            return Some(index);
        }
        let own = &pool.inboxes[self.number as usize];
        if let Some(index) = self.sort(own.take_all()) {
            return Some(index);
        }
        if let Some(filled) = depot.take_filled() {
            depot.give(self.loaded);
            self.loaded = filled;
            return filled.unload();
        }
        // Slots in inboxes: strays first, then those sent to workers that may sleep.
        let mut inboxes = pool.inboxes.iter().rev();
        inboxes.find_map(|inbox| self.sort(inbox.take_all()))
    }

    /// Puts a chain of free slots into magazines, ours first; returns one of the slots.
    fn sort(&mut self, mut chain: u32) -> Option<u32> {
        let pool = self.pool;
        let mut next = || {
            let index = chain;
            if index == NONE {
                return None;
            }
            chain = pool.meta(index).link.load(Ordering::Relaxed);
            Some(index)
        };
        let first = next()?;
        while let Some(index) = next() {
            if !self.loaded.load(index) {
                self.exchange(index);
            }
        }
        Some(first)
    }

    /// Prepares a slot of a guarded pool, or finds another if it is damaged.
    fn admit(&mut self, mut index: u32, by: &'static Location<'static>) -> Option<u32> {
        let pool = self.pool;
        while pool.meta(index).lender.load(Ordering::Relaxed) & POISONED != 0 {
            let Err(fault) = guard::look_inside(&pool.arena, index) else { break };
            pool.retire(fault, index);
            index = self.loaded.unload().or_else(|| self.refill())?;
        }
        let each = pool.sampling.load(Ordering::Relaxed);
        self.countdown = self.countdown.min(each).saturating_sub(1);
        let chosen = each > 0 && self.countdown == 0;
        let mut marks = 0;
        if chosen {
            self.countdown = each;
            guard::fence(&pool.arena, index);
            marks = GUARDED;
            if let Some(mut watch) = pool.watched() {
                watch.sign(index, by);
            }
        }
        pool.meta(index).lender.store(self.number | marks, Ordering::Relaxed);
        Some(index)
    }

    fn batch(&mut self, index: u32, owner: usize) {
        let batch = &mut self.batches[owner];
        if batch.count == 0 {
            batch.last = index;
        }
        self.pool.meta(index).link.store(batch.first, Ordering::Relaxed);
        batch.first = index;
        batch.count += 1;
        self.waiting += 1;
        if self.waiting == ROUNDS {
            self.flush();
        }
    }

    fn send(&mut self, owner: usize) {
        let batch = &mut self.batches[owner];
        if batch.count > 0 {
            let last = &self.pool.meta(batch.last).link;
            self.pool.inboxes[owner].push(batch.first, last);
            *batch = Batch { first: NONE, last: NONE, count: 0 };
        }
    }
}

/// Counts in a word that one worker writes and others read, so no exchange is needed.
#[inline]
fn count(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl<T> Drop for Worker<'_, T> {
    fn drop(&mut self) {
        self.flush();
        self.pool.depot.give(self.loaded);
        self.pool.depot.give(self.spare);
        self.worker_slot.taken.store(false, Ordering::Release);
    }
}
