//! A worker's sessions by id: slots that are reused, under a new generation each time.

use std::ops::Range;

use seam::SessionId;

/// Values named by [`SessionId`]s of one shard.
pub struct Table<T> {
    shard: usize,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    live: usize,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Table<T> {
    /// An empty table of the worker in worker slot `shard`.
    pub fn new(shard: usize) -> Table<T> {
        Table { shard, slots: Vec::new(), free: Vec::new(), live: 0 }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.live
    }

    /// The id that the next value will have.
    pub fn next_id(&mut self) -> SessionId {
        if self.free.is_empty() {
            self.free.push(self.slots.len() as u32);
            self.slots.push(Slot { generation: 1, value: None });
        }
        let index = self.free[self.free.len() - 1];
        SessionId::new(self.shard, index, self.slots[index as usize].generation)
    }

    /// Keeps `value` under the id of [`Table::next_id`].
    pub fn insert(&mut self, value: T) -> SessionId {
        let id = self.next_id();
        self.free.pop();
        self.slots[id.index() as usize].value = Some(value);
        self.live += 1;
        id
    }

    /// The value of that id, unless it is gone.
    #[inline]
    pub fn lookup(&mut self, id: SessionId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index() as usize)?;
        if slot.generation == id.generation() { slot.value.as_mut() } else { None }
    }

    /// Takes the value out and retires its id; a slot whose generations are used up is never used
    /// again.
    pub fn remove(&mut self, id: SessionId) -> Option<T> {
        let slot = self.slots.get_mut(id.index() as usize)?;
        if slot.generation != id.generation() {
            return None;
        }
        let value = slot.value.take()?;
        self.live -= 1;
        if slot.generation < SessionId::GENERATION_MAX {
            slot.generation += 1;
            self.free.push(id.index());
        }
        Some(value)
    }

    /// The ids of all values.
    pub fn ids(&self) -> Vec<SessionId> {
        self.ids_within(0..self.slots.len())
    }

    /// The number of slots, empty ones included.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The ids of the values in some of the slots.
    pub fn ids_within(&self, slots: Range<usize>) -> Vec<SessionId> {
        let Range { start, end } = slots;
        let within = self.slots.get(start..end.min(self.slots.len())).unwrap_or(&[]);
        let named = within.iter().zip(start..).filter(|(slot, _)| slot.value.is_some());
        named
            .map(|(slot, index)| SessionId::new(self.shard, index as u32, slot.generation))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_id_finds_nothing() {
        let mut table = Table::new(3);
        let first = table.insert("first");
        assert_eq!(table.lookup(first), Some(&mut "first"));
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");
        assert_eq!(second.index(), first.index());
        assert_eq!(table.lookup(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.ids(), [second]);
        assert_eq!(table.len(), 1);
        let third = table.insert("third");
        assert_eq!((table.slots(), table.ids_within(1..9)), (2, vec![third]));
        assert_eq!((table.ids_within(0..1), table.ids_within(2..9)), (vec![second], vec![]));
    }

    #[test]
    fn a_slot_with_its_generations_used_up_is_retired() {
        let mut table = Table::new(0);
        let id = table.insert(());
        table.slots[id.index() as usize].generation = SessionId::GENERATION_MAX;
        let last = SessionId::new(0, id.index(), SessionId::GENERATION_MAX);
        assert!(table.remove(last).is_some());
        assert_ne!(table.insert(()).index(), id.index());
    }
}
