//! Magazines of free slots, and the depot where workers exchange full ones for empty ones.
//!
//! A worker touches the depot at most once in [`ROUNDS`] objects: one compare-and-swap there serves
//! sixty-four objects (Bonwick and Adams, USENIX 2001, section 3).

use crate::sync::{AtomicU32, Ordering};

use super::NONE;
use memory::{Padded, Stack};

/// Indices in a magazine. Small under loom, so that the model covers a magazine's whole life.
#[cfg(not(loom))]
pub(crate) const ROUNDS: usize = 64;
/// See above.
#[cfg(loom)]
pub(crate) const ROUNDS: usize = 1;

/// A list of free slots with one holder at a time: a worker, or the depot.
///
/// Its words are atomics only so that handing it over needs no `unsafe`: the stacks order the
/// accesses of one holder before those of the next, so relaxed ones are enough.
#[derive(Debug)]
pub(crate) struct Magazine {
    /// Its index among all magazines.
    number: u32,
    link: AtomicU32,
    count: AtomicU32,
    rounds: [AtomicU32; ROUNDS],
}

impl Magazine {
    /// Takes the index on top. Only the magazine's holder may.
    #[inline]
    pub(crate) fn unload(&self) -> Option<u32> {
        let count = self.count.load(Ordering::Relaxed).checked_sub(1)?;
        let index = self.rounds.get(count as usize)?.load(Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
        Some(index)
    }

    /// Puts `index` on top; returns whether there was room. Only the magazine's holder may.
    #[inline]
    pub(crate) fn load(&self, index: u32) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let Some(round) = self.rounds.get(count as usize) else { return false };
        round.store(index, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
        true
    }
}

/// All magazines: full ones, empty ones, and those that workers hold.
#[derive(Debug)]
pub(crate) struct Depot {
    magazines: Box<[Magazine]>,
    full: Padded<Stack>,
    empty: Padded<Stack>,
}

impl Depot {
    /// A depot whose magazines hold the indices `0..slots`, with four more for each of `workers`:
    /// two that it holds, one that it holds during an exchange, and one that is always available.
    pub(crate) fn new(slots: u32, workers: usize) -> Depot {
        let filled = (slots as usize).div_ceil(ROUNDS);
        let magazine = |number: usize| {
            let first = number * ROUNDS;
            let count = (slots as usize).saturating_sub(first).min(ROUNDS);
            Magazine {
                number: number as u32,
                link: AtomicU32::new(NONE),
                count: AtomicU32::new(count as u32),
                // The lowest index is used first.
                rounds: std::array::from_fn(|at| {
                    AtomicU32::new((first + count).saturating_sub(at + 1) as u32)
                }),
            }
        };
        let magazines = (0..filled + 4 * workers).map(magazine).collect();
        let (full, empty) = (Padded(Stack::new()), Padded(Stack::new()));
        let depot = Depot { magazines, full, empty };
        for magazine in depot.magazines.iter().rev() {
            depot.give(magazine);
        }
        depot
    }

    /// A magazine with at least one index in it.
    pub(crate) fn take_filled(&self) -> Option<&Magazine> {
        self.take(&self.full)
    }

    /// A magazine with nothing in it.
    pub(crate) fn take_empty(&self) -> Option<&Magazine> {
        self.take(&self.empty)
    }

    /// Returns a magazine, full or not.
    pub(crate) fn give(&self, magazine: &Magazine) {
        let is_empty = magazine.count.load(Ordering::Relaxed) == 0;
        let stack = if is_empty { &self.empty } else { &self.full };
        stack.push(magazine.number, &magazine.link);
    }

    fn take(&self, stack: &Stack) -> Option<&Magazine> {
        let number = stack.pop(|number| &self.magazines[number as usize].link)?;
        Some(&self.magazines[number as usize])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_indices_come_out_once_the_lowest_first() {
        let depot = Depot::new(150, 1);
        let mut seen = Vec::new();
        let held: Vec<&Magazine> = std::iter::from_fn(|| depot.take_filled()).collect();
        for magazine in &held {
            seen.extend(std::iter::from_fn(|| magazine.unload()));
        }
        assert_eq!(held.len(), 3);
        assert_eq!(seen, (0..150).collect::<Vec<_>>());
        let empty = depot.take_empty().unwrap();
        assert!((0..64).all(|index| empty.load(index)) && !empty.load(64));
        depot.give(empty);
        assert_eq!(depot.take_filled().map(|it| it.number), Some(empty.number));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Takes a slot, and returns it through an empty magazine, as a worker does.
    fn turn(depot: &Depot) -> Option<u32> {
        let magazine = depot.take_filled()?;
        let index = magazine.unload().expect("a filled magazine has an index");
        depot.give(magazine);
        Some(index)
    }

    fn bring(depot: &Depot, index: u32) {
        let magazine = depot.take_empty().expect("as many magazines as indices, and more");
        assert!(magazine.load(index));
        depot.give(magazine);
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
