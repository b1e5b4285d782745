//! Values by key: chains of nodes, with a lock for each of some parts of the map.
//!
//! A change writes a free node and then one link. So a worker that is killed meanwhile leaves the
//! old value or the new one; a node that it had taken is lost, which costs one place.

use std::borrow::Borrow;
use std::cell::UnsafeCell;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

use seam::{BadSeed, Dead, Share, WorkerId};

use super::{Fixed, NoRoom};
use crate::{Lock, Locked, Padded, Stack};

/// Locks of a map. Each guards every 64th chain.
const LOCKS: usize = 64;

/// Up to `N` values by key. The functions that its methods are given may not use the map again.
#[repr(C)]
pub struct Map<K, V, const N: usize> {
    /// Keys that a peer chooses must not fall into one chain by its intention.
    secret: u64,
    count: Padded<AtomicU32>,
    /// Nodes that were ever taken.
    taken: Padded<AtomicU32>,
    /// Nodes that were given back.
    free: Padded<Stack>,
    locks: [Padded<Lock>; LOCKS],
    /// The first node of each chain, plus one; 0 ends a chain.
    heads: [AtomicU32; N],
    nodes: [Node<K, V>; N],
    /// One more for each change that may be under way.
    extra: [Node<K, V>; LOCKS],
}

#[repr(C)]
struct Node<K, V> {
    /// The next node of the chain, plus one; in a free node the link of the stack.
    next: AtomicU32,
    /// The chain, plus one; 0 in a free node.
    chain: AtomicU32,
    entry: UnsafeCell<Entry<K, V>>,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Entry<K, V> {
    key: K,
    value: V,
}

// SAFETY: an entry in a chain is read under the lock of its chain, and a free node is written by
// the worker that took it from the stack.
unsafe impl<K: Fixed, V: Fixed, const N: usize> Sync for Map<K, V, N> {}

// SAFETY: atomics, locks, and keys and values that are valid if zero.
unsafe impl<K: Fixed, V: Fixed, const N: usize> Share for Map<K, V, N> {
    fn init(&mut self, _seed: &[u8]) -> Result<(), BadSeed> {
        const { assert!(N > 0 && N < (u32::MAX / 2) as usize, "a map has 1 to 2^31 places") };
        self.free = Padded(Stack::new());
        self.secret = RandomState::new().hash_one(0);
        Ok(())
    }

    fn heal(&self, dead: Dead) {
        for lock in &self.locks {
            lock.force_release(dead.worker());
        }
    }
}

impl<K: Fixed + Hash + Eq, V: Fixed, const N: usize> Map<K, V, N> {
    /// Lends the value of `key` to `look`.
    pub fn with<Q: Hash + Eq + ?Sized, R>(&self, key: &Q, look: impl FnOnce(Option<&V>) -> R) -> R
    where
        K: Borrow<Q>,
    {
        let chain = self.chain_of(key);
        let _locked = self.lock(WorkerId::current(), chain);
        let found = self.find(chain, key);
        // SAFETY: the node is in the chain whose lock is held.
        look(found.map(|(_, index)| unsafe { &(*self.node(index).entry.get()).value }))
    }

    /// A copy of the value of `key`; [`Map::with`] lends a long one.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.with(key, |value| value.copied())
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// The key is new and the map has `N` others.
    pub fn insert(&self, key: K, value: V) -> Result<(), NoRoom> {
        self.update(key, |_| Some(value))
    }

    /// Removes `key`; returns whether it was there.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let chain = self.chain_of(key);
        let _locked = self.lock(WorkerId::current(), chain);
        let found = self.find(chain, key);
        found.inspect(|(link, index)| self.unlink(link, *index)).is_some()
    }

    /// Replaces the value of `key` by what `change` makes of it, in one step for all workers;
    /// `None` stands for no value on both sides.
    ///
    /// # Errors
    /// The key is new and the map has `N` others; nothing has changed.
    pub fn update(
        &self,
        key: K,
        change: impl FnOnce(Option<&V>) -> Option<V>,
    ) -> Result<(), NoRoom> {
        self.write(key, |old, new| change(old).map(|value| *new = value).is_some())
    }

