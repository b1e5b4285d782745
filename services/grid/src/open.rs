//! The open list: a small heap for the near future, buckets for the rest.
//!
//! The key is the estimated cost of the whole path and, if that is equal, the distance still to go;
//! so of equally good cells the one nearest to the goal comes first. A heap of everything would be
//! deep and seldom in the cache. So the heap, with four children to a node, holds only cells within
//! an eighth of a step of the present cost. The others wait in lists, one for each eighth of a
//! step, and enter the heap when their turn comes (the idea of Dial, "Algorithm 360", CACM 1969,
//! but in an exact order). A cell that is found again on a shorter way is inserted again; outdated
//! entries are skipped when they come out.
//!
//! The surprising thing is the last bucket: it takes all cells that are too far away. If a search
//! gets that far, the list is an ordinary heap again, slower and equally correct.

const CHILDREN: usize = 4;
/// Keys that differ only in these bits share a bucket: 21 bits of cost, 15 that break ties. A
/// straight step is a little less than 2^24.
const BUCKET_BITS: u32 = 21 + 15;
/// The number of buckets; cells 8192 steps beyond the first estimate go to the last one.
const BUCKETS: usize = 1 << 16;
/// No index into the links.
const NONE: u32 = u32::MAX;
/// No entry: no search makes such a key.
const NOTHING: Entry = Entry { key: u64::MAX, cell: 0, position: 0 };

/// A key and the cell it belongs to, with its position among the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) cell: u32,
    pub(crate) position: u32,
}

/// A waiting entry, and the next one in its bucket or in the free list.
#[derive(Clone, Copy, Debug)]
struct Link {
    entry: Entry,
    next: u32,
}

/// The cells to expand, the most promising first.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// Never after an entry of the heap. A search that gets nearer to its goal with each step finds
    /// its next cell here and leaves the heap alone. May be [`NOTHING`].
    next: Entry,
    heap: Vec<Entry>,
    /// The first entry of each bucket.
    buckets: Vec<u32>,
    /// A bit for each bucket that is not empty.
    filled: Vec<u64>,
    links: Vec<Link>,
    /// The head of the free list in `links`.
    unused: u32,
    /// The key at which the first bucket begins.
    base: u64,
    /// The bucket whose entries are in the heap.
    present: usize,
    /// The last bucket that has been filled.
    furthest: usize,
}

impl Default for Open {
    fn default() -> Open {
        Open {
            next: NOTHING,
            heap: Vec::new(),
            buckets: Vec::new(),
            filled: Vec::new(),
            links: Vec::new(),
            unused: NONE,
            base: 0,
            present: 0,
            furthest: 0,
        }
    }
}

impl Open {
    /// Empties the list; no later key will be below `base`.
    pub(crate) fn clear(&mut self, base: u64) {
        self.buckets.resize(BUCKETS, NONE);
        self.filled.resize(BUCKETS / 64, 0);
        for at in self.present / 64..=self.furthest / 64 {
            if self.filled[at] != 0 {
                self.buckets[at * 64..at * 64 + 64].fill(NONE);
                self.filled[at] = 0;
            }
        }
        self.next = NOTHING;
        self.heap.clear();
        self.links.clear();
        (self.unused, self.base, self.present, self.furthest) = (NONE, base, 0, 0);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, entry: Entry) {
        let bucket =
            (entry.key.saturating_sub(self.base) >> BUCKET_BITS).min(BUCKETS as u64 - 1) as usize;
        if bucket <= self.present {
            self.push_now(entry);
            return;
        }
        let link = Link { entry, next: self.buckets[bucket] };
        let at = self.unused;
        if at == NONE {
            self.buckets[bucket] = self.links.len() as u32;
            self.links.push(link);
        } else {
            self.unused = self.links[at as usize].next;
            self.links[at as usize] = link;
            self.buckets[bucket] = at;
        }
        self.filled[bucket / 64] |= 1 << (bucket % 64);
        self.furthest = self.furthest.max(bucket);
    }

