//! Byte strings of any length by key, within a budget of memory.
//!
//! Entries lie in blocks of 64 bytes. A chain begins at one of the heads; a lock guards every 64th
//! chain. A change builds the new entry in free blocks, links it by one store in place of the old
//! one, and gives the old blocks back. So a worker that is killed meanwhile leaves the old entry or
//! the new one. Next to each lock stand the blocks that its owner has taken or is giving back:
//! [`Share::heal`] frees them; at most one block on its way between two lists is lost.
//!
//! Entries may have a moment of expiry. The map knows the time from [`ByteMap::expire`]; an entry
//! whose moment has passed is absent, and its blocks are given back when others need them.

use std::cell::UnsafeCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use seam::{BadSeed, Dead, Instant, Share, WorkerId};

use super::NoRoom;
use super::map::Folded;
use crate::{Lock, Locked, Padded, Stack};

/// Locks of a map, each with its notes.
const STRIPES: usize = 64;
/// The bytes of an entry that a block holds.
const DATA: usize = 56;
/// Blocks, and chains, for each KiB of the budget.
const BLOCKS: usize = 16;
const CHAINS: usize = 4;
/// Before the key: lengths of key and value, hash, moment of expiry.
const HEAD: usize = 20;
/// The time between two searches for entries whose moment has passed, while a map is full.
const SEARCH_NS: u64 = 10_000_000;

/// Byte strings of any length by key, in `KIB` KiB of memory. The kernel provides the memory when
/// it is first used, so a generous budget costs nothing until then. A block of 64 bytes holds 56 of
/// an entry, and an entry has 20 besides its key and its value.
///
/// ```
/// use memory::Region;
/// use memory::shared::ByteMap;
///
/// let map = Region::<ByteMap<64>>::alone(b"");
/// map.insert(b"page", b"<h1>hello</h1>").unwrap();
/// assert_eq!(map.get(b"page").unwrap(), b"<h1>hello</h1>");
/// let full = map.insert(b"film", &[0; 100_000]).unwrap_err();
/// assert!(full.to_string().contains("`ByteMap<64>`"), "{full}");
/// ```
#[repr(C)]
pub struct ByteMap<const KIB: usize> {
    /// Keys that a peer chooses must not fall into one chain by its intention.
    secret: u64,
    count: Padded<AtomicU32>,
    /// Blocks that were ever taken.
    taken: Padded<AtomicU32>,
    /// Blocks that were given back.
    free: Padded<Stack>,
    /// The time in nanoseconds, and when it was searched for entries whose moment has passed.
    now: Padded<AtomicU64>,
    searched: AtomicU64,
    stripes: [Padded<Stripe>; STRIPES],
    /// The first block of the first entry of each chain, plus one; 0 ends a chain.
    heads: [[AtomicU32; CHAINS]; KIB],
    blocks: [[Block; BLOCKS]; KIB],
}

/// A lock, and what its owner is doing. Lists begin with a number of a block plus one.
#[repr(C)]
struct Stripe {
    lock: Lock,
    chain: AtomicU32,
    /// Blocks that are taken and not linked.
    fresh: AtomicU32,
    /// Blocks that are unlinked, or will be.
    old: AtomicU32,
}

#[repr(C)]
struct Block {
    /// The next block of the entry or of a list, plus one.
    next: AtomicU32,
    /// In the first block of an entry: the next entry of the chain, plus one.
    after: AtomicU32,
    data: UnsafeCell<[u8; DATA]>,
}

/// The front of an entry.
struct Front {
    key_len: usize,
    value_len: usize,
    hash: u32,
    until: u64,
}

// SAFETY: a block of an entry in a chain is read under the lock of its chain, and a free one is
// written by the worker that took it.
unsafe impl<const KIB: usize> Sync for ByteMap<KIB> {}

// SAFETY: atomics, locks and bytes, which are valid if zero.
unsafe impl<const KIB: usize> Share for ByteMap<KIB> {
    fn init(&mut self, _seed: &[u8]) -> Result<(), BadSeed> {
        const { assert!(KIB > 0 && KIB < 1 << 26, "a map has 1 KiB to 64 GiB") };
        self.free = Padded(Stack::new());
        self.secret = RandomState::new().hash_one(0);
        Ok(())
    }