    /// Like [`Map::update`], for values that are long and mostly unused: `change` writes only what
    /// it needs of the new value, which has any value at first, and returns whether there is one.
    ///
    /// # Errors
    /// As for [`Map::update`].
    pub fn write(
        &self,
        key: K,
        change: impl FnOnce(Option<&V>, &mut V) -> bool,
    ) -> Result<(), NoRoom> {
        let chain = self.chain_of(&key);
        let _locked = self.lock(WorkerId::current(), chain);
        let found = self.find(chain, &key);
        let fresh = self.take().ok_or_else(|| NoRoom::of::<Self>(N, "places"))?;
        let node = self.node(fresh);
        // SAFETY: the node was free, so it is this worker's until it is linked; the old one is in
        // the chain whose lock is held.
        let (entry, old) = unsafe {
            let old = found.map(|(_, index)| &(*self.node(index).entry.get()).value);
            (&mut *node.entry.get(), old)
        };
        if !change(old, &mut entry.value) {
            self.give_back(fresh);
            found.inspect(|(link, index)| self.unlink(link, *index));
            return Ok(());
        }
        if found.is_none() && add_below(&self.count, N).is_none() {
            self.give_back(fresh);
            return Err(NoRoom::of::<Self>(N, "places"));
        }
        entry.key = key;
        node.chain.store(chain as u32 + 1, Ordering::Relaxed);
        let head = &self.heads[chain];
        let (link, next) = match found {
            Some((link, index)) => (link, self.node(index).next.load(Ordering::Relaxed)),
            None => (head, head.load(Ordering::Relaxed)),
        };
        node.next.store(next, Ordering::Relaxed);
        link.store(fresh + 1, Ordering::Release);
        if let Some((_, index)) = found {
            self.give_back(index);
        }
        Ok(())
    }

    /// Lends every key and its value to `look`. Entries that other workers change meanwhile may
    /// come twice or not at all.
    pub fn for_each(&self, mut look: impl FnMut(&K, &V)) {
        let taken = self.taken.load(Ordering::Acquire).min((N + LOCKS) as u32);
        for index in 0..taken {
            let node = self.node(index);
            let chain = node.chain.load(Ordering::Relaxed);
            if chain == 0 {
                continue;
            }
            let chain = chain as usize - 1;
            let _locked = self.lock(WorkerId::current(), chain);
            if self.nodes_of(chain).any(|(_, found)| found == index) {
                // SAFETY: the node is in the chain whose lock is held.
                let Entry { key, value } = unsafe { &*node.entry.get() };
                look(key, value);
            }
        }
    }

    /// The number of keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    fn chain_of<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        let mut hasher = Folded(self.secret);
        key.hash(&mut hasher);
        (((hasher.finish() >> 32) * N as u64) >> 32) as usize
    }

    fn lock(&self, me: WorkerId, chain: usize) -> Locked<'_> {
        self.locks[chain % LOCKS].lock(me)
    }

    fn node(&self, index: u32) -> &Node<K, V> {
        let index = index as usize;
        if index < N { &self.nodes[index] } else { &self.extra[index - N] }
    }

    /// The nodes of a chain whose lock is held, each with the link that names it.
    fn nodes_of(&self, chain: usize) -> impl Iterator<Item = (&AtomicU32, u32)> {
        let mut link = &self.heads[chain];
        std::iter::from_fn(move || {
            let index = link.load(Ordering::Acquire).checked_sub(1)?;
            let found = (link, index);
            link = &self.node(index).next;
            Some(found)
        })
    }

    fn find<Q: Eq + ?Sized>(&self, chain: usize, key: &Q) -> Option<(&AtomicU32, u32)>
    where
        K: Borrow<Q>,
    {
        // SAFETY: the node is in the chain whose lock the caller holds.
        let is_key = |index| unsafe { (*self.node(index).entry.get()).key.borrow() == key };
        self.nodes_of(chain).find(|(_, index)| is_key(*index))
    }

    fn unlink(&self, link: &AtomicU32, index: u32) {
        link.store(self.node(index).next.load(Ordering::Relaxed), Ordering::Release);
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.give_back(index);
    }

    /// A free node.
    fn take(&self) -> Option<u32> {
        let free = self.free.pop(|index| &self.node(index).next);
        free.or_else(|| add_below(&self.taken, N + LOCKS))
    }

    fn give_back(&self, index: u32) {
        let node = self.node(index);
        node.chain.store(0, Ordering::Relaxed);
        self.free.push(index, &node.next);
    }
}

