//! Four threads and one pool as published; then lines shared deliberately; then the lock again.

use super::source::{Depot, Source};
use super::{blocks, crowd, list, paired, whole};
use crate::artefact::build::{Build, Optimised, Plain};
use crate::artefact::pool::{Array, Backing, List, Locked, Pool, Stack};
use crate::contest::{Contest, each, thread_time};
use crate::exhibit::Fault;
use crate::results::Results;
use crate::scope::Scope;
use crate::stage::Stage;
use lab::machine::Placement;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Words that the two threads write, half each.
const WORDS: usize = 64;
/// A line, and the pair of lines that some processors fetch together.
const PAIR_OF_LINES: usize = 128;
/// Threads of the published run, and the operations of each.
const THREADS: usize = 4;
const ROUNDS: u64 = 1_000;

pub fn run(stage: &mut Stage<'_>, scope: &Scope, results: &mut Results) -> Result<(), Fault> {
    let cores = Placement::choose();
    if cores.is_some_and(|it| it.siblings) {
        stage.doubt("The two cores are hyperthreads of one: they share caches others exchange.");
    }
    results.set("cores", cores.map(|it| (it.first, it.second, it.siblings)));
    let (blocks, turns) = (blocks(scope)?, whole(scope, "turns")?);
    for size in list(scope, "portfolio.shared_sizes")? {
        let mut contest = Contest::new(format!("four threads, {size} bytes"), blocks);
        match size {
            16 => as_published::<2>(&mut contest, turns),
            32 => as_published::<4>(&mut contest, turns),
            _ => as_published::<16>(&mut contest, turns),
        }
        stage.contest(contest, results)?;
    }
    let times = whole(scope, "times_written")?;
    for stride in list(scope, "strides")? {
        let words = &Words::new(stride);
        let mut contest = Contest::new(format!("words {stride} bytes apart"), blocks);
        contest.arm("one thread", move || words.shared(1, false, cores, times));
        contest.arm("two, taking turns", move || words.shared(2, false, cores, times));
        contest.arm("two, half each", move || words.shared(2, true, cores, times));
        stage.contest(contest, results)?;
    }
    pools(stage, (blocks, whole(scope, "pairs")?), cores, results)
}

/// The published loop: nanoseconds on the wall for each object of the first of `threads`, while the
/// others do the same.
fn contended<const W: usize, S: Backing<W>>(threads: usize, turns: u64) -> f64 {
    let pool = Pool::<W, S, Locked, Stack, Plain>::new(THREADS as u32 * ROUNDS as u32);
    let times = crowd(threads, None, |_, barrier| {
        barrier.wait();
        let start = Instant::now();
        for _ in 0..turns {
            Plain::call(|| {
                let held: Vec<u32> = (0..ROUNDS).filter_map(|_| pool.take()).collect();
                for index in &held {
                    pool.data(*index)[0].store(u64::from(*index), Relaxed);
                }
                held.iter().for_each(|index| _ = black_box(pool.give(*index)));
            });
        }
        start.elapsed()
    });
    each(times[0], ROUNDS * turns)
}

fn as_published<const W: usize>(contest: &mut Contest<'_>, turns: u64) {
    contest.arm("array", move || contended::<W, Array<W>>(THREADS, turns));
    contest.arm("list", move || contended::<W, List<W>>(THREADS, turns));
    contest.arm("array, one thread", move || contended::<W, Array<W>>(1, turns));
    contest.arm("list, one thread", move || contended::<W, List<W>>(1, turns));
}

/// Words at a distance, the first at the beginning of a pair of lines.
struct Words {
    all: Vec<AtomicU64>,
    first: usize,
    stride: usize,
}

impl Words {
    fn new(stride: usize) -> Words {
        let count = (WORDS * stride + 2 * PAIR_OF_LINES) / 8;
        let all: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let first = all.as_ptr().addr().next_multiple_of(PAIR_OF_LINES) - all.as_ptr().addr();
        Words { all, first: first / 8, stride: stride / 8 }
    }

    /// Adds to the words `at`, `at + step` and so on below `end`, again and again; nanoseconds of
    /// this thread's time for each.
    fn write(&self, at: usize, step: usize, end: usize, times: u64) -> f64 {
        let mine: Vec<&AtomicU64> =
            (at..end).step_by(step).map(|it| &self.all[self.first + it * self.stride]).collect();
        let start = thread_time();
        for _ in 0..times {
            for word in &mine {
                word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
            }
        }
        each(thread_time().saturating_sub(start), times * mine.len() as u64)
    }

    /// The mean of `threads` threads that own every other word, or half of them in a row.
    fn shared(&self, threads: usize, blocked: bool, cores: Option<Placement>, times: u64) -> f64 {
        let costs = crowd(threads, cores, |number, barrier| {
            barrier.wait();
            let half = WORDS / 2;
            match blocked {
                true => self.write(number * half, 1, number * half + half, times),
                false => self.write(number, 2, WORDS, times),
            }
        });
        costs.iter().sum::<f64>() / costs.len() as f64
    }
}

/// Both pools, as optimised as they get, with one thread and with two.
fn pools(
    stage: &mut Stage<'_>,
    (blocks, pairs): (u32, u64),
    cores: Option<Placement>,
    results: &mut Results,
) -> Result<(), Fault> {
    let locked = &Pool::<8, Array<8>, Locked, Stack, Optimised>::new(1_024);
    let depot = &Depot::<7>::new(1_024);
    let mut contest = Contest::new("a pool in the loop", blocks);
    for (threads, name) in [(1, "one thread"), (2, "two threads")] {
        contest.arm(format!("pool with a lock, {name}"), move || {
            paired(threads, cores, pairs, |pairs| {
                let mut pool = locked;
                (0..pairs).for_each(|_| {
                    let held = Source::take(&mut pool);
                    Source::give(&mut pool, held);
                });
            })
        });
    }
    for (threads, name) in [(1, "one thread"), (2, "two threads")] {
        contest.arm(format!("pool with magazines, {name}"), move || {
            paired(threads, cores, pairs, |pairs| {
                let mut worker = depot.worker();
                (0..pairs).for_each(|_| {
                    let held = worker.take();
                    worker.give(held);
                });
            })
        });
    }
    stage.contest(contest, results)
}
