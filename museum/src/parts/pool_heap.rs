//! A pool is three to five times as fast as the heap: if it is unlocked, or the heap has no cache.
//!
//! The published pool takes a lock for every allocation and release, is built without optimisation,
//! and has one object at a time. Repeated here it loses to the C library, whose threads have had
//! caches since 2017 (glibc 2.26, `tcache`): the published figure compared two locks. Varying the
//! four circumstances separately (compiler, lock, order, live objects) shows the cost of each, and
//! a pool without the lock does win. A cold heap is another matter: its price is page faults.

use super::{
    Heap, Object, Part, Source, at_once, costs_of, medians, plan, range, replaced, some_of,
};
use crate::artefact::build::{Build, Optimised, Plain};
use crate::artefact::pool::{Array, Backing, Gate, List, Locked, Open, Pool, Queue, Stack, Turn};
use crate::artefact::program::Subprocess;
use crate::contest::{Arm, Contest, Costs, each, each_of, thread_time};
use crate::draft::{Draft, point};
use crate::exhibit::{Effort, Fault};
use crate::factors;
use crate::portfolio::{self, COLD_US, PAIRS, PAIRS_US, SIZES, WAYS};
use crate::stage::{Settings, Stage};
use document::{Mark, Series};
use pools::Boxes;
use stats::Comparison;
use stats::words;
use std::time::Duration;

/// Live objects of the corrected run: one, the content of the nearest cache, that of the next,
/// more.
const LIVE: [usize; 4] = [1, 64, 4_096, 32_768];
/// Names of the four circumstances, as they are when switched on.
const FACTORS: [&str; 4] =
    ["optimised", "no lock", "last in, first out", "4,096 live instead of 1"];
/// The C library's switch that takes its threads' caches away (glibc manual, "Memory Allocation
/// Tunables").
const NO_CACHE: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
const HEAP: &str = "heap";
/// The published pool but for its lock, and the heap but for its caches.
const FREE: &str = "array, stack, no lock";
const PLAIN_AT_ONCE: &str = "heap without caches, at once";
const PLAIN_HEAP: &str = "heap without caches";
const LOCKED: &str = "pool with a lock";
const UNLOCKED: &str = "the same pool, no lock";
const CHECKED: &str = "our checked pool";
const BOXES: &str = "our boxes";

/// The exhibit.
pub struct PoolHeap;

impl Part for PoolHeap {
    type Measured = Measured;
    const NAME: &'static str = "pool-heap";

    fn effort(settings: &Settings) -> Effort {
        let contests = SIZES.len() + 1 + LIVE.len() + COLD_US.len();
        Effort::new(settings.rounds(12) * contests as u32, Duration::from_millis(120))
    }

    fn measure(stage: &mut Stage<'_>) -> Result<Measured, Fault> {
        let published = published(stage)?;
        let factors = switched(stage)?;
        let live = by_live(stage)?;
        let cold = cold(stage)?;
        Ok(Measured { published, factors, live, cold })
    }

    fn costs(measured: &Measured) -> Vec<&Costs> {
        let factors = measured.factors.iter().map(|it| &it.0);
        let cold = measured.cold.iter().map(|it| &it.1);
        let first = costs_of(&measured.published).chain(factors);
        first.chain(costs_of(&measured.live)).chain(cold).collect()
    }

    fn draft(measured: &Measured, _settings: &Settings) -> Draft {
        draft(measured)
    }
}

/// The measurements.
#[derive(Default)]
pub(super) struct Measured {
    published: Vec<(u32, Costs)>,
    factors: Option<(Costs, Vec<(String, u32)>)>,
    live: Vec<(usize, Costs)>,
    cold: Vec<(u32, Costs, [f64; 2])>,
}

/// An arm of the published kind: pairs at once, over a pool of as many nodes as the original's.
fn pool<const W: usize, S: Backing<W>, G: Gate, O: Turn, B: Build>(pairs: u64) -> f64 {
    let pool = Pool::<W, S, G, O, B>::new(PAIRS);
    B::call(|| at_once(&mut &pool, pairs))
}

