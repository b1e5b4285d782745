//! Four threads and one pool: the published effect was one lock, not false sharing.
//!
//! The published experiment lets four threads take, write and return objects of one pool, and
//! derives the effect of shared cache lines from the difference between objects of 16, 32 and 128
//! bytes. But every operation takes the same lock, the lock shares its line with the data that it
//! protects, and objects of 128 bytes are 136 apart, so that neighbours share lines as well. Here
//! lines are shared deliberately: two threads on separate cores write words at a chosen distance,
//! with nothing else in the loop. Then the lock is added, and removed again.

use super::{Object, Part, Source, costs_of, plan, range};
use crate::artefact::build::{Build, Optimised, Plain};
use crate::artefact::pool::{Array, Backing, List, Locked, Pool, Stack};
use crate::contest::{Contest, Costs, each, each_of, thread_time};
use crate::draft::{Draft, one};
use crate::exhibit::{Effort, Fault};
use crate::portfolio::{self, SHARED_SIZES, SHARED_US};
use crate::stage::{Settings, Stage};
use lab::machine::Placement;
use pools::{Home, Shared};
use rustix::thread::{CpuSet, sched_setaffinity};
use stats::words;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes from one word to the next.
const STRIDES: [usize; 7] = [8, 16, 24, 40, 64, 128, 136];
/// Words that the two threads write, half each.
const WORDS: usize = 64;
/// A line, and the pair of lines that some processors fetch together.
const PAIR_OF_LINES: usize = 128;
/// Threads of the published run, and the operations of each.
const THREADS: usize = 4;
const ROUNDS: u64 = 1_000;
/// The number of turns of each thread, so that the threads run at the same time: one turn takes
/// less time than the start of a thread.
const TURNS: u64 = 40;
const ALONE: &str = "one thread";
const INTERLEAVED: &str = "two, taking turns";
const BLOCKED: &str = "two, half each";
const LOCKED: [&str; 2] = ["pool with a lock, one thread", "pool with a lock, two threads"];
const MAGAZINES: [&str; 2] = ["our shared pool, one thread", "our shared pool, two threads"];

/// The exhibit.
pub struct FalseSharing;

impl Part for FalseSharing {
    type Measured = Measured;
    const NAME: &'static str = "false-sharing";

    fn effort(settings: &Settings) -> Effort {
        let contests = SHARED_SIZES.len() + STRIDES.len() + 1;
        Effort::new(settings.rounds(15) * contests as u32, Duration::from_millis(40))
    }

    fn measure(stage: &mut Stage<'_>) -> Result<Measured, Fault> {
        let cores = Placement::choose();
        if cores.is_some_and(|it| it.siblings) {
            stage
                .doubt("The two cores are hyperthreads of one: they share caches others exchange.");
        }
        let published = published(stage)?;
        let strides = strides(stage, cores)?;
        let pools = pools(stage, cores)?;
        Ok(Measured { published, strides, pools, cores })
    }

    fn costs(measured: &Measured) -> Vec<&Costs> {
        let Measured { published, strides, pools, .. } = measured;
        costs_of(published).chain(costs_of(strides)).chain(pools).collect()
    }

    fn draft(measured: &Measured, _settings: &Settings) -> Draft {
        draft(measured)
    }
}

/// The measurements.
#[derive(Default)]
pub(super) struct Measured {
    published: Vec<(u32, Costs)>,
    strides: Vec<(usize, Costs)>,
    pools: Option<Costs>,
    cores: Option<Placement>,
}

/// Pins this thread to one core; if that is refused, the thread is not pinned.
fn pin(core: Option<usize>) {
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core);
        let _ = sched_setaffinity(None, &set);
    }
}

