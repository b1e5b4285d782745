//! The pool of many workers: each has two magazines, and all share one depot.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::arena::Arena;
use super::depot::{Depot, ROUNDS};
use super::guard::{self, Watch};
use super::inbox::Inbox;
use super::{Fault, Guard, Handle, Lent, Plan, Report, SLOTS_MAX, Usage, first_life, new_tag};
use memory::Padded;

/// Where a slot goes that one worker lent and another gets back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Home {
    /// It stays with the worker that got it back, and moves through the depot in full magazines.
    #[default]
    Depot,
    /// It is returned to the worker that lent it, [`crate::Worker::BATCH`] at a time, so that a
    /// worker's slots stay in its own cache and on its own memory node.
    Lender,
}

/// The metadata of a slot. The worker that owns the slot at the time writes all fields but `life`;
/// the words are atomics so that handing the slot over needs no `unsafe`.
#[derive(Default)]
pub(super) struct Meta {
    /// Odd while an object is detached: detaching and claiming each add one. An object that is only
    /// lent leaves it alone, and so leaves another processor's line alone.
    pub(super) life: AtomicU64,
    pub(super) link: AtomicU32,
    /// The worker slot of the lender, and above it the marks.
    pub(super) lender: AtomicU32,
}

/// The present object has canaries that are checked when it ends.
pub(super) const GUARDED: u32 = 1 << 16;
/// The slot is free and filled with poison.
pub(super) const POISONED: u32 = 1 << 17;
pub(super) const SLOT: u32 = GUARDED - 1;

impl Meta {
    fn is_detached(&self) -> bool {
        !self.life.load(Ordering::Acquire).is_multiple_of(2)
    }

    fn is_out(&self) -> bool {
        self.is_detached() || self.lender.load(Ordering::Relaxed) & GUARDED != 0
    }
}

/// One worker's part of the pool's words, on lines of its own.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) taken: AtomicBool,
    /// Counts of its worker's loans, returns and refusals. Only that worker writes them.
    pub(super) lent: AtomicU64,
    pub(super) returned: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// A pool of objects of type `T` for up to a fixed number of workers.
///
/// Each worker may keep two magazines of free slots to itself and a third on their way home, so
/// there are that many more slots than `capacity`. As many objects as planned fit, except for the
/// instant in which another worker moves returned slots, and at most `3 * BATCH` more for each
/// worker. Slots are used last in, first out, whatever order the plan asks for.
///
/// ```
/// use pools::{Home, Plan, Shared};
///
/// let pool = Shared::new(Plan::new(1000), 2, Home::Depot);
/// let mut here = pool.worker().unwrap();
/// let lent = here.lend(vec![1, 2, 3]).unwrap();
/// std::thread::scope(|threads| {
///     threads.spawn(|| {
///         let mut there = pool.worker().unwrap();
///         assert_eq!(there.take(lent), [1, 2, 3]);
///     });
/// });
/// ```
pub struct Shared<T> {
    pub(super) arena: Arena,
    meta: Box<[Meta]>,
    pub(super) depot: Depot,
    /// One for each worker slot; the last is for slots returned without a worker.
    pub(super) inboxes: Box<[Padded<Inbox>]>,
    pub(super) worker_slots: Box<[Padded<Slot>]>,
    pub(super) home: Home,
    capacity: u32,
    pub(super) tag: u32,
    /// Every `sampling`-th object is guarded; 0 for none.
    pub(super) sampling: AtomicU32,
    retired: AtomicU32,
    /// The number of slots returned by a dropped [`Lent`].
    pub(super) strayed: AtomicU64,
    pub(super) watch: Option<Mutex<Watch>>,
    values: PhantomData<T>,
}

