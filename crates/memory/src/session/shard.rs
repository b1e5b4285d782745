//! The sessions of one worker.

use std::mem::MaybeUninit;

use seam::SessionId;

use super::Closing;
use crate::pool::{Full, NONE, Order};

/// Set in the name of a free slot or a closing session; no id has it.
const FREE: u64 = 1 << 63;
const CLOSING: u64 = 1 << 62;
/// The bits of an id. A forged id may have others, which must not match [`FREE`].
const ID: u64 = u64::MAX >> 4;

struct Slot<T> {
    /// The id of the slot's session, or of the next one with [`FREE`].
    name: u64,
    /// Operations in flight; in a free slot the next free one.
    flight: u32,
    value: MaybeUninit<T>,
}

/// Values named by [`SessionId`]s of one shard, for one thread. A value does not move while its
/// session lives, so the kernel may hold addresses in it.
pub struct ShardTable<T> {
    shard: usize,
    capacity: usize,
    order: Order,
    slots: Vec<Slot<T>>,
    head: u32,
    tail: u32,
    live: usize,
}

/// The owner of a completion from the kernel.
#[derive(Debug, PartialEq, Eq)]
pub enum Landing<'a, T> {
    /// A live session.
    Live(&'a mut T),
    /// A closed session with more operations in flight.
    Closing(&'a mut T),
    /// A closed session whose last operation this was: its slot is free, and here is its value.
    Last(T),
    /// No session: it is gone, or has nothing in flight.
    Stray,
}

impl<T> ShardTable<T> {
    /// An empty table of the worker in slot `shard` for at most `capacity` sessions at one time.
    /// [`Order::Lifo`] uses the slot that is still in the cache. [`Order::Fifo`] spreads sessions
    /// over all slots, so their generations last longer by that factor.
    ///
    /// # Panics
    /// If `shard` is not below [`seam::SHARDS_MAX`].
    #[must_use]
    pub fn new(shard: usize, capacity: usize, order: Order) -> ShardTable<T> {
        assert!(shard < seam::SHARDS_MAX, "expected a worker slot below 4096, found {shard}");
        let capacity = capacity.min(SessionId::INDEX_MAX as usize);
        // Reserved at once, so that it never moves; untouched memory costs nothing.
        let slots = Vec::with_capacity(capacity);
        ShardTable { shard, capacity, order, slots, head: NONE, tail: NONE, live: 0 }
    }

    /// Keeps `value` under a new name.
    ///
    /// # Errors
    /// The value, if all slots are in use or retired.
    pub fn open(&mut self, value: T) -> Result<SessionId, Full<T>> {
        match self.claim() {
            Some(index) => Ok(self.settle(index, |_| value)),
            None => Err(Full(value)),
        }
    }

    /// Keeps the result of `make`, which gets the new name; `None` without a call
    /// of `make` if there is no slot.
    pub fn open_with(&mut self, make: impl FnOnce(SessionId) -> T) -> Option<SessionId> {
        self.claim().map(|index| self.settle(index, make))
    }

    /// The value of `id`, if its session lives and is not closing.
    #[inline]
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&T> {
        let slot = self.slots.get(id.index() as usize)?;
        if slot.name != id.bits() & ID {
            return None;
        }
        // SAFETY: the name has neither FREE nor CLOSING, so the slot holds a value.
        Some(unsafe { slot.value.assume_init_ref() })
    }

    /// The value of `id`, if its session lives and is not closing.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index() as usize)?;
        if slot.name != id.bits() & ID {
            return None;
        }
        // SAFETY: as in `get`.
        Some(unsafe { slot.value.assume_init_mut() })
    }

    /// Counts an operation for `id` before the caller passes it to the kernel; `None`, and not
    /// counted, if the session is gone or closing.
    pub fn launch(&mut self, id: SessionId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index() as usize)?;
        if slot.name != id.bits() & ID {
            return None;
        }
        slot.flight = slot.flight.checked_add(1)?;
        // SAFETY: as in `get`.
        Some(unsafe { slot.value.assume_init_mut() })
    }

    /// Completes an operation that was launched for `id`. Each launch has one completion.
    pub fn land(&mut self, id: SessionId) -> Landing<'_, T> {
        let index = id.index() as usize;
        let Some(slot) = self.slots.get_mut(index) else { return Landing::Stray };
        if slot.name & !CLOSING != id.bits() & ID || slot.flight == 0 {
            return Landing::Stray;
        }
        slot.flight -= 1;
        let is_closing = slot.name & CLOSING != 0;
        if is_closing && slot.flight == 0 {
            return Landing::Last(self.vacate(index));
        }
        // SAFETY: the slot's name is the id but for CLOSING, so it holds a value.
        let value = unsafe { self.slots[index].value.assume_init_mut() };
        if is_closing { Landing::Closing(value) } else { Landing::Live(value) }
    }

    /// Operations in flight for `id`, even if the session is closing; 0 if it is gone.
    #[must_use]
    pub fn in_flight(&self, id: SessionId) -> u32 {
        let slot = self.slots.get(id.index() as usize);
        let its = |slot: &&Slot<T>| slot.name & !CLOSING == id.bits() & ID;
        slot.filter(its).map_or(0, |slot| slot.flight)
    }

    /// Ends a session: its name finds nothing from now on, and its slot becomes
    /// free when nothing is in flight.
    #[inline]
    pub fn close(&mut self, id: SessionId) -> Closing<T> {
        let index = id.index() as usize;
        match self.slots.get_mut(index) {
            Some(slot) if slot.name == id.bits() & ID => {
                if slot.flight == 0 {
                    return Closing::Freed(self.vacate(index));
                }
                slot.name |= CLOSING;
                Closing::Waits
            }
            _ => Closing::Unknown,
        }
    }

    /// The names of all live sessions that are not closing, in the order of their slots.
    pub fn ids(&self) -> impl Iterator<Item = SessionId> + '_ {
        let open = self.slots.iter();
        open.filter(|slot| slot.name & (FREE | CLOSING) == 0)
            .map(|slot| SessionId::from_bits(slot.name))
    }

    /// The number of sessions with a value, closing ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether no session has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// A slot for the next session, out of the chain.
    #[inline]
    fn claim(&mut self) -> Option<usize> {
        if (self.order == Order::Fifo || self.head == NONE)
            && let Some(fresh) = self.carve()
        {
            return Some(fresh);
        }
        if self.head == NONE {
            return None;
        }
        let index = self.head as usize;
        self.head = self.slots[index].flight;
        Some(index)
    }

    /// A slot that was never used, if there is one.
    fn carve(&mut self) -> Option<usize> {
        let index = self.slots.len();
        if index == self.capacity {
            return None;
        }
        let name = SessionId::new(self.shard, index as u32, 1).bits() | FREE;
        self.slots.push(Slot { name, flight: NONE, value: MaybeUninit::uninit() });
        Some(index)
    }

    #[inline]
    fn settle(&mut self, index: usize, make: impl FnOnce(SessionId) -> T) -> SessionId {
        let slot = &mut self.slots[index];
        let id = SessionId::from_bits(slot.name & ID);
        // If `make` panics, the slot stays free but in no chain: it is lost, not dangerous.
        slot.value.write(make(id));
        (slot.name, slot.flight) = (id.bits(), 0);
        self.live += 1;
        id
    }

    /// Takes the value out of a slot that has one and has nothing in flight.
    #[inline]
    fn vacate(&mut self, index: usize) -> T {
        self.live -= 1;
        let slot = &mut self.slots[index];
        let id = SessionId::from_bits(slot.name & ID);
        // SAFETY: the caller found the session in the slot; FREE, set below, ends it.
        let value = unsafe { slot.value.assume_init_read() };
        if id.generation() == SessionId::GENERATION_MAX {
            // Retired: free for ever, and in no chain.
            slot.name = FREE;
            return value;
        }
        let next = SessionId::new(self.shard, index as u32, id.generation() + 1);
        (slot.name, slot.flight) = (next.bits() | FREE, NONE);
        self.chain(index as u32);
        value
    }

    #[inline]
    fn chain(&mut self, index: u32) {
        match (self.order, self.head) {
            (Order::Lifo, head) => {
                self.slots[index as usize].flight = head;
                self.head = index;
                return;
            }
            (Order::Fifo, NONE) => self.head = index,
            (Order::Fifo, _) => self.slots[self.tail as usize].flight = index,
        }
        self.tail = index;
    }
}