/// Runs `work` on `threads` threads at once, each with its number, and returns their results.
pub(super) fn crowd<T: Send>(
    threads: usize,
    cores: Option<Placement>,
    work: impl Fn(usize, &Barrier) -> T + Sync,
) -> Vec<T> {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let start = |number: usize| {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                pin(cores.map(|it| if number == 0 { it.first } else { it.second }));
                work(number, barrier)
            })
        };
        let all: Vec<_> = (0..threads).map(start).collect();
        all.into_iter().map(|it| it.join().unwrap_or_else(|_| unreachable!("no panic"))).collect()
    })
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

fn published(stage: &mut Stage<'_>) -> Result<Vec<(u32, Costs)>, Fault> {
    let (blocks, turns) = (stage.settings().rounds(15), stage.settings().amount(TURNS, 10));
    each_of(SHARED_SIZES, |size| {
        let mut contest = Contest::new(format!("four threads, {size} bytes"), blocks);
        match size {
            16 => as_published::<2>(&mut contest, turns),
            32 => as_published::<4>(&mut contest, turns),
            _ => as_published::<16>(&mut contest, turns),
        }
        stage.contest(contest)
    })
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

fn strides(stage: &mut Stage<'_>, cores: Option<Placement>) -> Result<Vec<(usize, Costs)>, Fault> {
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(15), settings.amount(20_000, 20));
    each_of(STRIDES, |stride| {
        let words = &Words::new(stride);
        let mut contest = Contest::new(format!("words {stride} bytes apart"), blocks);
        contest.arm(ALONE, move || words.shared(1, false, cores, times));
        contest.arm(INTERLEAVED, move || words.shared(2, false, cores, times));
        contest.arm(BLOCKED, move || words.shared(2, true, cores, times));
        stage.contest(contest)
    })
}

/// Nanoseconds on the wall for a pair, the mean of the threads.
pub(super) fn paired(
    threads: usize,
    cores: Option<Placement>,
    pairs: u64,
    run: impl Fn(u64) + Sync,
) -> f64 {
    let costs = crowd(threads, cores, |_, barrier| {
        barrier.wait();
        let start = Instant::now();
        run(pairs);
        each(start.elapsed(), pairs)
    });
    costs.iter().sum::<f64>() / costs.len() as f64
}

/// Both pools, as optimised as they get, with one thread and with two.
fn pools(stage: &mut Stage<'_>, cores: Option<Placement>) -> Result<Option<Costs>, Fault> {
    let settings = stage.settings();
    let (blocks, pairs) = (settings.rounds(15), settings.amount(100_000, 20));
    let locked = &Pool::<8, Array<8>, Locked, Stack, Optimised>::new(1_024);
    let ours = &Shared::<Object<7>>::new(plan(1_024), 2, Home::Depot);
    let mut contest = Contest::new("a pool in the loop", blocks);
    for (threads, name) in (1..=2).zip(LOCKED) {
        contest.arm(name, move || {
            paired(threads, cores, pairs, |pairs| {
                let mut pool = locked;
                (0..pairs).for_each(|_| {
                    let held = Source::take(&mut pool);
                    Source::give(&mut pool, held);
                });
            })
        });
    }
    for (threads, name) in (1..=2).zip(MAGAZINES) {
        contest.arm(name, move || {
            paired(threads, cores, pairs, |pairs| {
                let Some(mut worker) = ours.worker() else { return };
                (0..pairs).for_each(|_| {
                    let held = Source::take(&mut worker);
                    worker.give(held);
                });
            })
        });
    }
    stage.contest(contest)
}

impl Measured {
    fn at(&self, stride: usize, arm: &str) -> Option<stats::Comparison> {
        self.strides.iter().find(|it| it.0 == stride)?.1.against(arm, ALONE)
    }

    fn scaling(&self, [one, two]: [&str; 2]) -> Option<stats::Comparison> {
        self.pools.as_ref()?.against(two, one)
    }

