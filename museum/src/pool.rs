//! The portfolio's four pools without its faults: array or list, stack or queue.
//!
//! Free slots are linked by index, apart from the objects, so no write into an object can damage
//! the pool. A [`Handle`] names a slot and the number of its life: a late handle, a second release
//! and a handle of another pool find nothing. The language checks what the original's guard words
//! did: an object cannot be overrun.

use std::borrow::BorrowMut;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No slot: the end of the free list.
const NONE: u32 = u32::MAX;
/// Lives of a pool's slots before those of the next pool begin.
const LIVES: u64 = 1 << 40;

/// The free slot that is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one freed last: it is still in the cache.
    Stack,
    /// The one that has been free for longest: a late access does the least harm there.
    Queue,
}

/// An object of a pool: its slot and the number of its life, which no other object of the process
/// has in a slot of that index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    index: u32,
    life: u64,
}

struct Slot {
    /// The number of the present life, or of the next one if the slot is free.
    life: u64,
    next: u32,
}

/// A pool of `T` with one owner. Its objects lie in one array.
pub struct Pool<T, S = Option<T>> {
    objects: Vec<S>,
    slots: Vec<Slot>,
    first: u32,
    last: u32,
    order: Order,
    used: u32,
    of: PhantomData<T>,
}

impl<T, S: BorrowMut<Option<T>> + From<Option<T>>> Pool<T, S> {
    /// An empty pool of `capacity` slots; it never grows.
    pub fn new(capacity: u32, order: Order) -> Pool<T, S> {
        static POOLS: AtomicU64 = AtomicU64::new(0);
        let life = POOLS.fetch_add(1, Relaxed).wrapping_mul(LIVES);
        let capacity = capacity.min(NONE - 1);
        let next = |index| if index + 1 < capacity { index + 1 } else { NONE };
        Pool {
            objects: (0..capacity).map(|_| S::from(None)).collect(),
            slots: (0..capacity).map(|index| Slot { life, next: next(index) }).collect(),
            first: if capacity > 0 { 0 } else { NONE },
            last: capacity.wrapping_sub(1),
            order,
            used: 0,
            of: PhantomData,
        }
    }

    /// Puts `value` into a free slot.
    ///
    /// # Errors
    /// The value, if no slot is free.
    #[inline(always)]
    pub fn put(&mut self, value: T) -> Result<Handle, T> {
        let index = self.first;
        let Some(slot) = self.slots.get_mut(index as usize) else { return Err(value) };
        self.first = slot.next;
        *self.objects[index as usize].borrow_mut() = Some(value);
        self.used += 1;
        Ok(Handle { index, life: slot.life })
    }

    /// The object of `handle`, if it lives.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        let slot = self.slots.get(handle.index as usize)?;
        let object = self.objects[handle.index as usize].borrow();
        object.as_ref().filter(|_| slot.life == handle.life)
    }

    /// Takes the object of `handle` out, if it lives, and frees its slot.
    #[inline(always)]
    pub fn take(&mut self, handle: Handle) -> Option<T> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.life != handle.life {
            return None;
        }
        let value = self.objects[handle.index as usize].borrow_mut().take()?;
        slot.life += 1;
        self.used -= 1;
        match self.order {
            Order::Stack => {
                slot.next = self.first;
                self.first = handle.index;
            }
            Order::Queue => {
                slot.next = NONE;
                match self.slots.get_mut(self.last as usize).filter(|_| self.first != NONE) {
                    Some(last) => last.next = handle.index,
                    None => self.first = handle.index,
                }
                self.last = handle.index;
            }
        }
        Some(value)
    }

    /// Objects in use.
    pub fn used(&self) -> usize {
        self.used as usize
    }

    /// All slots.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Rng;
    use std::collections::{HashMap, VecDeque};

    /// A pool holds what a map holds and uses the slots that its order says; late handles, and
    /// those of the pool before it, find nothing.
    fn check<S: BorrowMut<Option<u64>> + From<Option<u64>>>(order: Order) {
        let mut late: Vec<Handle> = Vec::new();
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let capacity = 1 + rng.below(12);
            let mut pool = Pool::<u64, S>::new(capacity as u32, order);
            assert_eq!(pool.capacity(), capacity);
            let mut model: HashMap<Handle, u64> = HashMap::new();
            let mut free: VecDeque<u32> = (0..capacity as u32).collect();
            for _ in 0..300 {
                let some = model.keys().nth(rng.below(model.len().max(1))).copied();
                match (rng.below(3), some) {
                    (0, _) => match (pool.put(seed), free.pop_front()) {
                        (Ok(handle), Some(slot)) => {
                            assert_eq!(handle.index, slot, "seed {seed}, {order:?}");
                            assert_eq!(model.insert(handle, seed), None, "a handle twice");
                        }
                        (put, slot) => assert_eq!((put, slot), (Err(seed), None), "seed {seed}"),
                    },
                    (1, Some(handle)) => {
                        assert_eq!(pool.take(handle), model.remove(&handle), "seed {seed}");
                        late.push(handle);
                        match order {
                            Order::Stack => free.push_front(handle.index),
                            Order::Queue => free.push_back(handle.index),
                        }
                    }
                    _ if !late.is_empty() => {
                        let handle = *rng.pick(&late);
                        assert_eq!(pool.get(handle), None, "seed {seed}");
                        assert_eq!(pool.take(handle), None, "seed {seed}");
                    }
                    _ => {}
                }
                assert_eq!(pool.used(), model.len(), "seed {seed}");
                assert!(model.iter().all(|(handle, value)| pool.get(*handle) == Some(value)));
            }
        }
    }

    #[test]
    fn four_pools_hold_what_a_map_holds() {
        for order in [Order::Stack, Order::Queue] {
            check::<Option<u64>>(order);
            check::<Box<Option<u64>>>(order);
        }
        assert_eq!(Pool::<u8>::new(0, Order::Queue).put(1), Err(1));
    }
}
