//! Memory that one thread allocates and another frees: the real case for a pool.
//!
//! One thread of a server receives a message and another frees it. In a published race general
//! allocators differ by a factor of 226 in this case, because memory has to return to its owner: by
//! a lock, by an exchange for every object, or in whole batches. The portfolio's pool takes one
//! lock for each object, wherever it comes from. There are three workloads: a producer and a
//! consumer; threads that inherit each other's objects and end (bleeding, after Larson and
//! Krishnan); and the worst single allocations meanwhile.

use super::{Heap, Object, Part, Source, costs_of, plan};
use crate::artefact::build::Optimised;
use crate::artefact::pool::{Array, Locked, Pool as Published, Stack};
use crate::contest::{Contest, Costs, Rng, each, each_of, process_time};
use crate::draft::{Draft, point};
use crate::exhibit::{Effort, Fault};
use crate::stage::{Settings, Stage};
use document::{Mark, Series};
use pools::{Home, Shared};
use stats::Comparison;
use stats::words;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Objects that are handed over at a time.
const BATCHES: [usize; 3] = [1, 64, 4_096];
/// Batches on their way.
const QUEUE: usize = 2;
/// Objects that a thread of the bleeding run inherits.
const INHERITED: usize = 4_096;
/// Threads that follow each other there.
const GENERATIONS: u64 = 8;
const HEAP: &str = "heap";
const LOCKED: &str = "pool with a lock";
const DEPOT: &str = "our shared pool";
const LENDER: &str = "the same, sent home";
const ARMS: [&str; 4] = [HEAP, LOCKED, DEPOT, LENDER];
/// Seconds of `xmalloc-testN` in the published race, the first being the quickest.
const RACE: [(&str, f64); 6] = [
    ("snmalloc", 0.102),
    ("mimalloc", 0.189),
    ("rpmalloc", 0.306),
    ("glibc", 0.739),
    ("jemalloc", 2.573),
    ("gperftools", 23.006),
];

type Messages = Published<8, Array<8>, Locked, Stack, Optimised>;

/// The exhibit.
pub struct RemoteFree;

impl Part for RemoteFree {
    type Measured = Measured;
    const NAME: &'static str = "remote-free";

    fn effort(settings: &Settings) -> Effort {
        let contests = BATCHES.len() + 1;
        Effort::new(settings.rounds(15) * contests as u32, Duration::from_millis(160))
    }

    fn measure(stage: &mut Stage<'_>) -> Result<Measured, Fault> {
        let handed = handed(stage)?;
        let (bled, growth) = bled(stage)?;
        Ok(Measured { handed, bled, growth, waits: waits(stage) })
    }

    fn costs(measured: &Measured) -> Vec<&Costs> {
        costs_of(&measured.handed).chain(&measured.bled).collect()
    }

    fn draft(measured: &Measured, _settings: &Settings) -> Draft {
        draft(measured)
    }
}