    /// Removes the cell with the least key.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        if self.next.key != NOTHING.key {
            return Some(std::mem::replace(&mut self.next, NOTHING));
        }
        if self.heap.is_empty() {
            self.turn()?;
        }
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first().copied() else { return Some(last) };
        self.sift_down(last);
        Some(first)
    }

    /// Moves the next bucket that is not empty into the heap; `None` if there is none.
    fn turn(&mut self) -> Option<()> {
        let mut at = self.present / 64;
        let mut word = self.filled[at] & u64::MAX << (self.present % 64);
        while word == 0 {
            at += 1;
            word = *self.filled.get(at)?;
        }
        self.present = at * 64 + word.trailing_zeros() as usize;
        self.filled[at] &= !(word & word.wrapping_neg());
        let mut next = std::mem::replace(&mut self.buckets[self.present], NONE);
        while next != NONE {
            let link = self.links[next as usize];
            self.sift_up(link.entry);
            self.links[next as usize].next = self.unused;
            self.unused = next;
            next = link.next;
        }
        Some(())
    }

    #[inline]
    fn push_now(&mut self, entry: Entry) {
        let least = match self.next.key {
            u64::MAX => self.heap.first().map_or(u64::MAX, |first| first.key),
            key => key,
        };
        if entry.key > least {
            self.sift_up(entry);
            return;
        }
        let before = std::mem::replace(&mut self.next, entry);
        if before.key != NOTHING.key {
            self.sift_up(before);
        }
    }

    #[inline]
    fn sift_up(&mut self, entry: Entry) {
        let mut hole = self.heap.len();
        self.heap.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.heap[parent].key <= entry.key {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
    }

    /// Sifts `last` down from the top, which is free.
    #[inline]
    fn sift_down(&mut self, last: Entry) {
        let len = self.heap.len();
        let mut hole = 0;
        loop {
            let child = hole * CHILDREN + 1;
            if child >= len {
                break;
            }
            let children = &self.heap[child..len.min(child + CHILDREN)];
            let (mut least, mut key) = (0, children[0].key);
            for (at, entry) in children.iter().enumerate().skip(1) {
                if entry.key < key {
                    (least, key) = (at, entry.key);
                }
            }
            if key >= last.key {
                break;
            }
            self.heap[hole] = children[least];
            hole = child + least;
        }
        self.heap[hole] = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::Rng;

    /// Random keys come out in order; each seed reuses the lists.
    fn check(spread: u32) {
        let mut open = Open::default();
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let base = rng.roll() >> 2;
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut present = base;
            open.clear(base);
            for cell in 0..600 {
                if rng.once_in(3) {
                    let least = model.iter().min().copied();
                    let found = open.pop().map(|it| (it.key, it.cell));
                    assert_eq!(found.map(|it| it.0), least.map(|it| it.0), "seed {seed}");
                    model.retain(|it| Some(*it) != found);
                    present = found.map_or(present, |it| it.0);
                } else {
                    // As in a search: sometimes a key is a little less than the present one.
                    let early = rng.below(3) as u64;
                    let key = (present + (rng.roll() >> (64 - spread))).saturating_sub(early);
                    open.push(Entry { key: key.max(base), cell, position: cell + 1 });
                    model.push((key.max(base), cell));
                }
            }
            while let Some(found) = open.pop() {
                assert_eq!(found.position, found.cell + 1, "seed {seed}");
                let found = (found.key, found.cell);
                assert_eq!(Some(found.0), model.iter().map(|it| it.0).min(), "seed {seed}");
                model.retain(|it| *it != found);
            }
            assert_eq!(model, [], "seed {seed}");
        }
    }

    #[test]
    fn what_is_least_comes_out_first() {
        check(8);
        check(BUCKET_BITS + 1);
        check(BUCKET_BITS + 6);
    }

    #[test]
    fn keys_beyond_the_last_bucket_keep_their_order() {
        check(BUCKET_BITS + 18);
    }
}