fn as_published<const W: usize, const REST: usize>(contest: &mut Contest<'_>, pairs: u64) {
    contest.arm(WAYS[4], move || at_once(&mut Heap::<REST>, pairs));
    contest.arm(WAYS[0], move || pool::<W, Array<W>, Locked, Stack, Plain>(pairs));
    contest.arm(WAYS[1], move || pool::<W, Array<W>, Locked, Queue, Plain>(pairs));
    contest.arm(WAYS[2], move || pool::<W, List<W>, Locked, Stack, Plain>(pairs));
    contest.arm(WAYS[3], move || pool::<W, List<W>, Locked, Queue, Plain>(pairs));
    contest.arm(FREE, move || pool::<W, Array<W>, Open, Stack, Plain>(pairs));
}

fn published(stage: &mut Stage<'_>) -> Result<Vec<(u32, Costs)>, Fault> {
    let settings = stage.settings();
    let (blocks, pairs) = (settings.rounds(12), settings.amount(80_000, 20));
    let sizes = some_of(&SIZES, 2, settings).iter().copied();
    each_of(sizes, |size| {
        let mut contest = Contest::new(format!("published, {size} bytes"), blocks);
        match size {
            32 => as_published::<4, 3>(&mut contest, pairs),
            64 => as_published::<8, 7>(&mut contest, pairs),
            128 => as_published::<16, 15>(&mut contest, pairs),
            256 => as_published::<32, 31>(&mut contest, pairs),
            _ => as_published::<64, 63>(&mut contest, pairs),
        }
        let mut heap = Subprocess::start(&stage.settings().exe, &["heap"], &[NO_CACHE])?;
        contest.arms.push(Arm::trying(PLAIN_AT_ONCE, move || {
            Ok(heap.numbers(&format!("{size} 1 {pairs}"))?.first().copied().unwrap_or(f64::NAN))
        }));
        stage.contest(contest)
    })
}

/// One of the sixteen combinations.
fn combination<B: Build, G: Gate, O: Turn>(live: usize, pairs: u64) -> f64 {
    let pool = Pool::<8, Array<8>, G, O, B>::new(PAIRS + 200);
    B::call(|| replaced(&mut &pool, live, pairs))
}

fn by_order<B: Build, G: Gate>(switches: u32, live: usize, pairs: u64) -> f64 {
    if switches >> 2 & 1 == 1 {
        combination::<B, G, Stack>(live, pairs)
    } else {
        combination::<B, G, Queue>(live, pairs)
    }
}

fn by_lock<B: Build>(switches: u32, live: usize, pairs: u64) -> f64 {
    if switches >> 1 & 1 == 1 {
        by_order::<B, Open>(switches, live, pairs)
    } else {
        by_order::<B, Locked>(switches, live, pairs)
    }
}

type Switched = Option<(Costs, Vec<(String, u32)>)>;

fn switched(stage: &mut Stage<'_>) -> Result<Switched, Fault> {
    let settings = stage.settings();
    let (blocks, pairs) = (settings.rounds(12), settings.amount(60_000, 20));
    let mut contest = Contest::new("four circumstances, 64 bytes", blocks);
    let mut runs = Vec::new();
    for switches in factors::all(FACTORS.len() as u32) {
        let name = format!("{switches:04b}");
        let live = if switches >> 3 & 1 == 1 { 4_096 } else { 1 };
        contest.arm(name.clone(), move || match switches & 1 {
            1 => by_lock::<Optimised>(switches, live, pairs),
            _ => by_lock::<Plain>(switches, live, pairs),
        });
        runs.push((name, switches));
    }
    Ok(stage.contest(contest)?.map(|costs| (costs, runs)))
}

fn by_live(stage: &mut Stage<'_>) -> Result<Vec<(usize, Costs)>, Fault> {
    let settings = stage.settings();
    let (blocks, pairs) = (settings.rounds(12), settings.amount(150_000, 20));
    let live = some_of(&LIVE, 2, settings).iter().copied();
    each_of(live, |live| {
        let nodes = (live + 8) as u32;
        let mut contest = Contest::new(format!("64 bytes, {live} live"), blocks);
        contest.arm(HEAP, || replaced(&mut Heap::<7>, live, pairs));
        let mut heap = Subprocess::start(&stage.settings().exe, &["heap"], &[NO_CACHE])?;
        contest.arms.push(Arm::trying(PLAIN_HEAP, move || {
            Ok(heap.numbers(&format!("64 {live} {pairs}"))?.first().copied().unwrap_or(f64::NAN))
        }));
        let locked = Pool::<8, Array<8>, Locked, Stack, Optimised>::new(nodes);
        contest.arm(LOCKED, move || replaced(&mut &locked, live, pairs));
        let open = Pool::<8, Array<8>, Open, Stack, Optimised>::new(nodes);
        contest.arm(UNLOCKED, move || replaced(&mut &open, live, pairs));
        let mut checked = pools::Pool::<Object<7>>::new(plan(live + 8));
        contest.arm(CHECKED, move || replaced(&mut checked, live, pairs));
        let boxes = Boxes::<Object<7>>::new(live + 8);
        contest.arm(BOXES, move || replaced(&mut &boxes, live, pairs));
        stage.contest(contest)
    })
}

