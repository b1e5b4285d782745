//! Sessions that several workers step: a worker that looks inside holds a reference.
//!
//! One word a slot holds the whole state: generation, liveness, closing and the number of
//! references. A reference is taken by compare-and-swap on the whole word. An increment with a
//! later check would revive, for an instant, a session that another worker is destroying.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Deref;

use seam::SessionId;

use super::Full;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::{Padded, Stack};

const REF: u64 = 1;
const REFS: u64 = (1 << 38) - 1;
const LIVE: u64 = 1 << 38;
const CLOSING: u64 = 1 << 39;
const GENERATION_SHIFT: u32 = 40;

/// A slot on separate lines, because neighbours belong to different workers.
#[repr(align(64))]
struct Slot<T> {
    word: AtomicU64,
    link: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// Values named by [`SessionId`]s of one shard, for many threads. Slots are used last in, first
/// out. The last holder gives a value up; the value never moves before.
pub struct SharedTable<T> {
    shard: usize,
    slots: Box<[Slot<T>]>,
    free: Padded<Stack>,
}

// SAFETY: values are shared by `Ref`s (T: Sync) and leave the table on any thread (T: Send).
unsafe impl<T: Send + Sync> Sync for SharedTable<T> {}
// SAFETY: the table owns its values.
unsafe impl<T: Send> Send for SharedTable<T> {}

impl<T> SharedTable<T> {
    /// An empty table under the name `shard` for at most `capacity` sessions at once.
    ///
    /// # Panics
    /// If `shard` is not below [`seam::SHARDS_MAX`].
    #[must_use]
    pub fn new(shard: usize, capacity: usize) -> SharedTable<T> {
        assert!(shard < seam::SHARDS_MAX, "expected a worker slot below 4096, found {shard}");
        let capacity = capacity.min(SessionId::INDEX_MAX as usize);
        let slot = |_| Slot {
            word: AtomicU64::new(1 << GENERATION_SHIFT),
            link: AtomicU32::new(Stack::NONE),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        let slots: Box<[Slot<T>]> = (0..capacity).map(slot).collect();
        let free = Stack::new();
        for (index, slot) in slots.iter().enumerate().rev() {
            free.push(index as u32, &slot.link);
        }
        SharedTable { shard, slots, free: Padded(free) }
    }

    /// Keeps `value` under a new name.
    ///
    /// # Errors
    /// The value, if all slots are in use or retired.
    pub fn open(&self, value: T) -> Result<SessionId, Full<T>> {
        let Some(index) = self.free.pop(|index| &self.slots[index as usize].link) else {
            return Err(Full(value));
        };
        let slot = &self.slots[index as usize];
        let word = slot.word.load(Ordering::Relaxed);
        // SAFETY: the slot came from the stack, so it is ours alone until LIVE is seen.
        unsafe { (*slot.value.get()).write(value) };
        // Release: a thread that finds it live sees the value.
        slot.word.store(word | LIVE, Ordering::Release);
        Ok(SessionId::new(self.shard, index, generation(word)))
    }

    /// A reference to the session `id`, if it lives and is not closing.
    #[inline]
    pub fn acquire(&self, id: SessionId) -> Option<Ref<'_, T>> {
        self.enter(id, |word| word + REF)
    }

    /// Ends a session, if it lives: no later look-up finds it, and its value and its slot go with
    /// the last reference. Returns whether it lived.
    pub fn close(&self, id: SessionId) -> bool {
        self.enter(id, |word| (word | CLOSING) + REF).is_some()
    }

    /// The names of the live sessions that are not closing; others may come and go meanwhile.
    pub fn ids(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let word = slot.word.load(Ordering::Relaxed);
            let open = word & (LIVE | CLOSING) == LIVE;
            open.then(|| SessionId::new(self.shard, index as u32, generation(word)))
        })
    }

    /// Applies `change`, which adds a reference, to the word of `id`'s slot, if the session lives
    /// and is not closing.
    #[inline]
    fn enter(&self, id: SessionId, change: impl Fn(u64) -> u64) -> Option<Ref<'_, T>> {
        let slot = self.slots.get(id.index() as usize).filter(|_| id.shard() == self.shard)?;
        let mut word = slot.word.load(Ordering::Relaxed);
        loop {
            let is_open = word & (LIVE | CLOSING) == LIVE && word & REFS < REFS;
            if generation(word) != id.generation() || !is_open {
                return None;
            }
            // Acquire: the value as it was when the session was opened or the other holders let go.
            let new = change(word);
            match slot.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Ref { table: self, slot, index: id.index() }),
                Err(now) => word = now,
            }
        }
    }

    /// Frees a slot whose value is gone; only the last holder does so.
    fn vacate(&self, index: u32) {
        let slot = &self.slots[index as usize];
        let generation = generation(slot.word.load(Ordering::Relaxed));
        if generation == SessionId::GENERATION_MAX {
            // Retired: no name finds it without LIVE, and it is on no stack.
            slot.word.store(u64::from(generation) << GENERATION_SHIFT, Ordering::Relaxed);
            return;
        }
        slot.word.store(u64::from(generation + 1) << GENERATION_SHIFT, Ordering::Relaxed);
        // Its release makes the store above visible to the thread that pops the slot.
        self.free.push(index, &slot.link);
    }
}