    fn heal(&self, dead: Dead) {
        for stripe in &self.stripes {
            if stripe.lock.is_held_by(dead.worker()) {
                self.mend(stripe);
            }
            stripe.lock.force_release(dead.worker());
        }
    }
}

impl<const KIB: usize> ByteMap<KIB> {
    /// A copy of the value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (chain, hash) = self.place_of(key);
        let _locked = self.lock(chain);
        let (_, first) = self.find(chain, hash, key)?;
        self.value(first)
    }

    /// Sets the value of `key`, for ever.
    ///
    /// # Errors
    /// The budget is used up; nothing has changed.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), NoRoom> {
        self.update(key, |_| Some((value.to_vec(), None)))
    }

    /// Sets the value of `key`, until this moment.
    ///
    /// # Errors
    /// As for [`ByteMap::insert`].
    pub fn insert_until(&self, key: &[u8], value: &[u8], until: Instant) -> Result<(), NoRoom> {
        self.update(key, |_| Some((value.to_vec(), Some(until))))
    }

    /// Removes `key`; returns whether it was there.
    pub fn remove(&self, key: &[u8]) -> bool {
        let (chain, hash) = self.place_of(key);
        let _locked = self.lock(chain);
        let Some((link, first)) = self.find(chain, hash, key) else { return false };
        let was_there = !self.is_over(first);
        self.unlink(chain, link, first);
        was_there
    }

    /// Replaces the value of `key` by what `change` makes of it, in one step for all workers, with
    /// the moment of its expiry; `None` stands for no value on both sides. `change` may not use the
    /// map.
    ///
    /// # Errors
    /// As for [`ByteMap::insert`].
    pub fn update(
        &self,
        key: &[u8],
        change: impl FnOnce(Option<&[u8]>) -> Option<(Vec<u8>, Option<Instant>)>,
    ) -> Result<(), NoRoom> {
        let (chain, hash) = self.place_of(key);
        let _locked = self.lock(chain);
        let found = self.find(chain, hash, key);
        let old = found.and_then(|(_, first)| self.value(first));
        let Some((value, until)) = change(old.as_deref()) else {
            found.inspect(|(link, first)| self.unlink(chain, link, *first));
            return Ok(());
        };
        let until = until.map_or(u64::MAX, Instant::ns);
        let front = Front { key_len: key.len(), value_len: value.len(), hash, until };
        let stripe = self.stripe(chain);
        stripe.chain.store(chain as u32, Ordering::Release);
        let blocks = (HEAD + key.len() + value.len()).div_ceil(DATA);
        let fits = blocks <= KIB * BLOCKS;
        let take = || fits && self.take(blocks, stripe);
        if !(take() || self.search(chain) && take()) {
            return Err(NoRoom::of::<Self>(KIB, "KiB"));
        }
        let fresh = stripe.fresh.load(Ordering::Relaxed);
        self.write(fresh, &[&front.bytes(), key, &value]);
        // The search may have removed it.
        let found = self.find(chain, hash, key);
        let head = &self.heads.as_flattened()[chain];
        let (link, after) = match found {
            Some((link, first)) => (link, self.block(first).after.load(Ordering::Relaxed)),
            None => (head, head.load(Ordering::Relaxed)),
        };
        self.block(fresh - 1).after.store(after, Ordering::Relaxed);
        stripe.old.store(found.map_or(0, |(_, first)| first + 1), Ordering::Release);
        link.store(fresh, Ordering::Release);
        stripe.fresh.store(0, Ordering::Release);
        self.give_back(&stripe.old);
        if found.is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Entries whose moment has passed are absent from now on. A service calls it with
    /// [`seam::Cx::now`], for example before it looks an entry up. Moments count from the start of
    /// the machine, also in a state that a file keeps.
    pub fn expire(&self, now: Instant) {
        self.now.store(now.ns(), Ordering::Relaxed);
    }

    /// Lends copies of every key and its value to `look`, which may use the map. Entries that
    /// change meanwhile may be missing, or come as they were.
    pub fn for_each(&self, mut look: impl FnMut(&[u8], &[u8])) {
        for stripe in 0..STRIPES {
            let locked = self.lock(stripe);
            let mut entries = Vec::new();
            for (_, first) in self.entries_of(stripe) {
                let key_len = self.front(first).key_len;
                let value = self.value(first);
                entries.extend(value.map(|value| (self.read(first, HEAD, key_len), value)));
            }
            drop(locked);
            entries.iter().for_each(|(key, value)| look(key, value));
        }
    }

    /// The number of keys, those included whose moment has passed and whose memory nobody needed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    fn place_of(&self, key: &[u8]) -> (usize, u32) {
        let mut hasher = Folded(self.secret);
        hasher.write(key);
        hasher.write(&(key.len() as u64).to_le_bytes());
        let hash = hasher.finish();
        ((((hash >> 32) * (KIB * CHAINS) as u64) >> 32) as usize, hash as u32)
    }

    fn stripe(&self, chain: usize) -> &Stripe {
        &self.stripes[chain % STRIPES]
    }

    fn lock(&self, chain: usize) -> Locked<'_> {
        self.stripe(chain).lock.lock(WorkerId::current())
    }

    fn block(&self, index: u32) -> &Block {
        &self.blocks.as_flattened()[index as usize]
    }

    /// The entries of a chain whose lock is held: the link that names each, and its first block.
    fn chain(&self, chain: usize) -> impl Iterator<Item = (&AtomicU32, u32)> {
        let mut link = &self.heads.as_flattened()[chain];
        std::iter::from_fn(move || {
            let first = link.load(Ordering::Acquire).checked_sub(1)?;
            let found = (link, first);
            link = &self.block(first).after;
            Some(found)
        })
    }

    /// The chains of a lock, each with its entries.
    fn entries_of(&self, stripe: usize) -> impl Iterator<Item = (usize, u32)> {
        let chains = (stripe % STRIPES..KIB * CHAINS).step_by(STRIPES);
        chains.flat_map(|chain| self.chain(chain).map(move |(_, first)| (chain, first)))
    }

    fn find(&self, chain: usize, hash: u32, key: &[u8]) -> Option<(&AtomicU32, u32)> {
        self.chain(chain).find(|(_, first)| {
            let front = self.front(*first);
            front.hash == hash
                && front.key_len == key.len()
                && self.read(*first, HEAD, key.len()) == key
        })
    }

    /// The value of an entry whose lock is held, unless its moment has passed.
    fn value(&self, first: u32) -> Option<Vec<u8>> {
        let Front { key_len, value_len, .. } = self.front(first);
        (!self.is_over(first)).then(|| self.read(first, HEAD + key_len, value_len))
    }

    fn is_over(&self, first: u32) -> bool {
        self.front(first).until <= self.now.load(Ordering::Relaxed)
    }

    fn front(&self, first: u32) -> Front {
        // SAFETY: the lock of the entry is held.
        let data = unsafe { &*self.block(first).data.get() };
        let word = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes"));
        let until = u64::from(word(12)) | u64::from(word(16)) << 32;
        let (key_len, value_len) = (word(0) as usize, word(4) as usize);
        Front { key_len, value_len, hash: word(8), until }
    }

    /// Copies `len` bytes of an entry whose lock is held.
    fn read(&self, first: u32, mut skip: usize, len: usize) -> Vec<u8> {
        let (mut bytes, mut block) = (Vec::with_capacity(len), self.block(first));
        while bytes.len() < len {
            if skip < DATA {
                let end = DATA.min(skip + len - bytes.len());
                // SAFETY: the lock of the entry is held.
                bytes.extend_from_slice(unsafe { &(&*block.data.get())[skip..end] });
            }
            skip = skip.saturating_sub(DATA);
            match block.next.load(Ordering::Relaxed).checked_sub(1) {
                Some(next) => block = self.block(next),
                None => break,
            }
        }
        bytes
    }

    /// Fills blocks that this worker has taken.
    fn write(&self, list: u32, parts: &[&[u8]]) {
        let (mut block, mut at) = (self.block(list - 1), 0);
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                if at == DATA {
                    let next = block.next.load(Ordering::Relaxed);
                    (block, at) = (self.block(next - 1), 0);
                }
                let (now, later) = rest.split_at(rest.len().min(DATA - at));
                // SAFETY: the block is on the list of this worker alone.
                let data = unsafe { &mut *block.data.get() };
                data[at..at + now.len()].copy_from_slice(now);
                (rest, at) = (later, at + now.len());
            }
        }
    }

    /// Takes free blocks as the fresh ones of a lock that is held; all or none.
    fn take(&self, count: usize, stripe: &Stripe) -> bool {
        for _ in 0..count {
            let free = self.free.pop(|index| &self.block(index).next);
            let limit = (KIB * BLOCKS) as u32;
            let next = |taken: u32| (taken < limit).then_some(taken + 1);
            let unused = || self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).ok();
            let Some(index) = free.or_else(unused) else {
                self.give_back(&stripe.fresh);
                return false;
            };
            let list = stripe.fresh.load(Ordering::Relaxed);
            self.block(index).next.store(list, Ordering::Relaxed);
            stripe.fresh.store(index + 1, Ordering::Release);
        }
        true
    }

    /// Gives the blocks of a list back.
    fn give_back(&self, list: &AtomicU32) {
        while let Some(index) = list.load(Ordering::Relaxed).checked_sub(1) {
            let block = self.block(index);
            list.store(block.next.load(Ordering::Relaxed), Ordering::Release);
            self.free.push(index, &block.next);
        }
    }

    fn unlink(&self, chain: usize, link: &AtomicU32, first: u32) {
        let stripe = self.stripe(chain);
        stripe.chain.store(chain as u32, Ordering::Release);
        stripe.old.store(first + 1, Ordering::Release);
        link.store(self.block(first).after.load(Ordering::Relaxed), Ordering::Release);
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.give_back(&stripe.old);
    }

    /// Removes entries whose moment has passed, where no other worker is, at times; true if it has
    /// searched. The lock of `own` is held.
    fn search(&self, own: usize) -> bool {
        let now = self.now.load(Ordering::Relaxed);
        let due = |last: u64| (last == 0 || now.abs_diff(last) >= SEARCH_NS).then_some(now.max(1));
        if self.searched.fetch_update(Ordering::AcqRel, Ordering::Relaxed, due).is_err() {
            return false;
        }
        for stripe in 0..STRIPES {
            let _locked = match stripe == own % STRIPES {
                true => None,
                false => match self.stripe(stripe).lock.try_lock(WorkerId::current()) {
                    Some(locked) => Some(locked),
                    None => continue,
                },
            };
            let over = |entry: &(usize, u32)| self.is_over(entry.1);
            let entries: Vec<_> = self.entries_of(stripe).filter(over).collect();
            for (chain, first) in entries {
                if let Some((link, _)) = self.chain(chain).find(|(_, found)| *found == first) {
                    self.unlink(chain, link, first);
                }
            }
        }
        self.stripe(own).chain.store(own as u32, Ordering::Release);
        true
    }

    /// Ends the change of a worker that died while it held the lock.
    #[cold]
    fn mend(&self, stripe: &Stripe) {
        let chain = stripe.chain.load(Ordering::Acquire) as usize;
        for list in [&stripe.fresh, &stripe.old] {
            let first = list.load(Ordering::Acquire);
            if self.chain(chain).any(|(_, linked)| linked + 1 == first) {
                list.store(0, Ordering::Release);
            }
            self.give_back(list);
        }
    }
}