/// A fresh process for each measurement; and a pool that has been used before.
fn cold(stage: &mut Stage<'_>) -> Result<Vec<(u32, Costs, [f64; 2])>, Fault> {
    let settings = stage.settings();
    let (blocks, exe) = (settings.rounds(12), settings.exe.clone());
    let count = settings.amount(10_000, 10);
    let sizes = if settings.quick { &COLD_US[1..2] } else { &COLD_US[..] };
    let mut all = Vec::new();
    for (size, _) in sizes.iter().copied() {
        let words = [size.to_string(), count.to_string()];
        let ask = || Subprocess::start(&exe, &["cold", &words[0], &words[1]], &[])?.numbers("");
        let faults = ask()?;
        let faults = [faults.get(2), faults.get(3)].map(|it| it.copied().unwrap_or(f64::NAN));
        let mut contest = Contest::new(format!("cold, {size} bytes"), blocks);
        for (name, at) in [("first time", 0), ("second time", 1)] {
            contest
                .arms
                .push(Arm::trying(name, move || Ok(ask()?.get(at).copied().unwrap_or(f64::NAN))));
        }
        let boxes = Boxes::<Object<15>>::new(count as usize);
        fill(&boxes, count);
        contest.arm("pool, touched before", move || fill(&boxes, count));
        let Some(costs) = stage.contest(contest)? else { break };
        all.push((size, costs, faults));
    }
    Ok(all)
}

/// Nanoseconds for each of `count` objects taken one after another, and given back outside the
/// time.
fn fill<const W: usize>(boxes: &Boxes<Object<W>>, count: u64) -> f64 {
    let mut source = boxes;
    let mut held = Vec::with_capacity(count as usize);
    let start = thread_time();
    held.extend((0..count).map(|_| source.take()));
    let took = thread_time().saturating_sub(start);
    held.into_iter().for_each(|it| source.give(it));
    each(took, count)
}

impl Measured {
    /// Ratios of the four published pools to the heap, at every size: here.
    fn pool_to_heap(&self) -> (f64, f64) {
        let ratios = self.published.iter().flat_map(|(_, costs)| {
            WAYS[..4].iter().filter_map(|way| Some(costs.against(way, WAYS[4])?.ratio))
        });
        range(ratios)
    }

    /// The published pool without its lock against a heap without caches, at every size: here.
    fn as_published(&self) -> (f64, f64) {
        let ratios = self.published.iter();
        range(ratios.filter_map(|it| Some(it.1.against(FREE, PLAIN_AT_ONCE)?.ratio)))
    }

    fn at_live(&self, live: usize, arm: &str, other: &str) -> Option<Comparison> {
        self.live.iter().find(|it| it.0 == live)?.1.against(arm, other)
    }

    fn effects(&self) -> Vec<(&'static str, Option<Comparison>)> {
        let effect = |at: u32| {
            self.factors.as_ref().and_then(|(costs, runs)| factors::effect(costs, runs, at))
        };
        FACTORS.into_iter().zip(0..).map(|(name, at)| (name, effect(at))).collect()
    }
}

