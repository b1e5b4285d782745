//! The pool of one owner: no atomics, no lock, one link to follow for each object.
//!
//! Most decisions are made before an object comes. Slots that need no check wait in a chain of
//! their own, and the life of an object that needs a check carries a bit that no handle has. So the
//! two tests that are always needed, for an empty chain and for a wrong handle, also cover order,
//! slots without memory, and canaries. Guards add only a countdown to objects that have none.

mod care;
mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::{self, NonNull};

use super::arena::Arena;
use super::guard::Watch;
use super::{Fault, Full, Guard, Handle, NONE, Order, Plan, Report, SLOTS_MAX, Usage, new_tag};
use table::{Chain, EACH, LIVE, Meta, Table};

/// The present object has canaries that are checked when it ends.
const GUARDED: u8 = 1;
/// The slot is free and filled with poison.
const POISONED: u8 = 2;
/// The slot's memory was returned to the heap; the pool allocates it again when needed.
const BARE: u8 = 4;

/// A pool of objects of type `T` with one owner.
///
/// Memory is taken when slots are first needed, and an object never moves. [`Pool::put`] on a full
/// pool returns the value.
///
/// ```
/// use pools::{Plan, Pool};
///
/// let mut pool = Pool::new(Plan::new(1));
/// let first = pool.put("first").unwrap();
/// assert_eq!(pool.put("second").unwrap_err().0, "second");
/// assert_eq!(pool.take(first), Ok("first"));
/// assert!(pool.get(first).is_none(), "its life is over");
/// ```
pub struct Pool<T> {
    table: Table,
    /// Free slots that can be used without a check, the one freed last in front: they have memory,
    /// and their last object was not watched. Always empty with another order than LIFO.
    quick: *mut Meta,
    /// The other free slots.
    chain: Chain,
    /// By slot: the bits above.
    marks: Vec<u8>,
    arena: Arena,
    retired: u32,
    capacity: u32,
    /// Distinguishes this pool's handles from those of any other.
    tag: u32,
    order: Order,
    /// Objects until the next guarded one; more than there will ever be if none is guarded. One
    /// less than zero (wrapped) if that one is due.
    unwatched: u64,
    /// Whether never-used slots go before those in the chain.
    fresh_first: bool,
    refused: u64,
    watch: Option<Box<Watch>>,
    /// Free slots that are held back, and their maximum number.
    quarantine: VecDeque<u32>,
    quarantine_max: usize,
    values: PhantomData<T>,
}