impl<T> Drop for ShardTable<T> {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            if slot.name & FREE == 0 {
                // SAFETY: a slot that is not free holds a value, and is not used again.
                unsafe { slot.value.assume_init_drop() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(order: Order) -> ShardTable<&'static str> {
        ShardTable::new(3, 4, order)
    }

    #[test]
    fn a_late_name_finds_nothing() {
        for order in [Order::Lifo, Order::Fifo] {
            let mut table = table(order);
            let first = table.open("first").unwrap();
            assert_eq!(table.get(first), Some(&"first"));
            assert_eq!(table.close(first), Closing::Freed("first"));
            let names: Vec<_> = (0..4).map(|_| table.open("next").unwrap()).collect();
            assert_eq!(table.open("fifth"), Err(Full("fifth")));
            assert!(table.open_with(|_| unreachable!("there is no room")).is_none());
            assert!(names.iter().any(|id| id.index() == first.index()), "the slot is used again");
            assert_eq!(table.get(first), None);
            assert_eq!(table.close(first), Closing::Unknown);
            assert_eq!(table.ids().collect::<Vec<_>>().len(), table.len());
        }
    }

    #[test]
    fn another_shard_s_name_finds_nothing() {
        let mut table = table(Order::Lifo);
        let id = table.open("here").unwrap();
        let other = SessionId::new(4, id.index(), id.generation());
        assert!(table.launch(id).is_some());
        assert_eq!(table.get(other), None);
        assert_eq!(table.close(other), Closing::Unknown);
        assert_eq!(table.land(other), Landing::Stray);
        assert_eq!(table.land(SessionId::new(3, 99, 1)), Landing::Stray);
    }

