//! Boxes from a pool of one owner: each is a pointer, as from an allocator. Nothing is checked
//! because nothing can go wrong: a box is its object's only name and cannot outlive the pool.
//!
//! Only here does the link of a free slot lie in the slot, so that a pair of calls touches one line
//! of memory besides the pool's own. A caller that hands addresses to the kernel needs a guarded
//! [`super::Pool`] instead.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use super::Full;

/// A slot: an object, or the next free slot.
union Slot<T> {
    next: *mut Slot<T>,
    _value: ManuallyDrop<MaybeUninit<T>>,
}

/// Slots for objects of type `T`, used last in, first out, by one thread.
///
/// ```
/// use pools::Boxes;
///
/// let boxes = Boxes::new(1);
/// let mut first = boxes.lend([1, 2]).unwrap();
/// first[1] = 3;
/// assert!(boxes.lend([0, 0]).is_err(), "its one slot is taken");
/// assert_eq!(first.take(), [1, 3]);
/// assert!(boxes.lend([0, 0]).is_ok());
/// ```
pub struct Boxes<T> {
    /// The first used slot that is free; null if there is none.
    head: Cell<*mut Slot<T>>,
    /// The number of slots used so far.
    carved: Cell<usize>,
    capacity: usize,
    start: NonNull<Slot<T>>,
    values: PhantomData<T>,
}

impl<T> Boxes<T> {
    /// An empty pool of `capacity` slots. The address range is reserved at
    /// once; memory is touched on use.
    ///
    /// # Panics
    /// If memory cannot hold `capacity` objects.
    #[must_use]
    pub fn new(capacity: usize) -> Boxes<T> {
        let layout = layout::<T>(capacity);
        // SAFETY: a slot has at least the size of a pointer, and there is at least one.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start.cast()) else { handle_alloc_error(layout) };
        let (head, carved) = (Cell::new(ptr::null_mut()), Cell::new(0));
        Boxes { head, carved, capacity, start, values: PhantomData }
    }

    /// Puts `value` into a free slot.
    ///
    /// # Errors
    /// The value, if no slot is free.
    #[inline(always)]
    pub fn lend(&self, value: T) -> Result<Boxed<'_, T>, Full<T>> {
        let mut slot = self.head.get();
        if slot.is_null() {
            match self.fresh() {
                Some(fresh) => slot = fresh,
                None => return Err(Full(value)),
            }
        } else {
            // SAFETY: the slot is free and was pushed with its link written.
            self.head.set(unsafe { (*slot).next });
        }
        // SAFETY: the slot is in the pool's memory, in no chain and in no box.
        unsafe { slot.cast::<T>().write(value) };
        // SAFETY: it is not null: neither a free slot nor a fresh one is.
        let slot = unsafe { NonNull::new_unchecked(slot) };
        Ok(Boxed { slot, pool: self })
    }

    /// The number of objects, found by counting the free slots one by one.
    #[must_use]
    pub fn len(&self) -> usize {
        let (mut slot, mut free) = (self.head.get(), 0);
        while !slot.is_null() {
            free += 1;
            // SAFETY: the slot is in the chain, so it is free and its link is written.
            slot = unsafe { (*slot).next };
        }
        self.carved.get() - free
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A slot that was never used.
    #[cold]
    #[inline(never)]
    fn fresh(&self) -> Option<*mut Slot<T>> {
        let carved = self.carved.get();
        if carved == self.capacity {
            return None;
        }
        self.carved.set(carved + 1);
        // SAFETY: the memory has `capacity` slots.
        Some(unsafe { self.start.as_ptr().add(carved) })
    }

    #[inline(always)]
    fn free(&self, slot: NonNull<Slot<T>>) {
        // SAFETY: its object is gone and its box with it, so no reference to the slot is left.
        unsafe { (*slot.as_ptr()).next = self.head.get() };
        self.head.set(slot.as_ptr());
    }
}

fn layout<T>(capacity: usize) -> Layout {
    Layout::array::<Slot<T>>(capacity.max(1)).expect("a pool fits into memory")
}

impl<T> Drop for Boxes<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; no box is left, since each borrows the pool. The
        // object of a forgotten box is leaked.
        unsafe { dealloc(self.start.as_ptr().cast(), layout::<T>(self.capacity)) };
    }
}

impl<T> fmt::Debug for Boxes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boxes").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// An object in a slot of [`Boxes`]; dropping it frees the slot.
pub struct Boxed<'p, T> {
    slot: NonNull<Slot<T>>,
    pool: &'p Boxes<T>,
}

impl<T> Boxed<'_, T> {
    /// Takes the object out and frees its slot.
    #[inline(always)]
    pub fn take(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the slot holds a T that is not read again: the box is not dropped.
        let value = unsafe { this.slot.cast::<T>().read() };
        this.pool.free(this.slot);
        value
    }
}

impl<T> Deref for Boxed<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the slot holds a T while its box is there.
        unsafe { self.slot.cast().as_ref() }
    }
}

impl<T> DerefMut for Boxed<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the box is the only way to it.
        unsafe { self.slot.cast().as_mut() }
    }
}

impl<T> Drop for Boxed<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the slot holds a T that is not read again.
        unsafe { self.slot.cast::<T>().drop_in_place() };
        self.pool.free(self.slot);
    }
}

impl<T: fmt::Debug> fmt::Debug for Boxed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn every_box_has_a_place_of_its_own_and_gives_it_back() {
        let boxes = Boxes::new(100);
        for round in 0..3 {
            let all: Vec<_> = (0..100).map(|value| boxes.lend(value).unwrap()).collect();
            assert_eq!(boxes.lend(7).unwrap_err(), Full(7), "round {round}");
            assert!(all.iter().enumerate().all(|(value, boxed)| **boxed == value));
            assert_eq!(boxes.len(), 100);
        }
        assert!(boxes.is_empty());
    }

    #[test]
    fn objects_are_dropped_once_taken_or_not() {
        let one = Rc::new(());
        let boxes = Boxes::new(3);
        let mut first = boxes.lend(Some(one.clone())).unwrap();
        let second = boxes.lend(Some(one.clone())).unwrap();
        assert_eq!(Rc::strong_count(&one), 3);
        *first = None;
        drop(second.take());
        drop(first);
        assert_eq!((Rc::strong_count(&one), boxes.len()), (1, 0));
        assert!(Boxes::new(0).lend(()).is_err());
        assert_eq!(Boxes::new(2).lend(()).map(Boxed::take), Ok(()));
    }
}
