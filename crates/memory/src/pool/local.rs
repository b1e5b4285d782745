//! The pool of one owner: no atomics, no lock, one link to follow for each object.

mod care;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;

use super::arena::Arena;
use super::guard::Watch;
use super::{Fault, Full, Guard, Handle, NONE, Order, Plan, Report, Usage};

/// What is known of a slot, apart from its data.
struct Meta {
    /// Odd while an object lives; it grows by one at each birth and each end. It begins at a number
    /// of the pool's own, so that one comparison tells strangers as well as late handles. With
    /// [`WATCHED`] it is no handle's, so that whoever takes the object is led to its canaries.
    life: u64,
    /// Where the slot's data lies: the same path for both kinds of backing.
    data: NonNull<u8>,
    /// The next free slot.
    next: u32,
    /// Of the bits below; 0 for a slot that was never guarded.
    marks: u32,
}

impl Meta {
    #[inline]
    fn is_live(&self) -> bool {
        !self.life.is_multiple_of(2)
    }
}

/// Set in the life of a guarded object; no life grows up to here.
const WATCHED: u64 = 1 << 63;

/// The present object has canaries that are looked at when it ends.
const GUARDED: u32 = 1;
/// The slot is free and filled with poison.
const POISONED: u32 = 2;
/// The slot's memory was given back; it is taken anew when it is needed.
const BARE: u32 = 4;

/// Objects of type `T` in slots that are used again, for one owner.
///
/// Memory is taken as slots are first needed and an object never moves. [`Pool::put`] on a full
/// pool hands the value back.
///
/// ```
/// use memory::{Plan, Pool};
///
/// let mut pool = Pool::new(Plan::new(1));
/// let first = pool.put("first").unwrap();
/// assert_eq!(pool.put("second").unwrap_err().0, "second");
/// assert_eq!(pool.take(first), Ok("first"));
/// assert!(pool.get(first).is_none(), "its life is over");
/// ```
pub struct Pool<T> {
    meta: Vec<Meta>,
    arena: Arena,
    /// First and last of the free slots, linked by [`Meta::next`].
    head: u32,
    tail: u32,
    /// Whether the first slot of the chain can be used without a look: nothing is watched, no
    /// slot has lost its memory, and none that was never used goes first.
    is_simple: bool,
    /// Slots in the chain whose memory was given back.
    bare: u32,
    retired: u32,
    capacity: u32,
    /// Tells this pool's handles from those of any other that lives at the same time.
    tag: u32,
    order: Order,
    /// Objects until the next that is guarded; more than there will ever be where none is. Only a
    /// pool that can be watched counts them.
    unwatched: u64,
    /// Whether a slot that was never used goes before those in the chain.
    fresh_first: bool,
    refused: u64,
    watch: Option<Box<Watch>>,
    /// Free slots that are not used yet, and how many of them there may be.
    quarantine: VecDeque<u32>,
    quarantine_max: usize,
    values: PhantomData<T>,
}