/// The measurements.
#[derive(Default)]
pub(super) struct Measured {
    handed: Vec<(usize, Costs)>,
    bled: Option<Costs>,
    /// Kilobytes of memory that the process gained meanwhile, by arm.
    growth: Vec<(&'static str, f64)>,
    /// The median and the 99.9th percentile of single allocations, nanoseconds, by arm.
    waits: Vec<(&'static str, [f64; 2])>,
}

/// Two threads and the same kind of source for each: one takes, one gives back, a batch at a time.
/// Nanoseconds of both threads' time for each object.
fn handed_over<P, C, T>(mut producer: P, mut consumer: C, batch: usize, objects: u64) -> f64
where
    T: Send,
    P: Source<Held = T> + Send,
    C: Source<Held = T> + Send,
{
    let batches = objects / batch as u64;
    // Channels exchange several batches of one, so that they do not decide the time.
    let parcel = (256 / batch).max(1);
    let start = process_time();
    std::thread::scope(|scope| {
        let (full, filled): (SyncSender<Vec<T>>, Receiver<Vec<T>>) = sync_channel(QUEUE);
        let (empty, emptied) = sync_channel::<Vec<T>>(QUEUE + 1);
        for _ in 0..=QUEUE {
            let _ = empty.send(Vec::with_capacity(batch * parcel));
        }
        scope.spawn(move || {
            for _ in 0..batches / parcel as u64 {
                let Ok(mut held) = emptied.recv() else { return };
                held.extend((0..batch * parcel).map(|_| producer.take()));
                if full.send(held).is_err() {
                    return;
                }
            }
        });
        scope.spawn(move || {
            for mut held in filled {
                held.drain(..).for_each(|it| consumer.give(it));
                // At the end the producer no longer takes it back.
                let _ = empty.send(held);
            }
        });
    });
    let count = batches / parcel as u64 * (batch * parcel) as u64;
    each(process_time().saturating_sub(start), count)
}

/// A heap for either side, and pools with room for all objects in transit.
struct Pools {
    locked: Messages,
    depot: Shared<Object<7>>,
    lender: Shared<Object<7>>,
}

impl Pools {
    fn new(objects: usize) -> Pools {
        Pools {
            locked: Messages::new(objects as u32),
            depot: Shared::new(plan(objects), 2, Home::Depot),
            lender: Shared::new(plan(objects), 2, Home::Lender),
        }
    }

    fn hand_over(&self, arm: &str, batch: usize, objects: u64) -> f64 {
        let shared = |pool: &Shared<Object<7>>| match (pool.worker(), pool.worker()) {
            (Some(here), Some(there)) => handed_over(here, there, batch, objects),
            _ => f64::NAN,
        };
        match arm {
            HEAP => handed_over(Heap::<7>, Heap::<7>, batch, objects),
            LOCKED => handed_over(&self.locked, &self.locked, batch, objects),
            DEPOT => shared(&self.depot),
            _ => shared(&self.lender),
        }
    }

    fn bleed(&self, arm: &str, turns: u64) -> f64 {
        let shared = |pool: &Shared<Object<7>>| {
            generations(|| pool.worker().unwrap_or_else(|| unreachable!("a slot is free")), turns)
        };
        match arm {
            HEAP => generations(|| Heap::<7>, turns),
            LOCKED => generations(|| &self.locked, turns),
            DEPOT => shared(&self.depot),
            _ => shared(&self.lender),
        }
    }
}

fn handed(stage: &mut Stage<'_>) -> Result<Vec<(usize, Costs)>, Fault> {
    let settings = stage.settings();
    let (blocks, objects) = (settings.rounds(15), settings.amount(262_144, 16));
    let pools = &Pools::new(1 << 15);
    each_of(BATCHES, |batch| {
        let mut contest = Contest::new(format!("handed over by {batch}"), blocks);
        for arm in ARMS {
            contest.arm(arm, move || pools.hand_over(arm, batch, objects));
        }
        stage.contest(contest)
    })
}

/// Threads follow each other. Each inherits its predecessor's objects, gives them back in random
/// order as it takes new ones, leaves those to its heir and ends. Nanoseconds for each pair.
fn generations<S>(source: impl Fn() -> S + Sync, turns: u64) -> f64
where
    S: Source,
    S::Held: Send,
{
    let start = process_time();
    let mut held: Vec<S::Held> = Vec::new();
    for generation in 0..GENERATIONS {
        let source = &source;
        let inherited = std::mem::take(&mut held);
        held = std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let mut source = source();
                let mut held = inherited;
                while held.len() < INHERITED {
                    held.push(source.take());
                }
                let mut rng = Rng::new(generation);
                for _ in 0..turns {
                    let new = source.take();
                    let at = rng.below(INHERITED);
                    source.give(std::mem::replace(&mut held[at], new));
                }
                held
            });
            thread.join().unwrap_or_else(|_| unreachable!("it does not panic"))
        });
    }
    let mut last = source();
    held.into_iter().for_each(|it| last.give(it));
    each(process_time().saturating_sub(start), turns * GENERATIONS)
}

