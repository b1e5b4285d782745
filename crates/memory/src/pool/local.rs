//! The pool of one owner: no atomics, no lock, one link to follow for each object.

use std::alloc::Layout;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;

use super::arena::Arena;
use super::guard::{self, Watch};
use super::{Fault, Full, Guard, Handle, NONE, Order, Plan, Report, Usage};

/// What is known of a slot, apart from its data.
struct Meta {
    /// Odd while an object lives; it grows by one at each birth and each end.
    life: u64,
    /// The next free slot.
    next: u32,
    /// Of the bits below; 0 for a slot that was never guarded.
    marks: u32,
}

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
    live: u32,
    live_max: u32,
    retired: u32,
    capacity: u32,
    /// Tells this pool's handles from those of any other that lives at the same time.
    tag: u32,
    order: Order,
    /// Whether the next free slot is the first of the chain and needs no look: it is not watched,
    /// has memory, and no slot that was never used goes before it.
    is_plain: bool,
    /// Free slots without memory.
    bare: u32,
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
    /// An empty pool. Of its memory only 16 bytes a slot and, with [`Backing::Array`], the address
    /// range are reserved at once.
    ///
    /// # Panics
    /// If `plan.capacity` objects are more than memory can hold.
    #[must_use]
    pub fn new(plan: Plan) -> Pool<T> {
        let capacity = plan.capacity.min(NONE - 1);
        let meta: Vec<Meta> = Vec::with_capacity(capacity.max(1) as usize);
        // Pools that live at the same time have different tables, and tables lie 16 bytes apart.
        let tag = (meta.as_ptr().addr() >> 4) as u32;
        let guarded = plan.guard != Guard::Off;
        Pool {
            meta,
            arena: Arena::new(Layout::new::<T>(), capacity, plan.backing, guarded),
            head: NONE,
            tail: NONE,
            live: 0,
            live_max: 0,
            retired: 0,
            capacity,
            tag,
            order: plan.order,
            is_plain: !guarded && plan.order == Order::Lifo,
            bare: 0,
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
    #[inline]
    #[track_caller]
    pub fn put(&mut self, value: T) -> Result<Handle<T>, Full<T>> {
        if !self.is_plain || self.head == NONE {
            return self.put_slowly(value, Location::caller());
        }
        let index = self.pop();
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
        Some(unsafe { self.place(handle.index).as_ref() })
    }

    /// The object of `handle`, if it lives.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        if !self.knows(handle) {
            return None;
        }
        // SAFETY: as in `get`, and `self` is borrowed for writing.
        Some(unsafe { self.place(handle.index).as_mut() })
    }

    /// The address of the object of `handle`, if it lives: for the kernel, or a C library. It is
    /// valid for reads and writes of one `T` until the object is taken; what is written elsewhere
    /// by it is what guards are for.
    #[must_use]
    pub fn pointer(&mut self, handle: Handle<T>) -> Option<NonNull<T>> {
        self.knows(handle).then(|| self.place(handle.index))
    }

    /// Takes the object of `handle` out; its slot is free from then on.
    ///
    /// # Errors
    /// A handle whose object does not live here, or damaged canaries. In the second case the value
    /// is forgotten, because its bytes cannot be trusted, and the slot is never used again.
    #[inline]
    pub fn take(&mut self, handle: Handle<T>) -> Result<T, Fault> {
        if !self.knows(handle) {
            return Err(self.why_not(handle));
        }
        let index = handle.index;
        let meta = &mut self.meta[index as usize];
        meta.life += 1;
        let guarded = meta.marks != 0;
        self.live -= 1;
        if guarded {
            self.inspect(index)?;
        }
        // SAFETY: the slot held a T, whose life ends here: nobody reads it again.
        let value = unsafe { self.place(index).read() };
        if guarded {
            self.bury(index)
        } else {
            self.push(index)
        }
        Ok(value)
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
        let life = self.meta[index as usize].life;
        if life.is_multiple_of(2) {
            return Err(self.tell(Fault::DoubleFree { index }, index));
        }
        self.take(Handle { index, tag: self.tag, life, of: PhantomData })
    }

    /// The handles of all objects, in the order of their slots.
    pub fn handles(&self) -> impl Iterator<Item = Handle<T>> + '_ {
        let living = self.meta.iter().enumerate().filter(|(_, meta)| meta.life % 2 == 1);
        living.map(|(index, meta)| Handle {
            index: index as u32,
            tag: self.tag,
            life: meta.life,
            of: PhantomData,
        })
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live as usize
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// How the pool is used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            capacity: self.capacity,
            carved: self.meta.len() as u32,
            live: self.live,
            live_max: self.live_max,
            retired: self.retired,
            refused: self.refused,
        }
    }

    /// Changes how closely objects are watched from now on; says whether the pool can be watched,
    /// which one that began with [`Guard::Off`] cannot.
    pub fn set_guard(&mut self, guard: Guard) -> bool {
        match &mut self.watch {
            Some(watch) => watch.set(guard),
            None => return guard == Guard::Off,
        }
        true
    }

    /// Looks at all canaries and all poison, whatever they belong to; damage is told as faults.
    /// Returns how many faults there have been so far, found now or before.
    pub fn patrol(&mut self) -> u64 {
        for index in 0..self.meta.len() as u32 {
            let meta = &self.meta[index as usize];
            let found = match (meta.life % 2 == 1, meta.marks) {
                (true, marks) if marks & GUARDED != 0 => guard::look_around(&self.arena, index),
                (false, marks) if marks & POISONED != 0 => guard::look_inside(&self.arena, index),
                _ => Ok(()),
            };
            if let Err(fault) = found {
                self.tell(fault, index);
                self.mend(index);
            }
        }
        self.faults_found()
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
        let put_by = |index| self.watch.as_ref().and_then(|watch| watch.put_by(index));
        let report = |handle: Handle<T>| Report {
            fault: Fault::Leak { index: handle.index },
            put_by: put_by(handle.index),
        };
        self.handles().map(report).collect()
    }

    /// Gives the memory of free slots back to the heap, with [`Backing::List`]; returns how many.
    /// The slots stay usable and take memory anew.
    pub fn trim(&mut self) -> usize {
        self.release_quarantine();
        let (mut index, mut trimmed) = (self.head, 0);
        while index != NONE {
            let meta = &mut self.meta[index as usize];
            if meta.marks & BARE == 0 && self.arena.give_back(index) {
                meta.marks = BARE;
                trimmed += 1;
            }
            index = meta.next;
        }
        self.bare += trimmed;
        self.is_plain &= self.bare == 0;
        trimmed as usize
    }

    #[inline]
    fn knows(&self, handle: Handle<T>) -> bool {
        let meta = self.meta.get(handle.index as usize);
        meta.is_some_and(|meta| meta.life == handle.life) && self.tag == handle.tag
    }

    #[inline]
    fn place(&self, index: u32) -> NonNull<T> {
        self.arena.at(index).cast()
    }

    /// Takes the next free slot from the chain, which is not empty.
    #[inline]
    fn pop(&mut self) -> u32 {
        let index = self.head;
        self.head = self.meta[index as usize].next;
        index
    }

    #[inline]
    fn push(&mut self, index: u32) {
        if self.order == Order::Lifo {
            self.meta[index as usize].next = self.head;
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
        let meta = &mut self.meta[index as usize];
        meta.life += 1;
        let life = meta.life;
        // SAFETY: the slot is carved and its life was over, so nobody else knows the place.
        unsafe { self.place(index).write(value) };
        self.live += 1;
        self.live_max = self.live_max.max(self.live);
        Handle { index, tag, life, of: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn put_slowly(
        &mut self,
        value: T,
        by: &'static Location<'static>,
    ) -> Result<Handle<T>, Full<T>> {
        let Some(index) = self.free_slot() else {
            self.refused += 1;
            return Err(Full(value));
        };
        if let Some(watch) = &mut self.watch {
            let chosen = watch.chooses();
            watch.sign(index, chosen.then_some(by));
            if chosen {
                guard::fence(&self.arena, index);
            }
            self.meta[index as usize].marks = if chosen { GUARDED } else { 0 };
        }
        Ok(self.settle(index, value))
    }

    /// A slot with memory and without damage, from wherever there is one.
    fn free_slot(&mut self) -> Option<u32> {
        loop {
            let fresh_first = self.order == Order::Fifo || self.head == NONE;
            if fresh_first && self.meta.len() < self.capacity as usize {
                let index = self.meta.len() as u32;
                self.arena.carve(index);
                self.meta.push(Meta { life: 0, next: NONE, marks: 0 });
                self.decide_plain();
                return Some(index);
            }
            if self.head == NONE {
                self.release_quarantine();
            }
            if self.head == NONE {
                return None;
            }
            let index = self.pop();
            let marks = self.meta[index as usize].marks;
            if marks & BARE != 0 {
                self.arena.carve(index);
                self.meta[index as usize].marks = 0;
                self.bare -= 1;
                self.decide_plain();
            }
            if marks & POISONED == 0 {
                return Some(index);
            }
            match guard::look_inside(&self.arena, index) {
                Ok(()) => return Some(index),
                Err(fault) => self.retire(fault, index),
            }
        }
    }

    fn decide_plain(&mut self) {
        let all_carved = self.meta.len() == self.capacity as usize;
        let chain_first = self.order == Order::Lifo || all_carved;
        self.is_plain = self.watch.is_none() && self.bare == 0 && chain_first;
    }

    /// Looks at the canaries of a guarded object at its end.
    #[cold]
    fn inspect(&mut self, index: u32) -> Result<(), Fault> {
        let seen = guard::look_around(&self.arena, index);
        if let Err(fault) = seen {
            self.retire(fault, index);
        }
        seen
    }

    /// Poisons a guarded object's slot and keeps it out of use for a while.
    #[cold]
    fn bury(&mut self, index: u32) {
        guard::poison(&self.arena, index);
        self.meta[index as usize].marks = POISONED;
        self.quarantine.push_back(index);
        if self.quarantine.len() > self.quarantine_max
            && let Some(oldest) = self.quarantine.pop_front()
        {
            self.push(oldest);
        }
    }

    fn release_quarantine(&mut self) {
        while let Some(index) = self.quarantine.pop_front() {
            self.push(index);
        }
    }

    /// Writes canaries and poison of a slot anew, so that one fault is told once.
    fn mend(&mut self, index: u32) {
        if self.meta[index as usize].life.is_multiple_of(2) {
            guard::poison(&self.arena, index);
        }
        guard::fence(&self.arena, index);
    }

    /// Tells a fault and gives its slot up.
    fn retire(&mut self, fault: Fault, index: u32) {
        self.meta[index as usize].marks = 0;
        self.retired += 1;
        self.tell(fault, index);
    }

    fn tell(&mut self, fault: Fault, index: u32) -> Fault {
        match &mut self.watch {
            Some(watch) => watch.tell(fault, index),
            None => fault,
        }
    }

    #[cold]
    fn why_not(&mut self, handle: Handle<T>) -> Fault {
        let index = handle.index;
        let fault = match self.meta.get(index as usize) {
            _ if handle.tag != self.tag => Fault::WrongPool { index },
            None => Fault::Unknown { index },
            Some(meta) if meta.life == handle.life + 1 => Fault::DoubleFree { index },
            Some(_) => Fault::Stale { index },
        };
        self.tell(fault, index)
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
            if self.meta[index as usize].life % 2 == 1 {
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

#[cfg(test)]
mod tests {
    use super::super::Backing;
    use super::*;

    fn plan(capacity: u32, backing: Backing, order: Order) -> Plan {
        Plan { backing, order, ..Plan::new(capacity) }
    }

    #[test]
    fn lifo_gives_the_last_slot_and_fifo_the_longest_free() {
        for backing in [Backing::Array, Backing::List] {
            for (order, expected) in [(Order::Lifo, [2, 0, 3]), (Order::Fifo, [3, 0, 2])] {
                let mut pool = Pool::new(plan(4, backing, order));
                let put: Vec<_> = (0..3).map(|value| pool.put(value).unwrap()).collect();
                pool.take(put[0]).unwrap();
                pool.take(put[2]).unwrap();
                let next = [9; 3].map(|value| pool.put(value).unwrap().index());
                assert_eq!(next, expected, "{backing:?}, {order:?}");
                assert_eq!(pool.put(7), Err(Full(7)));
            }
        }
    }

    #[test]
    fn objects_do_not_move_and_are_dropped_once() {
        let one = std::rc::Rc::new(());
        let mut pool = Pool::new(plan(100, Backing::List, Order::Lifo));
        let first = pool.put(one.clone()).unwrap();
        let address = pool.pointer(first);
        for _ in 1..100 {
            pool.put(one.clone()).unwrap();
        }
        assert_eq!(pool.pointer(first), address);
        assert_eq!(std::rc::Rc::strong_count(&one), 101);
        drop(pool.take(first).unwrap());
        drop(pool);
        assert_eq!(std::rc::Rc::strong_count(&one), 1);
    }

    #[test]
    fn a_trimmed_slot_takes_memory_anew() {
        let mut pool = Pool::new(plan(8, Backing::List, Order::Fifo));
        let put: Vec<_> = (0..8_u64).map(|value| pool.put(value).unwrap()).collect();
        for handle in &put[2..6] {
            pool.take(*handle).unwrap();
        }
        assert_eq!((pool.trim(), pool.trim()), (4, 0));
        let again: Vec<_> = (10..14).map(|value| pool.put(value).unwrap()).collect();
        assert_eq!(again.iter().map(|it| *pool.get(*it).unwrap()).sum::<u64>(), 46);
        assert_eq!(pool.take(put[2]), Err(Fault::Stale { index: 2 }));
        assert_eq!(Pool::<u64>::new(Plan::new(4)).trim(), 0, "an array is given back whole");
    }

    #[test]
    fn values_without_size_have_handles_too() {
        let mut pool = Pool::new(Plan::new(2));
        let handle = pool.put(()).unwrap();
        assert_eq!(
            (pool.take(handle), pool.take(handle)),
            (Ok(()), Err(Fault::DoubleFree { index: 0 }))
        );
        assert!(Pool::new(Plan::new(0)).put(1).is_err());
    }

    #[test]
    fn usage_counts_what_happened() {
        let mut pool = Pool::new(Plan::new(2));
        let handle = pool.put(1).unwrap();
        pool.put(2).unwrap();
        pool.put(3).unwrap_err();
        pool.take(handle).unwrap();
        let usage = Usage { capacity: 2, carved: 2, live: 1, live_max: 2, retired: 0, refused: 1 };
        assert_eq!(pool.usage(), usage);
    }
}
