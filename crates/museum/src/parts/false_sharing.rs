//! Four threads and one pool: what was called false sharing was one lock.
//!
//! The published experiment lets four threads take, write and give back objects of one pool, and
//! reads the effect of shared cache lines from the difference between objects of 16, 32 and 128
//! bytes. But every operation takes the same lock, the lock shares its line with what it protects,
//! and objects of 128 bytes lie 136 apart, so that neighbours share lines as well. Here lines are
//! shared and not shared on purpose: two threads on cores of their own write words at a distance
//! that is chosen, with nothing else in the loop. Then the lock comes back, and goes.

use super::{Object, Source, plan, range};
use crate::artefact::build::{Build, Optimised, Plain};
use crate::artefact::pool::{Array, Backing, List, Locked, Pool, Stack};
use crate::contest::{Contest, Told, each, thread_time};
use crate::exhibit::{Effort, Exhibit, Fault};
use crate::portfolio::{self, SHARED_SIZES, SHARED_US};
use crate::showing::{Axis, Finding, Grid, Place, Plot, Series, Showing, Side};
use crate::stage::{Settings, Stage};
use crate::words;
use lab::machine::Placement;
use memory::{Home, Shared};
use rustix::thread::{CpuSet, sched_setaffinity};
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
/// Threads of the published run, and what each did.
const THREADS: usize = 4;
const ROUNDS: u64 = 1_000;
/// How often each does it, so that the threads are at it together: one turn takes less time than a
/// thread needs to begin.
const TURNS: u64 = 40;
const ALONE: &str = "one thread";
const INTERLEAVED: &str = "two, taking turns";
const BLOCKED: &str = "two, half each";
const LOCKED: [&str; 2] = ["pool with a lock, one thread", "pool with a lock, two threads"];
const MAGAZINES: [&str; 2] = ["our shared pool, one thread", "our shared pool, two threads"];

/// The exhibit.
pub struct FalseSharing;

impl Exhibit for FalseSharing {
    fn name(&self) -> &'static str {
        "false-sharing"
    }

    fn title(&self) -> &'static str {
        "False sharing"
    }

    fn about(&self) -> &'static str {
        "threads that share a pool wait for its lock, not for their neighbours' cache lines"
    }

    fn effort(&self, settings: &Settings) -> Effort {
        let contests = SHARED_SIZES.len() + STRIDES.len() + 1;
        Effort::new(settings.rounds(15) * contests as u32, Duration::from_millis(40))
    }

    fn show(&self, stage: &mut Stage<'_>) -> Result<Showing, Fault> {
        let cores = Placement::choose();
        if cores.is_some_and(|it| it.siblings) {
            stage.doubt("The two cores are threads of one: they share what others would pass on.");
        }
        let published = published(stage)?;
        let strides = strides(stage, cores)?;
        let pools = pools(stage, cores)?;
        Ok(told(stage, &Seen { published, strides, pools, cores }))
    }
}

/// What was measured.
struct Seen {
    published: Vec<(u32, Told)>,
    strides: Vec<(usize, Told)>,
    pools: Option<Told>,
    cores: Option<Placement>,
}

/// Keeps this thread on one core; where that is refused it stays where it is.
fn pin(core: Option<usize>) {
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core);
        let _ = sched_setaffinity(None, &set);
    }
}

/// Runs `work` on so many threads at once, each with its number, and returns what each returned.
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