type Bled = (Option<Costs>, Vec<(&'static str, f64)>);

fn bled(stage: &mut Stage<'_>) -> Result<Bled, Fault> {
    let settings = stage.settings();
    let (blocks, turns) = (settings.rounds(15), settings.amount(20_000, 16));
    let pools = &Pools::new(1 << 15);
    let mut growth = Vec::new();
    for arm in ARMS {
        let before = resident_kb();
        pools.bleed(arm, turns);
        growth.push((arm, resident_kb() - before));
    }
    let mut contest = Contest::new("objects that outlive their thread", blocks);
    for arm in ARMS {
        contest.arm(arm, move || pools.bleed(arm, turns));
    }
    Ok((stage.contest(contest)?, growth))
}

/// Memory of this process, kilobytes (proc_pid_status(5), `VmRSS`).
fn resident_kb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|it| it.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// A source that times every allocation.
struct Timed<S> {
    source: S,
    times: Vec<u64>,
    sink: std::sync::mpsc::Sender<Vec<u64>>,
}

impl<S: Source> Source for Timed<S> {
    type Held = S::Held;

    fn take(&mut self) -> S::Held {
        let start = Instant::now();
        let held = black_box(self.source.take());
        self.times.push(start.elapsed().as_nanos() as u64);
        held
    }

    fn give(&mut self, held: S::Held) {
        self.source.give(held);
    }
}

impl<S> Drop for Timed<S> {
    fn drop(&mut self) {
        let _ = self.sink.send(std::mem::take(&mut self.times));
    }
}

fn timed<P, C, T>(producer: P, consumer: C, objects: u64) -> [f64; 2]
where
    T: Send,
    P: Source<Held = T> + Send,
    C: Source<Held = T> + Send,
{
    let (sink, received) = std::sync::mpsc::channel();
    let times = Vec::with_capacity(objects as usize);
    handed_over(Timed { source: producer, times, sink }, consumer, 64, objects);
    let mut times = received.recv().unwrap_or_default();
    times.sort_unstable();
    let at = |share: f64| times.get((share * times.len() as f64) as usize).copied().unwrap_or(0);
    [at(0.5), at(0.999)].map(|it| it as f64)
}

fn waits(stage: &Stage<'_>) -> Vec<(&'static str, [f64; 2])> {
    if stage.stopped() {
        return Vec::new();
    }
    let objects = stage.settings().amount(400_000, 16);
    let pools = Pools::new(1 << 15);
    let shared = |pool: &Shared<Object<7>>| match (pool.worker(), pool.worker()) {
        (Some(here), Some(there)) => timed(here, there, objects),
        _ => [f64::NAN; 2],
    };
    vec![
        (HEAP, timed(Heap::<7>, Heap::<7>, objects)),
        (LOCKED, timed(&pools.locked, &pools.locked, objects)),
        (DEPOT, shared(&pools.depot)),
        (LENDER, shared(&pools.lender)),
    ]
}

impl Measured {
    fn at(&self, batch: usize, arm: &str, other: &str) -> Option<Comparison> {
        self.handed.iter().find(|it| it.0 == batch)?.1.against(arm, other)
    }
}

fn draft(measured: &Measured) -> Draft {
    let mut it = Draft::default();
    let locked = measured.at(64, LOCKED, HEAP);
    let depot = measured.at(64, DEPOT, HEAP);
    it.set("batches", QUEUE + 1);
    it.compare("locked", locked.as_ref());
    it.compare("depot", depot.as_ref());
    let judged = measured.handed.iter();
    let judged = judged.map(|(batch, costs)| format!("{} by {batch}", costs.judged(LOCKED, HEAP)));
    it.set("judged", judged.collect::<Vec<_>>());
    let bled = measured.bled.as_ref();
    it.set("bled", bled.map(|it| [it.judged(DEPOT, HEAP), it.judged(LOCKED, HEAP)]));
    rows(&mut it, measured);
    for arm in [LOCKED, DEPOT, LENDER] {
        let all = measured.handed.iter().map(|it| (it.0 as f64, &it.1));
        it.corrected.series(super::ratios(arm, (arm, HEAP), all));
    }
    together(&mut it, measured);
    it.expect_ratio("magazines-win", depot.as_ref());
    it.expect_ratio("lock-loses", measured.at(64, LOCKED, DEPOT).as_ref());
    it.expect_ratio("bleeding", bled.and_then(|costs| costs.against(DEPOT, HEAP)).as_ref());
    it
}

fn rows(it: &mut Draft, measured: &Measured) {
    for (name, seconds) in RACE {
        let ratio = words::ratio(seconds / RACE[0].1);
        it.published.row([name.to_string(), format!("{seconds:.3}"), ratio]);
    }
    for (batch, costs) in &measured.handed {
        let batch = words::count(*batch as u64);
        let median = |arm: &str| words::or_none(costs.median(arm), words::number);
        for arm in [HEAP, LOCKED] {
            it.flawed.row([arm.to_string(), batch.clone(), median(arm), costs.judged(arm, HEAP)]);
        }
        for arm in [DEPOT, LENDER] {
            it.corrected.row([
                arm.to_string(),
                format!("handed over by {batch}"),
                format!("{} ns an object", median(arm)),
                costs.judged(arm, HEAP),
            ]);
        }
    }
    if let Some(costs) = &measured.bled {
        for arm in ARMS {
            let found = words::or_none(costs.median(arm), words::number);
            let growth = measured.growth.iter().find(|it| it.0 == arm).map(|it| it.1);
            it.corrected.row([
                arm.to_string(),
                "outlive their thread".to_string(),
                format!("{found} ns, {} kB more", words::or_none(growth, words::number)),
                costs.judged(arm, HEAP),
            ]);
        }
    }
    for (arm, [median, high]) in &measured.waits {
        it.corrected.row([
            arm.to_string(),
            "single allocations".to_string(),
            format!("p50 {} ns, p99.9 {} ns", words::number(*median), words::number(*high)),
            words::NONE.to_string(),
        ]);
    }
}

fn together(it: &mut Draft, measured: &Measured) {
    let glibc = RACE[3].1;
    it.together.named(RACE.iter().map(|it| it.0).chain(ARMS[1..].iter().copied()));
    let race = RACE.iter().zip(1..).map(|((_, s), at)| (f64::from(at), s / glibc));
    let published = Series::published("published, against glibc", race);
    it.together.series(published.drawn_as(Mark::Point));
    let here = ARMS[1..].iter().enumerate().filter_map(|(at, arm)| {
        Some(point((RACE.len() + at + 1) as f64, &measured.at(4_096, arm, HEAP)?))
    });
    it.together.series(Series::measured("here, against this heap", here).drawn_as(Mark::Point));
}
