//! Magazines of free slots, and the depot where workers exchange full ones for empty ones.
//!
//! A worker touches the depot once in [`ROUNDS`] objects at most: one compare-and-swap there is
//! paid by sixty-four that need none (Bonwick and Adams, USENIX 2001, section 3).

use crate::sync::{AtomicU32, Ordering};

use super::NONE;
use super::stack::Stack;

/// Indices in a magazine. Under loom it is small, so that all of a magazine's life is seen.
#[cfg(not(loom))]
pub(crate) const ROUNDS: usize = 64;
/// See above.
#[cfg(loom)]
pub(crate) const ROUNDS: usize = 1;

/// A list of free slots that is in one pair of hands at a time: a worker's, or the depot's.
///
/// Its words are atomics only so that handing it over needs no `unsafe`: the stacks order the
/// accesses of one holder before those of the next, so relaxed ones are enough.
#[derive(Debug)]
struct Magazine {
    link: AtomicU32,
    count: AtomicU32,
    rounds: [AtomicU32; ROUNDS],
}

/// All magazines: the full, the empty, and by number those that workers hold.
#[derive(Debug)]
pub(crate) struct Depot {
    magazines: Box<[Magazine]>,
    full: Stack,
    empty: Stack,
}

impl Depot {
    /// A depot whose magazines hold the indices `0..slots`, with two more for each of `workers`.
    pub(crate) fn new(slots: u32, workers: usize) -> Depot {
        let filled = (slots as usize).div_ceil(ROUNDS);
        let magazine = |number: usize| {
            let first = number * ROUNDS;
            let count = (slots as usize).saturating_sub(first).min(ROUNDS);
            Magazine {
                link: AtomicU32::new(NONE),
                count: AtomicU32::new(count as u32),
                // The lowest index is used first.
                rounds: std::array::from_fn(|at| {
                    AtomicU32::new((first + count).saturating_sub(at + 1) as u32)
                }),
            }
        };
        let magazines = (0..filled + 2 * workers).map(magazine).collect();
        let depot = Depot { magazines, full: Stack::new(), empty: Stack::new() };
        for number in (0..depot.magazines.len() as u32).rev() {
            depot.give(number);
        }
        depot
    }

    /// A magazine with at least one index in it.
    pub(crate) fn take_filled(&self) -> Option<u32> {
        self.full.pop(|number| &self.magazines[number as usize].link)
    }

    /// A magazine with nothing in it.
    pub(crate) fn take_empty(&self) -> Option<u32> {
        self.empty.pop(|number| &self.magazines[number as usize].link)
    }

    /// Gives a magazine back, whatever is in it.
    pub(crate) fn give(&self, number: u32) {
        let magazine = &self.magazines[number as usize];
        let is_empty = magazine.count.load(Ordering::Relaxed) == 0;
        let stack = if is_empty { &self.empty } else { &self.full };
        stack.push(number, &magazine.link);
    }

    /// Takes the index that lies on top in magazine `number`, which the caller holds.
    #[inline]
    pub(crate) fn unload(&self, number: u32) -> Option<u32> {
        let magazine = &self.magazines[number as usize];
        let count = magazine.count.load(Ordering::Relaxed).checked_sub(1)?;
        magazine.count.store(count, Ordering::Relaxed);
        Some(magazine.rounds[count as usize].load(Ordering::Relaxed))
    }

    /// Puts `index` into magazine `number`, which the caller holds; says whether there was room.
    #[inline]
    pub(crate) fn load(&self, number: u32, index: u32) -> bool {
        let magazine = &self.magazines[number as usize];
        let count = magazine.count.load(Ordering::Relaxed);
        let Some(round) = magazine.rounds.get(count as usize) else { return false };
        round.store(index, Ordering::Relaxed);
        magazine.count.store(count + 1, Ordering::Relaxed);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_indices_come_out_once_the_lowest_first() {
        let depot = Depot::new(150, 1);
        let mut seen = Vec::new();
        let held: Vec<u32> = std::iter::from_fn(|| depot.take_filled()).collect();
        for number in &held {
            seen.extend(std::iter::from_fn(|| depot.unload(*number)));
        }
        assert_eq!(held.len(), 3);
        assert_eq!(seen, (0..150).collect::<Vec<_>>());
        let empty = depot.take_empty().unwrap();
        assert!((0..64).all(|index| depot.load(empty, index)) && !depot.load(empty, 64));
        depot.give(empty);
        assert_eq!(depot.take_filled(), Some(empty));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Takes a slot, and brings it back through an empty magazine, as a worker does.
    fn turn(depot: &Depot) -> Option<u32> {
        let number = depot.take_filled()?;
        let index = depot.unload(number).expect("a filled magazine has an index");
        depot.give(number);
        Some(index)
    }

    fn bring(depot: &Depot, index: u32) {
        let number = depot.take_empty().expect("as many magazines as indices, and more");
        assert!(depot.load(number, index));
        depot.give(number);
    }

    #[test]
    fn loom_no_slot_has_two_owners() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let depot = Arc::new(Depot::new(2, 2));
            let other = {
                let depot = depot.clone();
                thread::spawn(move || {
                    let index = turn(&depot);
                    index.into_iter().for_each(|index| bring(&depot, index));
                    turn(&depot)
                })
            };
            let mine = turn(&depot);
            let theirs = other.join().unwrap();
            assert!(mine.is_some() && theirs.is_some(), "two slots, two owners");
            assert_ne!(mine, theirs, "one slot has two owners");
        });
    }
}