// SAFETY: an object is reached only through the one `Lent` that holds it, which passes between
// threads as the T itself could; all other fields are atomics and a lock.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// An empty pool for at most `workers` workers at one time.
    ///
    /// # Panics
    /// If there are more than 32,768 workers, or more slots than memory can hold.
    #[must_use]
    pub fn new(plan: Plan, workers: usize, home: Home) -> Shared<T> {
        assert!(workers <= 1 << 15, "expected at most 32,768 workers, found {workers}");
        let slack = (3 * workers * ROUNDS) as u32;
        let slots = plan.capacity.saturating_add(slack).min(SLOTS_MAX);
        let guarded = plan.guard != Guard::Off;
        let mut arena = Arena::new(plan.layout::<T>(), slots, plan.backing, guarded);
        for index in 0..slots {
            arena.carve(index);
        }
        let meta: Box<[Meta]> = (0..slots).map(|_| Meta::default()).collect();
        let tag = new_tag();
        meta.iter().for_each(|meta| meta.life.store(first_life(tag), Ordering::Relaxed));
        Shared {
            arena,
            meta,
            depot: Depot::new(slots, workers),
            inboxes: (0..=workers).map(|_| Padded(Inbox::new())).collect(),
            worker_slots: (0..workers).map(|_| Padded::default()).collect(),
            home,
            capacity: plan.capacity,
            tag,
            sampling: AtomicU32::new(sampling(plan.guard)),
            retired: AtomicU32::new(0),
            strayed: AtomicU64::new(0),
            watch: guarded.then(|| Mutex::new(Watch::new(&plan))),
            values: PhantomData,
        }
    }

    /// The object that was detached under `handle`. If several callers ask, one gets it.
    ///
    /// # Errors
    /// A handle that does not name a detached object of this pool, or no longer does.
    pub fn claim(&self, handle: Handle<T>) -> Result<Lent<'_, T>, Fault> {
        let index = handle.index();
        let fault = match self.meta.get(index as usize) {
            _ if handle.tag() != self.tag => Fault::WrongPool { index },
            None => Fault::Unknown { index },
            Some(meta) => {
                // Acquire: the object as it was when it was detached.
                let claimed = meta.life.compare_exchange(
                    handle.life,
                    handle.life + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                match claimed {
                    Ok(_) => return Ok(Lent { index, pool: self }),
                    Err(life) if life == handle.life + 1 => Fault::DoubleFree { index },
                    Err(_) => Fault::Stale { index },
                }
            }
        };
        Err(self.tell(fault, index))
    }

    /// The pool's usage: exact while no worker uses it, else approximate.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let sum = |count: fn(&Slot) -> &AtomicU64| {
            self.worker_slots
                .iter()
                .map(|worker_slot| count(worker_slot).load(Ordering::Relaxed))
                .sum::<u64>()
        };
        // Returns are read first, so that the difference is never negative.
        let back = sum(|worker_slot| &worker_slot.returned) + self.strayed.load(Ordering::Relaxed);
        let live = sum(|worker_slot| &worker_slot.lent).saturating_sub(back) as u32;
        Usage {
            capacity: self.capacity,
            carved: self.meta.len() as u32,
            live,
            retired: self.retired.load(Ordering::Relaxed),
            refused: sum(|worker_slot| &worker_slot.refused),
        }
    }

    /// Changes how closely objects are watched, soon for all workers; returns whether the pool can
    /// be watched. A pool that began with [`Guard::Off`] cannot.
    pub fn set_guard(&self, guard: Guard) -> bool {
        let can = self.watch.is_some() || guard == Guard::Off;
        if can {
            self.sampling.store(sampling(guard), Ordering::Relaxed);
        }
        can
    }

    /// The first faults that a guarded pool has found, at most 64.
    #[must_use]
    pub fn faults(&self) -> Vec<Report> {
        self.watched().map_or_else(Vec::new, |watch| watch.kept().to_vec())
    }

    /// The objects that are detached now, and those lent that are watched, with the line that lent
    /// them: the leaks, if all objects should be back. [`Shared::usage`] counts all.
    #[must_use]
    pub fn leaks(&self) -> Vec<Report> {
        let all = self.meta.iter().enumerate().filter(|(_, meta)| meta.is_out());
        let report =
            |index: u32| Report { fault: Fault::Leak { index }, put_by: self.put_by(index) };
        all.map(|(index, _)| report(index as u32)).collect()
    }

    /// The line that lent the last object of slot `index`, if that object was watched.
    fn put_by(&self, index: u32) -> Option<&'static Location<'static>> {
        let marks = self.meta.get(index as usize)?.lender.load(Ordering::Relaxed);
        if marks & (GUARDED | POISONED) == 0 { None } else { self.watched()?.put_by(index) }
    }

    pub(super) fn watched(&self) -> Option<MutexGuard<'_, Watch>> {
        self.watch.as_ref().map(|watch| watch.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn tell(&self, fault: Fault, index: u32) -> Fault {
        let put_by = self.put_by(index);
        if let Some(mut watch) = self.watched() {
            watch.tell(Report { fault, put_by });
        }
        fault
    }

    pub(super) fn meta(&self, index: u32) -> &Meta {
        &self.meta[index as usize]
    }

    /// Checks a slot whose object is gone; returns whether it may be used again.
    #[inline]
    pub(super) fn end(&self, index: u32) -> bool {
        if self.watch.is_some() && self.meta(index).lender.load(Ordering::Relaxed) > SLOT {
            return self.reap(index);
        }
        self.arena.hide(index);
        true
    }

    #[cold]
    #[inline(never)]
    fn reap(&self, index: u32) -> bool {
        let meta = self.meta(index);
        let worker_slot = meta.lender.load(Ordering::Relaxed) & SLOT;
        let seen = guard::look_around(&self.arena, index);
        if let Err(fault) = seen {
            self.retire(fault, index);
            return false;
        }
        guard::poison(&self.arena, index);
        meta.lender.store(worker_slot | POISONED, Ordering::Relaxed);
        true
    }

    pub(super) fn retire(&self, fault: Fault, index: u32) {
        self.retired.fetch_add(1, Ordering::Relaxed);
        self.tell(fault, index);
        let lender = &self.meta(index).lender;
        lender.store(lender.load(Ordering::Relaxed) & SLOT, Ordering::Relaxed);
    }

    /// Puts a slot that was freed without a worker into an inbox, where a worker will find it.
    pub(super) fn stray(&self, index: u32) {
        let meta = self.meta(index);
        let to = match self.home {
            Home::Depot => self.worker_slots.len(),
            Home::Lender => (meta.lender.load(Ordering::Relaxed) & SLOT) as usize,
        };
        self.inboxes[to].push(index, &meta.link);
    }
}

fn sampling(guard: Guard) -> u32 {
    match guard {
        Guard::Off => 0,
        Guard::Sampled(each) => each.get(),
        Guard::Full => 1,
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if self.watch.is_some() {
            for leak in self.leaks() {
                let Fault::Leak { index } = leak.fault else { continue };
                self.tell(leak.fault, index);
            }
        }
        for index in 0..self.meta.len() as u32 {
            if self.meta(index).is_detached() {
                // SAFETY: a detached object lives, and no `Lent` holds it or will claim it.
                unsafe { self.arena.at(index).cast::<T>().drop_in_place() };
            }
        }
    }
}

impl<T> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("usage", &self.usage()).finish_non_exhaustive()
    }
}