impl Front {
    fn bytes(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let words = [
            self.key_len as u32,
            self.value_len as u32,
            self.hash,
            self.until as u32,
            (self.until >> 32) as u32,
        ];
        for (place, word) in bytes.chunks_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::Region;

    type Small = ByteMap<4>;

    fn small() -> Region<Small> {
        Region::<Small>::alone(b"")
    }

    fn bytes(number: u64, len: usize) -> Vec<u8> {
        number.to_le_bytes().into_iter().cycle().take(len).collect()
    }

    /// Blocks that can be taken.
    fn room(map: &Small) -> usize {
        let stripe = &map.stripes[0];
        let count = (0..).take_while(|_| map.take_one(stripe)).count();
        map.give_back(&stripe.fresh);
        count
    }

    impl ByteMap<4> {
        fn take_one(&self, stripe: &Stripe) -> bool {
            let before = stripe.fresh.load(Ordering::Relaxed);
            stripe.fresh.store(0, Ordering::Relaxed);
            let was_free = self.take(1, stripe);
            if was_free {
                let first = stripe.fresh.load(Ordering::Relaxed);
                self.block(first - 1).next.store(before, Ordering::Relaxed);
            } else {
                stripe.fresh.store(before, Ordering::Relaxed);
            }
            was_free
        }
    }

    #[test]
    fn a_byte_map_does_what_a_hash_map_does() {
        let (map, mut model, mut random) = (small(), HashMap::new(), 7_u64);
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (at, len) = ((random >> 33) % 24, (random >> 40) as usize % 300);
            let (key, value) = (bytes(at, 1 + at as usize * 5), bytes(random, len));
            let before = room(&map);
            if random >> 62 == 0 {
                assert_eq!(map.remove(&key), model.remove(&key).is_some());
            } else if map.insert(&key, &value).is_ok() {
                model.insert(key.clone(), value);
            } else {
                let needed = (HEAD + key.len() + len).div_ceil(DATA);
                assert!(needed > before && room(&map) == before, "{needed} of {before}");
            }
            assert_eq!(map.get(&key), model.get(&key).cloned());
            assert_eq!(map.count(), model.len());
        }
        let mut found = HashMap::new();
        map.for_each(|key, value| drop(found.insert(key.to_vec(), value.to_vec())));
        assert_eq!(found, model);
        model.keys().for_each(|key| assert!(map.remove(key)));
        assert_eq!(room(&map), 4 * BLOCKS);
    }

