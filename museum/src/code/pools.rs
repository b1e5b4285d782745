//! The published pools against heaps and against each other: first as published, then with one
//! change at a time.
//!
//! A pool is put together from type parameters (layout, lock, order, compiler optimisation), so a
//! change of one of them is one type and no branch at run time. The heap without its threads'
//! caches needs another setting of the C library, and therefore its own process.

use super::source::{Heap, Source, at_once, replaced};
use super::{blocks, list, whole};
use crate::artefact::build::{Build, Optimised, Plain};
use crate::artefact::pool::{Array, Backing, Gate, List, Locked, Open, Pool, Queue, Stack, Turn};
use crate::artefact::program::numbers;
use crate::contest::{Contest, Rng, cost, each, ns_each, thread_time};
use crate::exhibit::Fault;
use crate::results::Results;
use crate::scope::Scope;
use crate::stage::Stage;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The C library's switch that takes its threads' caches away (glibc manual, "Memory Allocation
/// Tunables").
const NO_CACHE: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
/// Nodes of a published pool.
const NODES: u32 = 4_000;
/// The four published pools, by their layout and order.
const WAYS: [&str; 4] = ["array, stack", "array, queue", "list, stack", "list, queue"];

/// Runs a function that has the size of a published object as a parameter.
macro_rules! of_size {
    ($bytes:expr, $function:ident($($argument:expr),*)) => {
        match $bytes {
            32 => $function::<4, 3>($($argument),*),
            64 => $function::<8, 7>($($argument),*),
            128 => $function::<16, 15>($($argument),*),
            256 => $function::<32, 31>($($argument),*),
            _ => $function::<64, 63>($($argument),*),
        }
    };
}

/// A pool is three to five times as fast as the heap, if it is unlocked or the heap has no cache.
pub fn heap(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let (blocks, pairs) = (blocks(scope)?, whole(scope, "pairs")?);
    for size in list(scope, "sizes")? {
        let mut contest = Contest::new(format!("published, {size} bytes"), blocks);
        of_size!(size, as_published(&mut contest, pairs));
        without_cache(stage, &mut contest, "heap without caches, at once", (size, 1, pairs));
        stage.contest(contest, results)?;
    }
    let switched_pairs = whole(scope, "switched_pairs")?;
    switched(stage, blocks, switched_pairs, results)?;
    let pairs = whole(scope, "live_pairs")?;
    for live in list(scope, "live")? {
        let nodes = (live + 8) as u32;
        let mut contest = Contest::new(format!("64 bytes, {live} live"), blocks);
        contest.arm("heap", || replaced(&mut Heap::<7>, live, pairs));
        without_cache(stage, &mut contest, "heap without caches", (64, live, pairs));
        let locked = Pool::<8, Array<8>, Locked, Stack, Optimised>::new(nodes);
        contest.arm("pool with a lock", move || replaced(&mut &locked, live, pairs));
        let open = Pool::<8, Array<8>, Open, Stack, Optimised>::new(nodes);
        contest.arm("the same pool, no lock", move || replaced(&mut &open, live, pairs));
        stage.contest(contest, results)?;
    }
    cold(stage, scope, results)
}

/// An arm of the published kind: pairs at once, over a pool of as many nodes as the original's.
fn pairs_of<const W: usize, S: Backing<W>, G: Gate, O: Turn, B: Build>(pairs: u64) -> f64 {
    let pool = Pool::<W, S, G, O, B>::new(NODES);
    B::call(|| at_once(&mut &pool, pairs))
}

fn as_published<const W: usize, const REST: usize>(contest: &mut Contest<'_>, pairs: u64) {
    contest.arm("new/delete", move || at_once(&mut Heap::<REST>, pairs));
    contest.arm(WAYS[0], move || pairs_of::<W, Array<W>, Locked, Stack, Plain>(pairs));
    contest.arm(WAYS[1], move || pairs_of::<W, Array<W>, Locked, Queue, Plain>(pairs));
    contest.arm(WAYS[2], move || pairs_of::<W, List<W>, Locked, Stack, Plain>(pairs));
    contest.arm(WAYS[3], move || pairs_of::<W, List<W>, Locked, Queue, Plain>(pairs));
    contest
        .arm("array, stack, no lock", move || pairs_of::<W, Array<W>, Open, Stack, Plain>(pairs));
}

/// A heap without its threads' caches: a process that was started so.
fn without_cache(
    stage: &Stage<'_>,
    contest: &mut Contest<'_>,
    name: &str,
    (size, live, pairs): (usize, usize, u64),
) {
    let (exe, heap) = (stage.settings().exe.clone(), format!("heap {size} {live} {pairs}"));
    contest.trying(name, move || {
        let found = numbers(&exe, &heap, &[NO_CACHE])?;
        Ok(cost(found.first().copied().unwrap_or(f64::NAN)))
    });
}

/// All combinations of four circumstances: compiler, lock, order, live objects.
fn switched(
    stage: &mut Stage<'_>,
    blocks: u32,
    pairs: u64,
    results: &mut Results,
) -> Result<(), Fault> {
    fn combination<B: Build, G: Gate, O: Turn>(live: usize, pairs: u64) -> f64 {
        let pool = Pool::<8, Array<8>, G, O, B>::new(NODES + 200);
        B::call(|| replaced(&mut &pool, live, pairs))
    }
    fn by_lock<B: Build>(switches: u32, live: usize, pairs: u64) -> f64 {
        match (switches >> 1 & 1, switches >> 2 & 1) {
            (1, 1) => combination::<B, Open, Stack>(live, pairs),
            (1, _) => combination::<B, Open, Queue>(live, pairs),
            (_, 1) => combination::<B, Locked, Stack>(live, pairs),
            _ => combination::<B, Locked, Queue>(live, pairs),
        }
    }
    let mut contest = Contest::new("four circumstances, 64 bytes", blocks);
    let mut runs = Vec::new();
    for switches in 0..16_u32 {
        let live = if switches >> 3 & 1 == 1 { 4_096 } else { 1 };
        let name = format!("{switches:04b}");
        contest.arm(name.clone(), move || match switches & 1 {
            1 => by_lock::<Optimised>(switches, live, pairs),
            _ => by_lock::<Plain>(switches, live, pairs),
        });
        runs.push(name);
    }
    results.set("runs", runs);
    stage.contest(contest, results)
}

/// A fresh process for each measurement.
fn cold(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let (exe, count) = (stage.settings().exe.clone(), whole(scope, "cold")?);
    let mut all = Vec::new();
    for size in list(scope, "cold_sizes")? {
        let cold = format!("cold {size} {count}");
        let ask = || numbers(&exe, &cold, &[]);
        let faults = ask()?;
        all.push([Some(size as f64), faults.get(2).copied(), faults.get(3).copied()]);
        let mut contest = Contest::new(format!("cold, {size} bytes"), blocks(scope)?);
        for (name, at) in [("first time", 0), ("second time", 1)] {
            contest.trying(name, move || Ok(cost(ask()?.get(at).copied().unwrap_or(f64::NAN))));
        }
        stage.contest(contest, results)?;
    }
    results.set("faults", all);
    Ok(())
}

const ARRAY: &str = "array";
const PIECES: &str = "piece by piece";
const SHUFFLED: &str = "array, shuffled";

/// Array or list: differences within the noise, except for walks through memory.
pub fn layout(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let (blocks, times) = (blocks(scope)?, whole(scope, "frees")?);
    for size in list(scope, "sizes")? {
        let mut contest = Contest::new(format!("half freed, {size} bytes"), blocks);
        of_size!(size, frees(&mut contest, times));
        stage.contest(contest, results)?;
    }
    let touched = whole(scope, "touched")?;
    for what in ["walk", "free"] {
        for live in list(scope, "live")? {
            let times = (touched / live as u64).max(1);
            let mut contest = Contest::new(format!("{what}, {live} objects"), blocks);
            for name in [ARRAY, PIECES, SHUFFLED] {
                match name {
                    PIECES => Filled::<List<8>>::new(name, live).run(&mut contest, what, times),
                    _ => Filled::<Array<8>>::new(name, live).run(&mut contest, what, times),
                }
            }
            stage.contest(contest, results)?;
        }
    }
    let steps = |name| match name {
        PIECES => Filled::<List<8>>::new(name, 4_096).steps(),
        _ => Filled::<Array<8>>::new(name, 4_096).steps(),
    };
    results.set("strides", [ARRAY, PIECES, SHUFFLED].map(|name| (name, steps(name))));
    Ok(())
}

fn frees<const W: usize, const REST: usize>(contest: &mut Contest<'_>, times: u64) {
    contest.arm(WAYS[0], move || half_freed::<W, Array<W>, Stack>(times));
    contest.arm(WAYS[1], move || half_freed::<W, Array<W>, Queue>(times));
    contest.arm(WAYS[2], move || half_freed::<W, List<W>, Stack>(times));
    contest.arm(WAYS[3], move || half_freed::<W, List<W>, Queue>(times));
}

/// Takes all nodes, frees half of them in a fixed random order, and returns nanoseconds for each
/// free.
fn half_freed<const W: usize, S: Backing<W>, O: Turn>(times: u64) -> f64 {
    let pool = Pool::<W, S, Locked, O, Plain>::new(NODES);
    let order = Rng::new(7).order(NODES as usize);
    let (freed, kept) = order.split_at(NODES as usize / 2);
    let mut took = Duration::ZERO;
    for _ in 0..times {
        let held: Vec<u32> = (0..NODES).filter_map(|_| pool.take()).collect();
        let start = thread_time();
        Plain::call(|| freed.iter().for_each(|at| _ = black_box(pool.give(held[*at]))));
        took += thread_time().saturating_sub(start);
        kept.iter().for_each(|at| _ = pool.give(held[*at]));
    }
    assert_eq!(pool.used(), 0, "every node is back");
    each(took, times * freed.len() as u64)
}

/// A full pool, its objects in the order in which they were taken. The free list is the same for
/// all: last in, first out, without a lock.
struct Filled<S> {
    layout: &'static str,
    pool: Pool<8, S, Open, Stack, Optimised>,
    held: Vec<u32>,
}

impl<S: Backing<8> + 'static> Filled<S> {
    fn new(layout: &'static str, live: usize) -> Filled<S> {
        let pool = Pool::<8, S, Open, Stack, Optimised>::new(live as u32);
        let mut held: Vec<_> = (0..live).map(|_| Source::take(&mut &pool)).collect();
        if layout == SHUFFLED {
            // Given back in random order and taken again, they come in that order.
            Rng::new(live as u64).shuffle(&mut held);
            held.iter().for_each(|it| Source::give(&mut &pool, *it));
            held = (0..live).map(|_| Source::take(&mut &pool)).collect();
        }
        Filled { layout, pool, held }
    }

    /// Adds this layout to a contest of walks or of frees.
    fn run(mut self, contest: &mut Contest<'_>, what: &'static str, times: u64) {
        let mut order = Rng::new(9).order(self.held.len());
        order.truncate(self.held.len() / 2);
        contest.arm(self.layout, move || match what {
            "walk" => self.walk(times),
            _ => self.free_half(&order, times),
        });
    }

    /// Nanoseconds for each object of a walk in the order in which they were taken.
    fn walk(&self, times: u64) -> f64 {
        ns_each(times * self.held.len() as u64, || {
            let mut sum = 0_u64;
            for _ in 0..times {
                for index in &self.held {
                    sum = sum.wrapping_add(self.pool.data(*index)[0].load(Relaxed));
                }
            }
            black_box(sum);
        })
    }

    /// Nanoseconds for each of half of the objects, freed in random order; they are taken again.
    fn free_half(&mut self, order: &[usize], times: u64) -> f64 {
        let mut took = Duration::ZERO;
        for _ in 0..times {
            let start = thread_time();
            for at in order {
                Source::give(&mut &self.pool, self.held[*at]);
            }
            took += thread_time().saturating_sub(start);
            for at in order.iter().rev() {
                self.held[*at] = Source::take(&mut &self.pool);
            }
        }
        each(took, times * order.len() as u64)
    }

    /// The distances between objects that were taken one after another: the median in bytes, and
    /// the share within a page.
    fn steps(&self) -> [Option<f64>; 2] {
        let at = |index| std::ptr::from_ref(self.pool.data(index)).addr();
        let places: Vec<usize> = self.held.iter().map(|it| at(*it)).collect();
        let far: Vec<f64> = places.windows(2).map(|it| it[0].abs_diff(it[1]) as f64).collect();
        let near = far.iter().filter(|it| **it < 4_096.0).count() as f64 / far.len() as f64;
        [stats::median(&far), Some(near)]
    }
}