fn draft(measured: &Measured) -> Draft {
    let mut it = Draft::default();
    let ((least, most), bare) = (measured.pool_to_heap(), measured.as_published());
    let unlocked = measured.at_live(64, UNLOCKED, LOCKED);
    let boxes = measured.at_live(64, BOXES, HEAP);
    let mut effects: Vec<(&str, Comparison)> =
        measured.effects().into_iter().filter_map(|(name, it)| Some((name, it?))).collect();
    let size = |it: &Comparison| it.ratio.ln().abs();
    effects.sort_by(|a, b| size(&b.1).total_cmp(&size(&a.1)));
    let effects = effects.iter().map(|(name, it)| [name.to_string(), words::compared(it)]);
    it.set("source", portfolio::source(1, "memory pools, experiments 1 and 4"));
    it.set("pools", [least, most].map(words::ratio));
    it.set("bare", [bare.0, bare.1].map(words::ratio));
    it.compare("unlocked", unlocked.as_ref());
    it.compare("boxes", boxes.as_ref());
    it.set("effects", effects.collect::<Vec<_>>());
    let cold = measured.cold.last().map(|(size, _, faults)| {
        [size.to_string(), words::number(faults[0]), words::number(faults[1])]
    });
    it.set("faults", cold);
    let rows = PAIRS_US.map(|row| row.map(|us| us * 1e3 / f64::from(PAIRS)));
    it.published.rows = portfolio::table(WAYS.into_iter().zip(rows));
    rows_published(&mut it, measured);
    rows_corrected(&mut it, measured);
    for name in [HEAP, PLAIN_HEAP, LOCKED, UNLOCKED, CHECKED, BOXES] {
        let all = measured.live.iter().map(|it| (it.0 as f64, &it.1));
        it.corrected.series(medians(name, all));
    }
    together(&mut it, measured);
    it.expect_ratio("lock-costs", unlocked.as_ref());
    it.expect_ratio("boxes-win", boxes.as_ref());
    let second = measured.cold.first().and_then(|it| it.1.against("second time", "first time"));
    it.expect_ratio("cold-costs", second.as_ref());
    it.expect("as-published", (!measured.published.is_empty()).then_some(bare.1));
    it.expect_ratio("caches-matter", measured.at_live(64, PLAIN_HEAP, HEAP).as_ref());
    it
}

fn rows_published(it: &mut Draft, measured: &Measured) {
    let ways = [WAYS[4], WAYS[0], WAYS[1], WAYS[2], WAYS[3]];
    for (size, costs) in &measured.published {
        let at = SIZES.iter().position(|it| it == size).unwrap_or(0);
        for way in ways {
            let row = WAYS.iter().position(|it| *it == way).unwrap_or(0);
            it.flawed.row([
                way.to_string(),
                size.to_string(),
                words::or_none(costs.median(way), words::number),
                costs.judged(way, WAYS[4]),
                words::ratio(PAIRS_US[row][at] / PAIRS_US[4][at]),
            ]);
        }
        for (name, other) in [(PLAIN_AT_ONCE, WAYS[4]), (FREE, PLAIN_AT_ONCE)] {
            it.flawed.row([
                name.to_string(),
                size.to_string(),
                words::or_none(costs.median(name), words::number),
                format!("{}, of {other}", costs.judged(name, other)),
                words::NONE.to_string(),
            ]);
        }
    }
}

fn rows_corrected(it: &mut Draft, measured: &Measured) {
    for (name, effect) in measured.effects() {
        let effect = effect.as_ref().map(words::compared);
        it.corrected.row([
            name.to_string(),
            "averaged over all others".to_string(),
            words::NONE.to_string(),
            effect.map_or(words::NONE.to_string(), |it| format!("{it} of the time without")),
        ]);
    }
    for (live, costs) in &measured.live {
        for name in [HEAP, PLAIN_HEAP, LOCKED, UNLOCKED, CHECKED, BOXES] {
            it.corrected.row([
                name.to_string(),
                format!("64 bytes, {} live", words::count(*live as u64)),
                words::or_none(costs.median(name), words::number),
                costs.judged(name, HEAP),
            ]);
        }
    }
    for (size, costs, faults) in &measured.cold {
        for (name, faults) in [("first time", faults[0]), ("second time", faults[1])] {
            it.corrected.row([
                format!("heap, {name}"),
                format!("{size} bytes, {} page faults", words::number(faults)),
                words::or_none(costs.median(name), words::number),
                costs.judged(name, "first time"),
            ]);
        }
    }
}

fn together(it: &mut Draft, measured: &Measured) {
    it.together.named(WAYS[..4].iter().copied());
    let published = (0..4).map(|way| ((way + 1) as f64, PAIRS_US[way][1] / PAIRS_US[4][1]));
    let published = Series::published("published, pool / heap", published);
    it.together.series(published.drawn_as(Mark::Bar));
    let here = measured.published.iter().find(|it| it.0 == 64);
    let points = (0..4)
        .filter_map(|way| Some(point((way + 1) as f64, &here?.1.against(WAYS[way], WAYS[4])?)));
    it.together.series(Series::measured("here, pool / heap", points).drawn_as(Mark::Bar));
}