    #[test]
    fn a_closed_session_keeps_its_slot_until_all_has_landed() {
        let mut table = table(Order::Lifo);
        let id = table.open("busy").unwrap();
        assert_eq!(table.land(id), Landing::Stray, "nothing was launched");
        table.launch(id).unwrap();
        table.launch(id).unwrap();
        table.launch(id).unwrap();
        assert_eq!(table.land(id), Landing::Live(&mut "busy"));
        assert_eq!((table.close(id), table.in_flight(id)), (Closing::Waits, 2));
        assert_eq!(table.get(id), None);
        assert_eq!(table.launch(id), None);
        assert_eq!(table.close(id), Closing::Unknown);
        assert_ne!(table.open("other").unwrap().index(), id.index());
        assert_eq!(table.land(id), Landing::Closing(&mut "busy"));
        assert_eq!(table.land(id), Landing::Last("busy"));
        assert_eq!(table.land(id), Landing::Stray);
        assert_eq!(table.open("next").unwrap().index(), id.index());
    }

    #[test]
    fn a_slot_with_its_generations_used_up_is_retired() {
        for order in [Order::Lifo, Order::Fifo] {
            let mut table = ShardTable::new(0, 2, order);
            let id = table.open(()).unwrap();
            let last = SessionId::new(0, id.index(), SessionId::GENERATION_MAX);
            table.slots[0].name = last.bits();
            assert_eq!(table.close(last), Closing::Freed(()));
            assert_eq!(table.open(()).unwrap().index(), 1);
            assert_eq!(table.open(()), Err(Full(())), "the first slot is never used again");
        }
    }

    #[test]
    fn values_are_dropped_once_and_never_move() {
        let one = std::rc::Rc::new(());
        let mut table = ShardTable::new(0, 100, Order::Fifo);
        let first = table.open(one.clone()).unwrap();
        let address = std::ptr::from_ref(table.get(first).unwrap());
        let ids: Vec<_> = (0..9).map(|_| table.open(one.clone()).unwrap()).collect();
        assert_eq!(std::ptr::from_ref(table.get(first).unwrap()), address);
        table.close(ids[4]);
        table.launch(ids[5]).unwrap();
        table.close(ids[5]);
        assert_eq!(std::rc::Rc::strong_count(&one), 10);
        drop(table);
        assert_eq!(std::rc::Rc::strong_count(&one), 1);
    }
}
