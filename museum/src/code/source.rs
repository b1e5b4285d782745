//! Sources of objects of a given size, and the loops that take and return them.
//!
//! `Source` is what the exhibits on pools compare: `take` an object, `give` it back. Each allocator
//! is one implementation, and the loops are generic, so every arm is compiled without an indirect
//! call. `black_box` keeps the compiler from removing an allocation whose bytes are never read.
//! `at_once` holds one object at a time, which suits caches best; `replaced` keeps many alive and
//! frees them in random order.

use crate::artefact::build::Build;
use crate::artefact::pool::{Backing, Gate, Pool, Turn};
use crate::contest::{Rng, ns_each};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

/// An object of `8 * (W + 1)` bytes whose first word is written.
pub(crate) struct Object<const W: usize> {
    pub first: u64,
    _rest: [MaybeUninit<u64>; W],
}

impl<const W: usize> Object<W> {
    /// An object whose first word is `first`.
    #[inline(always)]
    pub fn new(first: u64) -> Self {
        Object { first, _rest: [const { MaybeUninit::uninit() }; W] }
    }
}

pub(crate) trait Source {
    type Held;
    /// Takes an object and writes its first word.
    fn take(&mut self) -> Self::Held;
    fn give(&mut self, held: Self::Held);
}

pub(crate) struct Heap<const W: usize>;

impl<const W: usize> Source for Heap<W> {
    type Held = Box<Object<W>>;

    #[inline(always)]
    fn take(&mut self) -> Self::Held {
        black_box(Box::new(Object::new(1)))
    }

    #[inline(always)]
    fn give(&mut self, held: Self::Held) {
        drop(black_box(held));
    }
}

impl<const W: usize, S, G, O, B> Source for &Pool<W, S, G, O, B>
where
    S: Backing<W>,
    G: Gate,
    O: Turn,
    B: Build,
{
    type Held = u32;

    #[inline(always)]
    fn take(&mut self) -> u32 {
        let index = Pool::take(self).unwrap_or_else(|| unreachable!("there is room"));
        self.data(index)[0].store(1, Relaxed);
        black_box(index)
    }

    #[inline(always)]
    fn give(&mut self, held: u32) {
        black_box(Pool::give(self, held));
    }
}

/// Free objects that threads exchange in whole magazines (Bonwick and Adams, "Magazines and Vmem",
/// USENIX 2001): one lock for every [`MAGAZINE`] objects.
#[derive(Default)]
pub(crate) struct Depot<const W: usize>(Mutex<Vec<Magazine<W>>>);

type Magazine<const W: usize> = Vec<Box<Object<W>>>;

const MAGAZINE: usize = 64;

impl<const W: usize> Depot<W> {
    /// A depot with `count` free objects.
    pub fn new(count: usize) -> Depot<W> {
        let magazine = |_| (0..MAGAZINE).map(|_| Box::new(Object::new(0))).collect();
        Depot(Mutex::new((0..count.div_ceil(MAGAZINE)).map(magazine).collect()))
    }

    /// A thread's end of it: two magazines, so that taking and giving in turn exchanges none.
    pub fn worker(&self) -> Worker<'_, W> {
        Worker { depot: self, loaded: Vec::with_capacity(MAGAZINE), spare: Vec::new() }
    }
}

/// A thread's magazines; its objects go back to the depot at its end.
pub(crate) struct Worker<'d, const W: usize> {
    depot: &'d Depot<W>,
    loaded: Magazine<W>,
    spare: Magazine<W>,
}

impl<const W: usize> Worker<'_, W> {
    #[cold]
    fn load(&mut self) {
        std::mem::swap(&mut self.loaded, &mut self.spare);
        if self.loaded.is_empty() {
            let mut depot = self.depot.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.loaded = depot.pop().unwrap_or_else(|| vec![Box::new(Object::new(0))]);
        }
    }

    #[cold]
    fn unload(&mut self) {
        let full = std::mem::replace(&mut self.spare, std::mem::take(&mut self.loaded));
        if full.is_empty() {
            self.loaded = full;
        } else {
            self.depot.0.lock().unwrap_or_else(PoisonError::into_inner).push(full);
        }
        self.loaded.reserve(MAGAZINE);
    }
}

impl<const W: usize> Source for Worker<'_, W> {
    type Held = Box<Object<W>>;

    #[inline(always)]
    fn take(&mut self) -> Self::Held {
        if self.loaded.is_empty() {
            self.load();
        }
        let mut held = self.loaded.pop().unwrap_or_else(|| unreachable!("it was loaded"));
        held.first = 1;
        black_box(held)
    }

    #[inline(always)]
    fn give(&mut self, held: Self::Held) {
        if self.loaded.len() == MAGAZINE {
            self.unload();
        }
        self.loaded.push(black_box(held));
    }
}

impl<const W: usize> Drop for Worker<'_, W> {
    fn drop(&mut self) {
        let mut depot = self.depot.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = [std::mem::take(&mut self.loaded), std::mem::take(&mut self.spare)];
        depot.extend(mine.into_iter().filter(|it| !it.is_empty()));
    }
}

/// Nanoseconds for a pair: each object is released immediately, so at most one is live.
pub fn at_once(source: &mut impl Source, operations: u64) -> f64 {
    ns_each(operations, || {
        for _ in 0..operations {
            let held = source.take();
            source.give(held);
        }
    })
}

/// Nanoseconds for a pair: one of `live` objects, in random order, is replaced by a new one.
pub fn replaced(source: &mut impl Source, live: usize, operations: u64) -> f64 {
    let mut rng = Rng::new(live as u64);
    let order: Vec<usize> = (0..4_096).map(|_| rng.below(live)).collect();
    let mut held: Vec<_> = (0..live).map(|_| source.take()).collect();
    let cost = ns_each(operations, || {
        for at in 0..operations as usize {
            let new = source.take();
            source.give(std::mem::replace(&mut held[order[at % 4_096]], new));
        }
    });
    held.into_iter().for_each(|it| source.give(it));
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magazines_lose_no_object() {
        let depot = Depot::<3>::new(4 * MAGAZINE);
        let count = || depot.0.lock().map_or(0, |it| it.iter().map(Vec::len).sum::<usize>());
        assert_eq!(count(), 4 * MAGAZINE);
        let (mut here, mut there) = (depot.worker(), depot.worker());
        for _ in 0..10 {
            let held: Vec<_> = (0..3 * MAGAZINE).map(|_| here.take()).collect();
            held.into_iter().for_each(|it| there.give(it));
        }
        drop((here, there));
        assert!(count() >= 4 * MAGAZINE, "{}", count());
    }
}