fn generation(word: u64) -> u32 {
    (word >> GENERATION_SHIFT) as u32
}

impl<T> Drop for SharedTable<T> {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            if slot.word.load(Ordering::Acquire) & LIVE != 0 {
                // SAFETY: a live slot holds a value, and no `Ref` is left that borrows the table.
                unsafe { slot.value.get_mut().assume_init_drop() };
            }
        }
    }
}

/// Proof that a session's value stays where it is. Dropping the last one of a closed session drops
/// the value, before its slot is free again.
pub struct Ref<'t, T> {
    table: &'t SharedTable<T>,
    slot: &'t Slot<T>,
    index: u32,
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the slot is live and stays so while a reference is counted.
        unsafe { (*self.slot.value.get()).assume_init_ref() }
    }
}

impl<T> Drop for Ref<'_, T> {
    fn drop(&mut self) {
        // Release: our accesses precede the destruction of the value by another thread. Acquire:
        // the destroying thread sees all accesses of the others.
        let word = self.slot.word.fetch_sub(REF, Ordering::AcqRel) - REF;
        // The count of a closing session only falls, so exactly one holder sees this.
        if word & CLOSING != 0 && word & REFS == 0 {
            // SAFETY: this was the last way to the value.
            unsafe { (*self.slot.value.get()).assume_init_drop() };
            self.table.vacate(self.index);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_closed_session_stays_for_those_who_hold_it() {
        let (table, value) = (SharedTable::new(1, 2), Arc::new("held"));
        let id = table.open(value.clone()).unwrap();
        let held = [(); 2].map(|()| table.acquire(id).unwrap());
        assert!(table.close(id) && !table.close(id) && table.acquire(id).is_none());
        for held in held {
            assert_eq!((**held, Arc::strong_count(&value)), ("held", 2));
        }
        assert_eq!(Arc::strong_count(&value), 1);
        let next = table.open(value).unwrap();
        assert_eq!((next.index(), next.generation()), (id.index(), id.generation() + 1));
        assert!(table.acquire(id).is_none() && table.close(next));
    }

    #[test]
    fn a_forged_name_finds_nothing() {
        let table = SharedTable::new(1, 1);
        let id = table.open(()).unwrap();
        assert_eq!(table.open(()), Err(Full(())));
        assert!(table.acquire(SessionId::new(2, 0, 1)).is_none());
        assert!(table.acquire(SessionId::new(1, 7, 1)).is_none());
        assert!(table.acquire(SessionId::from_bits(0)).is_none());
        assert_eq!(table.ids().collect::<Vec<_>>(), [id]);
    }

    #[test]
    fn a_slot_with_its_generations_used_up_is_retired() {
        let table = SharedTable::new(0, 1);
        let word = u64::from(SessionId::GENERATION_MAX) << GENERATION_SHIFT;
        table.slots[0].word.store(word, Ordering::Relaxed);
        let last = table.open(()).unwrap();
        assert_eq!(last.generation(), SessionId::GENERATION_MAX);
        assert!(table.close(last));
        assert_eq!(table.open(()), Err(Full(())));
        assert!(table.acquire(last).is_none());
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{Watched, explore};
    use loom::sync::Arc;
    use loom::thread;

    /// A value of 0 until its end, which no read may overlap.
    struct Value(Watched, Arc<AtomicU32>);

    impl Drop for Value {
        fn drop(&mut self) {
            self.0.add(1);
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(table: &SharedTable<Value>, id: SessionId) {
        if let Some(held) = table.acquire(id) {
            assert_eq!(held.0.read(), 0);
        }
    }

    #[test]
    fn loom_the_last_to_let_go_ends_it_once() {
        explore(|| {
            let (table, ends) = (Arc::new(SharedTable::new(0, 1)), Arc::new(AtomicU32::new(0)));
            let id = table.open(Value(Watched::default(), ends.clone())).ok().unwrap();
            let others: Vec<_> = [false, true]
                .into_iter()
                .map(|closes| {
                    let table = table.clone();
                    thread::spawn(move || {
                        if closes {
                            table.close(id);
                        } else {
                            read(&table, id);
                        }
                    })
                })
                .collect();
            read(&table, id);
            others.into_iter().for_each(|it| it.join().unwrap());
            assert_eq!(ends.load(Ordering::Relaxed), 1, "ended once");
            assert!(table.acquire(id).is_none());
        });
    }
}
