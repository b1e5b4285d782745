//! Array or list: differences within the noise, except for walks through memory.
//!
//! The published pools keep their nodes in one array or each in an allocation of its own, and the
//! times to free half of them jump by 45 % from one size to the next. Run twice, the same pool
//! differs from itself by as much as the pools differ, as expected: a free touches one node. Layout
//! matters where a program walks through its objects. With the same free list and no lock, the
//! corrected run compares an array in order, pieces from the heap, and an array in a shuffled
//! order.

use super::{Object, Part, Source, costs_of, plan, range, ratios, some_of};
use crate::artefact::build::{Build, Plain};
use crate::artefact::pool::{Array, Backing, List, Locked, Pool, Queue, Stack, Turn};
use crate::contest::{Contest, Costs, Rng, each, each_of, ns_each, thread_time};
use crate::draft::{Draft, one};
use crate::exhibit::{Effort, Fault};
use crate::portfolio::{self, FREES_US, PAIRS, SIZES, WAYS};
use crate::stage::{Settings, Stage};
use pools::{Backing as Lay, Handle, Plan};
use stats::words;
use std::hint::black_box;
use std::time::Duration;

/// Objects of the corrected run: within the nearest cache, the next one, and beyond.
const LIVE: [usize; 4] = [256, 4_096, 32_768, 131_072];
/// Freed of [`PAIRS`] in the published run.
const FREED: usize = 2_000;
/// Places in [`WAYS`] of pools that differ in layout alone: stacks, queues.
const SAME_ORDER: [[usize; 2]; 2] = [[0, 2], [1, 3]];
const ARRAY: &str = "array";
const PIECES: &str = "piece by piece";
const SHUFFLED: &str = "array, shuffled";
const LAYOUTS: [&str; 3] = [ARRAY, PIECES, SHUFFLED];

/// The exhibit.
pub struct PoolLayout;

impl Part for PoolLayout {
    type Measured = Measured;
    const NAME: &'static str = "pool-layout";

    fn effort(settings: &Settings) -> Effort {
        let contests = SIZES.len() + 2 * LIVE.len();
        Effort::new(settings.rounds(12) * contests as u32, Duration::from_millis(60))
    }

    fn measure(stage: &mut Stage<'_>) -> Result<Measured, Fault> {
        let published = published(stage)?;
        let walked = by_layout(stage, true)?;
        let freed = by_layout(stage, false)?;
        let strides = LAYOUTS.map(|name| (name, steps(&mut Filled::new(name, 4_096))));
        Ok(Measured { published, walked, freed, strides })
    }

    fn costs(measured: &Measured) -> Vec<&Costs> {
        let Measured { published, walked, freed, .. } = measured;
        costs_of(published).chain(costs_of(walked)).chain(costs_of(freed)).collect()
    }

    fn draft(measured: &Measured, _settings: &Settings) -> Draft {
        draft(measured)
    }
}