    #[test]
    fn an_entry_ends_at_its_moment_and_makes_room() {
        let (map, at) = (small(), |seconds: u64| Instant::from_ns(seconds * 1_000_000_000));
        map.expire(at(1));
        for number in 0..4_u64 {
            map.insert_until(&number.to_le_bytes(), &[7; 800], at(2 + number)).expect("room");
        }
        let full = map.insert(b"more", &[7; 800]).expect_err("a full map").to_string();
        assert_eq!(full, "expected room in `ByteMap<4>`, found all 4 KiB taken: declare more");
        map.expire(at(3));
        let is_there = |number: u64| map.get(&number.to_le_bytes()).is_some();
        assert_eq!([0, 1, 2, 3].map(is_there), [false, false, true, true]);
        assert!(!map.remove(&0_u64.to_le_bytes()));
        map.insert(b"more", &[7; 800]).expect("the room of those that have ended");
        map.insert(b"also", &[7; 800]).expect("the room of those that have ended");
        assert_eq!(map.count(), 4);
    }

    /// Each place at which a worker may die inside of a change.
    #[test]
    fn a_worker_that_dies_inside_leaves_no_block_behind() {
        let dead = WorkerId::new(3, 1);
        let (key, other) = (b"key", b"other");
        for stage in 0..5 {
            let map = small();
            map.insert(key, &[1; 200]).expect("room");
            map.insert(other, &[2; 200]).expect("room");
            let before = room(&map);
            let (chain, hash) = map.place_of(key);
            let stripe = map.stripe(chain);
            std::mem::forget(stripe.lock.lock(dead));
            stripe.chain.store(chain as u32, Ordering::Release);
            let front = Front { key_len: 3, value_len: 200, hash, until: u64::MAX };
            let (link, first) = map.find(chain, hash, key).expect("an entry");
            if stage > 0 {
                assert!(map.take(if stage == 1 { 2 } else { 4 }, stripe));
            }
            let fresh = stripe.fresh.load(Ordering::Relaxed);
            if stage > 1 {
                map.write(fresh, &[&front.bytes(), key, &[9; 200]]);
                let after = map.block(first).after.load(Ordering::Relaxed);
                map.block(fresh - 1).after.store(after, Ordering::Relaxed);
                stripe.old.store(first + 1, Ordering::Release);
            }
            if stage > 2 {
                link.store(fresh, Ordering::Release);
            }
            if stage > 3 {
                stripe.fresh.store(0, Ordering::Release);
            }
            // SAFETY: nobody acts as this worker any more.
            map.heal(unsafe { Dead::sworn(dead) });
            let value = if stage > 2 { [9; 200] } else { [1; 200] };
            assert_eq!(map.get(key).expect("a value"), value, "stage {stage}");
            assert_eq!(map.get(other).expect("a value"), [2; 200], "stage {stage}");
            assert_eq!(room(&map), before, "stage {stage}");
        }
    }
}