    /// Four threads against one, in the published loop.
    fn contention(&self) -> (f64, f64) {
        let ratios = self.published.iter().flat_map(|(_, costs)| {
            [("array", "array, one thread"), ("list", "list, one thread")]
                .map(|(four, one)| costs.against(four, one).map_or(f64::NAN, |it| it.ratio))
        });
        range(ratios.filter(|it| it.is_finite()))
    }

    /// Array against list, in the published loop.
    fn layouts(&self) -> (f64, f64) {
        range(self.published.iter().filter_map(|it| Some(it.1.against("list", "array")?.ratio)))
    }
}

fn draft(measured: &Measured) -> Draft {
    let mut it = Draft::default();
    let near = measured.at(8, INTERLEAVED);
    let far = measured.at(128, INTERLEAVED);
    let (locked, ours) = (measured.scaling(LOCKED), measured.scaling(MAGAZINES));
    let ((least, most), (close, apart)) = (measured.contention(), measured.layouts());
    it.set("source", portfolio::source(1, "memory pools, experiment 3"));
    it.set("threads", THREADS);
    it.set("rounds", words::count(ROUNDS));
    it.set("turns", TURNS);
    it.compare("near", near.as_ref());
    it.compare("line", measured.at(64, INTERLEAVED).as_ref());
    it.compare("far", far.as_ref());
    it.compare("blocked", measured.at(8, BLOCKED).as_ref());
    it.compare("locked", locked.as_ref());
    it.compare("magazines", ours.as_ref());
    it.set("contention", [least, most].map(words::ratio));
    it.set("layouts", [close, apart].map(words::ratio));
    let cores = measured.cores.map(|it| (it.first, it.second, it.siblings));
    it.set("cores", cores);
    it.published.rows = portfolio::table(
        ["array, stack", "list, stack"]
            .into_iter()
            .zip(SHARED_US.map(|row| row.map(|us| us * 1e3 / ROUNDS as f64))),
    );
    rows(&mut it, measured);
    it.corrected.series(one("as fast as alone", measured.strides.iter().map(|it| it.0 as f64)));
    for name in [INTERLEAVED, BLOCKED] {
        let all = measured.strides.iter().map(|it| (it.0 as f64, &it.1));
        it.corrected.series(super::ratios(name, (name, ALONE), all));
    }
    it.expect_ratio("shared-lines-cost", near.as_ref());
    it.expect("lock-dominates", (!measured.published.is_empty()).then_some(least));
    it.expect_ratio("lock-costs", locked.as_ref());
    it.expect_ratio("apart-is-free", far.as_ref());
    it.expect_ratio("magazines-scale", ours.as_ref());
    it
}

fn rows(it: &mut Draft, measured: &Measured) {
    for (size, costs) in &measured.published {
        let at = SHARED_SIZES.iter().position(|it| it == size).unwrap_or(0);
        for name in ["array", "list", "array, one thread", "list, one thread"] {
            let row = usize::from(name.starts_with("list"));
            let published = SHARED_US[row][at] / SHARED_US[0][at];
            let alone = name.ends_with("thread");
            it.flawed.row([
                name.to_string(),
                size.to_string(),
                words::or_none(costs.median(name), words::number),
                costs.judged(name, "array"),
                if alone { words::NONE.to_string() } else { words::ratio(published) },
            ]);
        }
    }
    for (stride, costs) in &measured.strides {
        for name in [ALONE, INTERLEAVED, BLOCKED] {
            it.corrected.row([
                format!("write, {name}"),
                stride.to_string(),
                words::or_none(costs.median(name), words::number),
                costs.judged(name, ALONE),
            ]);
        }
    }
    for pair in [LOCKED, MAGAZINES] {
        for name in pair {
            let pools = measured.pools.as_ref();
            it.corrected.row([
                name.to_string(),
                words::NONE.to_string(),
                words::or_none(pools.and_then(|it| it.median(name)), words::number),
                pools.map_or(String::new(), |it| it.judged(name, pair[0])),
            ]);
        }
    }
}