/// The measurements.
#[derive(Default)]
pub(super) struct Measured {
    published: Vec<(u32, Costs)>,
    walked: Vec<(usize, Costs)>,
    freed: Vec<(usize, Costs)>,
    /// For each layout: the median distance of successive objects, bytes, and the share within a
    /// page of the previous one.
    strides: [(&'static str, (f64, f64)); 3],
}

/// Takes all nodes, frees half of them in a fixed random order, and returns nanoseconds for each
/// free.
fn frees<const W: usize, S: Backing<W>, O: Turn>(times: u64) -> f64 {
    let pool = Pool::<W, S, Locked, O, Plain>::new(PAIRS);
    let order = Rng::new(7).order(PAIRS as usize);
    let mut took = Duration::ZERO;
    for _ in 0..times {
        let held: Vec<u32> = (0..PAIRS).filter_map(|_| pool.take()).collect();
        let start = thread_time();
        Plain::call(|| {
            for at in &order[..FREED] {
                black_box(pool.give(held[*at]));
            }
        });
        took += thread_time().saturating_sub(start);
        order[FREED..].iter().for_each(|at| _ = pool.give(held[*at]));
    }
    each(took, times * FREED as u64)
}

fn as_published<const W: usize>(contest: &mut Contest<'_>, times: u64) {
    contest.arm(WAYS[0], move || frees::<W, Array<W>, Stack>(times));
    contest.arm(WAYS[1], move || frees::<W, Array<W>, Queue>(times));
    contest.arm(WAYS[2], move || frees::<W, List<W>, Stack>(times));
    contest.arm(WAYS[3], move || frees::<W, List<W>, Queue>(times));
}

fn published(stage: &mut Stage<'_>) -> Result<Vec<(u32, Costs)>, Fault> {
    let settings = stage.settings();
    let (blocks, times) = (settings.rounds(12), settings.amount(20, 20));
    let sizes = some_of(&SIZES, 2, settings).iter().copied();
    each_of(sizes, |size| {
        let mut contest = Contest::new(format!("half freed, {size} bytes"), blocks);
        match size {
            32 => as_published::<4>(&mut contest, times),
            64 => as_published::<8>(&mut contest, times),
            128 => as_published::<16>(&mut contest, times),
            256 => as_published::<32>(&mut contest, times),
            _ => as_published::<64>(&mut contest, times),
        }
        stage.contest(contest)
    })
}

/// A full pool of ours, its objects in the order in which they were taken.
struct Filled {
    pool: pools::Pool<Object<7>>,
    held: Vec<Handle<Object<7>>>,
}

impl Filled {
    /// The same free list for all: last in, first out, without a lock.
    fn new(layout: &str, live: usize) -> Filled {
        let backing = if layout == PIECES { Lay::List } else { Lay::Array };
        let mut pool = pools::Pool::new(Plan { backing, ..plan(live) });
        let mut held: Vec<_> = (0..live).map(|_| Source::take(&mut pool)).collect();
        if layout == SHUFFLED {
            // Given back in random order and taken again, they come in that order.
            Rng::new(live as u64).shuffle(&mut held);
            held.iter().for_each(|it| pool.give(*it));
            held = (0..live).map(|_| Source::take(&mut pool)).collect();
        }
        Filled { pool, held }
    }

    /// Nanoseconds for each object of a walk in the order in which they were taken.
    fn walk(&self, times: u64) -> f64 {
        ns_each(times * self.held.len() as u64, || {
            let mut sum = 0_u64;
            for _ in 0..times {
                for handle in &self.held {
                    sum = sum.wrapping_add(self.pool.get(*handle).map_or(0, |it| it.first));
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
                self.pool.give(self.held[*at]);
            }
            took += thread_time().saturating_sub(start);
            for at in order.iter().rev() {
                self.held[*at] = Source::take(&mut self.pool);
            }
        }
        each(took, times * order.len() as u64)
    }
}

/// The distances between objects that were taken one after another: the median, and the share
/// within a page.
fn steps(filled: &mut Filled) -> (f64, f64) {
    let held = filled.held.clone();
    let mut at = |handle| filled.pool.pointer(handle).map_or(0, |it| it.addr().get());
    let places: Vec<usize> = held.into_iter().map(&mut at).collect();
    let far: Vec<f64> = places.windows(2).map(|it| it[0].abs_diff(it[1]) as f64).collect();
    let near = far.iter().filter(|it| **it < 4_096.0).count() as f64 / far.len().max(1) as f64;
    (stats::median(&far).unwrap_or(f64::NAN), near)
}

fn by_layout(stage: &mut Stage<'_>, walked: bool) -> Result<Vec<(usize, Costs)>, Fault> {
    let settings = stage.settings();
    let (blocks, touched) = (settings.rounds(12), settings.amount(262_144, 32));
    let live = some_of(&LIVE, 2, settings).iter().copied();
    each_of(live, |live| {
        let times = (touched / live as u64).max(1);
        let what = if walked { "walked through" } else { "half freed" };
        let mut contest = Contest::new(format!("{live} objects {what}"), blocks);
        for name in LAYOUTS {
            let mut filled = Filled::new(name, live);
            if walked {
                contest.arm(name, move || filled.walk(times));
            } else {
                let mut order = Rng::new(9).order(live);
                order.truncate(live / 2);
                contest.arm(name, move || filled.free_half(&order, times));
            }
        }
        stage.contest(contest)
    })
}

impl Measured {
    /// The largest factor between an array and a list of the same order and size, here.
    fn apart(&self) -> f64 {
        let apart = self.published.iter().flat_map(|(_, costs)| {
            SAME_ORDER.map(|[array, list]| {
                let found = costs.against(WAYS[list], WAYS[array]);
                found.map_or(1.0, |it| it.ratio.ln().abs().exp())
            })
        });
        range(apart).1
    }

    /// The largest factor between two blocks of one and the same pool, here.
    fn within(&self) -> f64 {
        let within = self.published.iter().flat_map(|(_, costs)| {
            WAYS[..4].iter().map(|way| {
                let (least, most) = range(costs.of(way).iter().copied());
                most / least
            })
        });
        range(within).1
    }
}

/// The largest factor between an array and a list of the same order and size, as published.
fn published_apart() -> f64 {
    let apart = (0..SIZES.len()).flat_map(|size| {
        SAME_ORDER
            .map(|[array, list]| (FREES_US[list][size] / FREES_US[array][size]).ln().abs().exp())
    });
    range(apart).1
}

fn draft(measured: &Measured) -> Draft {
    let mut it = Draft::default();
    let largest = measured.walked.last();
    let walked = largest.and_then(|(_, costs)| costs.against(SHUFFLED, ARRAY));
    it.set("source", portfolio::source(1, "memory pools, experiment 2"));
    it.set("published_apart", words::ratio(published_apart()));
    it.set("apart", words::ratio(measured.apart()));
    it.set("within", words::ratio(measured.within()));
    it.set("objects", largest.map(|it| words::count(it.0 as u64)));
    it.compare("walked", walked.as_ref());
    let judged = |all: &[(usize, Costs)]| {
        let (_, costs) = all.last()?;
        Some([costs.judged(PIECES, ARRAY), costs.judged(SHUFFLED, ARRAY)])
    };
    it.set("walks", judged(&measured.walked));
    it.set("frees", judged(&measured.freed));
    let layout = |(name, (far, near)): &(&str, (f64, f64))| {
        let far = words::number(*far);
        let near = words::percent(*near);
        let place =
            format!("{far} bytes from one object to the next (median), {near} within a page");
        (format!("Layout: {name}"), place)
    };
    it.facts = measured.strides.iter().map(layout).collect();
    rows(&mut it, measured);
    it.corrected.series(one("array in order", measured.walked.iter().map(|it| it.0 as f64)));
    for (name, arm, all) in [
        ("walk, piece by piece", PIECES, &measured.walked),
        ("walk, array shuffled", SHUFFLED, &measured.walked),
        ("free, piece by piece", PIECES, &measured.freed),
        ("free, array shuffled", SHUFFLED, &measured.freed),
    ] {
        let all = all.iter().map(|it| (it.0 as f64, &it.1));
        it.corrected.series(ratios(name, (arm, ARRAY), all));
    }
    let (apart, within) = (measured.apart(), measured.within());
    it.expect("noise", (!measured.published.is_empty()).then(|| within / apart));
    it.expect_ratio("shuffled-walk", walked.as_ref());
    let pieces = measured.walked.get(1).and_then(|it| it.1.against(PIECES, ARRAY));
    it.expect_ratio("pieces-walk", pieces.as_ref());
    it
}

fn rows(it: &mut Draft, measured: &Measured) {
    let each = FREES_US.map(|row| row.map(|us| us * 1e3 / FREED as f64));
    it.published.rows = portfolio::table(WAYS.into_iter().zip(each));
    for (size, costs) in &measured.published {
        let at = SIZES.iter().position(|it| it == size).unwrap_or(0);
        for (row, way) in WAYS[..4].iter().enumerate() {
            let (least, most) = range(costs.of(way).iter().copied());
            it.flawed.row([
                way.to_string(),
                size.to_string(),
                words::or_none(costs.median(way), words::number),
                format!("{} to {}", words::number(least), words::number(most)),
                costs.judged(way, WAYS[0]),
                words::ratio(FREES_US[row][at] / FREES_US[0][at]),
            ]);
        }
    }
    for (what, all) in [("walk", &measured.walked), ("free", &measured.freed)] {
        for (live, costs) in all {
            for name in LAYOUTS {
                it.corrected.row([
                    name.to_string(),
                    words::count(*live as u64),
                    what.to_string(),
                    words::or_none(costs.median(name), words::number),
                    costs.judged(name, ARRAY),
                ]);
            }
        }
    }
}