fn published(stage: &mut Stage<'_>) -> Result<Vec<(u32, Told)>, Fault> {
    let (blocks, turns) = (stage.settings().rounds(15), stage.settings().amount(TURNS, 10));
    let mut all = Vec::new();
    for size in SHARED_SIZES {
        let mut contest = Contest::new(format!("four threads, {size} bytes"), blocks);
        match size {
            16 => as_published::<2>(&mut contest, turns),
            32 => as_published::<4>(&mut contest, turns),
            _ => as_published::<16>(&mut contest, turns),
        }
        let Some(told) = stage.contest(contest)? else { break };
        all.push((size, told));
    }
    Ok(all)
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

fn strides(stage: &mut Stage<'_>, cores: Option<Placement>) -> Result<Vec<(usize, Told)>, Fault> {
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(15), settings.amount(20_000, 20));
    let mut all = Vec::new();
    for stride in STRIDES {
        let words = &Words::new(stride);
        let mut contest = Contest::new(format!("words {stride} bytes apart"), blocks);
        contest.arm(ALONE, move || words.shared(1, false, cores, times));
        contest.arm(INTERLEAVED, move || words.shared(2, false, cores, times));
        contest.arm(BLOCKED, move || words.shared(2, true, cores, times));
        let Some(told) = stage.contest(contest)? else { break };
        all.push((stride, told));
    }
    Ok(all)
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
fn pools(stage: &mut Stage<'_>, cores: Option<Placement>) -> Result<Option<Told>, Fault> {
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

impl Seen {
    fn all(&self) -> Vec<&Told> {
        let measured = self.published.iter().map(|it| &it.1);
        measured.chain(self.strides.iter().map(|it| &it.1)).chain(&self.pools).collect()
    }

    fn at(&self, stride: usize, arm: &str) -> Option<lab::stats::Comparison> {
        self.strides.iter().find(|it| it.0 == stride)?.1.against(arm, ALONE)
    }

    fn scaling(&self, [one, two]: [&str; 2]) -> Option<lab::stats::Comparison> {
        self.pools.as_ref()?.against(two, one)
    }

    /// Four threads against one, in the published loop.
    fn contention(&self) -> (f64, f64) {
        let ratios = self.published.iter().flat_map(|(_, told)| {
            [("array", "array, one thread"), ("list", "list, one thread")]
                .map(|(four, one)| told.against(four, one).map_or(f64::NAN, |it| it.ratio))
        });
        range(ratios.filter(|it| it.is_finite()))
    }

    /// Array against list, in the published loop.
    fn layouts(&self) -> (f64, f64) {
        range(self.published.iter().filter_map(|it| Some(it.1.against("list", "array")?.ratio)))
    }
}

fn said(it: Option<&lab::stats::Comparison>) -> String {
    it.map_or("an unknown multiple of".to_string(), words::compared)
}

fn told(stage: &mut Stage<'_>, seen: &Seen) -> Showing {
    let (near, far) = (seen.at(8, INTERLEAVED), seen.at(128, INTERLEAVED));
    let (locked, ours) = (seen.scaling(LOCKED), seen.scaling(MAGAZINES));
    let headline = format!(
        "Two threads that write neighbouring words need {} the time of one alone, {} if the words \
         are 128 bytes apart; a pair in the published kind of pool, with its one lock, takes two \
         threads {} the time of one, in a pool with magazines {}.",
        said(near.as_ref()),
        said(far.as_ref()),
        said(locked.as_ref()),
        said(ours.as_ref()),
    );
    let cores = seen.cores.map_or("one, shared".to_string(), |it| {
        format!("{} and {}{}", it.first, it.second, if it.siblings { ", siblings" } else { "" })
    });
    let mut facts = vec![("Cores".to_string(), cores)];
    facts.extend(stage.contest_facts(&seen.all()));
    let rows = ["array, stack", "list, stack"]
        .into_iter()
        .zip(SHARED_US.map(|row| row.map(|us| us * 1e3 / ROUNDS as f64)));
    Showing {
        headline,
        published: portfolio::table(
            "With four threads the list is a little faster than the array at 16 bytes, because \
             neighbouring objects of an array share cache lines; at 128 bytes, where two objects \
             cannot share a line, they are alike.",
            portfolio::source(1, "memory pools, experiment 3"),
            &["pool", "16 B, ns an object", "32 B", "128 B"],
            rows,
        ),
        flawed: flawed(seen),
        corrected: corrected(seen),
        why: why(),
        lesson: "To see one effect, take everything else out of the loop; then put it back and \
                 see whether it still matters."
            .to_string(),
        together: None,
        findings: findings(seen, near, far, locked, ours),
        facts,
        doubts: Vec::new(),
    }
}

fn flawed(seen: &Seen) -> Side {
    let mut numbers = Grid::new(&["pool", "bytes", "ns an object", "of the array's", "published"]);
    for (size, told) in &seen.published {
        let at = SHARED_SIZES.iter().position(|it| it == size).unwrap_or(0);
        for name in ["array", "list", "array, one thread", "list, one thread"] {
            let row = usize::from(name.starts_with("list"));
            let published = SHARED_US[row][at] / SHARED_US[0][at];
            let alone = name.ends_with("thread");
            numbers.row([
                name.to_string(),
                size.to_string(),
                words::or_none(told.median(name), words::number),
                told.judged(name, "array"),
                if alone { words::NONE.to_string() } else { words::ratio(published) },
            ]);
        }
    }
    let ((least, most), (near, far)) = (seen.contention(), seen.layouts());
    Side {
        setup: format!(
            "As published: {THREADS} threads, not kept on cores, each takes {ROUNDS} objects of \
             one pool, writes them and gives them back, {TURNS} times; every operation takes the \
             pool's lock; the first thread is timed. The control with one thread was measured for \
             the figure and not published."
        ),
        finding: format!(
            "Four threads take {} to {} the time of one, whatever the size of objects; list and \
             array are {} to {} apart.",
            words::ratio(least),
            words::ratio(most),
            words::ratio(near),
            words::ratio(far)
        ),
        plot: None,
        numbers,
    }
}

fn corrected(seen: &Seen) -> Side {
    let mut numbers = Grid::new(&["what", "bytes apart", "ns", "of one thread's time"]);
    for (stride, told) in &seen.strides {
        for name in [ALONE, INTERLEAVED, BLOCKED] {
            numbers.row([
                format!("write, {name}"),
                stride.to_string(),
                words::or_none(told.median(name), words::number),
                told.judged(name, ALONE),
            ]);
        }
    }
    for pair in [LOCKED, MAGAZINES] {
        for name in pair {
            numbers.row([
                name.to_string(),
                words::NONE.to_string(),
                words::or_none(seen.pools.as_ref().and_then(|it| it.median(name)), words::number),
                seen.pools.as_ref().map_or(String::new(), |it| it.judged(name, pair[0])),
            ]);
        }
    }
    let line = |name: &str| {
        super::ratios(name, (name, ALONE), seen.strides.iter().map(|it| (it.0 as f64, &it.1)))
    };
    let even = seen.strides.iter().map(|it| Place { x: it.0 as f64, y: 1.0, range: None });
    let even = Series {
        name: "as fast as alone".to_string(),
        published: true,
        places: even.collect(),
        ..Series::default()
    };
    Side {
        setup: "Two threads on cores of their own write words at a chosen distance, with no pool \
                and no lock; every other word is one thread's, or half of them in a row. Then a \
                pair of take and give back in the published kind of pool, optimised, and in ours, \
                whose workers keep free objects in magazines of their own."
            .to_string(),
        finding: format!(
            "Taking turns at 8 bytes costs {}, at 64 {}, at 128 {}; in rows of their own at 8 \
             bytes {}.",
            said(seen.at(8, INTERLEAVED).as_ref()),
            said(seen.at(64, INTERLEAVED).as_ref()),
            said(seen.at(128, INTERLEAVED).as_ref()),
            said(seen.at(8, BLOCKED).as_ref()),
        ),
        plot: Some(Plot {
            title: "What a neighbour costs".to_string(),
            caption: "CPU time for a write, against one thread alone; exact 95 % intervals of the \
                      median over blocks."
                .to_string(),
            x: Axis::log("bytes from one word to the next"),
            y: Axis::log("time / that of one thread"),
            series: vec![even, line(INTERLEAVED), line(BLOCKED)],
        }),
        numbers,
    }
}

fn findings(
    seen: &Seen,
    near: Option<lab::stats::Comparison>,
    far: Option<lab::stats::Comparison>,
    locked: Option<lab::stats::Comparison>,
    ours: Option<lab::stats::Comparison>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut more = |name: &str, value: Option<f64>, least: f64, expected: &str| {
        if let Some(value) = value {
            found.push(Finding::new(name, value >= least, value, expected));
        }
    };
    let expected = "neighbouring words take two threads at least 1.5 times as long";
    more("shared-lines-cost", near.map(|it| it.ratio), 1.5, expected);
    let expected = "the published pool takes four threads at least 1.5 times as long as one";
    more("lock-dominates", Some(seen.contention().0), 1.5, expected);
    let expected = "its one lock makes a pair at least 1.5 times as long with two threads";
    more("lock-costs", locked.map(|it| it.ratio), 1.5, expected);
    for (name, it, what) in [
        ("apart-is-free", far, "words 128 bytes apart"),
        ("magazines-scale", ours, "a pair in a pool with magazines"),
    ] {
        if let Some(it) = it {
            let expected = format!("{what}: at most 1.25 times as long with two threads");
            found.push(Finding::new(name, it.ratio <= 1.25, it.ratio, expected));
        }
    }
    found
}

fn why() -> Vec<String> {
    vec![
        "A processor writes whole cache lines of 64 bytes. If two cores write different words of \
         one line, the line travels between them for every write although they share nothing: \
         false sharing. It is large where it happens."
            .to_string(),
        "In the published loop it cannot be seen. All threads take one lock for each object, and \
         the lock, the head of the free list and the count lie on one line that all of them write: \
         true sharing. That costs the same for objects of any size."
            .to_string(),
        "The control does not control: a node of 128 bytes with its guards and links is 136 bytes \
         long, so its neighbours share lines with it. And the arms differ in density: the array \
         puts nodes of 16 bytes 24 apart, the heap puts its pieces 32 to 48 apart."
            .to_string(),
        "The cure is not a distance between objects but that threads do not share the pool's own \
         words: each worker keeps some free objects to itself and exchanges whole magazines."
            .to_string(),
    ]
}