/// Adds one to `number` if it is below `limit`; returns the old number.
fn add_below(number: &AtomicU32, limit: usize) -> Option<u32> {
    let next = |number: u32| (number < limit as u32).then_some(number + 1);
    number.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).ok()
}

/// A keyed hash that every build of this program computes alike, so that a successor finds the
/// keys: each word is multiplied by the golden ratio, and the halves of the product are folded.
pub(super) struct Folded(pub u64);

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            let word = u128::from(self.0 ^ u64::from_le_bytes(word));
            let product = word * 0x9e37_79b9_7f4a_7c15;
            self.0 = product as u64 ^ (product >> 64) as u64;
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bytes, Counter};
    use super::*;
    use crate::Region;
    use std::collections::HashMap;

    seam::share! {
        struct World {
            map: Map<Bytes<8>, u64, 32>,
            table: [Counter; 4],
        }
    }

    fn world() -> Region<World> {
        Region::<World>::alone(b"")
    }

    fn key(number: u64) -> Bytes<8> {
        Bytes::new(number.to_string()).expect("a short number")
    }

    #[test]
    fn a_map_does_what_a_hash_map_does() {
        let (world, mut model, mut random) = (world(), HashMap::new(), 7_u64);
        let map = &world.map;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) % 48;
            match random >> 62 {
                0 => assert_eq!(map.remove(&*key(at)), model.remove(&at).is_some()),
                1 => map.with(&*key(at), |value| assert_eq!(value, model.get(&at))),
                2 if !model.contains_key(&at) && model.len() == 32 => {
                    assert!(map.insert(key(at), 1).is_err());
                }
                2 => {
                    *model.entry(at).or_insert(0) += 3;
                    let more = |old: Option<&u64>| Some(old.map_or(3, |old| old + 3));
                    assert_eq!(map.update(key(at), more), Ok(()));
                }
                _ => {
                    model.remove(&at);
                    assert_eq!(map.update(key(at), |_| None), Ok(()));
                }
            }
            assert_eq!(map.count(), model.len());
        }
        let mut found = HashMap::new();
        map.for_each(|key, value| assert!(found.insert(*key, *value).is_none()));
        assert_eq!(found, model.iter().map(|(at, value)| (key(*at), *value)).collect());
        let mut chains = [0; 32];
        (0..3200).for_each(|number: u64| chains[map.chain_of(&number)] += 1);
        assert!(chains.iter().all(|count| (50..200).contains(count)), "{chains:?}");
    }

    #[test]
    fn workers_change_a_state_together() {
        let world = world();
        std::thread::scope(|threads| {
            for slot in 0..4 {
                let (World { map, table, .. }, me) = (&*world, WorkerId::new(slot, 1));
                threads.spawn(move || {
                    me.enter();
                    for round in 0..4000 {
                        let more = |old: Option<&u64>| Some(old.map_or(1, |old| old + 1));
                        map.update(key(round % 8), more).expect("few keys");
                        map.insert(key(100 + slot as u64), table[slot].add(1)).expect("room");
                        assert!(map.remove(&*key(100 + slot as u64)));
                    }
                });
            }
        });
        let mut sum = 0;
        world.map.for_each(|_, value| sum += value);
        let table: u64 = world.table.iter().map(Counter::get).sum();
        assert_eq!((sum, world.map.count(), table), (16_000, 8, 16_000));
    }

    #[test]
    fn a_worker_that_dies_inside_leaves_the_state_usable() {
        let (world, dead) = (world(), WorkerId::new(3, 1));
        let map = &world.map;
        map.insert(key(1), 10).expect("room");
        std::mem::forget(map.lock(dead, map.chain_of(&key(1))));
        // It had taken a node and not linked it.
        let _lost = map.take();
        // SAFETY: nobody acts as this worker any more.
        world.heal(unsafe { Dead::sworn(dead) });
        assert_eq!(map.with(&key(1), |value| value.copied()), Some(10));
        (2..33).for_each(|number| map.insert(key(number), number).expect("room"));
        let full = map.insert(key(33), 0).expect_err("a full map").to_string();
        assert!(full.contains("room in `Map<Bytes<8>, u64, 32>`, found all 32 places"), "{full}");
        assert_eq!(map.insert(key(32), 7), Ok(()));
        assert!(Bytes::<8>::new("too long a text").is_none());
    }
}