// SAFETY: a pool owns its objects as a `Vec<T>` does, and reaches them by `&self` or `&mut self`.
unsafe impl<T: Send> Send for Pool<T> {}
// SAFETY: `&Pool<T>` gives `&T` and numbers.
unsafe impl<T: Sync> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// An empty pool. Of its memory only 32 bytes a slot and, with [`crate::Backing::Array`], the
    /// address range are reserved at once.
    ///
    /// # Panics
    /// If `plan.capacity` objects are more than memory can hold.
    #[must_use]
    pub fn new(plan: Plan) -> Pool<T> {
        let capacity = plan.capacity.min(SLOTS_MAX);
        let guarded = plan.guard != Guard::Off;
        Pool {
            table: Table::new(capacity),
            quick: ptr::null_mut(),
            chain: Chain::EMPTY,
            marks: Vec::new(),
            arena: Arena::new(plan.layout::<T>(), capacity, plan.backing, guarded),
            retired: 0,
            capacity,
            tag: new_tag(),
            order: plan.order,
            unwatched: unwatched(plan.guard),
            fresh_first: plan.order == Order::Fifo && capacity > 0,
            refused: 0,
            watch: guarded.then(|| Box::new(Watch::new(&plan))),
            quarantine: VecDeque::new(),
            quarantine_max: plan.quarantine as usize,
            values: PhantomData,
        }
    }

    /// Puts `value` into a free slot.
    ///
    /// # Errors
    /// The value, if no slot is free.
    #[inline(always)]
    #[track_caller]
    pub fn put(&mut self, value: T) -> Result<Handle<T>, Full<T>> {
        // The slot is found before the value is touched, so that every path copies the value once.
        let (meta, life) = match self.quick_slot() {
            Some(found) => found,
            None => match self.find_slot(Location::caller()) {
                Some(found) => found,
                None => return Err(Full(value)),
            },
        };
        let slot = meta.as_ptr();
        // SAFETY: a slot of the table, which is in no chain any more.
        let (data, place) = unsafe { ((*slot).data, (*slot).place) };
        // SAFETY: the slot has memory for a T and its life was over: no handle names the place.
        unsafe { data.cast::<T>().write(value) };
        // SAFETY: as above.
        unsafe { (*slot).next = LIVE };
        Ok(Handle::of(place, life))
    }

    /// The object of `handle`, if it lives.
    #[inline]
    #[must_use]
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        if !self.knows(handle) {
            return None;
        }
        // SAFETY: the slot's life is the handle's, so it holds a T; `self` is borrowed with it.
        Some(unsafe { self.place(handle.index()).as_ref() })
    }

    /// The object of `handle`, if it lives.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        if !self.knows(handle) {
            return None;
        }
        // SAFETY: as in `get`, and `self` is borrowed for writing.
        Some(unsafe { self.place(handle.index()).as_mut() })
    }

    /// The address of the object of `handle`, if it lives: for the kernel, or a C
    /// library. It is valid for reads and writes of one `T` until the object is taken.
    /// Guards find writes outside it.
    #[must_use]
    pub fn pointer(&mut self, handle: Handle<T>) -> Option<NonNull<T>> {
        self.knows(handle).then(|| self.place(handle.index()))
    }

    /// Takes the object of `handle` out and frees its slot.
    ///
    /// # Errors
    /// A handle whose object does not live here, or damaged canaries. In the second case the value
    /// is leaked, because its bytes cannot be trusted, and the slot is retired.
    #[inline(always)]
    pub fn take(&mut self, handle: Handle<T>) -> Result<T, Fault> {
        if let Some(meta) = self.plain(handle) {
            let slot = meta.as_ptr();
            // SAFETY: a slot of the table, and `self` is borrowed for writing.
            let data = unsafe {
                (*slot).life = handle.life + EACH;
                (*slot).data
            };
            // SAFETY: the slot held a T, whose life has just ended: it is not read again.
            let value = unsafe { data.cast::<T>().read() };
            self.free(meta);
            return Ok(value);
        }
        self.end_watched(handle)?;
        // SAFETY: as above.
        let value = unsafe { self.place(handle.index()).read() };
        self.reap(handle.index());
        Ok(value)
    }

    /// Drops the object of `handle` in place; otherwise like [`Pool::take`].
    ///
    /// # Errors
    /// Those of [`Pool::take`].
    #[inline]
    pub fn discard(&mut self, handle: Handle<T>) -> Result<(), Fault> {
        let plain = self.plain(handle);
        match plain {
            // SAFETY: a slot of the table, and `self` is borrowed for writing. The pool forgets the
            // object before dropping it.
            Some(meta) => unsafe {
                (*meta.as_ptr()).life = handle.life + EACH;
                (*meta.as_ptr()).next = ptr::null_mut();
            },
            None => self.end_watched(handle)?,
        }
        // SAFETY: as in `take`. If the drop panics, the slot is in no chain: lost, not dangerous.
        unsafe { self.place(handle.index()).drop_in_place() };
        match plain {
            Some(meta) => self.free(meta),
            None => self.reap(handle.index()),
        }
        Ok(())
    }

    /// Takes the object at `address` out, for callers without a handle.
    ///
    /// # Errors
    /// An address at which no object of this pool begins or lives; otherwise like [`Pool::take`].
    pub fn take_at(&mut self, address: *const T) -> Result<T, Fault> {
        let address = address.addr();
        let Some((index, offset)) = self.arena.find(address, self.table.len()) else {
            return Err(self.tell(Fault::Foreign { address }, NONE));
        };
        if offset != 0 {
            return Err(self.tell(Fault::Inside { index, offset }, index));
        }
        match self.table.get(index).filter(|meta| meta.is_live()) {
            Some(meta) => self.take(Handle::of(meta.place, meta.life())),
            None => Err(self.tell(Fault::DoubleFree { index }, index)),
        }
    }

    /// The handles of all objects, in the order of their slots.
    pub fn handles(&self) -> impl Iterator<Item = Handle<T>> + '_ {
        let living = self.table.iter().filter(|meta| meta.is_live());
        living.map(|meta| Handle::of(meta.place, meta.life()))
    }

    /// The number of objects. They are counted slot by slot on demand, so that no object pays for a
    /// count that is seldom needed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.iter().filter(|meta| meta.is_live()).count()
    }

    /// Whether the pool is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.table.iter().any(Meta::is_live)
    }

    /// The pool's usage. The objects are counted on demand, as by [`Pool::len`].
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            capacity: self.capacity,
            carved: self.table.len(),
            live: self.len() as u32,
            retired: self.retired,
            refused: self.refused,
        }
    }

    /// Changes how closely objects are watched from now on; returns whether the pool can be
    /// watched. A pool that began with [`Guard::Off`] cannot.
    pub fn set_guard(&mut self, guard: Guard) -> bool {
        let can = self.watch.is_some() || guard == Guard::Off;
        if can {
            self.unwatched = unwatched(guard);
        }
        if let Some(watch) = &mut self.watch {
            watch.guard = guard;
        }
        can
    }

    /// The first faults that a guarded pool has found, at most 64.
    #[must_use]
    pub fn faults(&self) -> &[Report] {
        self.watch.as_ref().map_or(&[], |watch| watch.kept())
    }

    /// The number of faults that a guarded pool has found.
    #[must_use]
    pub fn faults_found(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.found())
    }

    /// The present objects, each with the line that put it there if it was watched: the leaks, if
    /// the pool should be empty by now.
    #[must_use]
    pub fn leaks(&self) -> Vec<Report> {
        let report = |handle: Handle<T>| Report {
            fault: Fault::Leak { index: handle.index() },
            put_by: self.put_by(handle.index()),
        };
        self.handles().map(report).collect()
    }

    #[inline]
    fn knows(&self, handle: Handle<T>) -> bool {
        self.table.get(handle.index()).is_some_and(|meta| meta.life() == handle.life)
    }

    /// The address of the data of slot `index`, which must have been carved.
    #[inline]
    fn place(&self, index: u32) -> NonNull<T> {
        self.table.get(index).expect("expected a slot that was carved").data.cast()
    }

    /// A slot that can be used without a check, and the life that begins there; `None` if the next
    /// object must be guarded.
    #[inline(always)]
    fn quick_slot(&mut self) -> Option<(NonNull<Meta>, u64)> {
        let meta = NonNull::new(self.quick)?;
        // This form counts and compares in one instruction.
        let (unwatched, is_due) = self.unwatched.overflowing_sub(1);
        self.unwatched = unwatched;
        if is_due {
            return None;
        }
        // SAFETY: the chain holds slots of the table.
        let free = unsafe { meta.as_ref() };
        self.quick = free.next;
        Some((meta, free.life))
    }

    /// The slot of a handle whose object lives and needs no check.
    #[inline(always)]
    fn plain(&self, handle: Handle<T>) -> Option<NonNull<Meta>> {
        let meta = self.table.at(handle.place)?;
        // SAFETY: a slot of the table is initialised.
        (unsafe { meta.as_ref() }.life == handle.life).then_some(meta)
    }

    /// Frees a slot that needs no check and whose object is gone.
    #[inline(always)]
    fn free(&mut self, meta: NonNull<Meta>) {
        let slot = meta.as_ptr();
        // SAFETY: a slot of the table, and `self` is borrowed for writing.
        unsafe {
            (*slot).next = self.quick;
        }
        self.quick = slot;
    }
}

/// The number of objects until a guarded one: see [`Pool::unwatched`].
fn unwatched(guard: Guard) -> u64 {
    match guard {
        Guard::Off => u64::MAX / 2,
        Guard::Sampled(each) => u64::from(each.get()) - 1,
        Guard::Full => 0,
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        let leaks = if self.watch.is_some() { self.leaks() } else { Vec::new() };
        for leak in leaks {
            if let Fault::Leak { index } = leak.fault {
                self.tell(leak.fault, index);
            }
        }
        for meta in self.table.iter().filter(|meta| meta.is_live()) {
            // SAFETY: the slot holds a T, and the pool is not used again.
            unsafe { meta.data.cast::<T>().drop_in_place() };
        }
    }
}

impl<T> std::fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("usage", &self.usage()).finish_non_exhaustive()
    }
}