// SAFETY: a pool owns its objects as a `Vec<T>` does, and reaches them by `&self` or `&mut self`.
unsafe impl<T: Send> Send for Pool<T> {}
// SAFETY: `&Pool<T>` gives `&T` and numbers.
unsafe impl<T: Sync> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// An empty pool. Of its memory only 24 bytes a slot and, with [`crate::Backing::Array`], the
    /// address range are reserved at once.
    ///
    /// # Panics
    /// If `plan.capacity` objects are more than memory can hold.
    #[must_use]
    pub fn new(plan: Plan) -> Pool<T> {
        let capacity = plan.capacity.min(NONE - 1);
        let meta: Vec<Meta> = Vec::with_capacity(capacity.max(1) as usize);
        // Pools that live at the same time have different tables, at least 16 bytes apart.
        let tag = (meta.as_ptr().addr() >> 4) as u32;
        let guarded = plan.guard != Guard::Off;
        let fresh_first = plan.order == Order::Fifo && capacity > 0;
        Pool {
            meta,
            arena: Arena::new(plan.layout::<T>(), capacity, plan.backing, guarded),
            head: NONE,
            tail: NONE,
            is_simple: !guarded && !fresh_first,
            bare: 0,
            retired: 0,
            capacity,
            tag,
            order: plan.order,
            unwatched: unwatched(plan.guard),
            fresh_first,
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
    /// The value, if there is none.
    #[inline(always)]
    #[track_caller]
    pub fn put(&mut self, value: T) -> Result<Handle<T>, Full<T>> {
        // The slot is found before the value is touched, so that it is copied once on every path.
        let index = if self.is_simple && (self.head as usize) < self.meta.len() {
            self.pop()
        } else {
            match self.find_slot(Location::caller()) {
                Some(index) => index,
                None => return Err(Full(value)),
            }
        };
        Ok(self.settle(index, value))
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

    /// The address of the object of `handle`, if it lives: for the kernel, or a C library. It is
    /// valid for reads and writes of one `T` until the object is taken; what is written elsewhere
    /// by it is what guards are for.
    #[must_use]
    pub fn pointer(&mut self, handle: Handle<T>) -> Option<NonNull<T>> {
        self.knows(handle).then(|| self.place(handle.index()))
    }

    /// Takes the object of `handle` out; its slot is free from then on.
    ///
    /// # Errors
    /// A handle whose object does not live here, or damaged canaries. In the second case the value
    /// is forgotten, because its bytes cannot be trusted, and the slot is never used again.
    #[inline(always)]
    pub fn take(&mut self, handle: Handle<T>) -> Result<T, Fault> {
        let guarded = self.end(handle)?;
        // SAFETY: the slot held a T, whose life has just ended: nobody reads it again.
        let value = unsafe { self.place(handle.index()).read() };
        self.free(handle.index(), guarded);
        Ok(value)
    }

    /// Drops the object of `handle` where it lies; else as [`Pool::take`].
    ///
    /// # Errors
    /// Those of [`Pool::take`].
    #[inline]
    pub fn discard(&mut self, handle: Handle<T>) -> Result<(), Fault> {
        let guarded = self.end(handle)?;
        // SAFETY: as in `take`. Should its drop panic, the slot is in no chain: lost, no danger.
        unsafe { self.place(handle.index()).drop_in_place() };
        self.free(handle.index(), guarded);
        Ok(())
    }

    /// Takes the object at `address` out, for who has kept no handle.
    ///
    /// # Errors
    /// An address at which no object of this pool begins, or lives; else as [`Pool::take`].
    pub fn take_at(&mut self, address: *const T) -> Result<T, Fault> {
        let address = address.addr();
        let Some((index, offset)) = self.arena.find(address, self.meta.len() as u32) else {
            return Err(self.tell(Fault::Foreign { address }, NONE));
        };
        if offset != 0 {
            return Err(self.tell(Fault::Inside { index, offset }, index));
        }
        let meta = &self.meta[index as usize];
        if !meta.is_live() {
            return Err(self.tell(Fault::DoubleFree { index }, index));
        }
        self.take(Handle::new(self.tag, index, meta.life & !WATCHED))
    }

    /// The handles of all objects, in the order of their slots.
    pub fn handles(&self) -> impl Iterator<Item = Handle<T>> + '_ {
        let living = self.meta.iter().enumerate().filter(|(_, meta)| meta.is_live());
        living.map(|(index, meta)| Handle::new(self.tag, index as u32, meta.life & !WATCHED))
    }

    /// How many objects there are. They are counted for that, slot by slot, so that no object
    /// pays for a count that is seldom asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.meta.iter().filter(|meta| meta.is_live()).count()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.meta.iter().any(Meta::is_live)
    }

    /// How the pool is used. Its objects are counted for that, as by [`Pool::len`].
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            capacity: self.capacity,
            carved: self.meta.len() as u32,
            live: self.len() as u32,
            retired: self.retired,
            refused: self.refused,
        }
    }

    /// Changes how closely objects are watched from now on; says whether the pool can be watched,
    /// which one that began with [`Guard::Off`] cannot.
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

    /// How many faults a guarded pool has found.
    #[must_use]
    pub fn faults_found(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.found())
    }

    /// The objects that are there, each with the line that put it there if it was watched: what
    /// has leaked, if the pool should be empty by now.
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
        let meta = self.meta.get(handle.index() as usize);
        meta.is_some_and(|meta| meta.life & !WATCHED == handle.life)
    }

    #[inline]
    fn place(&self, index: u32) -> NonNull<T> {
        self.meta[index as usize].data.cast()
    }

    /// Takes the next free slot from the chain, which is not empty.
    #[inline]
    fn pop(&mut self) -> u32 {
        let index = self.head;
        self.head = self.meta_of(index).next;
        index
    }

    /// What is known of slot `index`, which is carved.
    #[inline]
    fn meta_of(&mut self, index: u32) -> &mut Meta {
        debug_assert!((index as usize) < self.meta.len(), "a slot that was never carved");
        // SAFETY: the index is that of a carved slot: it was in the chain, came out of `free_slot`
        // or was found by a handle, and `meta` never shrinks.
        unsafe { self.meta.get_unchecked_mut(index as usize) }
    }

    #[inline]
    fn push(&mut self, index: u32) {
        if self.order == Order::Lifo {
            let head = self.head;
            self.meta_of(index).next = head;
            self.head = index;
            return;
        }
        self.meta[index as usize].next = NONE;
        match self.head {
            NONE => self.head = index,
            _ => self.meta[self.tail as usize].next = index,
        }
        self.tail = index;
    }

    /// Begins a life in a slot that is in no chain.
    #[inline]
    fn settle(&mut self, index: u32, value: T) -> Handle<T> {
        let tag = self.tag;
        self.arena.show(index);
        let meta = self.meta_of(index);
        meta.life += 1;
        // SAFETY: the slot is carved and its life was over, so nobody else knows the place.
        unsafe { meta.data.cast::<T>().write(value) };
        Handle::new(tag, index, meta.life & !WATCHED)
    }

    /// Ends a life; the object still lies there. Says whether it was guarded.
    #[inline(always)]
    fn end(&mut self, handle: Handle<T>) -> Result<bool, Fault> {
        match self.meta.get_mut(handle.index() as usize) {
            Some(meta) if meta.life == handle.life => {
                meta.life += 1;
                Ok(false)
            }
            _ => self.end_watched(handle.index(), handle.tag(), handle.life).map(|()| true),
        }
    }

    /// Makes a slot free whose object is gone.
    #[inline(always)]
    fn free(&mut self, index: u32, guarded: bool) {
        if guarded {
            return self.bury(index);
        }
        self.arena.hide(index);
        self.push(index);
    }
}

/// Objects until one is guarded: see [`Pool::unwatched`].
fn unwatched(guard: Guard) -> u64 {
    match guard {
        Guard::Off => u64::MAX,
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
        for index in 0..self.meta.len() as u32 {
            if self.meta[index as usize].is_live() {
                // SAFETY: an odd life says that the slot holds a T, and the pool is not used again.
                unsafe { self.place(index).drop_in_place() };
            }
        }
    }
}

impl<T> std::fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("usage", &self.usage()).finish_non_exhaustive()
    }
}
